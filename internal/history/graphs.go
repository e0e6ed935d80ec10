package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"godwit/mem"
	"godwit/runtime"
)

// Graphs. Where Config.Graphs is set, neighbouring operations are recorded and replayed in
// place of being enqueued: what a graph does is what its commands would do (C16), so
// model, account and verdict are those of any history. Some of their buffers are slots, some of
// their values and of what they write are changed, and some go by way of a transient: by two commands, on two queues. A graph is replayed
// again at once, and later, among commands of other operations; each time it reads into memory of its own.

// most operations of a graph, and graphs that are kept for later.
const (
	roundOps  = 12
	keptGraph = 3
)

// lentFlags say where a buffer's memory is, which a slot has no say in.
const lentFlags = runtime.UseHostPtr | runtime.AllocHostPtr | runtime.CopyHostPtr

// round is a graph and what it was recorded from.
type round struct {
	ops    []*operation
	queues []*queue
	last   []int    // by operation: its command, the last where it goes by way of a transient
	by     []*queue // by operation: where the command before brings its bytes to a transient; nil where none does
	cmds   int
	got    [][]byte // by operation: of the last replay; nil where it reads nothing
	graph  *runtime.Graph
	slots  map[int]*runtime.Buffer // by view
	values []runtime.NewValue
	memory []runtime.NewMemory // of writes that were recorded with other bytes
	reads  map[int]runtime.HostMemory
	views  []*runtime.Buffer // that the operations named
	// pointers says that it uses shared virtual memory: whose pointers may be freed before it is replayed later
	pointers bool
}

// graphed are the operations that graphs are made of.
var graphed = map[kind]bool{
	opWrite: true, opRead: true, opCopy: true, opFill: true, opMix: true, opProduce: true, opReverse: true, opMigrate: true,
	opWriteRect: true, opReadRect: true, opCopyRect: true, opMarker: true, opBarrier: true, opFail: true,
}

// rounds replays operations from number i on as a graph, where that can be, and returns how
// many; 0 is none.
func (r *replay) rounds(i int) (int, error) {
	ops := r.h.Ops
	dice := rand.New(rand.NewPCG(r.h.Seed, uint64(ops[i].ID)+1<<40))
	if len(r.graphs) > 0 && dice.IntN(3) == 0 {
		if err := r.old(r.graphs[dice.IntN(len(r.graphs))], &ops[i]); err != nil {
			return 0, err
		}
	}
	n, most := 0, 2+dice.IntN(roundOps-1)
	for n < most && i+n < len(ops) && r.recordable(&ops[i+n]) {
		n++
	}
	if n < 2 || dice.IntN(4) == 0 {
		return 0, nil
	}
	g, err := r.record(ops[i:i+n], dice)
	if err != nil {
		return 0, fmt.Errorf("recording: %w", err)
	}
	for first := true; first || dice.IntN(2) == 0; first = false {
		if err := r.replayRound(g, &ops[i]); err != nil {
			return 0, err
		}
	}
	if g.pointers {
		return n, r.closeGraph(g)
	}
	if r.graphs = append(r.graphs, g); len(r.graphs) > keptGraph {
		g, r.graphs = r.graphs[0], r.graphs[1:]
		return n, r.closeGraph(g)
	}
	return n, nil
}

// closeGraph gives a graph's memory back.
func (r *replay) closeGraph(g *round) error {
	r.faults.enter(closing)
	err := g.graph.Close()
	if r.hear(err); errors.Is(err, errFault) {
		return nil
	}
	return err
}

// recordable reports whether an operation can be one of a graph now.
func (r *replay) recordable(op *operation) bool {
	if !graphed[op.Kind] || op.Request > 0 || op.Kind == opMix && r.isSVM(r.h.Views[op.Dst].Root) { // which may be two commands
		return false
	}
	return r.untouched(op)
}

// untouched reports whether the host has mapped nothing that an operation uses.
func (r *replay) untouched(op *operation) bool {
	return !slices.ContainsFunc(r.maps, func(m *openMap) bool { return !m.gone && r.meets(m, op) && !r.leavesAlone(op) })
}

