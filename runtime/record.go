package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/mem"
	"godwit/migration"
	"godwit/subbuffer"
)

// Recording: commands that are kept in place of being enqueued, to become a Graph
// (docs/design/graphs.md).
//
// Life: Context.Record, commands from any goroutine, then Finish or Discard. Until then its
// queues record. A command is validated, and its accesses collected, as an enqueue's are;
// nothing is planned or stored. All fields but c are protected by Context.mu.

// Recording records what is enqueued on some queues. It is safe for use from many goroutines.
type Recording struct {
	c          *Context // immutable
	seq        uint32   // immutable: its number in the context, from 1
	queues     []*Queue
	over       bool
	commands   []recorded
	handles    map[handle]*Buffer
	roots      []*root              // that commands use, by number
	numbers    map[mem.BufferID]int // of the roots
	slots      []*Buffer
	transients []*root
	lives      map[*root]*life // of transients, once it is over
	ending     []*root         // those that are used, by their last commands
	arenas     []*arena
	together   map[mem.MemoryID]uint64 // room that has to be there for small transients to lie together; empty where they never do
	loose      *instance               // commands and their roots as recorded, whose transients are in no arena; nil where there are none
	looseRoots []*root
	plain      string // why a replay has to enqueue the commands one by one; "" where it need not
}

// handle names a buffer or sub-buffer of a recording.
type handle struct {
	root *root
	view subbuffer.View
}

// recorded is a command of a recording. Its buffers are the recording's own.
type recorded struct {
	after    []int // the recorded commands of its wait list
	listless bool  // it has no wait list
	slotted  bool  // it uses a slot; of an instance
	req      request
	queue    int // of the recording's
	launch   *Launch
	uses     []use
	to       []mem.MemoryID
	accs     []mem.Access
	spans    []migration.Span // both name roots by their numbers
	begins   []mem.Access     // transients that have no content before it
}

// slot is what makes a root one that each replay binds anew.
type slot struct {
	rec           *Recording // immutable
	number        int        // immutable: of the recording's slots
	align         uint64     // what the devices ask of an origin that use it; immutable once the recording is over, as all below
	reads, writes bool       // by the host: it is recorded
}

// Record has queues of the context record what is enqueued on them, from any goroutine, until
// the recording is finished or discarded. What is recorded is validated as any enqueue, and in
// place of running waits for Graph.Replay. Events that enqueues return then stand for recorded
// commands: they may be in wait lists of the same recording, have values (Value) and be
// released; anything else fails with mem.ErrInvalidEvent. Maps, calls that wait, and
// the freeing of pointers fail with mem.ErrInvalidOperation. Record fails with
// mem.ErrInvalidQueue where a queue is closed, or there is none, and with
// mem.ErrInvalidOperation where one is recording already.
func (c *Context) Record(queues ...*Queue) (*Recording, error) {
	return c.recordOn(queues, func(q *Queue) *Queue { return q })
}

// RecordApart is Record for queues that go on taking commands meanwhile: recorded is what is
// enqueued on queues of the recording's own (Recording.Queues), which stand for these and take commands until it
// is over. Recorded commands then wait for their wait lists and, on an in-order queue, for the
// recorded command before them: markers and barriers without a list wait for nothing else.
func (c *Context) RecordApart(queues ...*Queue) (*Recording, error) {
	return c.recordOn(queues, func(q *Queue) *Queue {
		return newQueue(&queueState{c: c, name: q.name, mem: q.mem, inOrder: q.inOrder, profiling: q.profiling, priority: q.priority, dev: q.dev, line: q.line, prompt: q.prompt, of: q})
	})
}

// Queues are those that record, in the order in which they were named.
func (rec *Recording) Queues() []*Queue { return slices.Clone(rec.queues) }

