package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit/devices"
	"godwit/mem"
	"godwit/migration/oracle"
	"godwit/runtime"
	"godwit/trace"
)

// Config is what a history is replayed on.
type Config struct {
	Name       string
	Open       func() ([]devices.Device, error) // called for each run; the devices are closed by it
	NoPeer     bool
	SVM        bool // buffers without first content lie over shared virtual memory
	OutOfOrder bool
	Unchecked  bool          // leave Context.Check out of every step but the last
	Flaky      error         // what the devices of Open fail with now and then, where they do
	Patience   time.Duration // after which a run that does not end counts as hung; 0 is 30 s
}

// Result is what a run did.
type Result struct {
	Commands   int    // accepted
	Refused    int    // for want of memory, or by flaky devices
	BytesMoved uint64 // equal to the oracle's lower bound, where nothing may fail
	Failed     int    // commands that failed after they were accepted
	Spurious   int    // of Failed: rested on a copy made together with lost bytes
	Lost       int    // commands refused because they read what a failed one was to write
	BytesRead  int    // compared with the flat memory
	Digest     uint64 // of the defined bytes read: equal wherever nothing was refused
}

// replay is one run.
type replay struct {
	h      *History
	cfg    Config
	ctx    context.Context
	c      *runtime.Context
	queues []*runtime.Queue
	views  []*runtime.Buffer
	svm    map[int]runtime.Pointer // of the roots that lie over it
	freed  []runtime.Pointer       // to be freed at the end
	prog   *runtime.Program
	kernel map[Kind]*runtime.Kernel
	oracle *oracle.Oracle
	rec    *trace.Recorder
	seen   int                   // command records compared with the oracle
	events map[int]runtime.Event // by operation
	open   map[int]runtime.Event // user events not set
	owned  []runtime.Event       // to be released
	log    []entry
	result Result
}

// entry is an operation that was accepted: a command, or the renewal of a root.
type entry struct {
	op      *Op
	command uint64 // its place in the context's order; 0 for renewals
	event   runtime.Event
	got     []byte // by a read, once it has ended
	waits   []runtime.Event
	refused bool // because bytes it reads were known to be lost
}

// Run replays h. An error is a failure of what is tested, or of the devices.
func Run(h *History, cfg Config) (res Result, err error) {
	if cfg.Patience == 0 {
		cfg.Patience = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Patience)
	defer cancel()
	r := newReplay(ctx, h, cfg)
	if err := r.setUp(); err != nil {
		return Result{}, err
	}
	for i := range h.Ops {
		if err = r.step(&h.Ops[i]); err != nil {
			err = fmt.Errorf("operation %d (%s): %w", h.Ops[i].ID, h.Ops[i].Kind, err)
			break
		}
	}
	if err == nil {
		err = r.finish()
	}
	return r.result, errors.Join(err, r.tearDown())
}

func (r *replay) setUp() error {
	devs, err := r.cfg.Open()
	if err != nil {
		return err
	}
	r.c, err = runtime.NewContext(runtime.Options{Name: r.cfg.Name, Devices: devs, OwnDevices: true, NoPeer: r.cfg.NoPeer, Trace: r.rec})
	if err != nil {
		return err
	}
	r.oracle = oracle.New(r.c.Topology(), 1)
	for _, d := range append(devs, devs...) { // two queues each
		q, err := r.c.NewQueue(d, runtime.QueueOptions{OutOfOrder: r.cfg.OutOfOrder})
		if err != nil {
			return errors.Join(err, r.c.Close(r.ctx))
		}
		r.queues = append(r.queues, q)
	}
	if r.prog, err = r.c.Build(r.ctx, Program); err != nil {
		return errors.Join(err, r.c.Close(r.ctx))
	}
	for _, k := range []Kind{Mix, Produce, Reverse} {
		if r.kernel[k], err = r.prog.Kernel("meta_" + string(k)); err != nil {
			return errors.Join(err, r.c.Close(r.ctx))
		}
	}
	r.views = make([]*runtime.Buffer, len(r.h.Views))
	for root := range r.h.Roots {
		if err := r.create(root, r.h.Init[root]); err != nil {
			return errors.Join(err, r.c.Close(r.ctx))
		}
	}
	return nil
}

