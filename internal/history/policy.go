package history

import (
	"context"
	"errors"
	"math/rand/v2"

	"godwit/eviction"
)

// policyOf is a configuration's policy of evictions, for one run.
func policyOf(ctx context.Context, h *History, cfg Config) (eviction.Policy, error) {
	switch cfg.Policy {
	case "":
		return nil, nil
	case "belady":
		script, err := foresee(ctx, h, cfg)
		return eviction.NewBelady(script), err
	}
	return eviction.ByName(cfg.Policy)
}

// foresee is what the commands of h access on cfg, as far as its memories hold them all:
// those that are refused there have no place in it.
func foresee(ctx context.Context, h *History, cfg Config) (*eviction.Script, error) {
	cfg.Every, cfg.strike, cfg.Cap, cfg.Unchecked = 0, nil, 0, true
	r := newReplay(ctx, h, cfg)
	if err := r.setUp(); err != nil {
		return nil, err
	}
	err := errors.Join(r.run(), r.tearDown())
	script := eviction.NewScript(r.c.Topology().Store)
	for _, c := range r.rec.Commands() {
		if c.Err == nil {
			script.Command(c.Clock, c.Accesses)
		}
	}
	return script, err
}

// WorkingSet is how many bytes a device needs at least so that each command of h fits
// there by itself, were all buffers stored whole, as multiples of Align; and each buffer,
// used or not, since what no device can hold cannot be made.
func (h *History) WorkingSet() (bytes uint64) {
	for i := range h.Views {
		bytes = max(bytes, h.wholeOf(i))
	}
	for i := range h.Ops {
		op := &h.Ops[i]
		all := h.wholeOf(op.Dst)
		if op.paired() && h.Views[op.Src].Root != h.Views[op.Dst].Root {
			all += h.wholeOf(op.Src)
		}
		bytes = max(bytes, all)
	}
	return bytes
}

// wholeOf is the size of a view's root, as a multiple of Align; size buffers do not count.
func (h *History) wholeOf(view int) uint64 {
	if h.Roots[h.Views[view].Root].Kind == sizeRoot {
		return 0
	}
	return (uint64(h.Roots[h.Views[view].Root].Size) + Align - 1) / Align * Align
}

// Bytes is the size of all buffers together, as multiples of Align.
func (h *History) Bytes() (bytes uint64) {
	for i := range h.Views {
		if !h.Views[i].Sub {
			bytes += h.wholeOf(i)
		}
	}
	return bytes
}

// Short draws how many bytes a device of a history that evicts has: less than all buffers, and
// enough for each command.
func (h *History) Short(dice *rand.Rand) uint64 {
	memory := h.WorkingSet()
	if dice.IntN(3) > 0 {
		memory += dice.Uint64N(h.Bytes() - memory)
	}
	return memory
}
