// Package network says how long transfers take that share links: in virtual time,
// with integers alone.
//
// Assumptions: a transfer takes all links of its path at one rate, as bytes do that a
// DMA engine streams through; what shares a link shares it max-min fair, as PCIe's
// and NVLink's arbiters come near to; transfers are thousands of bytes and more, at
// rates of at least some bytes a second; at one instant many begin and end together.
//
//   - A channel is what is shared: one direction of a link, both directions of one, a
//     switch, a memory. It carries a number of bytes a second.
//   - A flow is a transfer under way: bytes, a path of channels, a latency before the
//     first byte, perhaps a limit of its own. A channel that is on a path twice is
//     used twice (a ring writes the host's memory and reads it again).
//   - Rates are the max-min fair ones: none can grow without making one that is not
//     larger smaller. They come from progressive filling (fill.go; Bertsekas and
//     Gallager, Data Networks, 1992, 6.5.2). They are worked out once an instant,
//     when all that begins and ends then is known, and only for those whose rate
//     that changes, and what holds them.
//   - A class (class.go) is flows that are alike: that share the same channels with
//     others, and are held alike by what they share with nobody. They have one rate.
//
// Exactness. Time is in whole nanoseconds. Rates are whole multiples of 2^-16 bytes
// a second, and what is left of a flow is a whole number of units of 2^-16 billionths of
// a byte, the product of the two. So between two changes nothing is rounded, the same
// calls give the same times on every machine, and what has come through a channel is
// what its flows have moved, to the unit. Rates are rounded so that there is one
// solution: a channel's level is the least at which its flows take all that it carries,
// where those held elsewhere at less take that. A flow ends at the first nanosecond at
// which it lacks less than it gets in 1/1024 of one. That is more than the rates' rounding
// takes from it or gives it in 60 ms at 1 GB/s, or in 3 s at 50: so up to there a time
// that is a whole number comes out as that number. The nanosecond in which a flow ends
// is its own: who shared with it goes faster from the next.
//
// A Network is for one goroutine at a time. It allocates nothing in the steady state.
package network

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"godwit/internal/heap"
	"godwit/mem"
)

// Bounds.
const (
	// maxBandwidth is how much a channel can carry at most, in bytes a second.
	maxBandwidth = 1 << 47
	// MaxBytes is how long a flow can be.
	maxBytes = 1 << 62
	// Never is when a flow ends that would take longer than there is time.
	Never = ^uint64(0)

	fraction = 16                 // bits of a rate below a byte a second
	slack    = 10                 // bits of a nanosecond below it
	second   = 1e9                // nanoseconds
	perByte  = second << fraction // units
)

// Channel is the index of a channel.
type Channel int32

// flowID names a flow until it has ended or was stopped.
type flowID int32

// Flow is a transfer.
type Flow struct {
	Path    []Channel // in any order; the caller's again on return
	Bytes   uint64
	Latency uint64 // nanoseconds from its start to the first byte
	Limit   uint64 // bytes a second that it takes at most; 0 is no limit
	Tag     uint64 // the caller's
}

// ended is a flow that has ended.
type ended struct {
	Tag uint64
	At  uint64 // nanoseconds
}

// usage is what a channel has carried.
type usage struct {
	Bytes uint64 // of flows that have ended, and whole ones of those under way
	Busy  uint64 // nanoseconds in which it had a flow
	Full  uint64 // nanoseconds in which its flows took all that it carries
}

// work is what the solver has done.
type work struct {
	Solves   uint64 // instants at which rates were worked out
	Channels uint64 // looked at, in all of these
	Classes  uint64 // whose rate was worked out
	Changed  uint64 // of Classes, those with a new rate
}

// Network is a set of channels and the flows that are under way.
type Network struct {
	now      uint64
	channels []channel
	flows    []flow
	free     []flowID
	started  uint64            // flows, for the order among equal times
	waiting  heap.Heap[flowID] // that do not flow yet, by when they do, or end without
	classes  []class
	spare    []classID
	index    map[uint64]classID // by what is alike (hash): the first of a list
	lanes    heap.Heap[classID] // all, by when the first of its flows ends
	ended    []ended
	fill     filling
	scratch  []flowID
	work     work
}

