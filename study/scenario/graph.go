package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"godwit/mem"
	"godwit/runtime"
)

// Graphs of a run (load_graph.go). The first time that a graph's round comes it is
// recorded; each round is a replay, with the host memory of its own commands.

// graphRun is a graph of a run.
type graphRun struct {
	decl       *graphDecl
	graph      *runtime.Graph // nil before its first round
	queue      *runtime.Queue // of the markers: none of the commands' own waits for a round
	slots      []slotRun
	values     []valueRun
	memory     []memoryRun
	events     []runtime.Event         // by command of a round: of the last
	plain      map[int]bool            // rounds, by their first command, that took the plain route
	took       []int64                 // by round: nanoseconds of the call that replayed it
	arenas     map[int]placed          // by index into Buffers: of transients
	transients map[int]*runtime.Buffer // likewise
}

// slotRun is an object of the first round in whose place others have others.
type slotRun struct {
	slot *runtime.Buffer
	of   handle
}

// valueRun is an argument by value that is another in some round.
type valueRun struct {
	value        runtime.Value
	command, arg int // of the round
}

// memoryRun is the host memory of a write or read.
type memoryRun struct {
	memory  runtime.HostMemory
	command int // of the round
}

// replay carries out the round that begins with command i.
func (r *runner) replay(ctx context.Context, i int) error {
	g, err := r.recordedGraph(ctx, i)
	if err != nil {
		return err
	}
	in := runtime.Bindings{Events: g.events}
	for _, s := range g.slots {
		in.Slots = append(in.Slots, runtime.Binding{Slot: s.slot, Buffer: r.bufferOf(g.decl.standing(s.of, i))})
	}
	for _, v := range g.values {
		in.Values = append(in.Values, runtime.NewValue{Value: v.value, Arg: runtime.Bytes(r.s.Commands[i+v.command].Args[v.arg].Value)})
	}
	for _, m := range g.memory {
		in.Memory = append(in.Memory, runtime.NewMemory{Memory: m.memory, Bytes: r.hostMemory(i + m.command)})
	}
	clear(g.events)
	plain, began := g.graph.Figures().Plain, r.ctx.Now()
	e, err := g.graph.Replay(ctx, g.queue, in)
	g.took = append(g.took, r.ctx.Now()-began)
	g.plain[i] = g.graph.Figures().Plain > plain
	r.events = append(r.events, g.events...)
	if err != nil {
		at := i
		if part := (*runtime.ReplayError)(nil); errors.As(err, &part) {
			at = min(i+part.Accepted, i+g.decl.Size-1)
		}
		c := &r.s.Commands[at]
		return r.s.blame(c.Line, fmt.Sprintf("#%d %s", at+1, r.s.text(c)), err)
	}
	for k, e := range g.events {
		if err := r.listen(i+k, e); err != nil {
			return err
		}
		r.progress("enqueued", i+k+1, len(r.s.Commands))
	}
	return e.Release()
}

// recordedGraph is the graph of command i, which begins a round: the first time it is recorded.
func (r *runner) recordedGraph(ctx context.Context, i int) (*graphRun, error) {
	k := r.s.Commands[i].Graph - 1
	if r.graphs == nil {
		r.graphs = make([]graphRun, len(r.s.Graphs))
	}
	g := &r.graphs[k]
	if g.graph != nil {
		return g, nil
	}
	*g = graphRun{decl: &r.s.Graphs[k], plain: make(map[int]bool)}
	if line, what, err := r.record(ctx, g, i); err != nil {
		return nil, r.s.blame(line, what, err)
	}
	return g, nil
}

// record records the round that begins with command i, the first. Where it fails it says in which line, and at what.
func (r *runner) record(ctx context.Context, g *graphRun, i int) (line int, what string, err error) {
	line, what = g.decl.Line, "repeat: graph"
	rec, err := r.beginRecording(g, i)
	if err != nil {
		return line, what, err
	}
	if err = r.standIn(rec, g); err == nil {
		if err = r.recordCommands(ctx, rec, g, i); err != nil {
			c := &r.s.Commands[len(r.events)]
			line, what = c.Line, fmt.Sprintf("#%d %s", len(r.events)+1, r.s.text(c))
		}
	}
	r.standIns = nil
	for _, e := range r.events[i:] {
		err = errors.Join(err, e.Release())
	}
	if r.events = r.events[:i]; err != nil {
		return line, what, errors.Join(err, rec.Discard())
	}
	g.events = make([]runtime.Event, g.decl.Size)
	if g.graph, err = rec.Finish(ctx); err == nil {
		r.locate(g)
	}
	return line, what, err
}

