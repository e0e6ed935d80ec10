package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// server answers requests to several models on devices that cannot hold them all. A request waits in one line with
// all others until a device has a place for it; the router says which device. What it enqueues there is an input,
// a launch for each step and a read: which tables have to come, and which leave for them, is the runtime's. These commands are a
// runtime.Request: where the client leaves, what the device was not given yet is called off. Each model is a tenant.
type server struct {
	c      *runtime.Context
	kernel *runtime.Kernel
	route  router

	mu      sync.Mutex
	models  []*model  // immutable once open
	devices []*device // likewise
	waiting []*job    // protected by mu: in order of arrival
	timer   *time.Timer
	closed  bool           // protected by mu: no further requests
	running sync.WaitGroup // jobs that are on a device
	gone    cancelled      // protected by mu
}

// cancelled are the jobs whose client left while they were on a device.
type cancelled struct {
	jobs      int
	steps     int // that they had
	ran, most int // of these, after the client had left: in all, and of one job
}

// model is one that is served.
type model struct {
	name    string
	tenant  *runtime.Tenant
	tables  [layers]*runtime.Buffer
	weights *weights // for those who compare answers
}

// size is how many bytes its tables have.
func (m *model) size() (n uint64) {
	for _, table := range m.tables {
		n += table.Size()
	}
	return n
}

// device is one, with a queue and what is on it.
type device struct {
	q      *runtime.Queue
	load   int       // protected by server.mu: jobs that have not ended
	served uint64    // protected by server.mu: the last job's number
	ended  time.Time // protected by server.mu: when its last job did
	free   []*slot   // protected by server.mu
	slots  []*slot   // protected by server.mu: all
	asks   *slot     // immutable: for questions; what a cancelled job leaves in its own is lost
}

// slot is where a request's input and output are, kept for the next.
type slot struct {
	x, y     *runtime.Buffer
	in, out  []uint32
	steps    []runtime.Event // of the job on it
	finished runtime.Event
}

// job is a request in the server.
type job struct {
	ctx     context.Context // the client's
	model   int
	steps   int
	in, out []uint32
	turn    time.Time // when it came to be the first in line, where the router wants to know
	done    chan error

	request *runtime.Request // what is enqueued for it
	err     error            // of enqueueing
	left    bool             // protected by server.mu: the client has left
	before  int              // protected by server.mu: steps that had ended when it did
}

// depth is how many jobs a device has before it, so that the next is ready when one ends, and all others are
// still to be decided on.
const depth = 2

// params are of drivers: OpenCL's blocks are carved from what the library gave once, or each eviction would make and release a buffer of its.
var params = map[string]map[string]string{"opencl": {"carve": "on"}}

var errShutdown = errors.New("the server is shutting down")

// open makes a server of so many models with tables of so many words, over two devices of a driver, each capped. The first models have a
// device each, the others make way there.
func open(ctx context.Context, driver string, models, words, floors int, devCap uint64, by router) (s *server, err error) {
	var devs []devices.Device
	for len(devs) < 2 {
		more, err := devices.Open(ctx, driver, devices.Config{Name: fmt.Sprint(driver, len(devs)), Params: params[driver]})
		if err != nil {
			return nil, closeAll(devs, err)
		}
		devs = append(devs, more...)
	}
	s = &server{route: by}
	if s.c, err = runtime.OpenContext(ctx, runtime.Options{Name: "serve", Devices: devs, OwnDevices: true, Caps: []uint64{0, devCap, devCap}}); err != nil {
		return nil, err
	}
	if err := s.furnish(ctx, devs[:2], models, words, floors); err != nil {
		return nil, errors.Join(err, s.c.Close(ctx))
	}
	return s, nil
}

func closeAll(devs []devices.Device, err error) error {
	for _, d := range devs {
		err = errors.Join(err, d.Close())
	}
	return err
}

