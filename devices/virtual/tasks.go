package virtual

import (
	"fmt"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/internal/network"
	"godwit/mem"
)

// task is a command, or a part of a ring, on its way. Pooled.
type task struct {
	num  uint32
	c    engine.Ready // of a command
	ring *ring        // or the ring that it is a part of
	part part         // which
	cmd  *devices.Command

	work      Work
	on        int // memory of the queue's device
	from, to  int
	left      int8 // of its bytes and its least time
	active    bool // begun and not ended
	early     bool // its bytes move when it starts, else when it ends
	ready     uint64
	by        mem.Point // its cause
	handed    uint64
	started   uint64
	behind    mem.Point
	err       error
	next      *task // waits for the same engine
	overtaken int   // how often by others of higher priority

	hold, submit       uint64   // of its carrier; see handing
	until              uint64   // then its device has it
	gives              *carried // or this is the dispatcher, which gives it to the library
	thread             int32    // that has handed it on
	threadAt, threadTo uint64
}

// engine carries out some commands at a time.
type copyEngine struct {
	free       int
	head, tail *task // wait for it
}

// content is what devices hold, as far as a world keeps it.
type content interface {
	// run is called for each command but host calls, when its bytes begin to move (starts)
	// and when they have moved without a failure; of markers, only then, for those that
	// speak of bytes.
	run(t *task, starts bool) error
	// leg does what a leg of a ring does.
	leg(l *devices.Leg) error
}

func (w *World) takeTask() *task {
	if n := len(w.spare); n > 0 {
		t := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return t
	}
	t := &task{num: uint32(len(w.tasks))}
	w.tasks = append(w.tasks, t)
	return t
}

func (w *World) giveTask(t *task) {
	*t = task{num: t.num}
	w.spare = append(w.spare, t)
}

// accept takes a command of a device whose waits have been reached.
func (w *World) accept(on int, c engine.Ready) {
	t := w.takeTask()
	t.c, t.cmd, t.on, t.by = c, c.Command(), on, c.By()
	t.ready, t.handed, t.started, t.early, t.work.Engine = w.now, w.now, w.now, w.early(), -1
	w.push(w.now, taskReady, t)
}

// early draws whether a command's bytes move when it starts, or when it ends, which is the
// freedom that a real device has. Without a seed it is always when it ends.
func (w *World) early() bool {
	if w.opts.Seed == 0 {
		return false
	}
	w.draws++
	return mix(w.opts.Seed^w.draws)&1 == 0
}

func (w *World) push(at uint64, k kind, t *task) { w.events.push(at, event{kind: k, n: t.num}) }

// nextEvent is when something happens next. Rates are worked out only once nothing else
// happens at this instant.
func (w *World) nextEvent() (uint64, bool) {
	at, ok := w.events.next()
	if ok && at <= w.now {
		return w.now, true
	}
	if end, flows := w.net.Next(); flows && end != network.Never && (!ok || min(end, forever) <= at) {
		return min(max(end, w.now), forever), true
	}
	return at, ok
}

// step has something happen at a time, which nextEvent gave.
func (w *World) step(at uint64) {
	w.now, w.stepping = at, true
	defer func() { w.stepping = false }()
	if next, ok := w.events.next(); !ok || next > at {
		w.advance()
		return
	}
	w.counts.Events++
	e := w.events.heap.Pop()
	switch e.kind {
	case callFunc:
		e.f()
	case failDevice:
		w.failDevice(int(e.n))
	case ringReady:
		w.rings[e.n].begin()
	default:
		w.stepTask(e.kind, w.tasks[e.n])
	}
}

// advance brings the network to the present; after forever to its next end.
func (w *World) advance() {
	to := w.now
	if end, flows := w.net.Next(); to == forever && flows && end != network.Never {
		to = max(to, end)
	}
	for _, e := range w.net.Advance(to) {
		w.push(w.now, taskPart, w.tasks[e.Tag])
	}
}

