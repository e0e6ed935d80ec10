package runtime

import (
	"godwit/devices"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/migration"
)

// tellsEnds reports whether the sink is told of all ends.
func (c *Context) tellsEnds() bool { return c.ends == trace.AllEnds }

// traceCommand tells the sink of a command that was planned, and arranges for it
// to be told of the ends. c.mu is held.
func (c *Context) traceCommand(req *request, l *Launch, called int64, v mem.Version, p mem.Point, err error) {
	s, plan := &c.scratch, &c.scratch.plan
	r := &c.record
	*r = trace.CommandRecord{
		ID: c.commandSeq, Queue: req.q.name, Memory: req.q.mem, Op: req.op.String(), Label: req.label, Context: req.ctx,
		Accesses: s.accs, Stored: r.Stored[:0], Blocks: r.Blocks[:0], Steps: r.Steps[:0], Waits: s.waits,
		Point: p, Version: v, Enqueued: called, Err: err,
		Clock: c.planner.Clock(), Evictions: c.evicting.records, Regrows: c.evicting.regrows, Again: err != nil && (c.waits(err) || asks(err)),
	}
	if c.tellsEnds() {
		r.Done = c.Now()
	}
	if req.op == opLaunch {
		r.Kernel = l.Kernel.name
	}
	for _, k := range s.spans {
		r.Stored = append(r.Stored, trace.StoredRecord{Buffer: k.Buffer, Memory: k.Memory, Range: k.Range})
	}
	for _, w := range s.wants {
		r.Blocks = append(r.Blocks, trace.BlockRecord{Buffer: w.Buffer, Memory: w.Memory, Bytes: w.block.Size, Range: w.Range})
	}
	for i := range plan.Steps {
		step := c.stepRecord(&plan.Steps[i])
		if i < len(s.points) {
			step.Point = s.points[i]
		}
		r.Steps = append(r.Steps, step)
	}
	c.hooks.call(&c.hooks.failed, func() { c.hooks.sink.Command(r) })
	back := -2
	for i := range r.Evictions {
		for k := range r.Evictions[i].Backs {
			b := &r.Evictions[i].Backs[k]
			if c.tellsEnds() {
				c.watch(watcher{times: c.mover, step: back, moved: b.Range}, b.Point)
			}
			back--
		}
	}
	c.evicting.regrows = c.evicting.regrows[:0]
	if len(c.evicting.records) > 0 {
		clear(c.evicting.records)
		c.evicting.records = c.evicting.records[:0]
	}
	for i, sp := range s.points {
		if !sp.IsZero() && (c.tellsEnds() || c.ends == trace.LateEnds && s.lates[i] != nil) {
			c.watch(watcher{times: c.mover, step: i, moved: plan.Steps[i].Range, late: s.lates[i]}, sp)
		}
	}
	if err == nil && !p.IsZero() && c.tellsEnds() {
		c.watch(watcher{times: req.q.dev, step: -1}, p)
	}
}

// stepRecord is a step as the trace has it. c.mu is held.
func (c *Context) stepRecord(st *migration.Step) trace.StepRecord {
	step := trace.StepRecord{
		Buffer: st.Buffer, Range: st.Range, From: st.From, To: st.To, Way: st.Way, RideAlong: st.RideAlong,
		Oldest: st.Reason.Oldest, Newest: st.Reason.Newest, Fresh: st.Reason.Fresh, Choice: st.Reason.Choice.String(), Why: c.planner.Explain(st),
		Waits: st.Waits, Late: st.Late != nil,
	}
	if st.Late != nil {
		step.Count, step.CountVersion = st.Late.Count, st.Late.Version
	}
	return step
}

// traceRefused tells the sink of a command that was refused, or waits for room, after blocks were
// evicted, or exchanged, for it. c.mu is held.
func (c *Context) traceRefused(req *request, in *borrowed, called int64, err error) {
	if c.opts.Trace == nil || len(c.evicting.records)+len(c.evicting.regrows) == 0 {
		return
	}
	c.scratch.points, c.scratch.waits = c.scratch.points[:0], c.scratch.waits[:0]
	c.commandSeq++
	c.traceCommand(req, in.launch, called, 0, mem.Point{}, err)
}

// watcher tells the sink of the end of one point.
type watcher struct {
	c     *Context
	times interface { // of the queue, or the mover, that gave the point; nil where nobody keeps any
		Times(p mem.Point, by devices.Clock) (devices.Times, bool)
	}
	command uint64
	step    int
	moved   mem.Range // by the step
	late    *lateCopy // says what part of that moved, where it is not nil
}

func (c *Context) watch(of watcher, p mem.Point) {
	w := &of
	w.c, w.command = c, c.commandSeq
	notify(p, w)
}

// PointReached implements mem.Waiter.
func (w *watcher) PointReached(p mem.Point, err error) {
	r := trace.CompletionRecord{Command: w.command, Step: w.step, Point: p, Err: err, Ended: w.c.Now()}
	switch {
	case err != nil:
	case w.late != nil:
		r.Moved, r.Count = w.late.part, w.late.count
	default:
		r.Moved = w.moved
	}
	if w.times != nil {
		if t, ok := w.times.Times(p, devices.AnyClock); ok && t.Started != 0 {
			r.Started = max(0, r.Ended-int64(t.Ended-t.Started))
		}
	}
	w.c.hooks.call(&w.c.hooks.late, func() { w.c.hooks.sink.Completed(&r) })
}
