package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/migration"
)

// want is storage that a plan wanted and got.
type want struct {
	migration.Want
	block mem.Block
	from  int // its bytes are in use until reuse.Busy[from:to]
	to    int

	stays bool // whatever becomes of the command: it has taken the place of other blocks, or what left theirs went there
}

// obtain gets the blocks that a plan wants, all or none, and tells the planner; blocks whose
// place they take are exchanged for them (regrow.go). Wants of one memory are asked for at
// once. It reports whether to plan again: some blocks are still in use by those who had
// their bytes before, or have left, or are parts. c.mu is held.
func (c *Context) obtain(plan *migration.Plan) (again bool, err error) {
	s := &c.scratch
	if len(plan.Storage) == 0 {
		return false, nil
	}
	first, parts := len(s.wants), false
	for _, w := range plan.Storage {
		parts = parts || w.Range.Size() != c.roots[w.Buffer].size
		s.wants = append(s.wants, want{Want: w})
	}
	if parts {
		c.fit(first)
	}
	outcome, err := c.obtainAll()
	for err == nil && outcome != mem.Ready && !again {
		if again, err = c.makeRoom(plan, outcome); err == nil && !again {
			outcome, err = c.obtainAll()
		}
	}
	if again || err != nil {
		return again, errors.Join(err, c.freeWants(first))
	}
	for i := first; i < len(s.wants); i++ {
		w := &s.wants[i]
		if c.planner.Exchanges(&w.Want) {
			again = true
			err = c.regrow(w)
		} else if err = c.planner.Stored(w.Want, c.mems[w.Memory].classOf(w.block), c.busy(w)...); err == nil {
			r := c.roots[w.Buffer]
			r.on(w.Memory).Set(w.Range, w.block)
		}
		if err != nil {
			return false, errors.Join(err, c.freeWants(i))
		}
		if c.evicting.observer == nil {
			c.observe(w.Memory, w.block.Size)
		}
	}
	if again || parts && !c.asPlanned(plan, first) || len(s.reuse.Busy) > 0 || c.evicting.did {
		return true, nil
	}
	c.planner.Reroute(plan)
	return false, nil
}

// asPlanned reports whether the plan's copies suit the blocks that it got from number first on:
// each lies within one of them, or in none. A copy that goes on into another block is cut by
// planning again, and so is the plan where a block is not what was wanted. c.mu is held.
func (c *Context) asPlanned(plan *migration.Plan, first int) bool {
	for i, w := range c.scratch.wants[first:] {
		if w.Range != plan.Storage[i].Range {
			return false
		}
		for k := range plan.Steps {
			st := &plan.Steps[k]
			if st.Buffer == w.Buffer && st.To == w.Memory && st.Range.Overlaps(w.Range) && !w.Range.Contains(st.Range) {
				return false
			}
		}
	}
	return true
}

// obtainAll asks each memory for what is wanted there and has not been got. Where some
// have no room, it lists these in evicting.short, and returns what the first said. It
// fails, with an *errRoom, where waiting is to be preferred to evicting: room comes back by itself
// (mem.Late), or the enqueue has evicted blocks, or the context waits. c.mu is held.
func (c *Context) obtainAll() (mem.Outcome, error) {
	s, e := &c.scratch, &c.evicting
	e.short = e.short[:0]
	result := mem.Ready
	for i := range s.wants {
		m := s.wants[i].Memory
		if !s.wants[i].block.IsZero() || slices.Contains(e.short, m) {
			continue
		}
		outcome, err := c.obtainOn(m, i)
		if err == nil && outcome != mem.Ready && c.mems[m].res.Trim(0) > 0 {
			outcome, err = c.obtainOn(m, i)
		}
		if err != nil {
			return outcome, err
		}
		if outcome == mem.Ready {
			continue
		}
		e.short = append(e.short, m)
		if outcome == mem.Late {
			return outcome, &errRoom{error: c.outOfMemory(m, outcome), late: true}
		}
		if outcome == mem.NeedsWait && (e.did || c.opts.WaitForMemory) {
			if points, ok := c.frees(m); ok {
				return outcome, &errRoom{error: c.outOfMemory(m, outcome), points: points, evicted: e.did}
			}
		}
		if result == mem.Ready {
			result = outcome
		}
	}
	return result, nil
}

