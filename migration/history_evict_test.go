package migration_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/eviction"
	"godwit/mem"
	"godwit/migration"
)

// Histories on devices that hold few blocks. A block is a frame of its memory: what
// leaves gives it up with the points that use it, and the next to come waits for these.
// So the machine sees whether anybody writes what others still use.

// frames are those of devices. The host has no limit.
type frames struct {
	of      map[mem.MemoryID][]*frame
	plan    *migration.Plan // that room is made for
	evicted *int
	gates   *mem.Timeline // user events; nil where there are none
	closed  []mem.Point   // those that are not set
}

type frame struct {
	block *block
	owner *buffer
	until []mem.Point // it is in use
}

// framesEach is how many a memory has, and frameSize how large they are.
const (
	framesEach = 2
	frameSize  = 32
)

// evictMutant is what whoever carries an eviction out does wrong.
type evictMutant struct {
	early     bool // frees a block before the point of its write-back
	forgetful bool // gives a frame again without the points of its users
	trusting  bool // takes a promise for a copy
	blind     bool // sees no user events
}

func (f *frames) at(m mem.MemoryID) []*frame {
	if f.of[m] == nil {
		for range framesEach {
			f.of[m] = append(f.of[m], &frame{block: newBlock(frameSize, garbage)})
		}
	}
	return f.of[m]
}

// free is how many frames have no owner, and no user that hangs on a user event; idle ones
// are in nobody's use at all.
func (h *history) free(m mem.MemoryID, idle bool) (n int) {
	for _, x := range h.frames.at(m) {
		if x.owner == nil && (!idle || !slices.ContainsFunc(x.until, func(p mem.Point) bool { return !p.Reached() })) && !h.hang(x.until) {
			n++
		}
	}
	return n
}

// gate makes some commands wait for a user event, new or not set yet.
func (h *history) gate(t *task) {
	f := h.frames
	if f == nil || f.gates == nil || h.n(5) > 0 {
		return
	}
	if len(f.closed) == 0 || h.n(2) == 0 {
		f.closed = append(f.closed, f.gates.Next())
	}
	t.waits = append(t.waits, mem.Wait{Point: f.closed[h.n(len(f.closed))], Kind: mem.Data})
}

// openGate sets a user event.
func (h *history) openGate() bool {
	f := h.frames
	if len(f.closed) == 0 {
		return false
	}
	i := h.n(len(f.closed))
	h.note("%v is set", f.closed[i])
	f.gates.End(f.closed[i], nil)
	f.closed = slices.Delete(f.closed, i, i+1)
	return true
}

// hang reports whether some of the points end only once a user event is set, as far as the
// waits of all tasks say, and the order of queues.
func (h *history) hang(points []mem.Point) bool {
	if len(h.frames.closed) == 0 {
		return false
	}
	var hung []mem.Point
	on := func(p mem.Point) bool {
		return p.Line == h.frames.gates && !p.Reached() || slices.ContainsFunc(hung, func(by mem.Point) bool {
			return by == p || p.Line.InOrder() && by.Line == p.Line && by.Seq < p.Seq
		})
	}
	for _, t := range h.tasks { // waits lead to earlier ones only
		if on(t.at) || slices.ContainsFunc(t.waits, func(w mem.Wait) bool { return on(w.Point) }) {
			hung = append(hung, t.at)
		}
	}
	return slices.ContainsFunc(points, on)
}

// frame returns a block for a buffer, and the points that its bytes are in use until.
func (h *history) frame(b *buffer, m mem.MemoryID) (*block, []mem.Point) {
	if h.frames == nil || m == mem.Host {
		return newBlock(b.size, garbage), nil
	}
	var best *frame
	for _, x := range h.frames.at(m) {
		if x.owner == nil && (best == nil || len(x.until) < len(best.until)) && !h.hang(x.until) {
			best = x
		}
	}
	best.owner = b
	until := slices.DeleteFunc(slices.Clone(best.until), mem.Point.Reached)
	if best.until = nil; h.planner.evict.forgetful {
		until = nil
	}
	return best.block, until
}

