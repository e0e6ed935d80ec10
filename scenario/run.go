package scenario

import (
	"context"
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
	"godwit/trace"
)

// RunOptions say how to run a scenario.
type RunOptions struct {
	// Progress, where not nil, is told now and then how far the run is.
	Progress func(stage string, done, total int)
	// Read, where not nil, is given what each read command yielded, once all
	// have ended. Commands count from 0.
	Read func(command int, data []byte)
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
	buffers []*runtime.Buffer
	views   []*runtime.Buffer
	queues  []*runtime.Queue
	events  []runtime.Event
	reads   [][]byte // by command; nil where it is no read
}

// Run executes a scenario on its devices and verifies it. The Result is never
// nil; where the run could not be finished its Error says why, and Run returns
// the same error: Errors where the scenario is at fault.
func Run(ctx context.Context, s *Scenario, opt RunOptions) (*Result, error) {
	r := &runner{s: s, opt: opt, rec: newRecorder()}
	res := newResult(s)
	err := r.run(ctx, res)
	if cerr := r.close(context.WithoutCancel(ctx)); cerr != nil && err == nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	if err != nil {
		res.Error = err.Error()
		res.Verified = false
	}
	return res, err
}

func (r *runner) run(ctx context.Context, res *Result) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	if err := r.create(ctx); err != nil {
		return err
	}
	err := r.enqueueAll(ctx)
	// Where a command was refused because an earlier one had failed by then, the
	// failure is what there is to say; which of them it is depends on the timing.
	if werr := r.wait(ctx); err == nil || (werr != nil && errors.Is(err, mem.ErrPoisoned)) {
		err = werr
	}
	if cerr := r.ctx.Check(); cerr != nil && err == nil {
		err = fmt.Errorf("the runtime's state is not consistent: %w", cerr)
	}
	r.explain(res)
	if err != nil {
		return err
	}
	if r.opt.Read != nil {
		for i, data := range r.reads {
			if data != nil {
				r.opt.Read(i, data)
			}
		}
	}
	final, err := r.readAll(ctx)
	if err != nil {
		return err
	}
	return r.verify(ctx, res, final)
}

// close gives everything back; what is still running is waited for.
func (r *runner) close(ctx context.Context) error {
	if r.ctx == nil {
		return nil
	}
	var errs []error
	for _, e := range r.events {
		errs = append(errs, e.Release())
	}
	for _, b := range append(r.views, r.buffers...) {
		errs = append(errs, b.Release())
	}
	return errors.Join(append(errs, r.ctx.Close(ctx))...)
}

// at marks an error as the fault of a line of the scenario.
func (s *Scenario) at(line int, format string, args ...any) error {
	return Errors{{s.File, line, fmt.Sprintf(format, args...)}}
}

// blame turns an error of the runtime about a line into the scenario's, where
// the scenario broke a rule; running out of something is not its fault.
func (s *Scenario) blame(line int, what string, err error) error {
	st := mem.StatusOf(err)
	if st <= mem.InvalidValue || st == mem.MisalignedSubBufferOffset || st == mem.MemCopyOverlap || st == mem.DeviceNotFound {
		return s.at(line, "%s: %v", what, err)
	}
	return fmt.Errorf("%s:%d: %s: %w", s.File, line, what, err)
}

// create makes buffers, views, queues and kernels.
func (r *runner) create(ctx context.Context) error {
	s := r.s
	for _, b := range s.Buffers {
		var init []byte
		if b.Data != nil {
			init = b.Data.Bytes(b.Size)
		}
		rb, err := r.ctx.CreateNamedBuffer(b.Name, b.Size, 0, init)
		if err != nil {
			return s.blame(b.Line, "buffer "+b.Name, err)
		}
		r.buffers = append(r.buffers, rb)
	}
	for _, v := range s.Views {
		rb, err := r.buffers[v.Buffer].Sub(v.Range.Start, v.Range.Size(), 0)
		if err != nil {
			return s.blame(v.Line, "sub-buffer "+v.Name, err)
		}
		r.views = append(r.views, rb)
	}
	for _, q := range s.Queues {
		rq, err := r.ctx.NewQueue(r.devs[q.Device], runtime.QueueOptions{Name: q.Name, OutOfOrder: q.OutOfOrder, Profiling: true})
		if err != nil {
			return s.blame(q.Line, "queue "+q.Name, err)
		}
		r.queues = append(r.queues, rq)
	}
	return r.build(ctx)
}

// build builds the kernels that the scenario launches, for all its devices.
func (r *runner) build(ctx context.Context) error {
	r.kernels = make(map[string]*runtime.Kernel)
	if r.s.launches() == 0 {
		return nil
	}
	p, err := r.ctx.Build(ctx, library())
	if err != nil {
		return fmt.Errorf("kernels: %w", err)
	}
	for i := range r.s.Commands {
		c := &r.s.Commands[i]
		if c.Kind != Launch || r.kernels[c.Kernel] != nil {
			continue
		}
		k, err := p.Kernel(c.Kernel)
		if err != nil {
			return r.s.blame(c.Line, "launch "+c.Kernel, err)
		}
		r.kernels[c.Kernel] = k
	}
	return nil
}

