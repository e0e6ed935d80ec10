package scenario

import (
	"context"

	"godwit/internal/ledger"
	"godwit/mem/trace"
)

// lowerBound is how many bytes had to move for the scenario's commands, as the
// runtime recorded what they access. It is what holds at enqueue: a ledger of its own
// hears of no failure.
func (r *runner) lowerBound(ctx context.Context, h *hosted) (total uint64, err error) {
	l := r.newLedger()
	counted := func(s *trace.StepRecord) (uint64, bool) { return r.rec.ended(s.Point).Count, true }
	for n, i := range r.order() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		rec := r.recorded(i)
		if rec == nil {
			continue
		}
		r.forget(l, r.s.roundOf(i, false))
		h.command(l, r.s.Commands[i].Kind, rec.Accesses)
		total += l.Needed(&trace.CommandRecord{Accesses: rec.Accesses, Steps: rec.Steps}, counted)
		for _, s := range r.brought(i, rec) {
			n, known := counted(&s)
			l.Brought(&s, n, known)
		}
		l.Wrote(i+1, rec.Accesses, false)
		r.mapped(l, i)
		r.forget(l, r.s.roundOf(i, true))
		r.progress("lower bound", n+1, len(r.events))
	}
	return total, nil
}

// brought is what has been brought for command i: of a replay all that it reads, since a step may be for several commands.
func (r *runner) brought(i int, rec *record) (steps []trace.StepRecord) {
	if !r.prepared(i) {
		return rec.Steps
	}
	for _, a := range rec.Accesses {
		if a.Mode.Reads() {
			steps = append(steps, trace.StepRecord{Buffer: a.Buffer, To: a.Memory, Range: a.Range})
		}
	}
	return steps
}

// newLedger is a ledger with the run's buffers as they were created.
func (r *runner) newLedger() *ledger.Ledger[int] {
	l := ledger.New[int](r.ctx.Topology().Store)
	for i, b := range r.s.Buffers {
		if r.ids[i] == 0 {
			continue // never allocated
		}
		by := 0
		if b.Data != nil {
			by = initial
		}
		l.Create(r.ids[i], b.Size, by)
	}
	for i, b := range r.s.Buffers {
		if b.SizeBuffer > 0 {
			l.CountBy(r.ids[i], r.ids[b.SizeBuffer-1])
		}
	}
	return l
}

// mapped tells a ledger what command i maps for writing, or unmaps.
func (r *runner) mapped(l *ledger.Ledger[int], i int) {
	c := &r.s.Commands[i]
	if c.Kind != opMap && c.Kind != opUnmap || !r.s.Mappings[c.Mapping].writes {
		return
	}
	p := r.s.Mappings[c.Mapping].Place
	if c.Kind == opMap {
		l.Mapped(r.ids[p.Buffer], p.Range)
	} else {
		l.Unmapped(r.ids[p.Buffer], p.Range)
	}
}