// vacate gives a buffer's frame up.
func (h *history) vacate(b *buffer, m mem.MemoryID, until []mem.Point) {
	if h.frames == nil {
		return
	}
	for _, x := range h.frames.of[m] {
		if x.owner == b {
			x.owner, x.until = nil, until
		}
	}
}

// makeRoom evicts what a plan needs the frames of; false where that cannot be.
func (h *history) makeRoom(plan *migration.Plan) bool {
	h.frames.plan = plan
	var short []mem.MemoryID
	for m := range mem.MemoryID(h.topo.Len()) {
		if m != mem.Host && h.topo.Store(m) == m && !h.Fits(m, nil) {
			short = append(short, m)
		}
	}
	if len(short) == 0 {
		return true
	}
	policy := []eviction.Policy{eviction.LRU{}, eviction.NewCost()}[h.n(2)]
	var ev migration.Eviction
	if !h.p.Evict(&ev, plan, short, 1, false, policy, h) {
		return false
	}
	early := make([][]mem.Point, len(ev.Victims))
	for i, v := range ev.Victims {
		early[i] = h.p.Points(nil, v.Buffer, v.Memory)
	}
	for _, w := range ev.Backs.Storage {
		b := h.byID(w.Buffer)
		block, until := h.frame(b, w.Memory)
		if len(until) > 0 {
			h.fail("a write-back goes to a frame in use")
		}
		if err := h.p.Stored(w.Buffer, w.Memory, mem.Plain); err != nil {
			h.fail("stored: %v", err)
		}
		b.blocks[w.Memory] = block
	}
	done := map[mem.BufferID][]mem.Range{}
	points := make([]mem.Point, len(ev.Backs.Steps))
	for i := range ev.Backs.Steps {
		st := &ev.Backs.Steps[i]
		if h.planner.evict.trusting && st.Reason.Fresh != mem.SetOf(st.From) {
			continue
		}
		command := h.o.WrittenBack(st.Buffer, st.Range, st.From, st.To)
		h.bound += st.Bytes()
		points[i] = h.submitStep(&ev.Backs, i, points, command)
		done[st.Buffer] = append(done[st.Buffer], st.Range)
	}
	for i := range ev.Victims {
		v := &ev.Victims[i]
		h.certain(v, done[v.Buffer])
		until := h.p.Points(nil, v.Buffer, v.Memory)
		if h.hang(until) {
			h.fail("%d leaves memory %d, and what uses it hangs on a user event", v.Buffer, v.Memory)
			return false
		}
		h.usersKnown(h.byID(v.Buffer).blocks[v.Memory], until)
		if h.planner.evict.early {
			until = early[i]
		}
		h.p.Evicted(v)
		if lost := h.o.Evicted(v.Buffer, v.Memory, v.Range); lost > 0 {
			h.fail("%d bytes of %d leave memory %d and are nowhere else", lost, v.Buffer, v.Memory)
		}
		h.note("evicted %d from %d, free after %v", v.Buffer, v.Memory, until)
		b := h.byID(v.Buffer)
		h.vacate(b, v.Memory, until)
		delete(b.blocks, v.Memory)
		if h.frames.evicted != nil {
			*h.frames.evicted++
		}
	}
	return true
}

// certain checks that what a victim has was written back, or is in another memory's
// block by now (C10).
func (h *history) certain(v *migration.Victim, back []mem.Range) {
	b := h.byID(v.Buffer)
	for off := range b.size {
		version, valid, _ := h.o.Byte(b.id, off)
		if !valid.Has(v.Memory) || slices.ContainsFunc(back, func(r mem.Range) bool { return r.Contains(mem.Range{Start: off, End: off + 1}) }) {
			continue
		}
		// What is still on its way from the host, which holds it, is not there to be lost.
		there := valid.Has(mem.Host) && b.blocks[v.Memory].bytes[off] != version
		for m := range valid.All() {
			there = there || m != v.Memory && (b.blocks[m].bytes[off] == version || h.written(b, m, off) || h.copied(b, m, v.Memory, off) || h.copied(b, v.Memory, m, off))
		}
		if !there {
			h.fail("byte %d of %d leaves memory %d, and %v only promise version %d of it", off, b.id, v.Memory, valid, version)
		}
	}
}