// create makes a root and its views.
func (r *replay) create(root int, init bool) error {
	var whole *runtime.Buffer
	for i, v := range r.h.Views {
		if v.Root != root {
			continue
		}
		var err error
		switch {
		case v.Sub:
			r.views[i], err = whole.Sub(uint64(v.Origin), uint64(v.Size), 0)
		case init:
			r.views[i], err = r.c.CreateBuffer(uint64(v.Size), 0, pattern(v.Size, uint32(root)))
		case r.cfg.SVM:
			r.views[i], err = r.createSVM(root, uint64(v.Size))
		default:
			r.views[i], err = r.c.CreateBuffer(uint64(v.Size), 0, nil)
		}
		if err != nil {
			return err
		}
		if !v.Sub {
			whole = r.views[i]
			var valid mem.MemorySet
			if init {
				valid = mem.SetOf(mem.Host)
			}
			if err := r.oracle.Create(whole.ID(), uint64(v.Size), valid); err != nil {
				return err
			}
		}
	}
	return nil
}

// release gives up a root's views, last the root or first, as the history's seed
// has it.
func (r *replay) release(root int) error {
	var errs []error
	for i, v := range r.h.Views {
		if v.Root == root && r.views[i] != nil {
			if !v.Sub {
				r.oracle.Release(r.views[i].ID())
			}
			errs = append(errs, r.views[i].Release())
			r.views[i] = nil
		}
	}
	if p, ok := r.svm[root]; ok { // host calls may still use a map of it
		r.freed = append(r.freed, p)
		delete(r.svm, root)
	}
	return errors.Join(errs...)
}

// step replays one operation on the context and the oracle.
func (r *replay) step(op *Op) error {
	if err := r.do(op); err != nil {
		return err
	}
	if err := r.compareMoves(); err != nil {
		return err
	}
	if r.cfg.Unchecked {
		return nil
	}
	return r.c.Check()
}

// do gives the operation to the context and logs it where it was accepted.
func (r *replay) do(op *Op) error {
	got := []byte(nil)
	if op.reads() {
		got = make([]byte, op.bytes())
	}
	wait := r.waits(op)
	e, err := r.enqueue(op, got, wait)
	switch {
	case errors.Is(err, mem.ErrPoisoned) && r.mayFail():
		r.log = append(r.log, entry{op: op, refused: true})
		r.result.Lost++
		return nil
	case r.cfg.Flaky != nil && errors.Is(err, r.cfg.Flaky), errors.Is(err, mem.ErrNoMemory) || errors.Is(err, mem.ErrNoHostMemory):
		r.result.Refused++
		return nil
	case err != nil:
		return err
	}
	var command uint64
	if !e.IsZero() {
		r.events[op.ID] = e
		r.owned = append(r.owned, e)
		if command, err = e.Command(); err != nil {
			return err
		}
	}
	if command > 0 {
		r.result.Commands++
	}
	if command > 0 || op.Kind == Renew {
		r.log = append(r.log, entry{op: op, command: command, event: e, got: got, waits: wait})
	}
	return nil
}

// mayFail reports whether commands of this run may fail once they are accepted.
func (r *replay) mayFail() bool { return r.h.Failing || r.cfg.Flaky != nil }

// waits is an operation's wait list.
func (r *replay) waits(op *Op) (wait []runtime.Event) {
	for _, id := range op.Wait {
		if e, ok := r.events[id]; ok {
			wait = append(wait, e)
		}
	}
	return wait
}

