package runtime

import (
	"context"
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/internal/mover"
	"godwit/mem"
	"godwit/migration"
)

// One command, from call to bytes. Assumptions: planning is cheap beside any
// copy, so one lock for all of a context's planning is enough; queues accept
// without blocking, so it can be held from the plan to the commit, and what was
// planned is still true when it is committed; points say all that a command has
// to wait for, so nobody waits here.
//
// The path of a request:
//
//  1. validated by its Enqueue method, without locks (enqueue.go);
//  2. under the planner lock: objects are alive, accesses and waits collected;
//  3. planned (package migration): storage, copies, waits;
//  4. storage obtained: all blocks or none (storage.go);
//  5. each copy submitted to a hidden queue and committed when accepted;
//  6. the command submitted to its queue and committed when accepted.
//
// A failure up to 4 changes no content; blocks may have left for room. Copies accepted before a failure in 5 or 6
// are good copies of what they copied and stay; new blocks into which none was
// accepted are given back.
//
// Lock order: Context.mu (the planner lock) before eventTable.mu,
// failureList.mu, Queue.failMu, and every lock of drivers, resources and sinks.
// Drivers call OnFail and waiters without locks of theirs, but perhaps from
// inside Submit, under Context.mu: so OnFail only lists the failure, and whoever
// takes Context.mu next settles it (failure.go).

// scratch is what one enqueue needs for its duration, kept for the next so that
// steady state allocates nothing. All of it is protected by Context.mu.
type scratch struct {
	accs     []mem.Access
	spans    []migration.Span // what has to lie in one block
	user     []mem.Wait       // of the wait list, barriers and markers
	waits    []mem.Wait       // of the command
	values   []byte           // argument values
	plan     migration.Plan
	cmd      devices.Command
	args     []devices.Arg
	reqs     []mem.Request
	given    []mem.Block // of one memory
	reuse    mem.Reuse   // what they are in use until
	wants    []want      // the storage that was got for the plan
	until    []mem.Point // of one block
	moves                // of the plan's steps
	svmArgs  []boundSVM  // arguments that are pointers
	svmMore  []boundSVM  // what else of shared virtual memory is reached
	members  []int       // steps that one transfer does
	landed   []mem.Point // of these
	transfer mover.Transfer
}

// moves are steps as they were accepted, by number.
type moves struct {
	points []mem.Point // zero where a step was not accepted
	lates  []*lateCopy // nil where all of the range moves
}

// span adds what has to lie in one block; the rows of a rectangle have one.
func (s *scratch) span(n migration.Span) {
	if k := len(s.spans); k == 0 || s.spans[k-1] != n {
		s.spans = append(s.spans, n)
	}
}

// errRoom is running out where something can be done about it without the lock: to wait for
// points, or to lock pages.
type errRoom struct {
	error
	lock    []uint64    // sizes of page-locked memory that is needed (backpages.go); where there are any, nothing is waited for
	points  []mem.Point // for one of these; where there are none, for a moment
	evicted bool        // blocks were evicted for it, and come back only after their users
	late    bool        // it was mem.Late: nobody holds what is missing any more
	ask     uint64      // bytes that other contexts are asked for (broker.go), of on; then nothing is waited for
	on      devices.Device
	from    mem.Resource
}

func (e *errRoom) Unwrap() error { return e.error }

// submit takes a request through the planner to the devices, again and again until nothing is
// left that a wait could change.
func (q *Queue) submit(ctx context.Context, req *request, in *borrowed) (Event, error) {
	c := q.c
	if err := c.inside(); err != nil {
		return Event{}, err
	}
	req.q, req.of, req.label, req.noEvent = q.self, q.how.Request, q.how.Label, req.noEvent || q.how.NoEvent
	if err := req.of.takes(q, req.op); err != nil {
		return Event{}, err
	}
	if err := q.over(ctx, req.op); err != nil {
		return Event{}, err
	}
	c.by.Enter(devices.Enqueue)
	if rec := q.recording.Load(); rec != nil {
		if e, done, err := rec.add(req, in); done {
			return e, err
		}
	}
	return c.carry(ctx, req, in)
}

// over fails where ctx has ended, but for what gives something back.
func (q *Queue) over(ctx context.Context, op opcode) error {
	err := ctx.Err()
	if err == nil || op == opUnmap || op == opSVMUnmap || op == opSVMFree {
		return nil
	}
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return fmt.Errorf("%v on queue %s: %w", op, q.name, err)
}

