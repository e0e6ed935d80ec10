package network

import "godwit/internal/heap"

// Progressive filling: all classes without a rate get the same, which rises until a
// channel is full or a class is at its limit. What that holds has its rate then, and the
// others go on.
//
// Only what has changed is filled anew. A class is open while it has no rate; the others
// keep theirs. A channel that has changed is looked at when the rate has risen to the
// level at which it would be full now, or to its old level, whichever is less.
//   - If it is full later than before, the classes that it holds are opened: they rise on.
//   - If it is full earlier, they are opened, too, and so is each class that has more
//     than that level: it was held elsewhere.
//   - Else the open classes that take it are held there.
//
// A class that gets another rate changes the channels that it takes. As when everything is
// filled, rates below the level reached are final. So a class is opened once at most,
// and the result is the one solution that there is (see the package's comment), whatever
// was opened on the way. How changes spread over the channels that hold flows is in
// Ros-Giralt and others, On the Bottleneck Structure of Congestion-Controlled Networks,
// 2019.

// filling is the scratch of one solve.
type filling struct {
	heap     heap.Heap[level]
	reached  uint64    // the level of what has got its rate last
	touched  []Channel // have changed since the heap was put in order
	channels []Channel // that have changed at all
	opened   []classID
	path     []Channel
}

// level is a rate at which a channel is to be looked at, or a class is at its limit.
type level struct {
	rate    uint64
	channel Channel
	limits  classID // or none
}

// before is the order of the heap: by rate, at one rate in a fixed order.
func (l *level) before(m *level) bool {
	if l.rate != m.rate {
		return l.rate < m.rate
	}
	return l.limits < m.limits || l.limits == m.limits && l.channel < m.channel
}

// solve works rates out where something has changed.
func (n *Network) solve() {
	f := &n.fill
	if len(f.touched) == 0 && len(f.opened) == 0 {
		return
	}
	n.work.Solves++
	f.reached, f.channels = 0, f.channels[:0]
	for n.order(); len(f.heap.Items) > 0; n.order() {
		if first := f.heap.Items[0]; first.limits == none {
			n.saturate(first.channel)
		} else if f.heap.Pop(); n.classes[first.limits].open && n.classes[first.limits].limit == first.rate {
			n.grant(first.limits, first.rate, byLimit)
		}
	}
	for _, id := range f.opened {
		k := &n.classes[id]
		if len(k.flows.Items) == 0 {
			continue // dissolved
		}
		if n.work.Classes++; k.rate != k.then {
			n.work.Changed++
		}
		n.pace(id)
	}
	f.opened = f.opened[:0]
	for _, c := range f.channels {
		ch := &n.channels[c]
		n.count(ch)
		ch.full = ch.taken+ch.held*ch.level >= ch.bandwidth && len(ch.uses) > 0
	}
	n.work.Channels += uint64(len(f.channels))
}

// touch notes that what a channel's level is made of has changed.
func (n *Network) touch(c Channel) {
	if ch := &n.channels[c]; !ch.touched {
		ch.touched = true
		n.fill.touched = append(n.fill.touched, c)
	}
}

// order puts the channels that have changed where they belong in the heap.
func (n *Network) order() {
	f := &n.fill
	for i := 0; i < len(f.touched); i++ {
		c := f.touched[i]
		ch := &n.channels[c]
		if ch.touched = false; ch.pending == 0 && ch.taken > ch.bandwidth {
			n.trim(ch)
		}
		if ch.round != n.work.Solves {
			ch.round = n.work.Solves
			f.channels = append(f.channels, c)
		}
		rate, changes := n.looked(ch)
		switch {
		case !changes && ch.slot > 0:
			n.drop(ch)
		case changes && ch.slot > 0:
			f.heap.Items[ch.slot-1].rate = rate
			f.heap.Fix(ch.slot - 1)
		case changes:
			f.heap.Push(level{rate, c, none})
		}
	}
	f.touched = f.touched[:0]
}

