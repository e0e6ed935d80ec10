package runtime

import (
	"errors"
	"fmt"
	"slices"

	"godwit/mem"
)

// Check tests the invariants of the context, for tests and debugging:
//
//   - the planner's own (C1, C2, C3 and C7 of docs/design.md);
//   - a root buffer has exactly the blocks that the planner thinks it has, of the size of
//     their ranges, and no block serves two buffers;
//   - every root buffer has a live view;
//   - pointers of shared virtual memory are those of the arena's live blocks, and
//     the arena is sound;
//   - each memory's resource is sound, and counts at least the blocks held here;
//   - every mapping is in the list of its buffer, once, none excludes another, and the
//     planner knows of as many for writing as there are (C11);
//   - the event table's live records are those with references, and free list
//     and live records make up the table.
//
// Failures that devices have reported are settled first. It takes time in
// proportion to the state.
func (c *Context) Check() error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.unlock()
	errs := []error{c.planner.Check(), c.events.check(), c.checkMaps()}
	type place struct {
		m mem.MemoryID
		b mem.Block
	}
	holder := make(map[place]*root)
	count := make([]int, len(c.mems))
	for id, r := range c.roots {
		if r.id != id || r.views < 1 {
			errs = append(errs, fmt.Errorf("buffer %s: filed under %d, with %d views", r.label(), id, r.views))
		}
		if known, live := c.planner.Maps(id), r.writableMaps(); known != live {
			errs = append(errs, fmt.Errorf("buffer %s: %d maps for writing, the planner knows of %d", r.label(), live, known))
		}
		mems := c.planner.Homes(nil, id)
		for i := range r.blocks {
			mems = append(mems, r.blocks[i].memory)
		}
		slices.Sort(mems)
		for _, m := range slices.Compact(mems) {
			if c.topo.Store(m) != m {
				continue
			}
			known, has := c.planner.Blocks(nil, id, m), &blocks{}
			if i, ok := r.find(m); ok {
				has = &r.blocks[i]
			}
			for in, block := range has.All() {
				b := *block
				if b.IsZero() {
					continue
				}
				if len(known) == 0 || known[0] != in {
					errs = append(errs, fmt.Errorf("buffer %s on %s: block %+v of %v, of the planner's is next %v", r.label(), c.topo.Name(m), b, in, known))
				} else {
					known = known[1:]
				}
				if !r.lent() || m != mem.Host { // no layer counts it
					count[m]++
				}
				if b.Size != in.Size() {
					errs = append(errs, fmt.Errorf("buffer %s on %s: block of %d bytes for %v", r.label(), c.topo.Name(m), b.Size, in))
				}
				if other := holder[place{m, b}]; other != nil {
					errs = append(errs, fmt.Errorf("buffers %s and %s share block %+v on %s", r.label(), other.label(), b, c.topo.Name(m)))
				}
				holder[place{m, b}] = r
			}
			if len(known) > 0 {
				errs = append(errs, fmt.Errorf("buffer %s on %s: no blocks of %v, which the planner has", r.label(), c.topo.Name(m), known))
			}
		}
	}
	if !c.closed {
		errs = append(errs, c.checkResources(count), c.checkSVM())
	}
	return errors.Join(errs...)
}

// writableMaps is how many maps of a root are for writing. Context.mu is held.
func (r *root) writableMaps() (n int) {
	for _, m := range r.maps {
		if m.flags.Writes() {
			n++
		}
	}
	return n
}

// checkSVM tests the arena against the pointers that commands may use. c.mu is
// held.
func (c *Context) checkSVM() error {
	if c.arena == nil {
		return nil
	}
	errs := []error{c.arena.Check()}
	for p, r := range c.svmRoots {
		b, err := c.arena.Lookup(p)
		if err != nil || b.Start != p || b.Size != r.size || r.svm.p != p || r.svm.buf.refs != 1 || c.roots[r.id] != r {
			errs = append(errs, fmt.Errorf("%s: arena has %+v (%w)", r.label(), b, errors.Join(err)))
		}
	}
	return errors.Join(errs...)
}

// checkResources tests each memory's resource, of which the context holds count
// blocks. c.mu is held.
func (c *Context) checkResources(count []int) error {
	var errs []error
	for i := range c.mems {
		if err := c.mems[i].res.Check(); err != nil {
			errs = append(errs, fmt.Errorf("resource of %s: %w", c.topo.Name(mem.MemoryID(i)), err))
		}
		if live := c.mems[i].res.Stats().Blocks; live < count[i] {
			errs = append(errs, fmt.Errorf("resource of %s: %d live blocks, %d in use", c.topo.Name(mem.MemoryID(i)), live, count[i]))
		}
	}
	return errors.Join(append(errs, c.checkTenants())...)
}

// check tests the table against itself.
func (t *eventTable) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	live := 0
	for i := range t.n {
		switch r := t.at(i); {
		case r.refs < 0:
			return fmt.Errorf("event %d has %d references", i, r.refs)
		case r.refs > 0:
			live++
		}
	}
	free := 0
	for i := t.free; i != 0; i = t.at(i - 1).next {
		if free++; i > t.n || free > int(t.n) {
			return fmt.Errorf("the list of free events is broken at %d", i)
		}
		if t.at(i-1).refs != 0 {
			return fmt.Errorf("event %d is free with %d references", i-1, t.at(i-1).refs)
		}
	}
	if live != t.live || live+free != int(t.n) {
		return fmt.Errorf("%d events: %d live, counted %d, %d free", t.n, live, t.live, free)
	}
	return nil
}