// recordOn begins a recording on what stands for some queues.
func (c *Context) recordOn(queues []*Queue, stand func(*Queue) *Queue) (*Recording, error) {
	if len(queues) == 0 {
		return nil, fmt.Errorf("recording of no queue: %w", mem.ErrInvalidQueue)
	}
	for _, q := range queues {
		if err := q.made(); err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		if q.c != c {
			return nil, fmt.Errorf("recording: queue %s is of context %s, not %s: %w", q.name, q.c.name, c.name, mem.ErrInvalidContext)
		}
	}
	if err := c.begin("recording"); err != nil {
		return nil, err
	}
	defer c.unlock()
	c.recordSeq++
	rec := &Recording{c: c, seq: c.recordSeq, handles: make(map[handle]*Buffer), numbers: make(map[mem.BufferID]int)}
	for i, q := range queues {
		if err := q.live(); err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		q = q.self
		if slices.ContainsFunc(queues[:i], func(x *Queue) bool { return x.self == q }) {
			return nil, fmt.Errorf("recording: queue %s is named twice: %w", q.name, mem.ErrInvalidOperation)
		}
		rec.queues = append(rec.queues, stand(q))
		if rec.queues[i].recording.Load() != nil {
			return nil, fmt.Errorf("recording: queue %s records already: %w", q.name, mem.ErrInvalidOperation)
		}
	}
	for _, q := range rec.queues {
		q.recording.Store(rec)
	}
	return rec, nil
}

// Slot makes a buffer of size bytes that each replay binds to one of the same size (Bindings).
// Flags say what the recorded commands may do with it, as those of a sub-buffer. It, and its
// sub-buffers, are for commands of this recording only. It fails like CreateBuffer, and with mem.ErrInvalidOperation where
// the recording is over.
func (rec *Recording) Slot(name string, size uint64, flags Flags) (*Buffer, error) {
	b, err := rec.placeholder("slot", name, size, flags)
	if err != nil {
		return nil, err
	}
	defer rec.c.unlock()
	rec.slots = append(rec.slots, b)
	return b, nil
}

// placeholder makes a buffer for the recording's commands, and keeps the planner lock where it does not fail.
func (rec *Recording) placeholder(what, name string, size uint64, flags Flags) (*Buffer, error) {
	view, err := subbuffer.Whole(size, flags)
	if err == nil && flags&(UseHostPtr|AllocHostPtr|CopyHostPtr) != 0 {
		err = fmt.Errorf("flags %#x: it has no memory of its own: %w", uint64(flags), mem.ErrInvalidValue)
	}
	if err == nil {
		err = rec.made()
	}
	if err == nil {
		err = rec.c.CheckSize(size, flags)
	}
	if err == nil {
		err = rec.enter()
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, name, err)
	}
	id := mem.BufferID(len(rec.slots) + len(rec.transients)) // in its zeroth life no buffer was ever
	r := &root{id: id, name: name, size: size, views: 1, slot: &slot{rec: rec, number: len(rec.slots)}, byRange: true}
	return &Buffer{c: rec.c, root: r, view: view, refs: 1}, nil
}

// Value is an argument of a recorded launch that replays may change.
type Value struct {
	rec          *Recording
	command, arg int
}

// Value names argument i, by value, of the recorded launch that e stands for. It fails with
// mem.ErrInvalidEvent where e stands for none of this recording, and with mem.ErrArgValue where
// the argument is no value.
func (rec *Recording) Value(e Event, i int) (Value, error) {
	if err := rec.enter(); err != nil {
		return Value{}, err
	}
	defer rec.c.unlock()
	k, err := rec.command(e)
	if err != nil {
		return Value{}, err
	}
	l := rec.commands[k].launch
	if l == nil || i < 0 || i >= len(l.Args) || l.Args[i].kind != devices.ArgValue {
		return Value{}, fmt.Errorf("recorded command %d (%v): argument %d is no value of a launch: %w", k, rec.commands[k].req.op, i, mem.ErrArgValue)
	}
	return Value{rec, k, i}, nil
}

// HostMemory is the program's memory that a recorded write or read uses; replays may use other.
type HostMemory struct {
	rec     *Recording
	command int
}

// HostMemory names the memory of the recorded write or read that e stands for. It fails with mem.ErrInvalidEvent where e
// stands for none of this recording, and with mem.ErrInvalidOperation where that uses no memory of the program's.
func (rec *Recording) HostMemory(e Event) (HostMemory, error) {
	if err := rec.enter(); err != nil {
		return HostMemory{}, err
	}
	defer rec.c.unlock()
	k, err := rec.command(e)
	if err != nil {
		return HostMemory{}, err
	}
	if op := rec.commands[k].req.op; !op.usesHostMemory() {
		return HostMemory{}, fmt.Errorf("recorded command %d (%v) uses no memory of the program's: %w", k, op, mem.ErrInvalidOperation)
	}
	return HostMemory{rec, k}, nil
}

