package migration_test

import (
	"errors"
	"fmt"
	"slices"

	"godwit/internal/oracle"
	"godwit/mem"
	"godwit/migration"
)

// A history is a random life of a context: commands on several queues over
// shared buffers, refused commands, storage given up, buffers released. Three
// judges look at it. The oracle says which bytes must have moved and which
// memory holds what. Check looks at the planner's invariants. And a simulated
// machine (machine_test.go) runs steps and commands in any order that their
// waits allow, some of them badly, and sees whether any of them reads other
// bytes than it should, or writes what another is using.
type history struct {
	choices
	machine
	topo    *mem.Topology
	p       *migration.Planner
	o       *oracle.Oracle
	planner variant
	aligned bool
	quiet   bool
	buffers []*buffer
	queues  []*mem.Timeline
	maps    []*hostMap // of the host's, for writing, not unmapped
	frames  *frames    // of devices' memories; nil where they have no limit, see history_evict_test.go
	bound   uint64     // bytes, the sum of the lower bounds
	rides   uint64     // bytes that came along, of all steps
	log     []string
	err     error // the first thing that was wrong
}

// choices is where a history's decisions come from: n returns one of [0, n).
type choices interface{ n(n int) int }

// variant is the planner in use: the true one, or a mutant that must be caught.
type variant struct {
	plan         func(h *history, dst *migration.Plan, accs []mem.Access) error // nil: Planner.Plan
	deafToFaults bool
	deafToMaps   bool
	step         func(*migration.Step) // changes a step before it is submitted
	evict        evictMutant
}

type buffer struct {
	id     mem.BufferID
	size   uint64
	count  *buffer       // its size buffer
	counts []mem.Version // the latest count, when the last command was planned
	blocks map[mem.MemoryID]*block
}

// options of a history.
type options struct {
	faults      bool
	aligned     bool    // links have alignments
	quiet       bool    // keep no log
	counted     bool    // many buffers have size buffers
	maps        bool    // the host maps ranges for writing
	evict       bool    // devices hold few blocks
	gated       bool    // and some commands wait for user events
	evicted     *int    // where not nil: grows by the blocks that left for others
	saved, rode *uint64 // where not nil: grow by the bytes that need not move, and that came along
	steps       int
	planner     variant
}

// replay lives a history and returns what was wrong with it.
func replay(c choices, o options) error {
	h := &history{choices: c, planner: o.planner, aligned: o.aligned, quiet: o.quiet, machine: machine{faults: o.faults}}
	if o.evict {
		h.frames = &frames{of: map[mem.MemoryID][]*frame{}, evicted: o.evicted}
		if o.gated {
			h.frames.gates = mem.NewTimeline("user", false, nil)
			h.open = h.openGate
		}
	}
	h.setUp()
	for range 6 {
		if o.counted {
			h.create()
			h.countBy()
		}
	}
	for i := 0; i < o.steps && h.err == nil; i++ {
		if o.maps && h.n(4) == 0 {
			h.mapOrUnmap()
		}
		h.step()
	}
	for h.err == nil && len(h.maps) > 0 {
		h.unmap(0)
	}
	for h.err == nil && (len(h.tasks) > 0 || len(h.faulty) > 0) {
		h.advance()
		h.tellFailures(1)
	}
	if h.err == nil {
		h.idle()
	}
	if o.rode != nil {
		*o.rode += h.rides
	}
	if o.saved != nil {
		*o.saved += h.saved
	}
	if h.err == nil && !o.faults && h.moved != h.bound+h.rides {
		h.fail("%d bytes moved in all, the lower bound is %d, and %d came along", h.moved, h.bound, h.rides)
	}
	if h.err != nil {
		return fmt.Errorf("%w\n%v", h.err, h.log)
	}
	return nil
}

func (h *history) fail(format string, args ...any) {
	if h.err == nil {
		h.err = fmt.Errorf(format, args...)
	}
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format+"\n", args...))
}

