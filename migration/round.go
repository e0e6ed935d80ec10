package migration

import (
	"cmp"
	"fmt"
	"slices"

	"godwit/mem"
)

// A round is a list of commands that is carried out again and again (docs/design/graphs.md).
// What a round writes has holders that follow from the round alone, so the copies of it are
// planned once. What a round reads before it writes it depends on what was there before: that
// is its entry, which is planned each time.
//
// The round is planned by a planner of its own, over buffers that all its memories hold at
// first, so that nothing but what the round writes has to be copied. Two passes: the first
// tells which memories read what a command writes, in this round or the next, the second plans copies to all of them at
// once, right behind the command.

// Round is a list of commands, planned. It is immutable. Its buffers have numbers, which stand
// in the place of a BufferID's index, and what ends has nodes: first the commands, then the copies.
type Round struct {
	Ops    []RoundOp
	Entry  []mem.Access // reads of bytes that the round has not written by then; of one buffer and memory disjoint and ascending
	Spans  []Span       // what the copies of the round need in one block at either end
	Last   []int        // the commands, ascending, whose failure no other command or copy of the round would be told of
	Ends   []int        // of Last, one of each run
	Bytes  uint64       // that the copies move
	Copies int
	// Joined has for each command the run that it is the first of, nil where it is another's; Alone for each a run of its own.
	Joined, Alone []*Run
	Runs          int // of Joined

	commands  int
	at        []int32      // by command: its place in Ops
	accessing uint64       // of the commands, those with accesses
	touches   []mem.Access // of bytes that nobody in the round has written by then: they wait for who used them before it
	used      []mem.Access // all that is accessed, each once
	writes    []bool       // by command: it gives out a version
	left      []left
	written   []written
}

// RoundBuffer is a buffer of a round. The content of a transient one ends with the round; a slot may be another buffer
// in the next.
type RoundBuffer struct {
	Size            uint64
	Transient, Slot bool
}

// RoundCommand is a command of a round: its queue, and its accesses, in which a Buffer is a number.
// Before it, the bytes of Undefined have no content, whoever wrote there.
type RoundCommand struct {
	Queue     int
	Accesses  []mem.Access
	Undefined []mem.Access
	After     []int // earlier commands that it waits for, and fails with
	Joins     bool  // it may be one of a run
}

// RoundOp is a command of a round, whose plan has its accesses and no steps; or, where Command
// is -1, copies ahead of their use, whose plan has them as steps, and as accesses what is brought.
type RoundOp struct {
	Command int
	Node    int // of the command, or of the first copy
	own     needs
	each    []needs // of each copy
	plan    Plan
}

// needs is what is waited for: nodes of the round, and who was before it.
type needs struct {
	nodes   []dep
	touches []int32
}

type dep struct {
	node int32
	kind mem.WaitKind
}

// left is who used some bytes of a store last when the round has ended.
type left struct {
	buffer  uint32
	memory  mem.MemoryID
	r       mem.Range
	writer  int32 // a node; -1 is who it was before the round
	step    bool
	from    origin
	readers []int32 // nodes, oldest first
}

// written is what the round has written of a buffer when it has ended.
type written struct {
	buffer  uint32
	r       mem.Range
	command int
	valid   mem.MemorySet
	gone    bool // it is of no worth once the round has ended
}

// rounds is what PlanRound needs on the way.
type rounds struct {
	p       *Planner
	lines   []*mem.Timeline // of the queues
	copying *mem.Timeline
	first   mem.Version         // the last version that no command wrote
	writers map[mem.Version]int // the command that wrote it
	nodes   map[mem.Point]int32
	touched map[mem.Access]int32 // where they are in Round.touches
	seen    map[mem.Access]bool  // in Round.used
	waited  []bool               // by node: a failure is told to some command
	copied  [][]dep              // by copy: who it waits for
	plan    Plan
}

