package runtime

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"godwit/devices"
	"godwit/internal/mover"
	"godwit/mem"
	"godwit/migration"
)

// openMover opens what moves bytes between the context's memories.
func (c *Context) openMover() (err error) {
	o := mover.Options{Name: c.name + ".mover", Profiling: c.tellsEnds(), Budget: c.opts.Staging, Chunk: c.opts.Chunk, Executor: c.by, OnFail: c.pointFailed,
		NoWindows: c.opts.NoPeer, OnWays: func() { c.adoptWays() }}
	for i := range c.mems {
		o.Memories = append(o.Memories, mover.Memory{Device: c.mems[i].dev, Name: c.topo.Name(mem.MemoryID(i))})
	}
	c.mover, err = mover.Open(o)
	return err
}

// adoptWays lets plans from here on use the ways over links that the mover has opened, and
// no more those that it has lost. It reports whether there are any such.
func (c *Context) adoptWays() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.planner == nil {
		return false // the context could not be opened
	}
	if c.failures.waiting.Load() {
		c.settle()
	}
	return c.mover.Adopt(c.topo, func(from, to mem.MemoryID) bool {
		return slices.ContainsFunc(c.opts.Links, func(l Link) bool { return l.From == from && l.To == to })
	})
}

// errLinks is why a command is planned again once links are open, or have not been for too long.
var errLinks = errors.New("links between devices are being opened")

// wantsLinks has the mover open what the plan's steps lack to go over links, and reports whether the
// command is to wait for that. c.mu is held.
func (c *Context) wantsLinks(plan *migration.Plan) (wait bool) {
	for i := range plan.Steps {
		st := &plan.Steps[i]
		if st.Way != mem.Ring {
			continue
		}
		var from, to mover.End
		r := c.roots[st.Buffer]
		r.end(&from, st.From, st.Range.Start)
		r.end(&to, st.To, st.Range.Start)
		wait = c.mover.Wants(&from, &to, st.Range.Size()) || wait
	}
	return wait
}

// loseDevices has bytes that others have, too, come from devices that are lost no more. It reports whether there
// are any such that was not known of.
func (c *Context) loseDevices() (some bool) {
	c.lock()
	defer c.unlock()
	for m := range c.mems {
		if c.mover.Lost(mem.MemoryID(m)) && c.planner.Lose(mem.MemoryID(m)) {
			some = true
		}
	}
	return some
}

