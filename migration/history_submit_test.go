package migration_test

import (
	"slices"

	"godwit/mem"
	"godwit/migration"
	"godwit/migration/oracle"
)

// How a history's plans become tasks of its machine, and how the judges are
// told.

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

func (h *history) submitCommand(plan *migration.Plan, points []mem.Point, res oracle.Result, expect [][]mem.Version) {
	q := h.queues[h.n(len(h.queues))]
	at := q.Next()
	t := &task{at: at, waits: slices.Clone(plan.Waits), version: res.Version, failed: func() { h.o.Fail(res.Command) }}
	for _, i := range plan.StepWaits {
		t.waits = append(t.waits, mem.Wait{Point: points[i], Kind: mem.Data})
	}
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
