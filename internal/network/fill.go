package network

import (
	"cmp"
	"slices"

	"godwit/internal/heap"
)

// Progressive filling: all flows without a rate get the same, which rises until a
// channel is full; its flows then have theirs, and the others go on. The channel that
// is full next is the one with the least left for each use that is still open. That
// share never falls for the others, since what they lose is at most the share for
// each use: so a heap whose keys may be too small is enough, and a channel whose key
// was too small goes in again.

// filling is the scratch of one solve.
type filling struct {
	channels []Channel // looked at
	flows    []flowID  // likewise
	open     int       // flows without a rate
	heap     heap.Heap[level]
	limited  []flowID // flows with a limit, by (limit, order)
}

// level is a channel in the heap, with its share as it was when that was last worked
// out: the rate at which the channel is full, if no other is before.
type level struct {
	share   uint64
	channel Channel
}

// solve works rates out where something has changed.
func (n *Network) solve() {
	if len(n.dirty) == 0 {
		return
	}
	n.work.Solves++
	n.reach()
	n.share()
	f := &n.fill
	for _, id := range f.flows {
		if x := &n.flows[id]; x.next != x.rate {
			n.work.Changed++
			n.pace(x, x.next)
		}
	}
	for _, c := range f.channels {
		n.channels[c].full = n.channels[c].left == 0
	}
}

// reach collects the channels and flows that are connected with what has changed.
func (n *Network) reach() {
	f, round := &n.fill, n.work.Solves
	f.channels, f.flows, f.limited = f.channels[:0], f.flows[:0], f.limited[:0]
	look := func(c Channel) {
		if ch := &n.channels[c]; ch.round != round {
			n.count(ch)
			ch.round, ch.left, ch.open = round, ch.bandwidth, uint64(len(ch.uses))
			f.channels = append(f.channels, c)
		}
	}
	for _, c := range n.dirty {
		n.channels[c].dirty = false
		look(c)
	}
	n.dirty = n.dirty[:0]
	for i := 0; i < len(f.channels); i++ {
		for _, u := range n.channels[f.channels[i]].uses {
			x := &n.flows[u.flow]
			if x.round == round {
				continue
			}
			x.round, x.fixed = round, false
			f.flows = append(f.flows, u.flow)
			if x.Limit > 0 {
				f.limited = append(f.limited, u.flow)
			}
			for _, c := range x.Path {
				look(c)
			}
		}
	}
	n.work.Channels += uint64(len(f.channels))
	n.work.Flows += uint64(len(f.flows))
}

// share gives every flow that was reached its rate.
func (n *Network) share() {
	f := &n.fill
	slices.SortFunc(f.limited, func(a, b flowID) int {
		x, y := &n.flows[a], &n.flows[b]
		return cmp.Or(cmp.Compare(x.Limit, y.Limit), cmp.Compare(x.order, y.order))
	})
	f.heap.Items = f.heap.Items[:0]
	for _, c := range f.channels {
		if ch := &n.channels[c]; ch.open > 0 {
			f.heap.Items = append(f.heap.Items, level{ch.share(), c})
		}
	}
	f.heap.Init()
	limited := 0
	for f.open = len(f.flows); f.open > 0; {
		ch := &n.channels[f.heap.Items[0].channel]
		if ch.open == 0 {
			f.heap.Pop()
			continue
		}
		share := ch.share()
		if first := &f.heap.Items[0]; share > first.share {
			first.share = share
			f.heap.Fix(0)
			continue
		}
		for ; limited < len(f.limited) && n.flows[f.limited[limited]].fixed; limited++ {
		}
		if limited < len(f.limited) && n.flows[f.limited[limited]].Limit <= share {
			x := &n.flows[f.limited[limited]]
			n.grant(x, x.Limit)
			continue
		}
		for _, u := range ch.uses {
			if x := &n.flows[u.flow]; !x.fixed {
				n.grant(x, share)
			}
		}
	}
}

// share is what each open use of ch can have. It is at least one unit, so that no flow
// stands still.
func (ch *channel) share() uint64 { return max((ch.left+ch.open-1)/ch.open, 1) }

// grant gives a flow its rate.
func (n *Network) grant(x *flow, rate uint64) {
	x.fixed, x.next = true, rate
	n.fill.open--
	for _, c := range x.Path {
		ch := &n.channels[c]
		ch.left -= min(ch.left, rate)
		ch.open--
	}
}

// before is the order of the heap: by share, then by channel.
func (l *level) before(m *level) bool {
	return l.share < m.share || l.share == m.share && l.channel < m.channel
}