// carry has a request enqueued.
func (c *Context) carry(ctx context.Context, req *request, in *borrowed) (Event, error) {
	var so tries
	defer func() {
		if req.pages != nil {
			req.pages.free()
		}
	}()
	req.ctx = ctx
	called := c.called()
	for {
		e, err := c.enqueue(req, in, called)
		if err == nil {
			return e, nil
		}
		if err = c.again(ctx, req, &so, err); err != nil {
			return Event{}, err
		}
	}
}

// called is when a call began, where anybody wants to know: some hosts take a microsecond to
// read a clock.
func (c *Context) called() int64 {
	if c.tellsEnds() {
		return c.Now()
	}
	return 0
}

// tries is what was done so far for a request that failed.
type tries struct {
	waits int  // in a row, for nobody
	asked bool // the program was, for room
	asks  int  // of other contexts that did some good
}

// again does what can be done about an enqueue's error before it is tried again; what cannot
// be helped it returns.
func (c *Context) again(ctx context.Context, req *request, so *tries, err error) error {
	failed := c.help(ctx, req, so, err)
	var lost *errKept
	if errors.As(err, &lost) && !errors.Is(failed, err) {
		c.lock()
		c.sayKept(err)
		c.unlock()
	}
	return failed
}

// help is again, but for what is said at Close of an error that it does not return.
func (c *Context) help(ctx context.Context, req *request, so *tries, err error) error {
	if errors.Is(err, errLinks) {
		err = c.mover.AwaitLinks(ctx)
		c.adoptWays()
		return err
	}
	if errors.Is(err, mover.ErrLinkLost) && c.adoptWays() {
		return nil // without it
	}
	if errors.Is(err, mem.ErrDeviceLost) && c.loseDevices() {
		return nil // by what others have
	}
	var room *errRoom
	if errors.As(err, &room) && room.ask > 0 {
		if ok, failed := c.fromOthers(ctx, req.of, room, so); ok || failed != nil {
			return failed
		}
	}
	switch {
	case !c.waits(err):
		req.pages.free() // the program may close the context, which waits for them
		if !c.shortage(ctx, err, &so.asked) {
			return err
		}
	case room.lock != nil:
		if req.pages == nil {
			req.pages = new(backPages)
		}
		req.pages.lock(c, room.lock)
	default:
		began := c.by.Now()
		if len(room.points) > 0 {
			room.points = req.of.orOver(room.points)
			for _, p := range room.points {
				c.mover.Raise(p)
			}
		}
		err := c.waitForFree(ctx, room, &so.waits)
		c.room.waits.Add(1)
		c.room.waited.Add(c.by.Now() - began)
		if err != nil {
			return err
		}
	}
	req.evicted = room != nil && room.evicted || req.evicted
	return nil
}

// waits reports whether an enqueue that failed with err waits without the lock, and is tried
// again.
func (c *Context) waits(err error) bool {
	var room *errRoom
	return !asks(err) && errors.As(err, &room) && (room.lock != nil || c.opts.WaitForMemory || room.evicted || room.late)
}

// enqueue is the path under the planner lock.
func (c *Context) enqueue(req *request, in *borrowed, called int64) (Event, error) {
	c.lock()
	defer c.unlock()
	q, s := req.q, &c.scratch
	if err := q.live(); err != nil {
		return Event{}, err
	}
	if err := req.of.takes(q, req.op); err != nil { // aborted since, perhaps while this waited for room
		return Event{}, err
	}
	s.transfer.For = q.givesWay()
	if err := c.plan(req, in); err != nil {
		return Event{}, req.failed(err)
	}
	s.points = s.points[:0]
	if err := c.store(req); err != nil {
		err = req.failed(err)
		c.traceRefused(req, in, called, err)
		return Event{}, err
	}
	p, err := c.execute(req, in.launch)
	if !c.unflushed.Load() {
		c.unflushed.Store(true)
	}
	if err != nil {
		err = errors.Join(req.failed(err), c.giveBack(&s.plan))
	}
	var version mem.Version
	c.commandSeq++
	if err == nil {
		version = c.commit(req, p)
	} else {
		req.mapping = Mapping{}
	}
	if c.opts.Trace != nil {
		c.traceCommand(req, in.launch, called, version, p, err)
	}
	if err != nil {
		return Event{}, err
	}
	if err := c.accepted(req, in, p); err != nil {
		c.sayAtClose(err)
	}
	req.point = p
	if req.noEvent && !req.awaited || c.hooks.failed.Load() != nil {
		return Event{}, nil
	}
	return c.events.add(c, q, c.commandSeq, p), nil
}