// trim opens the classes with the highest rate of a channel that holds none, where by rounding the
// others have got so much that a unit less would do for these.
func (n *Network) trim(ch *channel) {
	most, uses := n.highest(ch)
	if ch.taken-uses < ch.bandwidth {
		return
	}
	for _, u := range ch.uses {
		if n.classes[u.class].then == most {
			n.open(u.class)
		}
	}
}

// highest is the highest rate of a channel's classes, and how many uses have it.
func (n *Network) highest(ch *channel) (most, uses uint64) {
	for _, u := range ch.uses {
		k := &n.classes[u.class]
		if k.then > most {
			most, uses = k.then, 0
		}
		if k.then == most {
			uses += uint64(len(k.flows.Items))
		}
	}
	return most, uses
}

// drop takes a channel out of the heap.
func (n *Network) drop(ch *channel) {
	slot := ch.slot - 1
	ch.slot = 0
	n.fill.heap.Remove(slot)
}

// looked is the rate at which a channel is to be looked at; changes is false where it need not be.
func (n *Network) looked(ch *channel) (rate uint64, changes bool) {
	if ch.pending == 0 {
		return 0, false
	}
	rate = n.share(ch)
	if ch.held == 0 {
		return rate, true
	}
	return min(rate, ch.level), ch.held < ch.pending || rate != ch.level
}

// share is the level of a channel: what each use that is open or held here can have. It is
// at least one unit, so that no flow stands still, and at least the level reached: by
// rounding, those before may have got a little more than their share.
func (n *Network) share(ch *channel) uint64 {
	left := ch.bandwidth - min(ch.taken, ch.bandwidth)
	return max((left+ch.pending-1)/ch.pending, n.fill.reached, 1)
}

// saturate looks at a channel.
func (n *Network) saturate(c Channel) {
	ch := &n.channels[c]
	share, opened := n.share(ch), len(n.fill.opened)
	for _, u := range ch.uses {
		if k := &n.classes[u.class]; !k.open && (k.holder == c && share != ch.level || k.then > share) {
			n.open(u.class)
		}
	}
	if len(n.fill.opened) > opened {
		n.touch(c)
		return
	}
	n.drop(ch)
	ch.level = share
	for _, u := range ch.uses {
		if n.classes[u.class].open {
			n.grant(u.class, share, c)
		}
	}
}

// open takes a class's rate from it.
func (n *Network) open(id classID) {
	k := &n.classes[id]
	if k.open {
		return
	}
	k.open = true
	n.fill.opened = append(n.fill.opened, id)
	uses := uint64(len(k.flows.Items))
	for _, c := range k.path {
		ch := &n.channels[c]
		if c == k.holder {
			ch.held -= uses
		} else {
			ch.taken -= uses * k.then
			ch.pending += uses
		}
		n.touch(c)
	}
	if k.holder = none; k.limit > 0 {
		n.fill.heap.Push(level{k.limit, none, id})
	}
}

// grant gives an open class its rate, at which a channel or its limit holds it.
func (n *Network) grant(id classID, rate uint64, holder Channel) {
	k := &n.classes[id]
	k.open, k.then, k.holder, n.fill.reached = false, rate, holder, rate
	uses := uint64(len(k.flows.Items))
	for _, c := range k.path {
		ch := &n.channels[c]
		if c == holder {
			ch.held += uses
			continue
		}
		ch.taken += uses * rate
		ch.pending -= uses
		n.touch(c)
	}
}

// withdraw takes so many flows off the channels that a class shares.
func (n *Network) withdraw(k *class, uses uint64) {
	for _, c := range k.path {
		ch := &n.channels[c]
		switch {
		case c == k.holder:
			ch.held -= uses
			ch.pending -= uses
		case k.open:
			ch.pending -= uses
		default:
			ch.taken -= uses * k.then
		}
		n.touch(c)
	}
}
