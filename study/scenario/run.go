package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/internal/flat"
	"godwit/internal/storage"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
	"godwit/study/machine"
)

// RunOptions say how to run a scenario.
type RunOptions struct {
	// Profile asks for the times of every command.
	Profile bool
	// Timeline keeps what Result.Picture takes: of waits, among others.
	Timeline bool
	// Stats asks for the statistics of every memory's resources.
	Stats bool
	// Explain names bytes whose journeys are told: see Result.Journeys.
	Explain []place
	// Progress, where not nil, is told now and then how far the run is; but of a plain run, whose clock it would be in.
	Progress func(stage string, done, total int)
	// Read, where not nil, is given what each read command yielded, once all
	// have ended. Commands count from 0. Over devices that keep no bytes it is not called.
	Read func(command int, data []byte)
	// Record, where not nil, is given the command trace of the run, but not of what verifies
	// it.
	Record *trace.CommandWriter
	// Watch, where not nil, gives a sink that is told of the run as it goes, over these memories, the host's first; but not of
	// a plain run.
	Watch func(clock string, memories []string, capacity []uint64) trace.CommandSink
	// Step, where not nil, is called by a run on a machine whenever a command or a copy has ended, with the time. Until
	// it returns nothing goes on, nor does the machine's time. It must not call the run.
	Step func(now int64)
	// Machine, where not nil, is what the scenario runs on, in virtual time, in place of
	// the drivers that it names.
	Machine *machine.Machine
	// Seed draws the order of what happens at one instant on a machine; 0 leaves it as
	// it comes.
	Seed uint64
	// Plain has a real run take no times but those of the host's clock, as a program of its own
	// would run: its Result has makespans, and whether all that was read is right.
	Plain bool
	// Unverified leaves out the reference run, which takes longer than the run itself where much is computed:
	// nothing is known of what was read then.
	Unverified bool
	// Stamps has the devices of a machine keep no bytes, but who wrote them, as machines do
	// whose files say so.
	Stamps bool

	twice int // the channel of the machine that is twice as fast, from 1; 0 is none (WhatIf)
}

// runner is the state of one run.
type runner struct {
	s   *Scenario
	opt RunOptions
	rec *recorder

	ctx     *runtime.Context
	names   []string // of memories, by MemoryID
	devs    map[string]devices.Device
	kernels map[string]*runtime.Kernel

	// By index into the scenario's tables.
	lives    []mem.Hint        // how long it lives
	buffers  []*runtime.Buffer // nil for shared virtual memory
	at       []uint64          // addresses of shared virtual memory; 0 for buffers, and what is not allocated yet
	ids      []mem.BufferID
	views    []*runtime.Buffer
	queues   []*runtime.Queue
	user     []runtime.Event
	mappings []mapped

	events   []runtime.Event            // by command; zero where it has none
	data     map[int][]byte             // by command; what a write writes
	reads    map[int][]byte             // by command; nil where it is no read
	failed   map[int]error              // by command; why it failed, where it was to
	fired    map[int]*firing            // by command; what its callbacks said, where it has some
	calls    calls                      // callbacks to come
	given    [][]byte                   // memory that buffers use in place
	lent     []byte                     // over devices that keep no bytes: addresses for more of it
	x        *explainer                 // of what has run
	ranks    *ranks                     // nil where one thread enqueues
	loose    loose                      // transients of plain replays
	graphs   []graphRun                 // by index into the scenario's
	standIns map[handle]*runtime.Buffer // while a round is recorded
	model    *modelled                  // nil where the times are this computer's
	carried  []uint64                   // by channel of the machine: bytes before the last time
	kept     uint64                     // bytes of content that stays until the end: of buffers, and what commands read
	blank    storage.Blank              // over devices that keep no bytes: what commands read and write
	clocked  []period                   // the times that the commands ran
	slept    []hostWait                 // in order
	unlinked error                      // why there are no links between devices that could have some
	stackErr error                      // why a memory has not the stack of resources it should have
}