// furnish builds the kernel, loads the models and opens the queues.
func (s *server) furnish(ctx context.Context, devs []devices.Device, models, words, floors int) error {
	p, err := s.c.Build(ctx, program)
	if err != nil {
		return err
	}
	if s.kernel, err = p.Kernel("infer"); err != nil {
		return err
	}
	for i := range models {
		m := &model{name: fmt.Sprint("model", i), weights: newWeights(uint64(i), words)}
		o := runtime.TenantOptions{Name: m.name, Floors: make([]uint64, 3)}
		if i < min(floors, len(devs)) {
			o.Floors[1+i] = uint64(4 * words * layers)
		}
		if m.tenant, err = s.c.NewTenant(o); err != nil {
			return err
		}
		for l, table := range m.weights {
			name := fmt.Sprintf("%s.table%d", m.name, l)
			if m.tables[l], err = m.tenant.CreateBuffer(name, uint64(4*words), runtime.ReadOnly, runtime.BytesOf(table)); err != nil {
				return err
			}
		}
		s.models = append(s.models, m)
	}
	for _, d := range devs {
		q, err := s.c.NewQueue(d, runtime.QueueOptions{})
		if err != nil {
			return err
		}
		on := &device{q: q}
		if on.asks, err = s.take(on); err != nil {
			return err
		}
		s.devices = append(s.devices, on)
	}
	return nil
}

// launch is a step of a model's on a slot: odd ones read what the one before has written.
func (s *server) launch(m int, at *slot, step int) runtime.Launch {
	x, y := at.x, at.y
	if step%2 > 0 {
		x, y = y, x
	}
	args := make([]runtime.Arg, 0, layers+3)
	for _, table := range s.models[m].tables {
		args = append(args, runtime.In(table))
	}
	return runtime.Launch{Kernel: s.kernel, Global: []uint64{outputs}, Args: append(args, runtime.In(x), runtime.Out(y), runtime.Uint32(uint32(len(s.models[m].weights[0]))))}
}

// infer answers one request, or says why not.
func (s *server) infer(ctx context.Context, m, steps int, in []uint32) ([]uint32, error) {
	j := &job{ctx: ctx, model: m, steps: steps, in: in, out: make([]uint32, outputs), done: make(chan error, 1)}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errShutdown
	}
	s.waiting = append(s.waiting, j)
	s.dispatch()
	s.mu.Unlock()
	select {
	case err := <-j.done:
		return j.out, err
	case <-ctx.Done():
		s.leave(j)
		return nil, context.Cause(ctx)
	}
}

// leave takes a request out of the line, if it is still there.
func (s *server) leave(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting {
		if w == j {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return
		}
	}
}

// dispatch gives jobs to devices for as long as one has a place. mu is held.
func (s *server) dispatch() {
	for len(s.waiting) > 0 {
		i, d, later := s.route.next(s)
		if d == nil {
			if later > 0 && s.timer == nil {
				s.timer = time.AfterFunc(later, s.again)
			}
			return
		}
		j := s.waiting[i]
		s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
		if err := s.start(d, j); err != nil {
			j.done <- err
		}
	}
}

// again dispatches what was to wait.
func (s *server) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	s.dispatch()
}

// start enqueues a job. mu is held: what the router is told of devices is then always what was enqueued.
func (s *server) start(d *device, j *job) (err error) {
	at, err := s.take(d)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(j.ctx) // who leaves is counted, and then it is called off
	if j.request, err = s.c.NewRequest(ctx); err != nil {
		return err
	}
	if j.err = s.enqueue(ctx, d, j, at); j.err != nil { // what was accepted before runs
		if at.finished, err = d.q.EnqueueMarker(ctx); err != nil {
			return errors.Join(j.err, err) // the slot may be in use: it is not given again
		}
	}
	d.load++
	s.running.Add(1)
	go s.await(d, j, at, context.AfterFunc(j.ctx, func() { s.cancel(j, at) }))
	return nil
}