// submitSteps hands a plan's steps to the mover and, where that is wanted, commits each that is accepted; those
// have points in the scratch space. c.mu is held.
func (c *Context) submitSteps(plan *migration.Plan, commit bool) error {
	s := &c.scratch
	s.points, s.lates = s.points[:0], s.lates[:0]
	for range plan.Steps {
		s.points, s.lates = append(s.points, mem.Point{}), append(s.lates, nil)
	}
	for i := range plan.Steps {
		if !s.points[i].IsZero() {
			continue // it went with an earlier one
		}
		s.members = append(s.members[:0], i)
		if i+1 < len(plan.Steps) {
			c.together(plan, i)
		}
		err := c.submitTogether(plan)
		for k, j := range s.members {
			if p := s.landed[k]; !p.IsZero() {
				if closed := gateSet(c.gates.closed.Load()); closed != 0 {
					c.gated(p, s.transfer.Waits, nil, 0, closed)
				}
				if c.windows.some.Load() {
					c.windows.needed(p, s.transfer.Waits, false, nil, nil)
				}
				if s.points[j] = p; commit {
					c.planner.CommitStep(plan, j, p)
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// together adds to members, which has step i, the later steps that one transfer can do with it: those that share
// its export and wait for the same bytes. What else they wait for (whoever still reads what a destination held) all of
// them wait for then: the command ends with the last of them anyway, and bytes that are read once, or go from one
// destination to the next, arrive sooner than bytes that are read for each. But nothing waits for what hangs on a
// gate because another destination does. c.mu is held.
func (c *Context) together(plan *migration.Plan, i int) {
	s, st := &c.scratch, &plan.Steps[i]
	if st.Late != nil || st.After >= 0 || st.Way == mem.Direct {
		return
	}
	gated := c.gates.closed.Load() != 0
	for j := i + 1; j < len(plan.Steps); j++ {
		e := &plan.Steps[j]
		if e.Export == i && s.points[j].IsZero() && sameWaits(st.Waits, e.Waits, gated) {
			s.members = append(s.members, j)
		}
	}
}

// sameWaits reports whether what is not reached is the same in both lists: of Data waits, and of others where all is asked.
func sameWaits(a, b []mem.Wait, all bool) bool {
	within := func(a, b []mem.Wait) bool {
		for _, w := range a {
			if (all || w.Kind == mem.Data) && !w.Point.Reached() && !slices.Contains(b, w) {
				return false
			}
		}
		return true
	}
	return within(a, b) && within(b, a)
}

// submitTogether hands the steps that together listed to the mover. c.mu is held.
func (c *Context) submitTogether(plan *migration.Plan) error {
	s, st := &c.scratch, &plan.Steps[c.scratch.members[0]]
	t := &s.transfer
	t.Way, t.Size, t.Waits, t.Late, t.To = st.Way, st.Range.Size(), st.Waits, nil, t.To[:0]
	s.landed = s.landed[:0]
	r := c.roots[st.Buffer]
	r.end(&t.From, st.From, st.Range.Start)
	s.waits = s.waits[:0]
	for k, j := range s.members {
		if k > 0 {
			c.waitsOfAll(plan.Steps[j].Waits)
		}
		to := plan.Steps[j].To
		t.To = append(t.To, mover.End{})
		end := &t.To[len(t.To)-1]
		if to != st.From {
			r.end(end, to, st.Range.Start)
		} else {
			w := c.evicting.into
			end.Memory, end.Block, end.Off = to, w.block, st.Range.Start-w.Range.Start
		}
		s.landed = append(s.landed, mem.Point{})
	}
	if st.After >= 0 {
		s.waits = append(append(s.waits[:0], t.Waits...), mem.Wait{Point: s.points[st.After], Kind: mem.Data})
		t.Waits = s.waits
	}
	if st.Late != nil {
		late, waits, err := c.late(st, t.Waits)
		if err != nil {
			return err
		}
		s.lates[s.members[0]] = late
		t.Late, t.Waits = late, waits
	}
	t.Points = s.landed
	if err := c.mover.Move(t); err != nil {
		return fmt.Errorf("copy of %v of buffer %s from %s to %s: %w", st.Range, r.label(), c.topo.Name(st.From), c.topo.Name(st.To), err)
	}
	return nil
}

// waitsOfAll adds to the scratch transfer's waits what another of its destinations waits for. c.mu is held.
func (c *Context) waitsOfAll(waits []mem.Wait) {
	s := &c.scratch
	for _, w := range waits {
		if !w.Point.Reached() && !slices.Contains(s.transfer.Waits, w) {
			if len(s.waits) == 0 {
				s.waits = append(s.waits, s.transfer.Waits...)
			}
			s.waits = append(s.waits, w)
			s.transfer.Waits = s.waits
		}
	}
}

// end fills e with where a byte of a root lies on a memory.
func (r *root) end(e *mover.End, m mem.MemoryID, off uint64) {
	b, start := r.blockAt(m, off)
	e.Memory, e.Block, e.Off = m, *b, off-start
}

// locked reports whether bytes are page-locked for the memory's device.
func (m *memory) locked(b []byte) bool {
	return m.bus != nil && m.bus.Locked(uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), uint64(len(b)))
}

// classOf is the class of a device's block.
func (m *memory) classOf(b mem.Block) mem.Class {
	if m.window != nil && m.window.InWindow(b) {
		return mem.Window
	}
	return mem.Plain
}

// classOf is the class of a root's block on the host.
func (c *Context) classOf(r *root) mem.Class {
	if r.locked != nil {
		return mem.Locked
	}
	if !r.user {
		return mem.Plain
	}
	bytes, err := c.mems[mem.Host].dev.(devices.Viewer).View(r.onHost(), 0, r.size)
	if err == nil && slices.ContainsFunc(c.mems, func(m memory) bool { return m.locked(bytes) }) {
		return mem.Locked
	}
	return mem.Plain
}

// stage has the copy of a read or write, which is the scratch command, done by the
// mover, where the way between the user's memory and the device is a ring, or its waiter may leave. c.mu is held.
func (c *Context) stage(req *request, m mem.MemoryID, into bool) {
	cmd, m := &c.scratch.cmd, c.storeOf(req.a.buf.root, m)
	ring := c.staged(req, m, into)
	if !ring && !req.mayLeave {
		return
	}
	block := cmd.Dst
	if !into {
		block = cmd.Src
	}
	if req.mayLeave {
		req.hand = c.mover.Hand(into, ring)
	}
	cmd.Carrier = c.mover.Bytes(mover.End{Memory: m, Block: block.Block, Off: block.Off}, req.data, into, req.hand)
}

// staged reports whether the way between the memory of a read or write and the device is a ring. c.mu is held.
func (c *Context) staged(req *request, m mem.MemoryID, into bool) bool {
	at := &c.mems[m]
	if at.bus == nil {
		return false
	}
	link, class := &at.fromHost, mem.Plain
	if !into {
		link = &at.toHost
	}
	if at.locked(req.data) {
		class = mem.Locked
	}
	way, _ := link.Choose(req.size, class)
	return way == mem.Ring
}