// enqueue gives the operation to the context, a read with the memory it is to
// fill; the zero event where it is no command.
func (r *replay) enqueue(op *Op, got []byte, wait []runtime.Event) (runtime.Event, error) {
	q := r.queues[op.Queue%len(r.queues)]
	dst := r.views[op.Dst%len(r.views)]
	dstOff, srcOff, size := uint64(op.DstOff), uint64(op.SrcOff), uint64(op.Size)
	if e, ok, err := r.bySVM(q, op, got, wait); ok {
		return e, err
	}
	switch op.Kind {
	case Write:
		return q.EnqueueWrite(r.ctx, dst, dstOff, pattern(op.Size, op.Salt), wait...)
	case Read:
		return q.EnqueueRead(r.ctx, dst, dstOff, got, wait...)
	case WriteRect, ReadRect, CopyRect:
		return r.rect(q, op, got, wait)
	case MapRead, MapWrite, MapInvalidate:
		return r.mapped(q, op, got, wait)
	case Copy:
		return q.EnqueueCopy(r.ctx, r.views[op.Src], dst, srcOff, dstOff, size, wait...)
	case Fill:
		return q.EnqueueFill(r.ctx, dst, []byte{byte(op.Salt)}, dstOff, size, wait...)
	case Mix, Produce, Reverse:
		return q.EnqueueLaunch(r.ctx, runtime.Launch{Kernel: r.kernel[op.Kind], Global: []uint64{size}, Args: r.args(op)}, wait...)
	case Migrate:
		var flags runtime.MigrateFlags
		if op.Host {
			flags |= runtime.MigrateToHost
		}
		if op.Undefined {
			flags |= runtime.ContentUndefined
		}
		return q.EnqueueMigrate(r.ctx, []*runtime.Buffer{dst}, flags, wait...)
	case Marker:
		return q.EnqueueMarker(r.ctx, wait...)
	case Barrier:
		return q.EnqueueBarrier(r.ctx, wait...)
	case User:
		e, err := r.c.NewUserEvent()
		r.open[op.ID] = e
		return e, err
	case Set:
		return runtime.Event{}, r.set(op.Ref, op.Fail)
	case Finish:
		return runtime.Event{}, errors.Join(r.setAll(), r.finishQueue(q))
	case Renew:
		return runtime.Event{}, errors.Join(r.release(op.Dst), r.create(op.Dst, false))
	}
	return runtime.Event{}, fmt.Errorf("unknown kind %q", op.Kind)
}

// args are the arguments of a launch: those that are written in full promise so.
func (r *replay) args(op *Op) []runtime.Arg {
	dst, size := r.views[op.Dst], uint64(op.Size)
	dstOff := runtime.Uint32(uint32(op.DstOff))
	if op.Kind == Produce {
		return []runtime.Arg{runtime.Out(dst).Range(uint64(op.DstOff), size), dstOff, runtime.Uint32(op.Salt)}
	}
	src := runtime.Buf(r.views[op.Src]).Range(uint64(op.SrcOff), size) // const in the kernel
	srcOff := runtime.Uint32(uint32(op.SrcOff))
	if op.Kind == Reverse {
		return []runtime.Arg{runtime.Out(dst).Range(uint64(op.DstOff), size), dstOff, src, srcOff}
	}
	return []runtime.Arg{runtime.InOut(dst).Range(uint64(op.DstOff), size), dstOff, src, srcOff, runtime.Uint32(op.Salt)}
}

// finishQueue finishes a queue; what failed on it is no error where commands may.
func (r *replay) finishQueue(q *runtime.Queue) error {
	err := q.Finish(r.ctx)
	if r.mayFail() && r.ctx.Err() == nil {
		return nil
	}
	return err
}

func (r *replay) set(id int, fail bool) error {
	e, ok := r.open[id]
	if !ok {
		return nil
	}
	delete(r.open, id)
	if fail {
		return e.SetStatus(-999)
	}
	return e.SetStatus(runtime.Complete)
}

func (r *replay) setAll() error {
	var errs []error
	for id := range r.open {
		errs = append(errs, r.set(id, false))
	}
	return errors.Join(errs...)
}