// PlanRound plans a list of commands for queues, of which inOrder says whether each is. The
// buffers of the accesses are indices of buffers. It fails like Planner.Plan.
func PlanRound(topo *mem.Topology, buffers []RoundBuffer, inOrder []bool, commands []RoundCommand) (*Round, error) {
	accs := make([][]mem.Access, len(commands))
	var used mem.MemorySet
	for i, c := range commands {
		accs[i] = slices.Clone(c.Accesses)
		for k := range accs[i] {
			a := &accs[i][k]
			if int(a.Memory) >= topo.Len() || uint64(a.Buffer) >= uint64(len(buffers)) {
				return nil, fmt.Errorf("command %d of a round: buffer %d on memory %d: %w", i, a.Buffer, a.Memory, mem.ErrInvalidValue)
			}
			a.Buffer |= 1 << 32 // its first life
			used = used.With(topo.Store(a.Memory))
		}
	}
	r := &Round{commands: len(commands), writes: make([]bool, len(commands))}
	ahead := make([][]mem.Access, len(commands))
	w, err := newRounds(topo, buffers, used, inOrder, len(commands))
	for i := 0; i < len(accs) && err == nil; i++ {
		w.undefine(commands[i].Undefined)
		err = w.look(r, ahead, accs[i], i, commands[i].Queue)
	}
	if err != nil {
		return nil, err
	}
	r.Entry = merged(r.Entry)
	w.goOn(r, ahead, buffers)
	if w, err = newRounds(topo, buffers, used, inOrder, len(commands)); err != nil {
		return nil, err
	}
	for i := range accs {
		w.undefine(commands[i].Undefined)
		if err := w.command(r, accs[i], i, &commands[i]); err != nil {
			return nil, err
		}
		if len(ahead[i]) > 0 {
			if err := w.copies(r, w.inTurn(merged(ahead[i]), commands[i].Accesses)); err != nil {
				return nil, err
			}
		}
	}
	for i, told := range w.waited[:len(commands)] {
		if !told {
			r.Last = append(r.Last, i)
		}
	}
	w.end(r, buffers)
	r.join(commands, inOrder)
	return r, nil
}

// Op is the operation that a command is.
func (r *Round) Op(command int) *RoundOp { return &r.Ops[r.at[command]] }

// undefine takes the content of bytes away.
func (w *rounds) undefine(accs []mem.Access) {
	for _, a := range accs {
		w.p.buffers[uint32(a.Buffer)].content.Set(a.Range, content{})
	}
}

func newRounds(topo *mem.Topology, buffers []RoundBuffer, used mem.MemorySet, inOrder []bool, commands int) (*rounds, error) {
	w := &rounds{
		p: New(topo, Options{}), copying: mem.NewTimeline("copies", false, nil), writers: make(map[mem.Version]int), nodes: make(map[mem.Point]int32),
		touched: make(map[mem.Access]int32), seen: make(map[mem.Access]bool), waited: make([]bool, commands),
	}
	for i, ordered := range inOrder {
		w.lines = append(w.lines, mem.NewTimeline(fmt.Sprint("queue", i), ordered, nil))
	}
	w.p.aligned = false // what else the memories hold is not known here
	for i, b := range buffers {
		if _, err := w.p.Create(b.Size, used); err != nil {
			return nil, fmt.Errorf("buffer %d of a round: %w", i, err)
		}
	}
	w.first = w.p.version
	return w, nil
}

// look is the first pass over a command: what it reads of before the round, and of which
// commands it reads what is elsewhere.
func (w *rounds) look(r *Round, ahead [][]mem.Access, accs []mem.Access, i, queue int) error {
	if err := w.p.Plan(&w.plan, accs); err != nil {
		return fmt.Errorf("command %d of a round: %w", i, err)
	}
	for _, a := range w.plan.Accesses {
		for at, c := range w.p.buffers[uint32(a.Buffer)].content.In(a.Range) {
			if a.Mode.Reads() && c.version <= w.first && c.version != 0 {
				r.Entry = append(r.Entry, mem.Access{Buffer: a.Buffer, Memory: a.Memory, Range: at, Mode: mem.Read})
			}
		}
	}
	for k := range w.plan.Steps {
		st := &w.plan.Steps[k]
		for at, c := range w.p.buffers[uint32(st.Buffer)].content.In(st.Range) {
			k := w.writers[c.version]
			ahead[k] = append(ahead[k], mem.Access{Buffer: st.Buffer, Memory: st.To, Range: at, Mode: mem.Read})
		}
	}
	for k := range w.plan.Steps {
		w.p.CommitStep(&w.plan, k, w.copying.Next())
	}
	w.commit(&w.plan, i, queue)
	return nil
}