// usesHostMemory reports whether a command's data is the program's, as long as it runs.
func (op opcode) usesHostMemory() bool {
	return op == opRead || op == opWrite || op == opReadRect || op == opWriteRect
}

// command is the number of the recorded command that an event stands for. c.mu is held.
func (rec *Recording) command(e Event) (int, error) {
	t := &rec.c.events
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.c == rec.c {
		if r := t.lookup(e); r != nil && r.rec == rec.seq {
			return int(r.command), nil
		}
	}
	return 0, fmt.Errorf("event %d stands for no command of this recording: %w", e.idx, mem.ErrInvalidEvent)
}

// made fails where rec is nil, or no recording that Context.Record made.
func (rec *Recording) made() error {
	if rec == nil || rec.c == nil {
		return fmt.Errorf("nil recording: %w", mem.ErrInvalidValue)
	}
	return nil
}

// enter takes the planner lock where the recording is not over.
func (rec *Recording) enter() error {
	if err := rec.made(); err != nil {
		return err
	}
	if err := rec.c.begin("recording"); err != nil {
		return err
	}
	if rec.over {
		rec.c.unlock()
		return fmt.Errorf("the recording is over: %w", mem.ErrInvalidOperation)
	}
	return nil
}

// end has the queues record no more. c.mu is held.
func (rec *Recording) end() {
	rec.over = true
	for _, q := range rec.queues {
		q.recording.Store(nil)
	}
}

// Discard ends the recording, and drops it. It fails with mem.ErrInvalidOperation where it is over.
func (rec *Recording) Discard() error {
	if err := rec.enter(); err != nil {
		return err
	}
	defer rec.c.unlock()
	rec.end()
	return nil
}

// recordable are the operations that a recording takes.
var recordable = [...]bool{
	opWrite: true, opRead: true, opCopy: true, opFill: true, opLaunch: true, opMigrate: true, opMarker: true, opBarrier: true, opHostCall: true,
	opReadRect: true, opWriteRect: true, opCopyRect: true, opSVMMigrate: true, opAhead: false,
}

// add records a request. It reports whether it did: the recording may be over.
func (rec *Recording) add(req *request, in *borrowed) (e Event, done bool, err error) {
	c := rec.c
	c.lock()
	defer c.unlock()
	if rec.over {
		return Event{}, false, nil
	}
	if err := req.q.live(); err != nil {
		return Event{}, true, err
	}
	if !recordable[req.op] || req.awaited {
		return Event{}, true, fmt.Errorf("%v on queue %s, which records: what waits, and what only the host does, cannot be recorded: %w", req.op, req.q.name, mem.ErrInvalidOperation)
	}
	r := recorded{req: *req, queue: slices.Index(rec.queues, req.q), listless: len(in.wait) == 0}
	r.req.noEvent, r.req.of = false, nil // a replay has use for it, and belongs to no request
	if of := req.q.of; of != nil {
		r.req.q, r.listless = of, false
	}
	for i := range in.wait {
		k, err := rec.command(in.wait[i])
		if err != nil {
			return Event{}, true, fmt.Errorf("wait list entry %d of a recorded command: %w: %w", i, err, mem.ErrInvalidWaitList)
		}
		r.after = append(r.after, k)
	}
	if err := c.collect(req, in); err != nil {
		return Event{}, true, req.failed(err)
	}
	rec.keep(&r, in)
	rec.number(&r)
	rec.commands = append(rec.commands, r)
	if req.noEvent {
		return Event{}, true, nil
	}
	return c.events.addRecorded(c, rec, req.q, uint64(len(rec.commands)-1)), true, nil
}

