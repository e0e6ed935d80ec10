package runtime

import (
	"errors"
	"fmt"
	"slices"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/migration"
)

// Regrow: what an enqueue does whose command reaches bytes that no one block holds, while
// some hold a part of them, under the planner lock and without waiting for a device:
//
//  1. the new block is got with all others that the command needs, while the old ones are
//     there (storage.go); where there is no room for both, the old ones leave like any
//     victim (evict.go), and the command is planned again;
//  2. what the new block is not to hold leaves: dropped, or written back first;
//  3. what is valid in the old blocks is copied into the new one by the device itself;
//  4. once all copies are accepted, the planner is told, and the old blocks are freed after
//     all points that use them, the copies' among them;
//  5. the command is planned anew: it waits for the copies.
//
// A copy that is refused leaves all as it was: those before it have read the old blocks, and
// the new one is freed after them.

// fit changes what wants from number first on hold. One that is a large part of its buffer holds
// all of it, where no other part is wanted there and nothing has to leave for that. Then one that
// takes the place of blocks holds what they hold, where what it would leave out must stay. c.mu is
// held.
func (c *Context) fit(first int) {
	wants := c.scratch.wants[first:]
	for i := range wants {
		w := &wants[i]
		was := w.Range
		again := c.planner.Again(&w.Want)
		if !again && !c.planner.Widen(&w.Want) {
			continue
		}
		apart := slices.ContainsFunc(wants, func(o want) bool {
			return o.Buffer == w.Buffer && o.Memory == w.Memory && o.Span != w.Span
		})
		if apart || !again && !c.fits(w.Memory, c.wanted(w.Memory), nil, nil) {
			w.Range = was
		}
	}
	for i := range wants {
		w := &wants[i].Want
		if c.planner.Exchanges(w) && !c.planner.Leaves(&c.evicting.ev, w, evictRoom{c}) {
			c.planner.Keep(w)
		}
	}
}

// narrow has wants that take no block's place hold no more than what they are made for, and
// reports whether some held more. c.mu is held.
func (c *Context) narrow() (did bool) {
	for i := range c.scratch.wants {
		w := &c.scratch.wants[i]
		if w.block.IsZero() && !w.Span.Empty() && w.Range != w.Span && !c.planner.Exchanges(&w.Want) {
			w.Range, did = w.Span, true
		}
	}
	return did
}

// regrow puts a new block in the place of those that it overlaps. On error it is freed. c.mu
// is held.
func (c *Context) regrow(w *want) error {
	e, r, in := &c.evicting, c.roots[w.Buffer], w.Range
	err := c.leave(w)
	if err == nil {
		e.until = append(e.until[:0], c.busy(w)...)
		c.planner.Regrow(&e.copies, &w.Want, e.until)
		e.into = w
		of := c.scratch.transfer.For
		c.scratch.transfer.For = nil // it does not give way: the old block's room comes back with its end
		err = c.submitBeside(&e.copies)
		c.scratch.transfer.For, e.into = of, nil
	}
	if err != nil {
		e.until = append(e.until[:0], c.busy(w)...)
		for _, p := range e.points {
			if !p.IsZero() {
				e.until = append(e.until, p)
			}
		}
		err = fmt.Errorf("new block for %v of buffer %s on %s: %w", in, r.label(), c.topo.Name(w.Memory), err)
		err = errors.Join(err, c.free(r, w.Memory, w.block, e.until))
		w.block = mem.Block{}
		return err
	}
	err = c.freeOld(r, w.Memory, in)
	c.planner.Regrown(&w.Want, c.mems[w.Memory].classOf(w.block), &e.copies, e.points, e.until...)
	r.on(w.Memory).Set(in, w.block)
	w.stays = true
	for i := range e.copies.Steps {
		if c.opts.Trace == nil {
			break
		}
		st := &e.copies.Steps[i]
		step := c.stepRecord(st)
		step.Point = e.points[i]
		if st.Drops() {
			n := st.Range.Size()
			e.records = append(e.records, trace.EvictionRecord{Buffer: st.Buffer, Memory: st.To, Range: st.Range, Fresh: n, Dropped: n, Policy: trace.ByRegrow})
		}
		e.regrows = append(e.regrows, step)
	}
	if err != nil {
		w.block = mem.Block{} // it is in its place
	}
	return err
}

// leave has what w's blocks hold beside it leave. c.mu is held.
func (c *Context) leave(w *want) error {
	e := &c.evicting
	e.points = e.points[:0]
	if !c.planner.Leaves(&e.ev, &w.Want, evictRoom{c}) {
		return fmt.Errorf("what is not needed cannot leave any more: %w", c.certify(w.Memory, w.block.Size, mem.Exhausted, c.evicting.plan))
	}
	if len(e.ev.Victims) == 0 {
		return nil
	}
	did := e.did
	err := c.carryOut()
	e.did = did // no block has left
	for i := range c.scratch.wants {
		if o := &c.scratch.wants[i]; filled(&e.ev.Backs, e.points, o.Want) {
			o.stays = true
		}
	}
	e.points = e.points[:0]
	return err
}

// freeOld takes the blocks that overlap a range out, and frees each after the points that
// use it. c.mu is held.
func (c *Context) freeOld(r *root, m mem.MemoryID, in mem.Range) error {
	var errs []error
	for off := in.Start; off < in.End; {
		s := *r.on(m).Get(off)
		at, b := s.Range, s.Value
		off = at.End
		if b.IsZero() {
			continue
		}
		c.scratch.until = c.planner.Points(c.scratch.until[:0], r.id, m, at)
		if err := c.freeBlock(r, m, at, c.scratch.until); err != nil {
			errs = append(errs, fmt.Errorf("old block of buffer %s on %s: %w", r.label(), c.topo.Name(m), err))
		}
	}
	return errors.Join(errs...)
}

// submitBeside submits the steps of a plan that is not the command's: their points are in
// evicting.points. c.mu is held.
func (c *Context) submitBeside(plan *migration.Plan) error {
	command := c.scratch.moves
	c.scratch.moves = c.evicting.moves
	err := c.submitSteps(plan, true)
	c.scratch.moves, c.evicting.moves = command, c.scratch.moves
	c.unflushed.Store(true)
	return err
}
