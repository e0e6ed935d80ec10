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
//     when all that begins and ends then is known, and only for the channels that
//     chains of flows connect with what changed.
//
// Exactness. Time is in whole nanoseconds. Rates are whole multiples of 2^-16 bytes
// a second, and what is left of a flow is a whole number of units of 2^-16 billionths of
// a byte, the product of the two. So between two changes nothing is rounded, the same
// calls give the same times on every machine, and what has come through a channel is
// what its flows have moved, to the unit. A flow ends at the first nanosecond at which
// it lacks less than it gets in 1/1024 of one. That is more than the rates' rounding
// takes from it or gives it in 60 ms at 1 GB/s, or in 3 s at 50: so up to there a time
// that is a whole number comes out as that number. The nanosecond in which a flow ends
// is its own: who shared with it goes faster from the next.
//
// A Network is for one goroutine at a time. It allocates nothing in the steady state.
package network

import (
	"fmt"
	"math/bits"
	"slices"

	"godwit/internal/heap"
	"godwit/mem"
)

// Bounds.
const (
	// MaxBandwidth is how much a channel can carry at most, in bytes a second.
	MaxBandwidth = 1 << 47
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
	Flows    uint64 // whose rate was worked out
	Changed  uint64 // of Flows, those with a new rate
}

// Network is a set of channels and the flows that are under way.
type Network struct {
	now      uint64
	channels []channel
	flows    []flow
	free     []flowID
	started  uint64            // flows, for the order among equal times
	queue    heap.Heap[flowID] // by when something happens to a flow
	dirty    []Channel
	ended    []ended
	fill     filling
	work     work
}

// channel is a channel with the flows that take it.
type channel struct {
	bandwidth uint64 // units of rates
	uses      []use
	dirty     bool
	since     uint64 // when busy and full were counted last
	full      bool   // at the rates since then
	usage     usage
	moved     wide // units, of flows' stretches that are over

	// Of the filling under way.
	round uint64 // the solve that has looked at it
	left  uint64 // units of rate not yet given to a flow
	open  uint64 // uses by flows without a rate
}

// use is one place of a flow's path.
type use struct {
	flow flowID
	hop  int32
}

// flow is a transfer under way.
type flow struct {
	Flow         // Path is its own
	at    uint64 // when it begins to flow, or ends: its key in the queue
	order uint64
	slot  int   // in the queue
	seats []int // by hop: its index in the channel's uses

	flowing bool   // its latency is over
	left    wide   // units, at since
	since   uint64 // when rate began
	rate    uint64 // units

	round uint64 // the solve that has looked at it
	fixed bool   // by the filling under way
	next  uint64 // the rate that this has given it
}

// New returns a network of channels that carry so many bytes a second each. It
// fails with mem.ErrInvalidValue on none and on more than MaxBandwidth.
func New(bandwidths []uint64) (*Network, error) {
	n := &Network{channels: make([]channel, len(bandwidths))}
	n.queue.Before = func(a, b *flowID) bool { return n.before(*a, *b) }
	n.queue.Moved = func(id flowID, slot int) { n.flows[id].slot = slot }
	n.fill.heap.Before = (*level).before
	for i, b := range bandwidths {
		if b == 0 || b > MaxBandwidth {
			return nil, fmt.Errorf("channel %d: bandwidth of %d bytes a second: want 1 to %d: %w", i, b, uint64(MaxBandwidth), mem.ErrInvalidValue)
		}
		n.channels[i].bandwidth = b << fraction
	}
	return n, nil
}

// before is the order of the queue: by time, and at equal times by starts.
func (n *Network) before(a, b flowID) bool {
	x, y := &n.flows[a], &n.flows[b]
	return x.at < y.at || x.at == y.at && x.order < y.order
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
	path, seats := append(x.Path[:0], f.Path...), x.seats[:0]
	*x = flow{Flow: f, order: n.started, seats: seats, at: later(n.now, f.Latency)}
	x.Path, x.Limit = path, min(f.Limit, MaxBandwidth)<<fraction
	x.left = product(f.Bytes, perByte)
	n.started++
	n.queue.Push(id)
	if f.Latency == 0 && f.Bytes > 0 {
		n.join(id)
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
	if len(n.queue.Items) == 0 {
		return 0, false
	}
	return n.flows[n.queue.Items[0]].at, true
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
		for len(n.queue.Items) > 0 && n.flows[n.queue.Items[0]].at == at {
			n.step(n.queue.Items[0])
		}
		if at == now {
			break
		}
	}
	return n.ended
}

// step lets a flow begin to flow, or end, whose time has come.
func (n *Network) step(id flowID) {
	x := &n.flows[id]
	if !x.flowing && !x.left.zero() {
		n.join(id)
		return
	}
	if x.flowing {
		n.settle(x)
		n.leave(id)
	}
	n.queue.Remove(x.slot)
	x.flowing = false
	n.free = append(n.free, id)
	n.ended = append(n.ended, ended{x.Tag, x.at})
}

// join puts a flow on its channels. It has no rate yet.
func (n *Network) join(id flowID) {
	x := &n.flows[id]
	x.flowing, x.since, x.rate, x.at = true, n.now, 0, Never
	n.queue.Fix(x.slot)
	for hop, c := range x.Path {
		ch := &n.channels[c]
		n.count(ch)
		x.seats = append(x.seats, len(ch.uses))
		ch.uses = append(ch.uses, use{id, int32(hop)})
		n.touch(c)
	}
	if len(x.Path) == 0 {
		n.pace(x, x.Limit)
	}
}

// leave takes a flow off its channels.
func (n *Network) leave(id flowID) {
	x := &n.flows[id]
	for hop, c := range x.Path {
		ch := &n.channels[c]
		n.count(ch)
		seat, last := x.seats[hop], len(ch.uses)-1
		moved := ch.uses[last]
		ch.uses[seat] = moved
		n.flows[moved.flow].seats[moved.hop] = seat
		ch.uses = ch.uses[:last]
		n.touch(c)
	}
}

// touch notes that a channel's flows have changed.
func (n *Network) touch(c Channel) {
	if ch := &n.channels[c]; !ch.dirty {
		ch.dirty = true
		n.dirty = append(n.dirty, c)
	}
}

// settle books what a flow has moved at its rate so far.
func (n *Network) settle(x *flow) {
	moved := product(x.rate, n.now-x.since)
	if x.at == n.now || moved.more(x.left) { // in the nanosecond of its end
		moved = x.left
	}
	x.left.sub(moved)
	x.since = n.now
	for _, c := range x.Path {
		n.channels[c].moved.add(moved)
	}
}

// pace gives a flow a rate from now on.
func (n *Network) pace(x *flow, rate uint64) {
	n.settle(x)
	x.rate = rate
	x.at = n.now
	if missing := (wide{0, rate >> slack}); x.left.more(missing) {
		left := x.left
		left.sub(missing)
		x.at = later(n.now, left.over(rate))
	}
	n.queue.Fix(x.slot)
}

// count books a channel's time up to now.
func (n *Network) count(ch *channel) {
	if len(ch.uses) > 0 {
		ch.usage.Busy += n.now - ch.since
		if ch.full {
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
	for _, u := range ch.uses {
		if x := &n.flows[u.flow]; slices.Index(x.Path, c) == int(u.hop) {
			n.settle(x)
		}
	}
	out := ch.usage
	out.Bytes = ch.moved.whole(perByte)
	return out
}

// later is t + d, or Never.
func later(t, d uint64) uint64 {
	sum, carry := bits.Add64(t, d, 0)
	if carry != 0 {
		return Never
	}
	return sum
}