func (w *World) stepTask(k kind, t *task) {
	switch k {
	case taskReady:
		w.begin(t)
	case taskHand:
		w.engage(t)
	case taskHeld:
		w.held(t)
	case taskHanded:
		w.submitted(t)
	case taskSet:
		w.flow(t)
	case taskPart:
		if t.left--; t.left == 0 {
			w.leave(t)
		}
	case taskEnd:
		if t.ring != nil {
			t.ring.partEnded(t)
			return
		}
		w.finish(t)
	}
}

// begin starts a command, unless something that it depends on failed, or has it wait
// for its engine.
func (w *World) begin(t *task) {
	if t.ring == nil {
		if err := t.c.Cause(); err != nil {
			t.err = err
			w.report(t)
			w.carriers.over(t.c.Point(), w.now)
			w.passOver(t)
			t.c.Finish(err)
			w.giveTask(t)
			return
		}
	}
	if w.carriers.Carriage != nil {
		w.hand(t)
		return
	}
	w.submitted(t)
}

// submitted has a command that its device has do what it does first.
func (w *World) submitted(t *task) {
	t.handed, t.work = w.now, Work{Engine: -1}
	if t.ring != nil {
		t.ring.submittedBy(t)
		return
	}
	t.started = w.now
	switch {
	case t.cmd == nil || !t.c.Cut():
		t.err = t.c.Begin()
		w.ends(t)
	case t.cmd.Op == devices.OpMarker:
		t.early = false
		t.err = t.c.Begin()
		w.finish(t)
	case t.cmd.Op == devices.OpHostCall:
		w.hostCall(t)
	default:
		w.cost(t)
		w.engage(t)
	}
}

// hostCall runs the program's code on a host thread.
func (w *World) hostCall(t *task) {
	if t.err = t.c.Begin(); t.err != nil {
		w.ends(t)
		return
	}
	t.active = true
	w.spawn(func() {
		err := t.c.Execute()
		w.yield(w.machine.HostCall(w.running.host))
		if t.err == nil {
			t.err = err
		}
		w.ends(t)
	})
}

// cost finds out what a command costs.
func (w *World) cost(t *task) {
	c := t.cmd
	switch c.Op {
	case devices.OpCopy, devices.OpCopyRect:
		t.from, t.to = w.memoryOf(&c.Src), w.memoryOf(&c.Dst)
		var ok bool
		if t.work, ok = w.machine.ByWindow(t.from, t.to, max(c.Src.Block.Size, c.Dst.Block.Size), moved(c)); !ok {
			t.work = w.machine.Copy(t.from, t.to, moved(c))
		}
		if c.Op == devices.OpCopyRect {
			t.work.rows(c.Rect.Region[0], times(c.Rect.Region[1], c.Rect.Region[2]))
		}
		if w.pageable(c) {
			t.work.pageable()
		} else {
			t.work.Slots = 0
		}
	case devices.OpFill:
		t.work = w.machine.Fill(t.on, c.Size)
	case devices.OpLaunch:
		k := kernelOf(c)
		t.work = w.machine.Launch(t.on, &k)
	}
}

// rows makes of a copy one of so many rows, each of so many bytes.
func (w *Work) rows(each, n uint64) {
	w.Setup = plus(w.Setup, times(w.Row, n))
	if w.Grain > 0 && w.Bytes > 0 {
		w.Bytes = plus(w.Bytes, times(n, (w.Grain-each%w.Grain)%w.Grain))
	}
}

// pageable makes of a copy one from or to pageable memory.
func (w *Work) pageable() {
	if w.OwnTimes {
		w.Setup, w.Latency, w.Least = 0, 0, w.Programs
	}
	if w.Slots > 0 {
		w.Engine = w.Lanes
	}
	if w.Pageable > 0 && (w.Limit == 0 || w.Pageable < w.Limit) {
		w.Limit = w.Pageable
	}
}