// goOn ends the first pass: what the next round will read of this one elsewhere than it is left.
func (w *rounds) goOn(r *Round, ahead [][]mem.Access, buffers []RoundBuffer) {
	for _, a := range r.Entry {
		i := uint32(a.Buffer)
		if buffers[i].Transient || buffers[i].Slot {
			continue
		}
		for at, c := range w.p.buffers[i].content.In(a.Range) {
			if k, ok := w.writers[c.version]; ok && !c.valid.Has(a.Memory) {
				ahead[k] = append(ahead[k], mem.Access{Buffer: a.Buffer, Memory: a.Memory, Range: at, Mode: mem.Read})
			}
		}
	}
}

// commit commits a command's plan.
func (w *rounds) commit(plan *Plan, command, queue int) (wrote bool) {
	at := w.lines[queue].Next()
	w.nodes[at] = int32(command)
	v := w.p.Commit(plan, at)
	if v != 0 {
		w.writers[v] = command
	}
	return v != 0
}

// command is the second pass over a command: nothing has to be copied for it any more.
func (w *rounds) command(r *Round, accs []mem.Access, i int, c *RoundCommand) error {
	op := RoundOp{Command: i, Node: i}
	if err := w.p.Plan(&op.plan, accs); err != nil {
		return fmt.Errorf("command %d of a round: %w", i, err)
	}
	if len(op.plan.Steps) > 0 {
		return fmt.Errorf("command %d of a round reads %v, which were not brought: %w", i, op.plan.Steps[0].Range, mem.ErrInvalidOperation)
	}
	n := w.needs(op.plan.Waits, w.lines[c.Queue])
	for _, k := range c.After {
		n.nodes = append(n.nodes, dep{int32(k), mem.Data})
	}
	w.tells(n.nodes)
	for _, a := range op.plan.Accesses {
		w.touch(r, &n, a)
		if !w.seen[a] {
			w.seen[a] = true
			r.used = append(r.used, a)
		}
	}
	if op.own = n; len(accs) > 0 {
		r.accessing++
	}
	r.writes[i] = w.commit(&op.plan, i, c.Queue)
	r.at = append(r.at, int32(len(r.Ops)))
	r.Ops = append(r.Ops, op)
	return nil
}

// needs are the nodes of some waits of what goes to a queue, which sees to its own order.
func (w *rounds) needs(waits []mem.Wait, line *mem.Timeline) (n needs) {
	for _, x := range waits {
		if x.Kind == mem.Order && line.InOrder() && x.Point.Line == line {
			continue
		}
		n.nodes = append(n.nodes, dep{w.nodes[x.Point], x.Kind})
	}
	return n
}

// tells notes whose failure a command is told of: of who it waits for, and by copies of whom these wait for.
func (w *rounds) tells(nodes []dep) {
	for _, d := range nodes {
		if d.kind != mem.Data || w.waited[d.node] {
			continue
		}
		w.waited[d.node] = true
		if k := int(d.node) - (len(w.waited) - len(w.copied)); k >= 0 {
			w.tells(w.copied[k])
		}
	}
}

// touch notes the bytes of an access that nobody in the round has written.
func (w *rounds) touch(r *Round, n *needs, a mem.Access) {
	for at, h := range w.p.buffers[uint32(a.Buffer)].at(a.Memory).hazards.In(a.Range) {
		if !h.writer.IsZero() {
			continue
		}
		t := a
		t.Range = at
		i, ok := w.touched[t]
		if !ok {
			i = int32(len(r.touches))
			w.touched[t] = i
			r.touches = append(r.touches, t)
		}
		n.touches = append(n.touches, i)
	}
}