// failed says of an error which command failed.
func (req *request) failed(err error) error {
	return fmt.Errorf("%v on queue %s: %w", req.op, req.q.name, err)
}

// store gets the storage for the scratch plan, and plans again where others use it yet or
// have left for it. What it got it gives back where it does not end well. c.mu is held.
func (c *Context) store(req *request) (err error) {
	s := &c.scratch
	stored := false
	defer func() {
		if !stored {
			err = errors.Join(err, c.giveBack(&s.plan))
		}
	}()
	c.evicting.plan, c.evicting.rounds, c.evicting.did, c.evicting.pages, c.evicting.ahead = &s.plan, 0, req.evicted, req.pages, req.ahead
	s.wants = s.wants[:0]
	s.reuse.Busy = s.reuse.Busy[:0]
	for {
		again, err := c.obtain(&s.plan)
		if err != nil {
			return c.mayAsk(err)
		}
		if !again {
			break
		}
		if err := c.planner.Plan(&s.plan, s.accs, s.spans...); err != nil {
			return err
		}
	}
	if c.wantsLinks(&s.plan) {
		return errLinks
	}
	if req.op == opMap || req.op == opSVMMap {
		if err := c.viewMap(req); err != nil {
			return err
		}
	}
	stored = true
	return nil
}

// plan collects what a request waits for and plans its accesses, in the scratch space.
// c.mu is held.
func (c *Context) plan(req *request, in *borrowed) error {
	q, s := req.q, &c.scratch
	var err error
	if s.user = s.user[:0]; len(in.wait) > 0 {
		if s.user, err = c.events.appendWaits(s.user, c, in.wait); err != nil {
			return err
		}
	}
	s.user = append(s.user, req.after...)
	if err := c.collect(req, in); err != nil {
		return err
	}
	if !q.inOrder {
		q.addOrder(req.op, len(in.wait) == 0 && !req.listed)
	}
	err = c.planner.Plan(&s.plan, s.accs, s.spans...)
	if req.coarse && errors.Is(err, mem.ErrPoisoned) { // perhaps between the rows
		req.exact = true
		if err = c.collect(req, in); err == nil {
			err = c.planner.Plan(&s.plan, s.accs, s.spans...)
		}
	}
	if err != nil {
		if lost := (*migration.LostError)(nil); errors.As(err, &lost) {
			lost.Name = c.roots[lost.Buffer].label()
		}
	}
	return err
}

// commit tells the planner of an accepted command, and returns the version that
// it wrote. c.mu is held.
func (c *Context) commit(req *request, p mem.Point) mem.Version {
	s := &c.scratch
	switch req.op {
	case opMap, opSVMMap:
	case opUnmap, opSVMUnmap:
		return c.planner.CommitUnmap(&s.plan, p, req.mapped.point)
	default:
		v := c.planner.Commit(&s.plan, p)
		if o := c.evicting.observer; o != nil && len(s.plan.Accesses) > 0 {
			c.hooks.call(&c.hooks.failed, func() { o.Observe(s.plan.Accesses) })
		}
		return v
	}
	c.planner.CommitUse(&s.plan, p)
	for i := range s.accs { // as the trace is to have it
		if s.accs[i].Mode == mem.Write {
			s.accs = s.accs[:0] // an invalidating map needs no content
			break
		}
		s.accs[i].Mode = mem.Read
	}
	return 0
}

// accepted does what follows from a command besides its effect on content. It fails where
// storage that the command ends could not be freed. c.mu is held.
func (c *Context) accepted(req *request, in *borrowed, p mem.Point) (err error) {
	switch req.op {
	case opBarrier:
		req.q.barrier = p
	case opMap, opSVMMap:
		c.beginMap(req, p)
	case opUnmap, opSVMUnmap:
		err = c.endMap(req.mapped, p)
	case opSVMFree:
		for _, u := range in.uses {
			err = errors.Join(err, c.endMaps(u.buf.root, p), c.dropSVM(u.buf.root, p))
		}
	}
	if req.op == opSVMUnmap || req.op == opSVMFree { // where the command fails before it runs, its end does it
		notify(p, &atEnd{req.call})
	}
	return err
}