// enqueue enqueues what a job is: its input, its steps, and the read of what the last has written.
func (s *server) enqueue(ctx context.Context, d *device, j *job, at *slot) error {
	q := d.q.With(runtime.CommandOptions{Request: j.request, Label: s.models[j.model].name})
	copy(at.in, j.in)
	e, err := q.EnqueueWrite(ctx, at.x, 0, runtime.BytesOf(at.in))
	if err == nil {
		err = e.Release()
	}
	at.steps = at.steps[:0]
	for i := 0; i < j.steps && err == nil; i++ {
		if e, err = q.EnqueueLaunch(ctx, s.launch(j.model, at, i)); err == nil {
			at.steps = append(at.steps, e)
		}
	}
	if err != nil {
		return err
	}
	last := at.y
	if j.steps%2 == 0 {
		last = at.x
	}
	at.finished, err = q.EnqueueRead(ctx, last, 0, runtime.BytesOf(at.out))
	return err
}

// cancel calls a job off, whose client has left.
func (s *server) cancel(j *job, at *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.left, j.before = true, at.ended()
	_ = j.request.Abort(context.Cause(j.ctx)) // of a closed context: then it has ended
}

// ended is how many of the job's steps have run to their end.
func (at *slot) ended() (n int) {
	for _, e := range at.steps {
		if st, err := e.Status(); err == nil && st == runtime.Complete {
			n++
		}
	}
	return n
}

// await ends a job; stop has nobody cancel it any more.
func (s *server) await(d *device, j *job, at *slot, stop func() bool) {
	defer s.running.Done()
	err := at.finished.Wait(context.Background())
	s.mu.Lock()
	if !stop() && j.left {
		ran := at.ended() - j.before
		s.gone = cancelled{s.gone.jobs + 1, s.gone.steps + j.steps, s.gone.ran + ran, max(s.gone.most, ran)}
	}
	for _, e := range at.steps {
		err = errors.Join(err, e.Release())
	}
	at.steps = at.steps[:0] // whoever cancels it yet finds none
	err = errors.Join(j.err, err, at.finished.Release())
	copy(j.out, at.out)
	d.load--
	d.ended = time.Now()
	d.free = append(d.free, at)
	s.dispatch()
	s.mu.Unlock()
	j.request.Close()
	j.done <- err
}

// take returns a slot of a device's. mu is held.
func (s *server) take(d *device) (*slot, error) {
	if n := len(d.free); n > 0 {
		at := d.free[n-1]
		d.free = d.free[:n-1]
		return at, nil
	}
	at := &slot{in: make([]uint32, outputs), out: make([]uint32, outputs)}
	var err error
	if at.x, err = s.c.CreateNamedBuffer("x", 4*outputs, 0, nil); err != nil {
		return nil, err
	}
	if at.y, err = s.c.CreateNamedBuffer("y", 4*outputs, 0, nil); err != nil {
		return nil, errors.Join(err, at.x.Release())
	}
	d.slots = append(d.slots, at)
	return at, nil
}

// capped fails where a device has come to hold more than its cap.
func (s *server) capped() error {
	for m, b := range s.c.Figures().Memories {
		if m > 0 && b.Capacity > 0 && b.Peak > b.Capacity {
			return fmt.Errorf("%s held %d bytes of %d: %w", b.Name, b.Peak, b.Capacity, mem.ErrNoMemory)
		}
	}
	return nil
}

// close refuses further requests, waits for those on devices, and frees everything. Whoever still waits in line
// is told.
func (s *server) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for _, j := range s.waiting {
		j.done <- errShutdown
	}
	s.waiting = nil
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.running.Wait()
	errs := []error{s.capped()}
	for _, m := range s.models {
		for _, table := range m.tables {
			errs = append(errs, table.Release())
		}
		errs = append(errs, m.tenant.Close())
	}
	for _, d := range s.devices {
		for _, at := range d.slots {
			errs = append(errs, at.x.Release(), at.y.Release())
		}
	}
	return errors.Join(append(errs, s.c.Close(ctx))...) // and says what leaked
}