// enqueueAll enqueues every command, in order.
func (r *runner) enqueueAll(ctx context.Context) error {
	s := r.s
	r.reads = make([][]byte, len(s.Commands))
	for i := range s.Commands {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := r.enqueue(ctx, i)
		if err != nil {
			c := &s.Commands[i]
			return s.blame(c.Line, fmt.Sprintf("#%d %s", i+1, s.text(c)), err)
		}
		r.events = append(r.events, e)
		r.progress("enqueued", i+1, len(s.Commands))
	}
	return nil
}

func (r *runner) progress(stage string, done, total int) {
	if r.opt.Progress != nil {
		r.opt.Progress(stage, done, total)
	}
}

// object returns the runtime's buffer for a place and the place's offset in it.
func (r *runner) object(p Place) (*runtime.Buffer, uint64) {
	if p.View >= 0 {
		return r.views[p.View], p.Range.Start - r.s.Views[p.View].Range.Start
	}
	return r.buffers[p.Buffer], p.Range.Start
}

// enqueue enqueues one command.
func (r *runner) enqueue(ctx context.Context, i int) (runtime.Event, error) {
	c := &r.s.Commands[i]
	q := r.queues[c.Queue]
	var wait []runtime.Event
	for _, a := range c.After {
		wait = append(wait, r.events[a])
	}
	b, off := (*runtime.Buffer)(nil), uint64(0)
	if c.Place.Name != "" {
		b, off = r.object(c.Place)
	}
	size := c.Place.Range.Size()
	switch c.Kind {
	case Write:
		return q.EnqueueWrite(ctx, b, off, c.Data.Bytes(size), wait...)
	case Read:
		r.reads[i] = make([]byte, size)
		return q.EnqueueRead(ctx, b, off, r.reads[i], wait...)
	case Copy:
		to, toOff := r.object(c.To)
		if c.Rows > 0 {
			return q.EnqueueCopyRect(ctx, b, to, runtime.Box{Origin: [3]uint64{off}, Row: c.Pitch},
				runtime.Box{Origin: [3]uint64{toOff}, Row: c.ToPitch}, [3]uint64{c.Width, c.Rows, 1}, wait...)
		}
		return q.EnqueueCopy(ctx, b, to, off, toOff, size, wait...)
	case Fill:
		return q.EnqueueFill(ctx, b, c.Pattern, off, size, wait...)
	case Migrate:
		var bufs []*runtime.Buffer
		for _, p := range c.Places {
			mb, _ := r.object(p)
			bufs = append(bufs, mb)
		}
		var flags runtime.MigrateFlags
		if c.Host {
			flags = runtime.MigrateToHost
		}
		return q.EnqueueMigrate(ctx, bufs, flags, wait...)
	case Barrier:
		return q.EnqueueBarrier(ctx, wait...)
	case Marker:
		return q.EnqueueMarker(ctx, wait...)
	}
	return q.EnqueueLaunch(ctx, r.launch(c), wait...)
}

func (r *runner) launch(c *Command) runtime.Launch {
	l := runtime.Launch{Kernel: r.kernels[c.Kernel], Global: c.Global[:c.Dims], Offset: c.Offset[:c.Dims]}
	if c.Local[0] != 0 {
		l.Local = c.Local[:c.Dims]
	}
	for i := range c.Args {
		l.Args = append(l.Args, r.arg(&c.Args[i]))
	}
	return l
}

func (r *runner) arg(a *Arg) runtime.Arg {
	switch {
	case a.Local > 0:
		return runtime.Local(a.Local)
	case !a.Buffer:
		return runtime.Bytes(a.Value)
	}
	b, off := r.object(Place{Buffer: a.Place.Buffer, View: a.Place.View, Range: a.Used})
	out := runtime.Buf(b)
	if a.Stated {
		switch a.Access {
		case mem.Read:
			out = runtime.In(b)
		case mem.Write:
			out = runtime.Out(b)
		default:
			out = runtime.InOut(b)
		}
	}
	if a.Used != a.Place.Range {
		out = out.Range(off, a.Used.Size())
	}
	return out
}

// wait waits for every command, and returns the first failure in the order of
// the scenario.
func (r *runner) wait(ctx context.Context) error {
	for i, e := range r.events {
		if err := e.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c := &r.s.Commands[i]
			return fmt.Errorf("%s:%d: #%d %s: %w", r.s.File, c.Line, i+1, r.s.text(c), err)
		}
		r.progress("finished", i+1, len(r.events))
	}
	return nil
}

// readAll reads every buffer to the host, whose bytes the run's own commands
// have left wherever they are. Bytes that were never written are read too. The
// copies that it needs are not the scenario's and are not counted.
func (r *runner) readAll(ctx context.Context) ([][]byte, error) {
	q, err := r.ctx.NewQueue(r.devs["host"], runtime.QueueOptions{Name: "verify"})
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for i, b := range r.buffers {
		data := make([]byte, b.Size())
		e, err := q.EnqueueRead(ctx, b, 0, data)
		if err == nil {
			err = errors.Join(e.Wait(ctx), e.Release())
		}
		if err != nil {
			return nil, fmt.Errorf("reading buffer %s at the end: %w", r.s.Buffers[i].Name, err)
		}
		out = append(out, data)
	}
	return out, nil
}

// recorded is the runtime's record of the scenario's command i, or nil.
func (r *runner) recorded(i int) *trace.CommandRecord {
	id, err := r.events[i].Command()
	if err != nil {
		return nil
	}
	return r.rec.command(id)
}