// old replays an earlier graph once more. Where one of its buffers was renewed it must be refused.
func (r *replay) old(g *round, now *operation) error {
	gone := false
	for _, op := range g.ops {
		if !r.untouched(op) {
			return nil
		}
		for view := range r.named(op) {
			gone = gone || r.views[view] != g.views[view]
		}
	}
	if !gone {
		return r.replayRound(g, now)
	}
	if len(g.slots) > 0 || len(r.maps) > 0 { // it is bound to what there is now; or what was released may be kept by a map
		return nil
	}
	if _, err := g.graph.Replay(r.call, g.queues[0].Queue, runtime.Bindings{}); !errors.Is(err, mem.ErrInvalidBuffer) {
		return fmt.Errorf("replay over a buffer that was released: got %w, want %w", err, mem.ErrInvalidBuffer)
	}
	return nil
}

// named yields the views that an operation names.
func (r *replay) named(op *operation) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		if op.Kind == opMarker || op.Kind == opBarrier || op.Kind == opFail {
			return
		}
		if !yield(op.Dst) || op.paired() && !yield(op.Src) {
			return
		}
		for _, v := range op.More {
			if !yield(v) {
				return
			}
		}
	}
}

// record makes a graph of operations.
func (r *replay) record(ops []operation, dice *rand.Rand) (g *round, err error) {
	g = &round{slots: make(map[int]*runtime.Buffer), reads: make(map[int]runtime.HostMemory), views: slices.Clone(r.views)}
	var queues []*runtime.Queue
	for i := range ops {
		q := r.queueFor(&ops[i])
		g.ops, g.queues = append(g.ops, &ops[i]), append(g.queues, q)
		if !slices.Contains(queues, q.Queue) {
			queues = append(queues, q.Queue)
		}
	}
	rec, err := r.c.Record(queues...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = rec.Discard()
		}
	}()
	r.recording = true
	defer func() { r.recording = false }()
	defer func() { copy(r.views, g.views) }()
	if err := r.drawSlots(g, rec, dice); err != nil {
		return nil, err
	}
	events := make(map[int]runtime.Event)
	for i := range ops {
		if err := r.recordOne(g, rec, &ops[i], events, dice); err != nil {
			return nil, fmt.Errorf("operation %d (%s): %w", ops[i].ID, ops[i].Kind, err)
		}
	}
	g.graph, err = rec.Finish(r.ctx)
	for _, e := range events {
		err = errors.Join(err, e.Release())
	}
	return g, errors.Join(err, r.account.arenas(r.rec.Buffers()))
}

// drawSlots has some views be slots; seldom one whose root is used by other views, too, since
// such graphs are replayed one by one.
func (r *replay) drawSlots(g *round, rec *runtime.Recording, dice *rand.Rand) (err error) {
	views := make(map[int]int) // of roots
	for _, op := range g.ops {
		for view := range r.named(op) {
			if root := r.h.Views[view].Root; views[root] == 0 || views[root] == view+1 {
				views[root] = view + 1
			} else {
				views[root] = -1
			}
		}
	}
	for _, op := range g.ops {
		for view := range r.named(op) {
			root := r.h.Views[view].Root
			if g.pointers = g.pointers || r.isSVM(root); g.slots[view] != nil || r.isSVM(root) || dice.IntN(3) > 0 || views[root] < 0 && dice.IntN(8) > 0 {
				continue
			}
			if g.slots[view], err = rec.Slot(fmt.Sprint("slot", view), g.views[view].Size(), g.views[view].View().Flags&^lentFlags); err != nil {
				return err
			}
			r.views[view] = g.slots[view]
		}
	}
	return nil
}

