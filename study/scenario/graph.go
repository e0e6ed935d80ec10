package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"godwit/internal/flat"
	"godwit/mem"
	"godwit/runtime"
)

// Graphs of a run (load_graph.go). The first time that a graph's round comes it is
// recorded; each round is a replay. Host memory of a recording's reads and writes is used by each replay. So a replay comes
// only when the reads of the one before have ended, and have been taken out; and the writes, where they write something else.

// graphRun is a graph of a run.
type graphRun struct {
	decl       *graphDecl
	graph      *runtime.Graph // nil before its first round
	queue      *runtime.Queue // of the markers: none of the commands' own waits for a round
	slots      []slotRun
	values     []valueRun
	host       [][]byte                // by command of a round: host memory of its own; nil where what the first has will do
	events     []runtime.Event         // by command of a round: of the last
	last       int                     // the command with which the last round began; -1 is none
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

// replay carries out the round that begins with command i.
func (r *runner) replay(ctx context.Context, i int) error {
	g, err := r.recordedGraph(ctx, i)
	if err == nil {
		err = r.turn(ctx, g, i)
	}
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
	clear(g.events)
	plain, began := g.graph.Figures().Plain, r.ctx.Now()
	e, err := g.graph.Replay(ctx, g.queue, in)
	g.took = append(g.took, r.ctx.Now()-began)
	g.plain[i] = g.graph.Figures().Plain > plain
	r.events = append(r.events, g.events...)
	g.last = i
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

// turn readies a graph's host memory for the round that begins with command next, or for none where that is negative.
func (r *runner) turn(ctx context.Context, g *graphRun, next int) error {
	for k, own := range g.host {
		if own == nil {
			continue
		}
		reads := r.s.Commands[g.decl.Rounds[0]+k].Kind == opRead
		if g.last >= 0 {
			if err := r.waitCommand(ctx, g.last+k); err != nil {
				return err
			}
			if reads && !r.stamps() {
				copy(r.reads[g.last+k], own)
			}
		}
		if !reads && next >= 0 && !r.stamps() {
			copy(own, r.data[next+k])
		}
	}
	return nil
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
	*g = graphRun{decl: &r.s.Graphs[k], last: -1, plain: make(map[int]bool)}
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
func (r *runner) beginRecording(g *graphRun, i int) (*runtime.Recording, error) {
	err := r.ownHostMemory(g, i)
	if err == nil {
		g.queue, err = r.ctx.NewQueue(r.devs["host"], runtime.QueueOptions{Name: fmt.Sprintf("graph of line %d", g.decl.Line), OutOfOrder: true})
	}
	if err != nil {
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
		own := g.host[k]
		data, reads := r.data[i+k], r.reads[i+k]
		if own != nil && reads != nil {
			r.reads[i+k] = own
		} else if own != nil {
			r.data[i+k] = own
		}
		e, err := r.enqueue(ctx, i+k)
		r.data[i+k], r.reads[i+k] = data, reads
		if err != nil {
			return err
		}
		r.events = append(r.events, e)
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

// ownHostMemory gives the reads of a graph, and the writes that do not write the same in each round, memory of their own.
func (r *runner) ownHostMemory(g *graphRun, i int) (err error) {
	g.host = make([][]byte, g.decl.Size)
	for k := range g.host {
		c := &r.s.Commands[i+k]
		switch {
		case c.Kind == opRead && r.stamps():
			g.host[k] = r.reads[i+k]
		case c.Kind == opRead:
			if g.host[k], err = r.room(c.hostBytes()); err == nil {
				flat.Repeat(g.host[k], []byte{gapByte})
			}
		case c.Kind == opWrite && r.contentVaries(g.decl, k):
			g.host[k], err = r.room(c.hostBytes())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// contentVaries reports whether the write that is command k of a round writes something else in some round.
func (r *runner) contentVaries(g *graphDecl, k int) bool {
	first := g.Rounds[0] + k
	for _, start := range g.Rounds {
		if at := start + k; at < len(r.data) && (r.s.Commands[at].Data.what != r.s.Commands[first].Data.what || !r.stamps() && !bytes.Equal(r.data[at], r.data[first])) {
			return true
		}
	}
	return false
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

// takeReads takes out what the last rounds have read, once all has ended.
func (r *runner) takeReads(ctx context.Context) (err error) {
	for k := range r.graphs {
		if g := &r.graphs[k]; g.graph != nil && err == nil {
			err = r.turn(ctx, g, -1)
		}
	}
	return err
}