// frees are the points of a memory's pending frees that end without the program's help.
// It reports whether waiting for one may make room: there are some, or the frees have just
// happened. They are listed here, under the lock: by the time that somebody waits, those
// that are still pending may be such as hang. c.mu is held.
func (c *Context) frees(m mem.MemoryID) (points []mem.Point, ok bool) {
	pending := c.mems[m].res.Pending(nil)
	for _, p := range pending {
		if c.mayWait(p) {
			points = append(points, p)
		}
	}
	return points, len(points) > 0 || len(pending) == 0
}

// busy are the points that a wanted block is in use until, in scratch space. c.mu is
// held.
func (c *Context) busy(w *want) []mem.Point {
	s := &c.scratch
	s.until = s.until[:0]
	for _, b := range s.reuse.Busy[w.from:w.to] {
		s.until = append(s.until, b.Point)
	}
	return s.until
}

// obtainOn gets the blocks wanted on one memory, the first of which is wants
// number from. c.mu is held.
func (c *Context) obtainOn(m mem.MemoryID, from int) (mem.Outcome, error) {
	s := &c.scratch
	s.reqs = s.reqs[:0]
	for i := range s.wants[from:] {
		if w := &s.wants[from+i]; w.Memory == m {
			s.reqs = append(s.reqs, c.request(w.Want))
		}
	}
	for len(s.given) < len(s.reqs) {
		s.given = append(s.given, mem.Block{})
	}
	given, first := s.given[:len(s.reqs)], len(s.reuse.Busy)
	outcome, err := c.alloc(m, s.reqs, given, &s.reuse)
	if err != nil {
		return outcome, fmt.Errorf("storage on %s: %w", c.topo.Name(m), err)
	}
	if outcome != mem.Ready {
		return outcome, nil
	}
	slices.SortStableFunc(s.reuse.Busy[first:], func(a, b mem.Busy) int { return cmp.Compare(a.Index, b.Index) })
	k := 0
	for i := from; i < len(s.wants); i++ {
		w := &s.wants[i]
		if w.Memory != m {
			continue
		}
		w.block, w.from = given[k], first
		for first < len(s.reuse.Busy) && s.reuse.Busy[first].Index == k {
			first++
		}
		w.to = first
		k++
	}
	return mem.Ready, nil
}

// freeWants gives blocks back that no command has seen, those of wants from number first
// on. c.mu is held.
func (c *Context) freeWants(first int) error {
	var errs []error
	for i := first; i < len(c.scratch.wants); i++ {
		if w := &c.scratch.wants[i]; !w.block.IsZero() {
			errs = append(errs, c.free(c.roots[w.Buffer], w.Memory, w.block, c.busy(w)))
		}
	}
	c.scratch.wants = c.scratch.wants[:first]
	return kept(errs...)
}

// errKept is of storage that an enqueue which fails could not give back. Where it is tried again, its error is nobody's (sayKept).
type errKept struct{ error }

func (e *errKept) Unwrap() error { return e.error }

// kept makes of what frees said an errKept.
func kept(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return &errKept{err}
	}
	return nil
}

// sayKept keeps for Close what an error that nobody is given says of storage. c.mu is held.
func (c *Context) sayKept(err error) {
	switch e := err.(type) {
	case *errKept:
		c.sayAtClose(e)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			c.sayKept(err)
		}
	case interface{ Unwrap() error }:
		c.sayKept(e.Unwrap())
	}
}

// giveBack frees the new blocks of a refused command's plan into which none of
// the accepted copies, which have points, goes; those stay that hold what others held (want.stays). c.mu
// is held.
func (c *Context) giveBack(plan *migration.Plan) error {
	var errs []error
	for i := range c.scratch.wants {
		w := &c.scratch.wants[i]
		if w.stays || filled(plan, c.scratch.points, w.Want) {
			continue
		}
		errs = append(errs, c.unstore(w.Want))
	}
	return kept(errs...)
}

// filled reports whether one of a plan's steps that were accepted, which have points,
// goes into wanted storage.
func filled(plan *migration.Plan, points []mem.Point, w migration.Want) bool {
	for i, p := range points {
		if st := &plan.Steps[i]; !p.IsZero() && st.Buffer == w.Buffer && st.To == w.Memory && w.Range.Overlaps(st.Range) {
			return true
		}
	}
	return false
}