// channel is a channel with the classes that take it.
type channel struct {
	bandwidth uint64 // units of rates
	users     int    // flows
	only      flowID // the one, where private
	private   bool   // since it was free last, one flow at a time has had it: it is in no class's path
	uses      []use
	since     uint64 // when busy and full were counted last
	full      bool   // at the rates since then; not of a private one
	usage     usage

	// What the filling knows of it, also between two.
	level   uint64 // rate of the classes that it holds
	held    uint64 // uses by flows of these
	pending uint64 // uses by these and by open classes
	taken   uint64 // units of rate, of all other uses
	touched bool   // some of this has changed
	slot    int    // in the filling's heap, from 1; 0 is not there
	round   uint64 // the solve that has looked at it
}

// use is one place of a class's path.
type use struct {
	class classID
	hop   int32
}

// flow is a transfer under way.
type flow struct {
	Flow  // Path is its own, sorted
	order uint64
	at    uint64 // of one that waits: when it begins to flow, or ends
	left  wide   // units; of one in a class, see end
	class classID
	slot  int    // in the heap of its class
	end   wide   // it ends when its class has been served so much
	mark  uint64 // its class's limited when it came
}

// New returns a network of channels that carry so many bytes a second each. It
// fails with mem.ErrInvalidValue on none and on more than maxBandwidth.
func New(bandwidths []uint64) (*Network, error) {
	n := &Network{channels: make([]channel, len(bandwidths)), index: make(map[uint64]classID)}
	n.waiting.Before = func(a, b *flowID) bool { return n.flows[*a].at < n.flows[*b].at }
	n.lanes.Before = func(a, b *classID) bool { return n.classes[*a].at < n.classes[*b].at }
	n.lanes.Moved = func(k classID, slot int) { n.classes[k].slot = slot }
	n.fill.heap.Before = (*level).before
	n.fill.heap.Moved = func(l level, slot int) {
		if l.limits < 0 {
			n.channels[l.channel].slot = slot + 1
		}
	}
	for i, b := range bandwidths {
		if b == 0 || b > maxBandwidth {
			return nil, fmt.Errorf("channel %d: bandwidth of %d bytes a second: want 1 to %d: %w", i, b, uint64(maxBandwidth), mem.ErrInvalidValue)
		}
		n.channels[i].bandwidth = b << fraction
	}
	return n, nil
}

// Now is the time up to which the network has been advanced, in nanoseconds.
func (n *Network) Now() uint64 { return n.now }

// Work is what the solver has done so far.
func (n *Network) Work() work { return n.work }

// Start begins with a flow, now. It fails with mem.ErrInvalidValue on more than
// MaxBytes, on a channel that there is not, and where neither a channel nor a limit
// says how fast bytes go.
func (n *Network) Start(f Flow) (flowID, error) {
	if f.Bytes > maxBytes {
		return 0, fmt.Errorf("flow of %d bytes: want at most %d: %w", f.Bytes, uint64(maxBytes), mem.ErrInvalidValue)
	}
	if f.Bytes > 0 && len(f.Path) == 0 && f.Limit == 0 {
		return 0, fmt.Errorf("flow of %d bytes with neither a channel nor a limit: %w", f.Bytes, mem.ErrInvalidValue)
	}
	for _, c := range f.Path {
		if c < 0 || int(c) >= len(n.channels) {
			return 0, fmt.Errorf("flow by channel %d: this network has %d: %w", c, len(n.channels), mem.ErrInvalidValue)
		}
	}
	id := n.slot()
	x := &n.flows[id]
	path := append(x.Path[:0], f.Path...)
	*x = flow{Flow: f, order: n.started, at: later(n.now, f.Latency), class: none, left: product(f.Bytes, perByte)}
	x.Path, x.Limit = path, min(f.Limit, maxBandwidth)<<fraction
	slices.Sort(x.Path)
	n.started++
	if f.Latency == 0 && f.Bytes > 0 {
		n.join(id)
	} else {
		n.waiting.Push(id)
	}
	return id, nil
}

// slot is a record for a flow.
func (n *Network) slot() flowID {
	if k := len(n.free); k > 0 {
		id := n.free[k-1]
		n.free = n.free[:k-1]
		return id
	}
	n.flows = append(n.flows, flow{})
	return flowID(len(n.flows) - 1)
}

// Next is when the network changes next, if nothing is started before: a flow
// begins to flow, or ends. ok is false where none is under way.
func (n *Network) Next() (at uint64, ok bool) {
	n.solve()
	at = Never
	if ok = len(n.lanes.Items) > 0; ok {
		at = n.classes[n.lanes.Items[0]].at
	}
	if len(n.waiting.Items) > 0 {
		at, ok = min(at, n.flows[n.waiting.Items[0]].at), true
	}
	return at, ok
}