// Run executes a scenario on its devices and verifies it. The Result is never
// nil; where the run could not be finished its Error says why, and Run returns
// the same error: Errors where the scenario is at fault.
//
// A scenario that was read with Options.Times runs on real devices twice: without times, for the
// makespans, and with them, for where the time went.
func Run(ctx context.Context, s *Scenario, opt RunOptions) (*Result, error) {
	if s.Times == 0 || opt.Machine != nil || opt.Plain {
		return runOnce(ctx, s, opt)
	}
	plain := opt
	plain.Plain, plain.Record, plain.Read = true, nil, nil
	first, err := runOnce(ctx, s, plain)
	if err != nil {
		return first, err
	}
	res, err := runOnce(ctx, s.first(s.Warm+1), opt)
	res.took, res.Makespans = first.took, first.Makespans
	for k := range min(len(res.Graphs), len(first.own)) {
		res.Graphs[k].Own = first.own[k]
	}
	res.BytesRead, res.BytesCompared, res.BytesUndefined = res.BytesRead+first.BytesRead, res.BytesCompared+first.BytesCompared, res.BytesUndefined+first.BytesUndefined
	res.Verified, res.Mismatches = res.Verified && first.Verified, append(first.Mismatches, res.Mismatches...)
	return res, err
}

func runOnce(ctx context.Context, s *Scenario, opt RunOptions) (*Result, error) {
	r := &runner{s: s, opt: opt, rec: newRecorder(opt.Timeline || opt.Machine == nil)}
	res := newResult(s)
	err := r.run(ctx, res)
	if err != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
		if res.Interrupted == nil && len(res.Commands) > 0 { // all had ended, and what that showed was being told
			res.Interrupted = r.late(res)
		}
	}
	res.Clock = r.clock()
	if cerr := r.close(ctx); cerr != nil && err == nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	if err != nil {
		res.Error = err.Error()
		res.Verified = false
	}
	return res, err
}