// keep makes what a command borrows the recording's own. It stores nothing that the
// caller's arguments point to directly, so that they may stay on the caller's stack. c.mu is held.
func (rec *Recording) keep(r *recorded, in *borrowed) {
	if r.req.op == opFill {
		r.req.data = slices.Clone(r.req.data)
	}
	if r.req.coarse {
		rec.plain = "a rectangle is planned in groups of rows"
	}
	if b := r.req.a.buf; b != nil && b.root.slot != nil {
		s := b.root.slot
		s.reads, s.writes = s.reads || r.req.op == opRead || r.req.op == opReadRect, s.writes || r.req.op == opWrite || r.req.op == opWriteRect
	}
	rec.keepUse(&r.req.a)
	rec.keepUse(&r.req.b)
	for i := range in.uses {
		u := use{buf: rec.own(in.uses[i].buf.root, in.uses[i].buf.view), r: in.uses[i].r}
		r.uses = append(r.uses, u)
	}
	r.to = slices.Clone(in.to)
	if in.launch != nil {
		r.launch = rec.keepLaunch(in.launch)
	}
}

func (rec *Recording) keepUse(u *use) {
	if u.buf != nil {
		u.buf = rec.own(u.buf.root, u.buf.view)
	}
}

// keepLaunch copies a launch.
func (rec *Recording) keepLaunch(l *Launch) *Launch {
	k := &Kernel{prog: l.Kernel.prog, name: l.Kernel.name, on: l.Kernel.on, args: l.Kernel.args, nums: l.Kernel.nums}
	out := &Launch{
		Kernel: k, Global: slices.Clone(l.Global), Local: slices.Clone(l.Local), Offset: slices.Clone(l.Offset),
		Takes: l.Takes, Operations: l.Operations, Bytes: l.Bytes, Args: make([]Arg, 0, len(l.Args)),
	}
	for i := range l.Args {
		out.Args = append(out.Args, rec.keepArg(&l.Args[i]))
	}
	for i := range l.SVM {
		out.SVM = append(out.SVM, rec.keepArg(&l.SVM[i]))
	}
	return out
}

func (rec *Recording) keepArg(a *Arg) Arg {
	out := *a
	out.large = slices.Clone(a.large)
	if a.buf != nil {
		out.buf = rec.own(a.buf.root, a.buf.view)
	}
	if a.kind == devices.ArgSVM {
		rec.plain = "shared virtual memory is used by pointers"
	}
	return out
}

// own is the recording's own handle of a buffer. c.mu is held.
func (rec *Recording) own(r *root, view subbuffer.View) *Buffer {
	b := rec.handles[handle{r, view}]
	if b == nil {
		b = &Buffer{c: rec.c, root: r, view: view, refs: 1}
		rec.handles[handle{r, view}] = b
		if _, ok := rec.numbers[r.id]; !ok {
			rec.numbers[r.id] = len(rec.roots)
			rec.roots = append(rec.roots, r)
		}
	}
	return b
}

// number keeps the accesses that were collected for a command, by the numbers of roots. c.mu is held.
func (rec *Recording) number(r *recorded) {
	s := &rec.c.scratch
	for _, a := range s.accs {
		k, ok := rec.numbers[a.Buffer]
		if !ok { // reached by a pointer
			rec.plain = "shared virtual memory is used by pointers"
			continue
		}
		a.Buffer = mem.BufferID(k)
		r.accs = append(r.accs, a)
	}
	for _, n := range s.spans {
		if k, ok := rec.numbers[n.Buffer]; ok {
			n.Buffer = mem.BufferID(k)
			r.spans = append(r.spans, n)
		}
	}
}

// Finish ends the recording and plans the round that it is; ctx ends the search for the best places
// of its transients. It fails with mem.ErrInvalidOperation where the recording is over, which it is then
// in any case. The planner lock is held while it plans, up to some tens of microseconds a command.
func (rec *Recording) Finish(ctx context.Context) (*Graph, error) {
	if err := rec.enter(); err != nil {
		return nil, err
	}
	rec.end()
	rec.c.unlock()
	if err := rec.pack(ctx); err != nil {
		return nil, err
	}
	if err := rec.c.begin("graph"); err != nil {
		return nil, err
	}
	defer rec.c.unlock()
	if err := rec.settle(); err != nil {
		return nil, err
	}
	g, err := newGraph(rec)
	if err != nil {
		return nil, errors.Join(err, rec.release())
	}
	return g, nil
}