// recordOne records an operation.
func (r *replay) recordOne(g *round, rec *runtime.Recording, op *operation, events map[int]runtime.Event, dice *rand.Rand) error {
	var wait []runtime.Event
	for _, id := range op.Wait {
		if e, ok := events[id]; ok {
			wait = append(wait, e)
		}
	}
	got := []byte(nil)
	if op.reads() {
		got = slices.Repeat([]byte{untouched}, op.bytes())
	}
	writes := op.Kind == opWrite || op.Kind == opWriteRect
	as, changed := *op, (writes || op.Kind == opMix || op.Kind == opProduce) && dice.IntN(2) == 0
	if changed {
		as.Salt++
	}
	e, by, err := r.detour(g, rec, op, got, wait, dice)
	if by != nil {
		g.cmds++
	} else if err == nil {
		e, err = r.enqueue(r.queueFor(op), &as, got, wait)
	}
	if err != nil {
		return err
	}
	events[op.ID] = e
	g.got, g.by, g.last, g.cmds = append(g.got, got), append(g.by, by), append(g.last, g.cmds), g.cmds+1
	switch {
	case op.reads():
		g.reads[len(g.got)-1], err = rec.HostMemory(e)
		return err
	case changed && writes && by == nil:
		m, err := rec.HostMemory(e)
		g.memory = append(g.memory, runtime.NewMemory{Memory: m, Bytes: op.content()})
		return err
	case changed && !writes:
		l := r.launch(r.queueFor(op), op)
		v, err := rec.Value(e, len(l.Args)-1)
		if err != nil {
			return err
		}
		g.values = append(g.values, runtime.NewValue{Value: v, Arg: l.Args[len(l.Args)-1]})
	}
	return nil
}

// detour records an operation by way of a transient, now and then where it can be, and returns the queue, any of the
// round's, on which its bytes are brought there.
func (r *replay) detour(g *round, rec *runtime.Recording, op *operation, got []byte, wait []runtime.Event, dice *rand.Rand) (e runtime.Event, by *queue, err error) {
	simple := op.Kind == opCopy || op.Kind == opRead || (op.Kind == opWrite || op.Kind == opFill) && r.cfg.Seen == nil // which knows one writer
	if !simple || dice.IntN(3) > 0 || r.isSVM(r.h.Views[op.Dst].Root) || op.paired() && r.isSVM(r.h.Views[op.Src].Root) {
		return e, nil, nil
	}
	size := uint64(op.Size)
	t, err := rec.Transient(fmt.Sprint("by", op.ID), size)
	if err != nil {
		return e, nil, err
	}
	q, dst := r.queueFor(op), r.views[op.Dst]
	switch by = g.queues[dice.IntN(len(g.queues))]; op.Kind {
	case opWrite:
		e, err = by.EnqueueWrite(r.call, t, 0, op.content(), wait...)
	case opFill:
		e, err = by.EnqueueFill(r.call, t, op.fill(), 0, size, wait...)
	case opCopy:
		e, err = by.EnqueueCopy(r.call, r.views[op.Src], t, uint64(op.SrcOff), 0, size, wait...)
	case opRead:
		e, err = by.EnqueueCopy(r.call, dst, t, uint64(op.DstOff), 0, size, wait...)
	}
	if err == nil {
		err = e.Release()
	}
	if err != nil {
		return e, nil, err
	}
	if op.Kind == opRead {
		e, err = q.EnqueueRead(r.call, t, 0, got, wait...)
	} else {
		e, err = q.EnqueueCopy(r.call, t, dst, 0, uint64(op.DstOff), size, wait...)
	}
	return e, by, err
}