// beginRecording has the queues of a round record.
func (r *runner) beginRecording(g *graphRun, i int) (_ *runtime.Recording, err error) {
	if g.queue, err = r.ctx.NewQueue(r.devs["host"], runtime.QueueOptions{Name: fmt.Sprintf("graph of line %d", g.decl.Line), OutOfOrder: true}); err != nil {
		return nil, err
	}
	var queues []*runtime.Queue
	for k := range g.decl.Size {
		if q := r.queues[r.s.Commands[i+k].Queue]; !slices.Contains(queues, q) {
			queues = append(queues, q)
		}
	}
	return r.ctx.Record(queues...)
}

// locate notes where the transients lie.
func (r *runner) locate(g *graphRun) {
	g.arenas = make(map[int]placed)
	for b, t := range g.transients {
		if in, off, used := g.graph.Placed(t); used {
			g.arenas[b] = placed{in, mem.Range{Start: off, End: off + t.Size()}, r.ids[b]}
		}
	}
}

// recordCommands enqueues the commands of a round while their queues record.
func (r *runner) recordCommands(ctx context.Context, rec *runtime.Recording, g *graphRun, i int) error {
	for k := range g.decl.Size {
		e, err := r.enqueue(ctx, i+k)
		if err != nil {
			return err
		}
		r.events = append(r.events, e)
		if r.hostMemory(i+k) != nil {
			m, err := rec.HostMemory(e)
			if err != nil {
				return err
			}
			g.memory = append(g.memory, memoryRun{m, k})
		}
		for n := range r.s.Commands[i+k].Args {
			if !r.s.valueVaries(g.decl, k, n) {
				continue
			}
			v, err := rec.Value(e, n)
			if err != nil {
				return err
			}
			g.values = append(g.values, valueRun{v, k, n})
		}
	}
	return nil
}

// valueVaries reports whether argument n of command k of a round is by value, and another in some round.
func (s *Scenario) valueVaries(g *graphDecl, k, n int) bool {
	first := &s.Commands[g.Rounds[0]+k].Args[n]
	for _, start := range g.Rounds {
		if start+k < len(s.Commands) && !bytes.Equal(s.Commands[start+k].Args[n].Value, first.Value) {
			return true
		}
	}
	return false
}

// hostMemory is the memory of a write or read; else nil.
func (r *runner) hostMemory(i int) []byte {
	switch r.s.Commands[i].Kind {
	case opWrite:
		return r.data[i]
	case opRead:
		return r.reads[i]
	}
	return nil
}

// standIn has slots and transients stand for what the commands of the first round name.
func (r *runner) standIn(rec *runtime.Recording, g *graphRun) error {
	r.standIns = make(map[handle]*runtime.Buffer)
	varying := g.decl.varying()
	g.transients = make(map[int]*runtime.Buffer)
	for _, b := range g.decl.Transients {
		t, err := rec.Transient(r.s.Buffers[b].Name, r.s.Buffers[b].Size)
		if err != nil {
			return err
		}
		g.transients[b] = t
	}
	for k := range g.decl.Size {
		for _, p := range r.s.Commands[g.decl.Rounds[0]+k].places() {
			o := p.handle()
			if r.standIns[o] != nil {
				continue
			}
			b, err := g.transients[o.buffer], error(nil)
			switch {
			case b != nil && o.view >= 0:
				v := &r.s.Views[o.view]
				b, err = b.Sub(v.Range.Start, v.Range.Size(), v.Flags)
			case b == nil && varying[o]:
				b, err = rec.Slot(p.Name, r.s.objectSize(o), r.s.access(*p)&(accessFlags|hostAccessFlags))
				g.slots = append(g.slots, slotRun{b, o})
			}
			if err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
			r.standIns[o] = b
		}
	}
	return nil
}

// standing is the object that the round that begins with command i has where the first has o.
func (g *graphDecl) standing(o handle, i int) handle {
	n, _ := slices.BinarySearch(g.Rounds, i)
	if now, other := g.slots[n][o]; other {
		return now
	}
	return o
}

// bufferOf is the runtime's buffer of an object.
func (r *runner) bufferOf(o handle) *runtime.Buffer {
	if o.view >= 0 {
		return r.views[o.view]
	}
	return r.buffers[o.buffer]
}