func (h *history) setUp() {
	h.machine.choices, h.machine.fail, h.machine.note = h.choices, h.fail, h.note
	h.topo = mem.NewTopology([]string{"a", "b", "c", "d"}[:1+h.n(4)]...)
	n := h.topo.Len()
	for range h.n(6) {
		a, b := mem.MemoryID(h.n(n)), mem.MemoryID(h.n(n))
		l := mem.DirectLink(8, uint64(h.n(3))*1e9)
		if h.n(5) == 0 {
			_ = h.topo.Share(a, b)
			continue
		}
		_ = h.topo.SetLink(a, b, l) // a memory and itself: no link
	}
	for a := range mem.MemoryID(n) {
		for b := range mem.MemoryID(n) {
			if l := h.topo.Link(a, b); h.aligned && h.n(3) > 0 {
				l.Align = 1 << h.n(4)
				_ = h.topo.SetLink(a, b, l)
			}
		}
	}
	h.p, h.o = migration.New(h.topo, migration.Options{}), oracle.New(h.topo)
	for i := range 1 + h.n(3) {
		h.queues = append(h.queues, mem.NewTimeline(fmt.Sprint("q", i), h.n(3) > 0, nil))
	}
	h.copies = mem.NewTimeline("copy", false, nil)
	for range 1 + h.n(3) {
		h.create()
	}
}

func (h *history) step() {
	switch k := h.n(40); {
	case k < 16:
		h.enqueue()
	case k == 16:
		h.countBy()
	case k < 34:
		h.advance()
	case k < 37:
		h.tellFailures(2)
	case k == 37:
		h.unstore()
	case k == 38:
		h.p.Retire()
	case len(h.buffers) > 1 && h.n(3) == 0:
		h.release()
	default:
		h.create()
	}
	h.compare()
}

func (h *history) create() {
	if len(h.buffers) > 4 {
		return
	}
	b := &buffer{size: uint64(1 + h.n(32)), blocks: map[mem.MemoryID]*block{}}
	var valid mem.MemorySet
	if h.n(2) == 0 {
		m := mem.MemoryID(h.n(h.topo.Len()))
		if h.frames != nil {
			m = mem.Host
		}
		valid = valid.With(m)
	}
	var err error
	if b.id, err = h.p.CreateWith(b.size, valid); err != nil {
		h.fail("create: %v", err)
		return
	}
	if err := h.o.Create(b.id, b.size, valid); err != nil {
		h.fail("create: %v", err)
	}
	for m := range valid.All() {
		v, _, _ := h.o.Byte(b.id, 0)
		b.blocks[h.topo.Store(m)] = newBlock(b.size, v)
	}
	h.buffers = append(h.buffers, b)
	h.note("create %d size %d on %v", b.id, b.size, valid)
}

// release and unstore give blocks up: whoever still uses one must be among its
// Points.
func (h *history) release() {
	i := h.n(len(h.buffers))
	b := h.buffers[i]
	if h.kept(b) {
		return
	}
	h.note("release %d", b.id)
	for m, blk := range b.blocks {
		h.usersKnown(blk, h.p.Points(nil, b.id, m))
	}
	if slices.ContainsFunc(h.buffers, func(o *buffer) bool { return o.count == b }) {
		if err := h.p.Release(b.id); !errors.Is(err, mem.ErrInvalidOperation) {
			h.fail("release of a size buffer: %v", err)
		}
		return
	}
	for m := range b.blocks {
		h.vacate(b, m, h.p.Points(nil, b.id, m))
	}
	if err := h.p.Release(b.id); err != nil {
		h.fail("release: %v", err)
	}
	h.o.Release(b.id)
	h.buffers = slices.Delete(h.buffers, i, i+1)
}

func (h *history) unstore() {
	b, m := h.buffers[h.n(len(h.buffers))], h.topo.Store(mem.MemoryID(h.n(h.topo.Len())))
	if h.kept(b) {
		return
	}
	points := h.p.Points(nil, b.id, m)
	if err := h.p.Unstored(b.id, m); err != nil {
		if !errors.Is(err, mem.ErrInvalidOperation) {
			h.fail("unstored: %v", err)
		}
		return
	}
	h.note("unstored %d on %d", b.id, m)
	if blk := b.blocks[m]; blk != nil {
		h.usersKnown(blk, points)
	}
	h.o.Unstored(b.id, m)
	h.vacate(b, m, points)
	delete(b.blocks, m)
}

func (h *history) accesses() []mem.Access {
	accs := make([]mem.Access, 1+h.n(3))
	m := mem.MemoryID(h.n(h.topo.Len()))
	many := h.n(6) == 0
	if h.n(12) == 0 {
		accs = make([]mem.Access, 12)
	}
	for i := range accs {
		b := h.buffers[h.n(len(h.buffers))]
		if many {
			m = mem.MemoryID(h.n(h.topo.Len()))
		}
		r := mem.Range{End: b.size}
		if h.n(3) > 0 {
			r.Start = uint64(h.n(int(b.size)))
			r.End = r.Start + 1 + uint64(h.n(int(b.size-r.Start)))
		}
		accs[i] = mem.Access{Buffer: b.id, Range: r, Mode: mem.Mode(h.n(3)), Memory: m}
	}
	return accs
}