// pageable reports whether a copy is from or to pageable memory.
func (w *World) pageable(c *devices.Command) bool {
	return w.isPageable(c, &c.Src) || w.isPageable(c, &c.Dst)
}

// isPageable reports whether an end of a command is pageable memory: all of the host's that nobody has asked to be locked.
// (In virtual time none of the program's own is.)
func (w *World) isPageable(c *devices.Command, l *devices.Loc) bool {
	if l.Device == nil && l.Block.IsZero() {
		return c.Tag != 0 // else it is staging
	}
	return w.memoryOf(l) == 0 && !w.host.res.locks(l.Block)
}

// moved is how many bytes a copy moves.
func moved(c *devices.Command) uint64 {
	if c.Op == devices.OpCopyRect {
		return c.Rect.Region[0] * c.Rect.Region[1] * c.Rect.Region[2]
	}
	return c.Size
}

// kernelOf is a launch as the machine looks at it.
func kernelOf(c *devices.Command) Kernel {
	k := Kernel{Name: c.Kernel.Name(), Items: 1, Takes: uint64(max(c.Takes, 0))}
	for d := range c.Dims {
		k.Items = times(k.Items, c.Global[d])
	}
	for i := range c.Args {
		a := &c.Args[i]
		if a.Block.IsZero() || a.Kind != devices.ArgBuffer && a.Kind != devices.ArgSVM {
			continue
		}
		n := a.Size
		if a.Promise.Made {
			n = a.Promise.Range.Size()
		}
		k.Bytes, k.Largest = plus(k.Bytes, n), max(k.Largest, n)
	}
	if k.Roofline = c.Operations > 0 || c.Size > 0; c.Size > 0 {
		k.Bytes = c.Size
	}
	k.Operations = c.Operations
	return k
}

// engage gets a task its engine.
func (w *World) engage(t *task) {
	if t.work.Engine < 0 {
		w.start(t)
		return
	}
	e := &w.engines[t.work.Engine]
	if e.head == nil && e.free >= t.work.slots() {
		e.free -= t.work.slots()
		w.start(t)
		return
	}
	e.wait(t)
}

// wait puts a task in line: behind all but those of lower priority, which are not overtaken for ever.
func (e *copyEngine) wait(t *task) {
	at := &e.head
	if e.tail != nil && e.tail.priority() >= t.priority() {
		at = &e.tail.next
	}
	for *at != nil && ((*at).priority() >= t.priority() || (*at).overtaken >= devices.MostOvertaken) {
		at = &(*at).next
	}
	if t.next = *at; t.next == nil {
		e.tail = t
	} else {
		t.next.overtaken++
	}
	*at = t
}

// priority is that of the task's queue; parts of rings are of the mover's queues, and what a thread hands over is of none.
func (t *task) priority() devices.Priority {
	if t.ring != nil || t.gives != nil {
		return devices.PriorityNormal
	}
	return t.c.Priority()
}

// start begins with a task that has its engine.
func (w *World) start(t *task) {
	if t.hold > 0 {
		t.threadAt = w.now
		w.push(plus(w.now, t.hold), taskHeld, t)
		return
	}
	t.active, t.started = true, w.now
	switch {
	case t.ring == nil:
		if t.err = t.c.Begin(); t.err == nil {
			t.err = w.keeps.run(t, true)
		}
	case t.part == hold:
		t.ring.granted(t)
		return
	}
	if t.work.Setup != 0 {
		w.push(plus(w.now, t.work.Setup), taskSet, t)
		return
	}
	w.flow(t)
}

// flow has a task's bytes under way.
func (w *World) flow(t *task) {
	t.left = 1
	if t.work.Bytes > 0 {
		w.send(t, network.Flow{Path: t.work.Path, Bytes: t.work.Bytes, Limit: t.work.Limit})
	}
	if t.work.Width > 0 && t.work.Least > 0 {
		w.send(t, network.Flow{Path: t.work.Cores, Bytes: times(t.work.Width, t.work.Least), Limit: times(t.work.Width, 1e9)})
		w.push(w.now, taskPart, t)
		return
	}
	w.push(plus(w.now, t.work.Least), taskPart, t)
}

