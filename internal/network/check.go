package network

import "fmt"

// Check tests the network's invariants: its heap is one, of all flows under way; the
// channels and the flows that take them agree; each flow that flows has a rate, within
// its limit; no channel carries more than it can, but for the rounding of rates; and
// each flow is held by a full channel or its limit.
func (n *Network) Check() error {
	n.solve()
	if len(n.flows) != len(n.queue.Items)+len(n.free) {
		return fmt.Errorf("network: %d flows in the queue, of %d records %d free", len(n.queue.Items), len(n.flows), len(n.free))
	}
	for slot, id := range n.queue.Items {
		if n.flows[id].slot != slot || slot > 0 && n.before(id, n.queue.Items[(slot-1)/2]) {
			return fmt.Errorf("network: flow %d is at the wrong place %d of the queue", id, slot)
		}
	}
	uses := 0
	for i := range n.channels {
		ch := &n.channels[i]
		uses += len(ch.uses)
		var rates uint64
		for seat, u := range ch.uses {
			x := &n.flows[u.flow]
			if !x.flowing || x.Path[u.hop] != Channel(i) || x.seats[u.hop] != seat {
				return fmt.Errorf("network: use %d of channel %d is by flow %d, which does not know of it", seat, i, u.flow)
			}
			rates += x.rate
		}
		if rates > ch.bandwidth+uint64(len(ch.uses)) {
			return fmt.Errorf("network: the flows of channel %d get %d of %d units", i, rates, ch.bandwidth)
		}
	}
	for i := range n.flows {
		x := &n.flows[i]
		if !x.flowing {
			continue
		}
		uses -= len(x.Path)
		held := x.Limit > 0 && x.rate == x.Limit
		for _, c := range x.Path {
			held = held || n.channels[c].full
		}
		if x.rate == 0 || !held || x.Limit > 0 && x.rate > x.Limit {
			return fmt.Errorf("network: flow %d at %d units, limit %d, is held by nothing", i, x.rate, x.Limit)
		}
	}
	if uses != 0 {
		return fmt.Errorf("network: channels have %d uses more than flows", uses)
	}
	return nil
}