// inTurn has a command's copies begin with the memory behind its own, in a circle: where several devices hand each other what they have made, no
// two ask the same one first.
func (w *rounds) inTurn(accs, of []mem.Access) []mem.Access {
	if len(of) == 0 {
		return accs
	}
	n, own := w.p.topo.Len(), int(of[0].Memory)
	behind := func(a mem.Access) int { return (int(a.Memory) - own + n) % n }
	slices.SortStableFunc(accs, func(a, b mem.Access) int { return cmp.Compare(behind(a), behind(b)) })
	return accs
}

// copies plans what a command has written to where it is read later.
func (w *rounds) copies(r *Round, accs []mem.Access) error {
	op := RoundOp{Command: -1, Node: r.commands + r.Copies}
	if err := w.p.Plan(&op.plan, accs); err != nil {
		return fmt.Errorf("copies of a round: %w", err)
	}
	for i := range op.plan.Steps {
		st := &op.plan.Steps[i]
		n := w.needs(st.Waits, w.copying)
		w.touch(r, &n, mem.Access{Buffer: st.Buffer, Memory: st.To, Range: st.Range, Mode: mem.Write})
		op.each = append(op.each, n)
		if w.waited, w.copied = append(w.waited, false), append(w.copied, n.nodes); st.After >= 0 {
			w.copied[len(w.copied)-1] = append(slices.Clip(n.nodes), dep{int32(op.Node + st.After), mem.Data})
		}
		number := mem.BufferID(uint32(st.Buffer))
		r.Spans = append(r.Spans, Span{number, st.From, st.Range}, Span{number, st.To, st.Range})
		r.Bytes += st.Bytes()
	}
	for i := range op.plan.Steps {
		at := w.copying.Next()
		w.nodes[at] = int32(r.commands + r.Copies)
		w.p.CommitStep(&op.plan, i, at)
		r.Copies++
		v := &op.plan.Steps[i].Reason // from here on by their writers
		v.Oldest, v.Newest = mem.Version(w.writers[v.Oldest]), mem.Version(w.writers[v.Newest])
	}
	r.Ops = append(r.Ops, op)
	return nil
}

// end notes what the round leaves behind.
func (w *rounds) end(r *Round, buffers []RoundBuffer) {
	for i, b := range w.p.buffers {
		for at, c := range b.content.All() {
			if c.version > w.first {
				r.written = append(r.written, written{uint32(i), at, w.writers[c.version], c.valid, buffers[i].Transient})
			}
		}
		for k := range b.stores {
			s := &b.stores[k]
			for at, h := range s.hazards.All() {
				if l := (left{uint32(i), s.memory, at, -1, h.step, h.from, w.readers(s, h)}); !h.writer.IsZero() {
					l.writer = w.nodes[h.writer]
					r.left = append(r.left, l)
				} else if len(l.readers) > 0 {
					r.left = append(r.left, l)
				}
			}
		}
	}
}

// readers are the nodes of a hazard's readers, oldest first.
func (w *rounds) readers(s *store, h *hazard) (nodes []int32) {
	for _, p := range h.readers {
		if !p.IsZero() {
			nodes = append(nodes, w.nodes[p])
		}
	}
	for i := h.more; i != 0; i = s.overflow.cells[i].next {
		nodes = append(nodes, w.nodes[s.overflow.cells[i].point])
	}
	slices.Sort(nodes)
	return nodes
}

// merged sorts accesses that only read by buffer, memory and offset, and makes one of those that meet.
func merged(accs []mem.Access) []mem.Access {
	slices.SortFunc(accs, func(a, b mem.Access) int { return cmp.Or(place(a, b), cmp.Compare(a.Range.Start, b.Range.Start)) })
	out := accs[:0]
	for _, a := range accs {
		if n := len(out); n > 0 && place(out[n-1], a) == 0 && a.Range.Start <= out[n-1].Range.End {
			out[n-1].Range.End = max(out[n-1].Range.End, a.Range.End)
			continue
		}
		out = append(out, a)
	}
	return out
}