// collect checks that the objects of a request are alive and usable on its
// queue's device, and lists its accesses. c.mu is held.
func (c *Context) collect(req *request, in *borrowed) error {
	s := &c.scratch
	s.accs, s.spans = s.accs[:0], s.spans[:0]
	switch req.op {
	case opWrite, opFill:
		return c.access(req, req.a, mem.Write, req.q.mem)
	case opRead:
		return c.access(req, req.a, mem.Read, req.q.mem)
	case opCopy:
		if err := c.access(req, req.a, mem.Read, req.q.mem); err != nil {
			return err
		}
		if req.counted = req.counted && req.a.buf.root.count != nil; req.counted {
			return c.collectCounted(req)
		}
		return c.access(req, req.b, mem.Write, req.q.mem)
	case opReadRect:
		return c.rectAccess(req, req.a, req.rect.SrcRow, req.rect.SrcSlice, mem.Read)
	case opWriteRect:
		return c.rectAccess(req, req.a, req.rect.DstRow, req.rect.DstSlice, mem.Write)
	case opCopyRect:
		if err := c.rectAccess(req, req.a, req.rect.SrcRow, req.rect.SrcSlice, mem.Read); err != nil {
			return err
		}
		return c.rectAccess(req, req.b, req.rect.DstRow, req.rect.DstSlice, mem.Write)
	case opMigrate, opSVMMigrate:
		return c.collectMigrate(req, in)
	case opLaunch:
		return c.collectArgs(req, in.launch)
	case opMap, opSVMMap:
		return c.collectMap(req)
	case opUnmap, opSVMUnmap:
		return c.collectUnmap(req)
	case opSVMFree:
		return c.collectFree(in)
	}
	return nil
}