// send starts a flow of a task, which does not end before it.
func (w *World) send(t *task, f network.Flow) {
	w.counts.Flows++
	if w.net.Now() < w.now {
		w.advance()
	}
	f.Tag = uint64(t.num)
	if _, err := w.net.Start(f); err != nil {
		t.err = fmt.Errorf("machine: %w", err)
		return
	}
	t.left++
}

// leave gives a task's engine to the next.
func (w *World) leave(t *task) {
	switch {
	case t.ring == nil:
		w.vacate(t.work.Engine, t.work.slots(), t.c.Point())
	case t.part == drain:
		a := &t.ring.dsts[t.to]
		t.ring.leave(a.work.Engine, a.c.Point())
	case t.part == leg:
		t.ring.legSent(t.to)
	}
	if t.work.Latency > 0 {
		w.push(plus(w.now, t.work.Latency), taskEnd, t)
		return
	}
	w.stepTask(taskEnd, t)
}

// slots is how many places of its engine a command takes.
func (w *Work) slots() int { return max(w.Slots, 1) }

// vacate gives so many places on an engine, which the command of p leaves, to the next.
func (w *World) vacate(engine int32, slots int, p mem.Point) {
	if engine < 0 {
		return
	}
	e := &w.engines[engine]
	e.free += slots
	for next := e.head; next != nil && e.free >= next.work.slots(); next = e.head {
		e.free -= next.work.slots()
		if e.head = next.next; e.head == nil {
			e.tail = nil
		}
		next.behind = p
		w.start(next)
	}
}

// finish does what a command does at its end, and ends it.
func (w *World) finish(t *task) {
	if t.err == nil {
		t.err = w.keeps.run(t, false)
	}
	w.ends(t)
}

// ends ends a command.
func (w *World) ends(t *task) {
	if t.cmd != nil && t.err == nil && w.fails[t.cmd.Tag] && t.cmd.Tag != 0 {
		t.err = fmt.Errorf("command %d: %w", t.cmd.Tag, ErrInjected)
	}
	w.report(t)
	c, err := t.c, t.err
	w.giveTask(t)
	w.counts.Commands++
	w.carriers.over(c.Point(), w.now)
	c.Finish(err)
}

// report tells the observer of a command that ends.
func (w *World) report(t *task) {
	if w.opts.Observer == nil {
		return
	}
	s := &w.span
	*s = Span{Engines: s.Engines[:0]}
	s.Point, s.On, s.From, s.To, s.Bytes, s.Path = t.c.Point(), t.on, t.from, t.to, t.work.Bytes, t.work.Path
	if t.cmd != nil {
		s.Op, s.Tag = t.cmd.Op, t.cmd.Tag
	}
	if t.work.Engine >= 0 {
		s.Engines = append(s.Engines, t.work.Engine)
	}
	s.Ready, s.Handed, s.Started, s.Ended = int64(t.ready), int64(t.handed), int64(t.started), int64(w.now)
	s.Thread, s.HeldFrom, s.HeldTo = t.thread, int64(t.threadAt), int64(t.threadTo)
	s.Queued = s.Ready
	if q := t.c.Queued(); q > 0 {
		s.Queued = int64(q - 1)
	}
	s.Cause, s.Behind, s.Err = t.by, t.behind, t.err
	w.opts.Observer.Span(s)
}

// uses reports whether a command is work for the device of a memory: its queue's, or an
// end of its copy.
func (t *task) uses(memory int) bool {
	copies := t.cmd != nil && (t.cmd.Op == devices.OpCopy || t.cmd.Op == devices.OpCopyRect)
	return t.on == memory || copies && (t.from == memory || t.to == memory)
}