// drop forgets a root buffer and frees its blocks after the points that use
// them. c.mu is held.
func (c *Context) drop(r *root) error {
	var last []mem.Point // of commands that use the storage
	if len(r.onRelease) > 0 || r.locked != nil {
		for m := range c.mems {
			last = c.planner.Points(last, r.id, mem.MemoryID(m), everything)
		}
	}
	c.keepLentCopies(r)
	errs := []error{c.uncount(r), c.freeRoot(r)}
	if r.tenant != nil {
		r.tenant.buffers--
	}
	c.rootReleased(r, last)
	if r.locked != nil {
		c.unlockStorage(r, last)
	}
	errs = append(errs, c.planner.Release(r.id))
	delete(c.roots, r.id)
	r.dropped = true
	if c.opts.Trace != nil {
		c.hooks.buffer(&trace.BufferRecord{Buffer: r.id, Name: r.name, Size: r.size, Released: true})
	}
	return errors.Join(errs...)
}

// freeBlock takes the block of a range out and frees it after the points. c.mu is held.
func (c *Context) freeBlock(r *root, m mem.MemoryID, in mem.Range, after []mem.Point) error {
	at, _ := r.blockAt(m, in.Start)
	b := *at
	r.on(m).Set(in, mem.Block{})
	return c.free(r, m, b, after)
}

// freeRoot frees a root's blocks after the points that use them. c.mu is held.
func (c *Context) freeRoot(r *root) error {
	var errs []error
	if r.svm != nil {
		c.scratch.points = c.planner.Points(c.scratch.points[:0], r.id, mem.Host, everything)
		c.recycle(r, c.scratch.points)
	}
	for i := range r.blocks {
		m := r.blocks[i].memory
		for in, b := range r.blocks[i].All() {
			if b.IsZero() {
				continue
			}
			c.scratch.points = c.planner.Points(c.scratch.points[:0], r.id, m, in)
			errs = append(errs, c.free(r, m, *b, c.scratch.points))
		}
	}
	r.blocks = nil
	return errors.Join(errs...)
}

// initialise gets a new buffer the host memory that its flags ask for, with its
// first content. c.mu is held.
func (c *Context) initialise(r *root, flags Flags, content []byte) error {
	host := c.mems[mem.Host]
	if r.locked != nil {
		content = r.locked.Bytes
	}
	if r.lent() {
		b, err := c.host.Adopt(content, 0)
		r.on(mem.Host).Set(mem.Range{End: r.size}, b)
		return err
	}
	if content == nil && flags&AllocHostPtr == 0 {
		return nil
	}
	var given [1]mem.Block
	outcome, err := host.res.AllocAll([]mem.Request{{Size: r.size, Lock: flags&AllocHostPtr != 0}}, given[:], nil)
	if err == nil && outcome != mem.Ready {
		err = c.certify(mem.Host, r.size, outcome, nil)
	}
	if err != nil {
		return fmt.Errorf("content of %d bytes on the host: %w", r.size, err)
	}
	view, err := c.host.View(given[0], 0, r.size)
	if err != nil {
		return errors.Join(err, host.res.FreeAfter(given[0], nil))
	}
	if c.stamper == nil {
		copy(view, content)
	}
	r.on(mem.Host).Set(mem.Range{End: r.size}, given[0])
	return nil
}

// resource is where a root's block on a memory came from.
func (c *Context) resource(r *root, m mem.MemoryID) mem.Resource {
	if r.lent() && m == mem.Host {
		return c.mems[m].dev.Memory() // no layer has heard of it
	}
	return c.mems[m].res
}

// A resource hears of a point's end like anybody else, perhaps a moment after a
// waiter of ours. So where nothing is pending any more though it said so, it gets
// that moment, doubled with each try, before its promise counts as broken.
const (
	firstPause = 20 * time.Microsecond
	mostTries  = 14 // 0.3 s in all
)

// waitForFree blocks until one of the points that could make room has been reached, or ctx
// ends. tries counts how often in a row there was none.
func (c *Context) waitForFree(ctx context.Context, room *errRoom, tries *int) error {
	c.flush()
	if len(room.points) == 0 {
		if *tries++; *tries > mostTries {
			return room.error
		}
		if err := c.by.Pause(ctx, firstPause<<*tries); err != nil {
			return fmt.Errorf("%w while waiting for room: %w", err, room.error)
		}
		return nil
	}
	*tries = 0
	if err := mem.WaitAny(ctx, room.points); err != nil {
		return fmt.Errorf("%w while waiting for room: %w", err, room.error)
	}
	return nil
}