func (r *runner) run(ctx context.Context, res *Result) error {
	if err := errors.Join(r.checkStamps(), r.checkOwn(), r.checkFailures()); err != nil {
		return err
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	if err := r.create(ctx); err != nil {
		return err
	}
	if err := errors.Join(r.prepare(), r.rank()); err != nil {
		return err
	}
	var err error
	for k := 0; k < max(r.s.Times, 1) && err == nil; k++ {
		r.carried = r.channelBytes() // before the last time
		err = r.once(ctx, k)
	}
	if r.opt.Record != nil {
		r.opt.Record.Stop()
	}
	if ctx.Err() != nil {
		return r.interrupted(ctx, res)
	}
	r.stop(res)
	if cerr := r.ctx.Check(); cerr != nil && err == nil {
		err = fmt.Errorf("the runtime's state is not consistent: %w", cerr)
	}
	if !r.opt.Plain {
		r.gather()
		r.explain(res)
	}
	r.measured(res)
	res.own = r.own()
	if err != nil {
		return err
	}
	if err := r.toldAll(ctx, res); err != nil {
		return err
	}
	if r.opt.Read != nil && !r.stamps() {
		for i := range r.s.Commands {
			if data := r.reads[i]; data != nil {
				r.opt.Read(i, data)
			}
		}
	}
	if r.opt.Unverified {
		res.NotCompared = "it was not asked for"
		return nil
	}
	return r.verify(ctx, res)
}

// close gives everything back. What is still running is waited for; where ctx has ended,
// what has not started fails, user events that are not set among it.
func (r *runner) close(ctx context.Context) error {
	if r.ctx == nil {
		return nil
	}
	if ctx.Err() == nil {
		r.abandon()
	}
	var errs []error
	for _, e := range append(r.events, r.user...) {
		if !e.IsZero() {
			errs = append(errs, e.Release())
		}
	}
	for i := range r.graphs {
		if g := r.graphs[i].graph; g != nil {
			errs = append(errs, g.Close())
		}
	}
	for _, b := range append(r.views, r.buffers...) {
		if b != nil {
			errs = append(errs, b.Release())
		}
	}
	for i, p := range r.at {
		if freed := r.s.Buffers[i].SVM; p != 0 && (freed.Freed < 0 || freed.Freed >= len(r.events)) {
			errs = append(errs, r.ctx.SVMFree(runtime.Pointer(p)))
		}
	}
	return errors.Join(append(errs, r.ctx.Close(ctx), r.blank.Close())...)
}

// abandon fails the user events that no command will set any more, so that what
// waits for them ends.
func (r *runner) abandon() {
	for _, e := range r.user {
		_ = e.SetStatus(runtime.ExecStatus(mem.ExecStatusErrorInWaitList)) // those that were set stay as they are
	}
}

// at marks an error as the fault of a line of the scenario.
func at(file string, line int, format string, args ...any) error {
	return Errors{{File: file, Line: line, Rule: fmt.Sprintf(format, args...)}}
}

// blame turns an error of the runtime about a line into the scenario's, where
// the scenario broke a rule; running out of something is not its fault.
func (s *Scenario) blame(line int, what string, err error) error {
	return blame(s.File, line, what, err)
}

// blame is Scenario.blame for a device, which may be declared in an included file.
func (d *deviceDecl) blame(what string, err error) error {
	return blame(d.File, d.Line, "device "+d.Name+what, err)
}

func blame(file string, line int, what string, err error) error {
	st := mem.StatusOf(err)
	if st <= mem.InvalidValue || st == mem.MisalignedSubBufferOffset || st == mem.MemCopyOverlap {
		return at(file, line, "%s: %v", what, err)
	}
	return fmt.Errorf("%s:%d: %s: %w", file, line, what, err)
}

// build builds the kernels that the scenario launches, for the devices that it launches
// them on: others may be of a kind that runs none.
func (r *runner) build(ctx context.Context) error {
	r.kernels = make(map[string]*runtime.Kernel)
	on, err := r.launching()
	if err != nil || len(on) == 0 {
		return err
	}
	p, err := r.ctx.Build(ctx, library(), on...)
	if err != nil {
		return fmt.Errorf("kernels: %w", err)
	}
	for i := range r.s.Commands {
		c := &r.s.Commands[i]
		if c.Kind != opLaunch || r.kernels[c.variant()] != nil {
			continue
		}
		of := p
		if c.own != nil {
			if of, err = r.buildOwn(ctx, c, on); err != nil {
				return fmt.Errorf("kernel %s: %w", c.Kernel, err)
			}
		}
		k, err := of.Kernel(c.Kernel)
		if err != nil {
			return r.s.blame(c.Line, "launch "+c.Kernel, err)
		}
		r.kernels[c.variant()] = k
	}
	return nil
}

// launching lists the devices that commands launch kernels on, each once.
func (r *runner) launching() (on []devices.Device, err error) {
	for i := range r.s.Commands {
		c := &r.s.Commands[i]
		if c.Kind != opLaunch {
			continue
		}
		q := &r.s.Queues[c.Queue]
		if q.Device == "host" {
			return nil, at(r.s.File, c.Line, "launch %s: queue %s is of the host, which runs no kernels", c.Kernel, q.Name)
		}
		if d := r.devs[q.Device]; !slices.Contains(on, d) {
			on = append(on, d)
		}
	}
	return on, nil
}

// prepare makes what the commands write, and room for what they read, before any clock runs.
func (r *runner) prepare() (err error) {
	s := r.s
	r.data, r.reads, r.fired, r.failed = make(map[int][]byte), make(map[int][]byte), make(map[int]*firing), make(map[int]error)
	for i := range s.Commands {
		c := &s.Commands[i]
		switch {
		case c.Kind == opWrite && i >= s.perTime():
			r.data[i] = r.data[i-s.perTime()]
		case c.Kind == opWrite && c.Data.pointers == nil:
			if r.data[i], err = r.content(c.Data, c.hostBytes()); err == nil && !r.stamps() {
				r.kept += c.hostBytes()
			}
		case c.Kind == opRead:
			if r.reads[i], err = r.room(c.hostBytes()); err == nil && !r.stamps() {
				flat.Repeat(r.reads[i], []byte{gapByte}) // its pages are there
			}
		}
		if err != nil {
			return s.blame(c.Line, fmt.Sprintf("#%d %s", i+1, s.text(c)), err)
		}
	}
	return nil
}

// once runs the commands the k-th time, and notes by the context's clock how long it took until
// the host had seen all of them end.
func (r *runner) once(ctx context.Context, k int) error {
	n := r.s.perTime()
	took := period{from: r.ctx.Now()}
	enqueue := r.enqueueAll
	if r.ranks != nil {
		enqueue = r.enqueueByRanks // which waits, too
	}
	err := enqueue(ctx, k*n, (k+1)*n)
	if err != nil && ctx.Err() == nil {
		r.abandon()
	}
	if err == nil && r.ranks != nil {
		took.to = r.ctx.Now()
		r.clocked = append(r.clocked, took)
		return nil
	}
	// Where a command was refused because an earlier one had failed by then, the
	// failure is what there is to say; which of them it is depends on the timing.
	if werr := r.wait(ctx, k*n); err == nil || (werr != nil && errors.Is(err, mem.ErrPoisoned)) {
		err = werr
	}
	took.to = r.ctx.Now()
	r.clocked = append(r.clocked, took)
	return err
}

// enqueueAll enqueues commands, in order.
func (r *runner) enqueueAll(ctx context.Context, from, to int) error {
	for i := from; i < to; i = len(r.events) {
		enqueue := func(ctx context.Context, i int) error {
			return r.enqueueOne(ctx, i, func(e runtime.Event) { r.events = append(r.events, e) })
		}
		if r.s.replayed(i) {
			enqueue = r.replay
		}
		if err := enqueue(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// enqueueOne enqueues a command, and keeps its event.
func (r *runner) enqueueOne(ctx context.Context, i int, keep func(runtime.Event)) error {
	s := r.s
	if err := ctx.Err(); err != nil {
		return err
	}
	e, err := r.enqueue(ctx, i)
	r.ranks.note(i)
	if err == nil && !e.IsZero() {
		err = r.listen(i, e)
	}
	if err == nil && s.Commands[i].Blocking {
		if err = r.waitFor(ctx, e); err != nil && ctx.Err() == nil && s.expectedToFail(i) {
			err = nil // wait keeps it
		}
	}
	if err != nil && r.model != nil && errors.Is(err, mem.ErrPoisoned) && s.expectedToFail(i) {
		r.failed[i], err = err, nil // see failures.go
	}
	if keep(e); err == nil {
		err = r.fail(i)
	}
	if err != nil {
		c := &s.Commands[i]
		return s.blame(c.Line, fmt.Sprintf("#%d %s", i+1, s.text(c)), err)
	}
	r.progress("enqueued", i+1, len(s.Commands))
	return nil
}

func (r *runner) progress(stage string, done, total int) {
	if r.opt.Progress != nil && !r.opt.Plain {
		r.opt.Progress(stage, done, total)
	}
}

// waitFor waits for a command, and notes when, where it has not ended yet.
func (r *runner) waitFor(ctx context.Context, e runtime.Event) error {
	if p, err := e.Point(); !r.opt.Plain && err == nil && !p.Reached() {
		slept := r.ctx.Now()
		defer func() { r.slept = append(r.slept, hostWait{period{slept, r.ctx.Now()}, p}) }()
	}
	return e.Wait(ctx)
}

// wait waits for every command from one on, and returns the first failure in the order of
// the scenario.
func (r *runner) wait(ctx context.Context, from int) error {
	for i := from; i < len(r.events); i++ {
		if err := r.waitCommand(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// waitCommand waits for a command. That it fails where it is to is no error.
func (r *runner) waitCommand(ctx context.Context, i int) error {
	e := r.events[i]
	if e.IsZero() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.waitFor(ctx, e); err != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.s.expectedToFail(i) {
			r.failed[i] = err
			return nil
		}
		c := &r.s.Commands[i]
		return fmt.Errorf("%s:%d: #%d %s: %w", r.s.File, c.Line, i+1, r.s.text(c), err)
	}
	r.progress("finished", i+1, len(r.events))
	return nil
}

// recorded is the runtime's record of the scenario's command i, or nil.
func (r *runner) recorded(i int) *record {
	if r.events[i].IsZero() {
		return nil
	}
	id, err := r.events[i].Command()
	if err != nil {
		return nil
	}
	return r.rec.command(id)
}