// collectMigrate lists the accesses of a migrate: the buffers on each memory. c.mu is
// held.
func (c *Context) collectMigrate(req *request, in *borrowed) error {
	mode, one := mem.Read, [1]mem.MemoryID{req.q.mem}
	if req.to&ContentUndefined != 0 {
		mode = mem.Write
	}
	if req.to&MigrateToHost != 0 {
		one[0] = mem.Host
	}
	to := in.to
	if to == nil {
		to = one[:]
	}
	for _, u := range in.uses {
		for _, m := range to {
			if err := c.access(req, u, mode, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// collectArgs lists the accesses of a launch. c.mu is held.
func (c *Context) collectArgs(req *request, l *Launch) error {
	k := l.Kernel
	if k.prog.closed {
		return fmt.Errorf("kernel %s: program %q was closed: %w", k.name, k.prog.name, mem.ErrInvalidKernel)
	}
	c.scratch.svmArgs, c.scratch.svmMore = c.scratch.svmArgs[:0], c.scratch.svmMore[:0]
	for i := range l.Args {
		a := &l.Args[i]
		if a.kind == devices.ArgSVM {
			if err := c.collectSVMArg(req, a, &k.args[i], true); err != nil {
				return fmt.Errorf("kernel %s: argument %d: %w", k.name, i, err)
			}
			continue
		}
		if a.kind != devices.ArgBuffer || a.buf == nil {
			continue
		}
		u := use{buf: a.buf, r: a.buf.view.Range, whole: a.whole}
		if a.ranged {
			u.r = mem.Range{Start: a.off, End: a.off + a.size}.Shift(a.buf.view.Range.Start)
		}
		if err := c.access(req, u, a.access(&k.args[i]), req.q.mem); err != nil {
			return fmt.Errorf("kernel %s: argument %d: %w", k.name, i, err)
		}
	}
	for i := range l.SVM {
		if err := c.collectSVMArg(req, &l.SVM[i], &indirect, false); err != nil {
			return fmt.Errorf("kernel %s: Launch.SVM[%d]: %w", k.name, i, err)
		}
	}
	return nil
}

// access adds one access, or says why the buffer cannot be used there. c.mu is
// held.
func (c *Context) access(req *request, u use, mode mem.Mode, m mem.MemoryID) error {
	m, err := c.locate(req, u, m)
	if err != nil {
		return err
	}
	a := mem.Access{Buffer: u.buf.root.id, Range: u.r, Mode: mode, Memory: m}
	c.scratch.accs = append(c.scratch.accs, a)
	if u.buf.root.svm == nil {
		return nil
	}
	return noConflict(u.buf.root, &a)
}

// locate is the memory on which a use of a buffer for one is, and checks that it can be
// there. It does not look at what the host has mapped of it. c.mu is held.
func (c *Context) locate(req *request, u use, m mem.MemoryID) (mem.MemoryID, error) {
	root := u.buf.root
	if err := u.buf.live(); err != nil {
		return 0, err
	}
	if root.dropped || root.slot != nil && (req.q.recording.Load() != root.slot.rec || root.slot.rec.over) {
		return 0, root.unusable()
	}
	if root.svm != nil {
		var err error
		if m, err = c.svmMemory(req, u, m); err != nil {
			return 0, err
		}
	}
	m = c.topo.Store(m)
	align := c.mems[req.q.mem].info.BaseAlign
	if u.buf.view.Sub {
		if err := u.buf.view.CheckAlign(align); err != nil {
			return 0, fmt.Errorf("buffer %s: %w", u.buf.label(), err)
		}
	}
	if root.slot != nil {
		root.slot.align = max(root.slot.align, align)
	}
	needs := root.size
	if root.byRange && m != mem.Host {
		reached := c.reached(req, u, m)
		if reached != u.r { // else the access says it
			c.scratch.span(migration.Span{Buffer: root.id, Memory: m, Range: reached})
		}
		needs = reached.Size()
	}
	if largest := c.mems[m].largest; needs > largest {
		why := c.certify(m, needs, mem.Exhausted, nil)
		why.Hopeless = true
		return 0, fmt.Errorf("%d bytes of buffer %s at once, %s takes %d in one: %w",
			needs, u.buf.root.label(), c.topo.Name(m), largest, why)
	}
	return m, nil
}

// addOrder adds the waits that out-of-order queues need of the runtime: on the
// last barrier, and for markers and barriers without a wait list on all earlier
// commands. c.mu is held.
func (q *Queue) addOrder(op opcode, waitsForAll bool) {
	s := &q.c.scratch
	if (op == opMarker || op == opBarrier) && waitsForAll {
		s.points = q.line.Unended(s.points[:0], 1)
		for _, p := range s.points {
			s.user = append(s.user, mem.Wait{Point: p, Kind: mem.Order})
		}
	}
	if !q.barrier.Reached() {
		s.user = append(s.user, mem.Wait{Point: q.barrier, Kind: mem.Order})
	}
}

// execute submits the plan's copies, committing each, and then the command. It
// returns the command's point. c.mu is held.
func (c *Context) execute(req *request, l *Launch) (p mem.Point, err error) {
	s := &c.scratch
	if err := c.submitSteps(&s.plan, true); err != nil {
		return mem.Point{}, err
	}
	s.waits = append(s.waits[:0], s.plan.Waits...)
	s.waits = append(s.waits, s.user...)
	for _, i := range s.plan.StepWaits {
		s.waits = append(s.waits, mem.Wait{Point: s.points[i], Kind: mem.Data})
	}
	c.command(req, l)
	if req.counted {
		s.cmd.Late, err = c.lateOf(req)
	}
	if err == nil {
		p, err = c.submitCommand(req, &s.cmd)
	}
	c.forget()
	return p, err
}

// submitCommand gives a command, with the scratch waits, to its queue. Where it runs code of the program's on the
// host, it is a gate. c.mu is held.
func (c *Context) submitCommand(req *request, cmd *devices.Command) (mem.Point, error) {
	s, gate := &c.scratch, gateSet(0)
	if s.transfer.For == nil {
		for i := range s.waits {
			c.mover.Raise(s.waits[i].Point)
		}
	}
	if req.op == opHostCall || req.op == opSVMFree {
		gate = c.gates.shut(true)
	}
	var h *held
	held := req.of != nil && windowed[req.op]
	if held {
		if h = c.windows.hold(req, s.waits); h != nil {
			s.waits = append(s.waits, mem.Wait{Point: h.gate, Kind: mem.Data})
		}
	}
	p, err := req.q.dev.Submit(cmd, s.waits)
	if err != nil {
		if gate != 0 {
			c.gates.open(gate)
		}
		if h != nil {
			c.windows.drop(h)
		}
		return p, err
	}
	if c.windows.some.Load() {
		c.windows.needed(p, s.waits, true, req.of, h)
	}
	if held {
		c.windows.took(req, h, p, s.waits)
	}
	if closed := gateSet(c.gates.closed.Load()); closed != 0 {
		c.gated(p, s.waits, req.q, gate, closed)
	}
	if gate != 0 {
		notify(p, &callGate{&c.gates, gate})
	}
	return p, nil
}
