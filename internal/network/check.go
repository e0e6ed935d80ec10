package network

import "fmt"

// Check tests the network's invariants: each flow waits, is free or is in one class; classes and channels agree on who takes
// what; no channel carries more than it can, but for the rounding of rates; and each class
// is held by its limit, or by a full channel in which none has more.
func (n *Network) Check() error {
	n.solve()
	flows := len(n.free) + len(n.waiting.Items)
	want := make([]channel, len(n.channels))
	for _, id := range n.lanes.Items {
		k := &n.classes[id]
		flows += len(k.flows.Items)
		if err := n.checkFlows(id); err != nil {
			return err
		}
		for hop, c := range k.path {
			if u := n.channels[c].uses[k.seats[hop]]; u != (use{id, int32(hop)}) {
				return fmt.Errorf("network: class %d takes channel %d, which knows class %d there", id, c, u.class)
			}
			w, uses := &want[c], uint64(len(k.flows.Items))
			if w.uses = append(w.uses, use{}); c == k.holder {
				w.held += uses
			} else {
				w.taken += uses * k.rate
			}
			w.level = max(w.level, k.rate)
		}
	}
	if flows != len(n.flows) {
		return fmt.Errorf("network: %d of %d flows wait, are free or in a class", flows, len(n.flows))
	}
	for i := range want {
		ch := &n.channels[i]
		err := ch.check(&want[i])
		if _, uses := n.highest(ch); err == nil && ch.taken+ch.held*ch.level >= ch.bandwidth+uses && uses > 0 {
			err = fmt.Errorf("those with the most could have less")
		}
		if err != nil {
			return fmt.Errorf("network: channel %d: %w", i, err)
		}
	}
	return nil
}

// checkFlows tests a class, its flows and what holds it.
func (n *Network) checkFlows(id classID) error {
	k := &n.classes[id]
	for slot, f := range k.flows.Items {
		if x := &n.flows[f]; x.class != id || x.slot != slot || n.ownLimit(x) != k.limit {
			return fmt.Errorf("network: flow %d, in class %d at %d, is not at %d of class %d with its limit %d", f, x.class, x.slot, slot, id, k.limit)
		}
	}
	held := k.holder == byLimit && k.rate == k.limit
	if k.holder >= 0 {
		ch := &n.channels[k.holder]
		held = ch.full && k.rate == ch.level
	}
	if k.open || !held || k.rate == 0 || k.limit > 0 && k.rate > k.limit {
		return fmt.Errorf("network: class %d at %d units, limit %d, is held by nothing: %d", id, k.rate, k.limit, k.holder)
	}
	return nil
}

// check tests what a channel knows of itself; want is what its classes say.
func (ch *channel) check(want *channel) error {
	if ch.touched || ch.slot != 0 || len(ch.uses) != len(want.uses) {
		return fmt.Errorf("%d uses, want %d, in a filling: %t", len(ch.uses), len(want.uses), ch.touched || ch.slot != 0)
	}
	if ch.held != want.held || ch.pending != want.held || ch.taken != want.taken {
		return fmt.Errorf("%d held, %d pending, %d taken: want %d, as many, %d", ch.held, ch.pending, ch.taken, want.held, want.taken)
	}
	if ch.held > 0 && ch.level < want.level {
		return fmt.Errorf("its level is %d, and one has %d", ch.level, want.level)
	}
	if total := ch.taken + ch.held*ch.level; total > ch.bandwidth+uint64(ch.users)*16 {
		return fmt.Errorf("its flows get %d of %d units", total, ch.bandwidth)
	}
	return nil
}
