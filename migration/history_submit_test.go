package migration_test

import (
	"slices"

	"godwit/internal/oracle"
	"godwit/mem"
	"godwit/migration"
)

// How a history's plans become tasks of its machine, and how the judges are
// told.

// submitSteps submits all steps of a plan, of which the oracle has said what they
// must move.
func (h *history) submitSteps(plan *migration.Plan, pre oracle.Result) []mem.Point {
	h.bound += pre.Bytes
	var moved uint64
	late := false
	points := make([]mem.Point, len(plan.Steps))
	for i := range plan.Steps {
		moved += plan.Steps[i].Bytes()
		late = late || plan.Steps[i].Late != nil
		points[i] = h.submitStep(plan, i, points, pre.Command)
	}
	if moved != pre.Bytes && !late {
		h.fail("%d bytes moved, the lower bound is %d: %+v", moved, pre.Bytes, plan.Steps)
	}
	return points
}

func (h *history) submitStep(plan *migration.Plan, i int, points []mem.Point, command int) mem.Point {
	st := plan.Steps[i]
	if h.planner.step != nil {
		h.planner.step(&st)
	}
	b := h.byID(st.Buffer)
	at := h.copies.Next()
	h.note("step %v: %d %v %d -> %d after %v, step %d", at, st.Buffer, st.Range, st.From, st.To, st.Waits, st.After)
	waits := slices.Clone(st.Waits)
	if st.After >= 0 {
		waits = append(waits, mem.Wait{Point: points[st.After], Kind: mem.Data})
	}
	reads := []span{{b.blocks[st.From], st.Range, nil}}
	if st.Late != nil && st.Late.Count != 0 {
		for _, j := range st.Late.After {
			waits = append(waits, mem.Wait{Point: points[j], Kind: mem.Data})
		}
		s := h.byID(st.Late.Count)
		reads = append(reads, span{s.blocks[mem.Host], mem.Range{End: migration.CountSize}, s.counts})
	}
	h.p.CommitStep(plan, i, at)
	h.tasks = append(h.tasks, &task{
		at: at, waits: waits,
		reads:  reads,
		writes: []span{{b.blocks[st.To], st.Range, nil}},
		step:   true,
		late:   st.Late,
		failed: func() { h.o.FailCopy(command, st.Buffer, st.Range, st.To) },
	})
	return at
}

func (h *history) submitCommand(plan *migration.Plan, points []mem.Point, res oracle.Result, expect [][]mem.Version) *task {
	t := h.task(plan, points)
	t.version, t.failed = res.Version, func() { h.o.Fail(res.Command) }
	h.gate(t)
	at := t.at
	for i, a := range plan.Accesses {
		u := span{h.byID(a.Buffer).blocks[a.Memory], a.Range, expect[i]}
		if a.Mode.Reads() {
			t.reads = append(t.reads, u)
		}
		if a.Mode.Writes() {
			t.writes = append(t.writes, u)
		}
	}
	if v := h.p.Commit(plan, at); v != res.Version {
		h.fail("version %d, the oracle says %d", v, res.Version)
	}
	h.note("%v after %v writes version %d", at, t.waits, res.Version)
	h.tasks = append(h.tasks, t)
	return t
}

// task is the command of a plan on any queue, after all that it has to wait for.
func (h *history) task(plan *migration.Plan, points []mem.Point) *task {
	t := &task{at: h.queues[h.n(len(h.queues))].Next(), waits: slices.Clone(plan.Waits)}
	for _, i := range plan.StepWaits {
		t.waits = append(t.waits, mem.Wait{Point: points[i], Kind: mem.Data})
	}
	return t
}

func (h *history) byID(id mem.BufferID) *buffer {
	for _, b := range h.buffers {
		if b.id == id {
			return b
		}
	}
	return nil
}

// tellFailures delivers about one in n of the failures that are still unknown.
func (h *history) tellFailures(n int) {
	h.faulty = slices.DeleteFunc(h.faulty, func(t *task) bool {
		if h.n(n) != 0 {
			return false
		}
		h.note("told of the failure of %v", t.at)
		t.failed()
		if !h.planner.deafToFaults {
			h.p.Fail(t.at, t.at.Err())
		}
		return true
	})
}

// compare asks Check and the oracle about everything there is.
func (h *history) compare() {
	if h.err != nil {
		return
	}
	if err := h.p.Check(); err != nil {
		h.fail("%v", err)
	}
	for _, b := range h.buffers {
		segs, err := h.p.Segments(b.id)
		if err != nil {
			h.fail("segments: %v", err)
		}
		for _, s := range segs {
			for off := s.Range.Start; off < s.Range.End; off++ {
				v, valid, lost := h.o.Byte(b.id, off)
				if v != s.Version || valid != s.Valid || lost != (s.Poison != nil) {
					h.fail("byte %d of %d: planner has version %d on %v, lost %v; oracle %d on %v, %v",
						off, b.id, s.Version, s.Valid, s.Poison != nil, v, valid, lost)
				}
			}
		}
	}
}
