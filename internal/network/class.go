package network

import (
	"slices"

	"godwit/internal/heap"
)

// Classes of flows that are alike.
//
// A channel that a flow has to itself is no more than a limit: what it carries. So flows
// are alike that share the same channels with others and have the same limit, and they
// have one rate. What each flow of a class has had since the class began is one number,
// and a flow ends when that has grown by its length. So the first of a class to end stays
// the first, whatever the rate does.

// classID is the index of a class.
type classID int32

// Who holds a class that no channel holds, and what is in no class.
const (
	none    = -1 // nobody yet; no class
	byLimit = -2 // its limit
)

// class is the flows that are alike. Records are used again.
type class struct {
	path  []Channel // that it shares, sorted
	limit uint64    // units of rates; 0 is none
	seats []int     // by hop: its index in the channel's uses
	next  classID   // of the same hash, or none
	hash  uint64

	flows  heap.Heap[flowID] // by their ends
	at     uint64            // when the first of them ends
	slot   int               // in the lanes
	served wide              // units that each flow has had, at since
	since  uint64
	rate   uint64 // units
	// limited is for how many nanoseconds until since the rate has been the limit.
	limited uint64

	holder Channel // or none, or byLimit
	open   bool    // the filling under way has not given it its rate
	then   uint64  // that it has given it; else rate
}

// servedBy is how much each flow has had by now.
func (k *class) servedBy(now uint64) wide {
	w := k.served
	w.add(product(k.rate, now-k.since))
	return w
}

// limitedBy is for how long its limit has held it by now.
func (k *class) limitedBy(now uint64) uint64 {
	if k.rate == k.limit {
		return k.limited + now - k.since
	}
	return k.limited
}

// settle books what has gone at its rate so far.
func (n *Network) settle(k *class) {
	k.served, k.limited, k.since = k.servedBy(n.now), k.limitedBy(n.now), n.now
}

// pace finds out when the first flow of a class ends.
func (n *Network) pace(id classID) {
	k := &n.classes[id]
	n.settle(k)
	k.rate, k.at = k.then, n.now
	left := n.flows[k.flows.Items[0]].end.beyond(k.served)
	if missing := (wide{0, k.rate >> slack}); left.more(missing) {
		left.sub(missing)
		k.at = later(n.now, left.over(k.rate))
	}
	n.lanes.Fix(k.slot)
}

// ownLimit is the most that a flow can have by what it shares with nobody.
func (n *Network) ownLimit(x *flow) uint64 {
	limit := x.Limit
	for _, c := range x.Path {
		if n.channels[c].private {
			if most := n.whole(x, c); limit == 0 || most < limit {
				limit = most
			}
		}
	}
	return limit
}

// whole is what a channel carries of a flow that has it to itself.
func (n *Network) whole(x *flow, c Channel) uint64 {
	uses := uint64(0)
	for _, at := range x.Path {
		if at == c {
			uses++
		}
	}
	return (n.channels[c].bandwidth + uses - 1) / uses
}

// fills reports whether a flow takes all of a channel that it has to itself when its class is limited.
func (n *Network) fills(x *flow, c Channel) bool { return n.whole(x, c) == n.classes[x.class].limit }

// enter puts a flow into the class of those that are like it.
func (n *Network) enter(id flowID) {
	x := &n.flows[id]
	x.class = n.classOf(x)
	k := &n.classes[x.class]
	n.open(x.class)
	n.settle(k)
	x.end, x.mark = k.served, k.limited
	x.end.add(x.left)
	k.flows.Push(id)
	for _, c := range k.path {
		n.channels[c].pending++
		n.touch(c)
	}
}

// classOf is the class of those like x, perhaps a new one.
func (n *Network) classOf(x *flow) classID {
	limit := n.ownLimit(x)
	hash := limit
	f := &n.fill
	f.path = f.path[:0]
	for _, c := range x.Path {
		if !n.channels[c].private {
			f.path = append(f.path, c)
			hash = (hash ^ uint64(c)) * 0x9e3779b97f4a7c15
			hash ^= hash >> 29
		}
	}
	first, ok := n.index[hash]
	if !ok {
		first = none
	}
	for id := first; id != none; id = n.classes[id].next {
		if k := &n.classes[id]; k.limit == limit && slices.Equal(k.path, f.path) {
			return id
		}
	}
	id := n.newClass()
	k := &n.classes[id]
	k.path, k.limit, k.hash, k.next = append(k.path, f.path...), limit, hash, first
	n.index[hash] = id
	for hop, c := range k.path {
		ch := &n.channels[c]
		k.seats = append(k.seats, len(ch.uses))
		ch.uses = append(ch.uses, use{id, int32(hop)})
	}
	n.lanes.Push(id)
	return id
}

// newClass is a record for a class without flows.
func (n *Network) newClass() classID {
	if len(n.spare) == 0 {
		n.classes = append(n.classes, class{flows: heap.Heap[flowID]{
			Before: func(a, b *flowID) bool {
				x, y := &n.flows[*a], &n.flows[*b]
				return y.end.more(x.end) || x.end == y.end && x.order < y.order
			},
			Moved: func(id flowID, slot int) { n.flows[id].slot = slot },
		}})
		n.spare = append(n.spare, classID(len(n.classes)-1))
	}
	id := n.spare[len(n.spare)-1]
	n.spare = n.spare[:len(n.spare)-1]
	k := &n.classes[id]
	*k = class{path: k.path[:0], seats: k.seats[:0], flows: k.flows, since: n.now, at: Never, holder: none}
	return id
}

// quit takes a flow out of its class.
func (n *Network) quit(id flowID) {
	x := &n.flows[id]
	k := &n.classes[x.class]
	n.settle(k)
	x.left = x.end.beyond(k.served)
	for hop, c := range x.Path {
		if ch := &n.channels[c]; ch.private && n.fills(x, c) && (hop == 0 || x.Path[hop-1] != c) {
			ch.usage.Full += k.limited - x.mark
		}
	}
	k.flows.Remove(x.slot)
	n.withdraw(k, 1)
	if len(k.flows.Items) > 0 {
		n.pace(x.class)
	} else {
		n.dissolve(x.class)
	}
	x.class = none
}

// dissolve ends a class without flows.
func (n *Network) dissolve(id classID) {
	k := &n.classes[id]
	n.lanes.Remove(k.slot)
	for hop, c := range k.path {
		ch := &n.channels[c]
		seat, last := k.seats[hop], len(ch.uses)-1
		moved := ch.uses[last]
		ch.uses[seat] = moved
		n.classes[moved.class].seats[moved.hop] = seat
		ch.uses = ch.uses[:last]
	}
	k.open = false
	if n.index[k.hash] == id && k.next == none {
		delete(n.index, k.hash)
	} else if n.index[k.hash] == id {
		n.index[k.hash] = k.next
	} else {
		before := &n.classes[n.index[k.hash]]
		for ; before.next != id; before = &n.classes[before.next] {
		}
		before.next = k.next
	}
	n.spare = append(n.spare, id)
}