// Advance moves the time, which never goes back, and returns the flows that have
// ended by then, in the order of their ends; those of one instant in the order of
// their starts. The slice is the network's, until the next call. The rates from now on
// are worked out later, when all that begins now is known.
func (n *Network) Advance(now uint64) []ended {
	n.ended = n.ended[:0]
	for n.now <= now {
		at, ok := n.Next()
		if !ok || at > now || at == Never {
			n.now = now
			break
		}
		n.now = at
		n.step()
		if at == now {
			break
		}
	}
	return n.ended
}

// step ends the flows whose time has come, and then has those flow whose latency is over.
func (n *Network) step() {
	over := n.scratch[:0]
	for len(n.lanes.Items) > 0 && n.classes[n.lanes.Items[0]].at == n.now {
		id := n.classes[n.lanes.Items[0]].flows.Items[0]
		n.leave(id)
		over = append(over, id)
	}
	begins := len(over)
	for len(n.waiting.Items) > 0 && n.flows[n.waiting.Items[0]].at == n.now {
		over = append(over, n.waiting.Pop())
	}
	for _, id := range over[begins:] {
		if n.flows[id].Bytes > 0 {
			n.join(id)
		}
	}
	over = slices.DeleteFunc(over, func(id flowID) bool { return n.flows[id].class != none })
	slices.SortFunc(over, func(a, b flowID) int { return cmp.Compare(n.flows[a].order, n.flows[b].order) })
	for _, id := range over {
		n.free = append(n.free, id)
		n.ended = append(n.ended, ended{n.flows[id].Tag, n.now})
	}
	n.scratch = over
}

// join puts a flow on its channels. It has no rate yet. Who had one of them to itself
// shares it now.
func (n *Network) join(id flowID) {
	path := n.flows[id].Path
	for hop, c := range path {
		ch := &n.channels[c]
		if n.count(ch); hop > 0 && path[hop-1] == c {
			continue
		}
		if ch.users++; ch.users == 1 {
			ch.private, ch.only, ch.full = true, id, false
		} else if ch.private {
			n.divide(ch)
		}
	}
	n.enter(id)
}

// divide has a channel be shared, which one flow had to itself.
func (n *Network) divide(ch *channel) {
	alone := ch.only
	waits := n.flows[alone].class == none // it joins now, or was taken out for another channel
	if !waits {
		n.quit(alone)
	}
	ch.private = false
	if !waits {
		n.enter(alone)
	}
}

// leave takes a flow off its channels, which has ended.
func (n *Network) leave(id flowID) {
	n.quit(id)
	x := &n.flows[id]
	for hop, c := range x.Path {
		ch := &n.channels[c]
		n.count(ch)
		if ch.usage.Bytes = later(ch.usage.Bytes, x.Bytes); hop == 0 || x.Path[hop-1] != c {
			ch.users--
		}
	}
}

// count books a channel's time up to now.
func (n *Network) count(ch *channel) {
	if ch.users > 0 {
		ch.usage.Busy += n.now - ch.since
		if ch.full && !ch.private {
			ch.usage.Full += n.now - ch.since
		}
	}
	ch.since = n.now
}

// Usage is what a channel has carried so far.
func (n *Network) Usage(c Channel) usage {
	n.solve()
	ch := &n.channels[c]
	n.count(ch)
	out, moved := ch.usage, wide{}
	for i := range n.flows {
		x := &n.flows[i]
		if ch.users == 0 {
			break
		}
		if x.class == none {
			continue
		}
		for _, at := range x.Path {
			if at == c {
				moved.add(n.moved(x))
			}
		}
		if ch.private && ch.only == flowID(i) && n.fills(x, c) {
			out.Full += n.classes[x.class].limitedBy(n.now) - x.mark
		}
	}
	out.Bytes = later(out.Bytes, moved.whole(perByte))
	return out
}

// moved is how much of a flow in a class has come, in units.
func (n *Network) moved(x *flow) wide {
	k := &n.classes[x.class]
	w := product(x.Bytes, perByte)
	w.sub(x.end.beyond(k.servedBy(n.now)))
	return w
}

// later is t + d, or Never.
func later(t, d uint64) uint64 {
	sum, carry := bits.Add64(t, d, 0)
	if carry != 0 {
		return Never
	}
	return sum
}