// enqueue plans a command and lets some of it be accepted.
func (h *history) enqueue() {
	accs := h.beside(h.accesses())
	h.note("command %v", accs)
	var plan migration.Plan
	if len(accs) == 0 || !h.plan(&plan, accs) {
		return
	}
	fate := h.n(12)
	if fate == 0 || !h.store(&plan) {
		return // nothing was submitted
	}
	if h.frames != nil && !h.plan(&plan, accs) {
		return
	}
	expect := h.contents(&plan)
	if fate == 1 && len(plan.Steps) > 0 {
		h.refuse(&plan, h.n(len(plan.Steps)))
		return
	}
	pre, err := h.o.Prefetch(accs)
	if err != nil {
		h.fail("planned, but the oracle says: %v", err)
		return
	}
	for i := range plan.Steps {
		h.along(&plan.Steps[i], pre.Command)
	}
	res, err := h.o.Enqueue(accs)
	if err != nil || res.Bytes != 0 {
		h.fail("%d bytes had to move after all had: %v", res.Bytes, err)
		return
	}
	h.recount()
	h.submitCommand(&plan, h.submitSteps(&plan, pre), res, expect)
}

// plan plans a command; false where planner and oracle refuse it.
func (h *history) plan(dst *migration.Plan, accs []mem.Access) bool {
	plan := (*history).truePlan
	if h.planner.plan != nil {
		plan = h.planner.plan
	}
	err := plan(h, dst, accs)
	if err == nil {
		return true
	}
	if _, oerr := h.o.Enqueue(accs); oerr == nil || mem.StatusOf(oerr) != mem.StatusOf(err) {
		h.fail("planner: %v, oracle: %v", err, oerr)
	}
	return false
}

func (h *history) truePlan(dst *migration.Plan, accs []mem.Access) error { return h.p.Plan(dst, accs) }

// store makes the storage that a plan wants.
func (h *history) store(plan *migration.Plan) bool {
	if h.frames != nil && !h.makeRoom(plan) {
		return false
	}
	for i, w := range plan.Storage {
		if slices.Contains(plan.Storage[:i], w) {
			h.fail("storage wanted twice: %v", plan.Storage)
		}
		b := h.byID(w.Buffer)
		block, until := h.frame(b, w.Memory)
		if err := h.p.Stored(w.Buffer, w.Memory, mem.Plain, until...); err != nil {
			h.fail("stored: %v", err)
			return false
		}
		b.blocks[w.Memory] = block
	}
	return true
}

// refuse has the steps before n accepted, and no more.
func (h *history) refuse(plan *migration.Plan, n int) {
	points := make([]mem.Point, len(plan.Steps))
	for i := range n {
		st := &plan.Steps[i]
		accs := []mem.Access{{Buffer: st.Buffer, Range: st.Range, Memory: st.To}}
		if st.RideAlong > 0 {
			accs = nil
		}
		res, err := h.o.Prefetch(accs)
		h.bound += res.Bytes
		if st.RideAlong > 0 {
			res.Bytes = st.Bytes()
			h.bound += st.Bytes()
		}
		h.along(st, res.Command)
		if err != nil || (res.Bytes != st.Bytes() && st.Late == nil) {
			h.fail("step %d of a refused command moves %d bytes, the lower bound is %d (%v)", i, st.Bytes(), res.Bytes, err)
		}
		points[i] = h.submitStep(plan, i, points, res.Command)
	}
}

// contents is what a command must see, version by version.
func (h *history) contents(plan *migration.Plan) (out [][]mem.Version) {
	for _, b := range h.buffers {
		if b.size >= migration.CountSize {
			b.counts = h.counts(b)
		}
	}
	for _, a := range plan.Accesses {
		var vs []mem.Version
		limit := h.limit(h.byID(a.Buffer))
		for off := a.Range.Start; off < a.Range.End; off++ {
			v, _, _ := h.o.Byte(a.Buffer, off)
			if off >= limit || a.Memory == mem.Host && h.mapped(a.Buffer, mem.Range{Start: off, End: off + 1}) {
				v = 0
			}
			vs = append(vs, v)
		}
		out = append(out, vs)
	}
	return out
}