// replayRound replays a graph; now is the operation whose turn it is.
func (r *replay) replayRound(g *round, now *operation) error {
	defer r.hurry()()
	r.faults.begin(now.ID, len(r.log)+len(g.ops), r.epoch)
	in := runtime.Bindings{Values: g.values, Memory: slices.Clone(g.memory), Events: make([]runtime.Event, g.cmds)}
	for view, s := range g.slots {
		in.Slots = append(in.Slots, runtime.Binding{Slot: s, Buffer: r.views[view]})
	}
	slices.SortFunc(in.Slots, func(a, b runtime.Binding) int {
		return int(a.Buffer.View().Range.Start) - int(b.Buffer.View().Range.Start)
	})
	for i, op := range g.ops {
		if m, ok := g.reads[i]; ok {
			g.got[i] = slices.Repeat([]byte{untouched}, op.bytes())
			in.Memory = append(in.Memory, runtime.NewMemory{Memory: m, Bytes: g.got[i]})
		}
	}
	var outside []runtime.Event
	for _, op := range g.ops {
		for _, id := range op.Wait {
			inside := slices.ContainsFunc(g.ops, func(o *operation) bool { return o.ID == id })
			if e, ok := r.events[id]; ok && !inside && !slices.Contains(outside, e) {
				outside = append(outside, e)
			}
		}
	}
	before := g.graph.Figures()
	e, err := g.graph.Replay(r.call, g.queues[0].Queue, in, outside...)
	if err := r.account.arenas(r.rec.Buffers()); err != nil {
		return err
	}
	accepted := g.cmds
	var part *runtime.ReplayError
	switch {
	case err == nil:
		name := "replay, prepared"
		if now := g.graph.Figures(); now.Plain != before.Plain {
			name = "replay, plain"
		} else if now.Copies > 0 {
			name = "replay, prepared with copies"
		}
		if _, err := r.took(name, e, nil); err != nil {
			return err
		}
	case errors.As(err, &part):
		accepted = part.Accepted
	default:
		accepted = 0
	}
	done := 0 // operations
	for i := range g.ops {
		if err := r.tookOne(g, i, accepted, in.Events, outside); err != nil {
			return err
		}
		if g.last[i] < accepted {
			done++
		}
	}
	if err := r.endRound(g, done, in.Events, part, err); err != nil {
		return err
	}
	return r.after()
}

// endRound settles an error of a replay.
func (r *replay) endRound(g *round, accepted int, events []runtime.Event, part *runtime.ReplayError, err error) error {
	if err == nil {
		return nil
	}
	if accepted == len(g.ops) { // the marker was struck
		r.hear(err)
		if !errors.Is(err, errFault) {
			return err
		}
		return nil
	}
	logged := len(r.log)
	if _, err := r.turnedDown(g.ops[accepted], err); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if len(r.log) > logged && part == nil {
		r.log[logged].round = g.ops
	}
	if len(r.log) > logged {
		r.log[logged].first = g.firstOf(accepted, events)
	}
	return nil
}

// firstOf is the event of the command that brings bytes to a transient for operation i; zero where there is none.
func (g *round) firstOf(i int, events []runtime.Event) runtime.Event {
	if g.by[i] == nil {
		return runtime.Event{}
	}
	return events[g.last[i]-1]
}

// tookOne logs what was accepted of operation i of a replay: one by way of a transient reads on the way there, and writes
// on the way from it.
func (r *replay) tookOne(g *round, i, accepted int, events, outside []runtime.Event) error {
	op, q := g.ops[i], g.queues[i]
	name, uses := string(op.Kind)+" in a graph", r.uses(q, op)
	if by := g.by[i]; by != nil && g.last[i]-1 < accepted {
		reads := slices.DeleteFunc(r.uses(by, op), func(a mem.Access) bool { return a.Mode.Writes() })
		if _, err := r.took("to a transient", events[g.last[i]-1], nil, reads...); err != nil {
			return err
		}
		name, uses = string(op.Kind)+" by way of a transient", slices.DeleteFunc(uses, func(a mem.Access) bool { return a.Mode.Reads() })
	}
	if g.last[i] >= accepted {
		return nil
	}
	e, err := r.took(name, events[g.last[i]], nil, uses...)
	if err != nil {
		return err
	}
	wait := slices.Clone(outside)
	for k, o := range g.ops[:i] {
		if slices.Contains(op.Wait, o.ID) {
			wait = append(wait, events[g.last[k]])
		}
	}
	return r.accepted(entry{op: op, event: e, got: g.got[i], waits: wait, around: r.around(op), first: g.firstOf(i, events)})
}