// written reports whether a command is still to write a byte on a memory, so that all others
// have its content from there, or will; perhaps it has failed, and nobody was told.
func (h *history) written(b *buffer, m mem.MemoryID, off uint64) bool {
	at := mem.Range{Start: off, End: off + 1}
	for _, t := range slices.Backward(slices.Concat(h.faulty, h.tasks)) {
		if clash(t.writes, []span{{b.blocks[m], at, nil}}) {
			return !t.step
		}
	}
	return false
}

// copied reports whether the copy of a byte on one memory is still to come from another's
// block: it is no better than that, and once it is made that may go.
func (h *history) copied(b *buffer, from, m mem.MemoryID, off uint64) bool {
	at := mem.Range{Start: off, End: off + 1}
	for _, t := range slices.Backward(slices.Concat(h.faulty, h.tasks)) { // or has failed, and nobody was told
		if clash(t.writes, []span{{b.blocks[m], at, nil}}) {
			return t.step && t.reads[0].b == b.blocks[from]
		}
	}
	return false
}

// Fits implements migration.Room.
func (h *history) Fits(m mem.MemoryID, victims []migration.Victim) bool {
	n := h.free(m, false) + len(victims)
	for _, w := range h.frames.plan.Storage {
		if w.Memory == m {
			n--
		}
	}
	return n >= 0
}

// Takes implements migration.Room.
func (h *history) Takes(m mem.MemoryID, wants []migration.Want, _ migration.Want) bool {
	if m == mem.Host {
		return true
	}
	n := h.free(m, true) - 1
	for _, w := range slices.Concat(h.frames.plan.Storage, wants) {
		if w.Memory == m {
			n--
		}
	}
	return n >= 0
}

// Stays implements migration.Room: a map for reading is not the planner's to know.
func (h *history) Stays(mem.BufferID, mem.MemoryID) eviction.Why { return eviction.Goes }

// Hangs implements migration.Room.
func (h *history) Hangs(p mem.Point) eviction.Why {
	if !h.planner.evict.blind && h.hang([]mem.Point{p}) {
		return eviction.Hangs
	}
	return eviction.Goes
}

func TestHistoriesOnDevicesThatHoldFewBlocks(t *testing.T) {
	evicted := 0
	for seed := range uint64(many(60)) {
		mustLive(t, seed, 7, options{faults: seed%3 > 0, evict: true, gated: seed%2 == 1, maps: seed%4 == 1, counted: seed%5 == 2, steps: 200, evicted: &evicted})
	}
	require.Greater(t, evicted, 200)
	agreesWithTheOracle(t, options{faults: true, evict: true, gated: true, steps: 80})
}

func TestMutantsThatEvictBadlyAreCaught(t *testing.T) {
	for name, c := range map[string]struct {
		m    evictMutant
		want string
	}{
		"frees before the write-back's point":  {evictMutant{early: true}, "one writes what the other uses|reads version|a block may be freed"},
		"forgets the points of the last users": {evictMutant{forgetful: true}, "one writes what the other uses|reads version|a block may be freed"},
		"drops a promise":                      {evictMutant{trusting: true}, "only promise version"},
		"evicts under a user event":            {evictMutant{blind: true}, "hangs on a user event"},
	} {
		t.Run(name, func(t *testing.T) {
			err := caughtIn(t, 8, options{faults: true, evict: true, gated: c.m.blind, planner: variant{evict: c.m}})
			require.Regexp(t, c.want, err.Error())
		})
	}
}
