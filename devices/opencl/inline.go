//go:build cgo

package opencl

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Launches in the thread that submits them.
//
// Where kernels run in this process, OpenCL has threads for them. To wake one, and to be woken by it,
// takes 8 us and more; many kernels take less than one. A platform may have a device that runs a command in
// the thread that enqueues it, in the same memory (quirks.inline). It is in the cl_context beside
// those that Select shows, and nobody is shown it. So a launch whose waits are reached and that is
// known to be short is given to that device, within Submit, and has ended when Submit returns:
// its point is reached, what follows waits for nothing, and there is no event, callback or wake-up.
//
// What is short is found out, for each kernel:
//
//   - Its first limits.after launches of few work-items go to OpenCL as any. Then its program is built
//     for the other device, by a goroutine (twin): programs that launch a few times do not pay for that.
//   - Then some launches are trials: a goroutine runs them there, and takes their time. That may
//     take long, and holds up nobody but what waits for it.
//   - After enough short trials launches run inline. Where several take long, of processor time, all
//     go to OpenCL again, and after many launches there are trials again; each time after twice as
//     many, unless it went well for long.
//
// Not inline: queues with profiling, whose times are OpenCL's; more work-items than one thread should
// run; launches that use shared virtual memory; programs with variables at program scope, of which
// each device has its own; programs that were linked, or made of binaries; and, from then on, kernels that
// were to run in a thread with less stack than OpenCL's own have.
const (
	inlineItems = 256 // work-items of a launch
	inlineGood  = 3   // short trials that are enough
	inlineBad   = 8   // long trials that are too many
	inlineOften = 4   // long launches that are too many, with less than inlineApart between two
	inlineApart = 64
	inlineCalm  = 4096    // launches without a long one, after which what was before is forgotten
	inlinePause = 1024    // launches from one row of trials to the next, at first
	inlineMost  = 1 << 20 // and at most
)

// limits are a variable for tests. Trials are longer than launches that follow each other: what they
// touch is in no cache.
type limits struct {
	after int           // launches before the program is built
	short time.Duration // a trial takes at most
	long  time.Duration // a launch that ran inline takes more
	twice time.Duration // and such a one counts as two
}

var inlineLimits = limits{128, 25 * time.Microsecond, 20 * time.Microsecond, time.Millisecond}

// wantsInline is whether UseInline was called.
var wantsInline bool

// hasInline is whether there is a device that UseInline asked for; written under firstList.
var (
	hasInline bool
	firstList sync.Once
)

// listPlatforms is ocl.Platforms, but that the first call asks for the device for inline launches.
func listPlatforms() (all []ocl.Platform, err error) {
	first := false
	firstList.Do(func() {
		if !wantsInline {
			return
		}
		end, ok := addInline()
		if !ok {
			return
		}
		defer end()
		first, hasInline = true, true
		all, err = ocl.Platforms()
	})
	if first {
		return all, err
	}
	return ocl.Platforms()
}

// takeInline takes the device for inline launches out of a platform's.
func takeInline(p *ocl.Platform) ([]ocl.Device, *ocl.Device) {
	names := quirksOf(p.Name).inline
	if !hasInline {
		return p.Devices, nil
	}
	i := slices.IndexFunc(p.Devices, func(d ocl.Device) bool {
		name := d.ID.Text(infoName)
		return slices.ContainsFunc(names, func(begins string) bool { return strings.HasPrefix(name, begins) })
	})
	if i < 0 {
		return p.Devices, nil
	}
	d := p.Devices[i]
	return slices.Delete(p.Devices, i, i+1), &d
}

// inline is what a host has of the device that runs launches inline.
type inline struct {
	device ocl.Device
	queue  ocl.Queue

	mu sync.Mutex // held while a command runs
}

// newContext makes the context of a platform's devices, and what runs launches inline, where there
// is a device for that and nobody says otherwise.
func newContext(devs []ocl.Device, d *ocl.Device, use toggle) (ocl.Context, *inline, error) {
	if d == nil || !use.or(true) {
		c, err := ocl.NewContext(devs)
		return c, nil, err
	}
	c, err := ocl.NewContext(append(slices.Clone(devs), *d))
	if err != nil {
		return c, nil, err
	}
	x := &inline{device: *d}
	if x.queue, err = c.NewQueue(*d, false, false); err != nil {
		c.Release()
		return c, nil, err
	}
	return c, x, nil
}

func (x *inline) close() {
	if x != nil {
		_ = x.queue.Finish()
		x.queue.Release()
	}
}

// twin is a program built for the inline device. All is safe with nil, which has no kernels.
type twin struct {
	host    *host
	source  []byte // immutable
	options string // immutable

	state atomic.Int32 // twinUnbuilt and so on

	mu     sync.Mutex
	closed bool        // protected by mu
	cl     ocl.Program // protected by mu; released with the twin
}

// What has become of a twin.
const (
	twinUnbuilt int32 = iota
	twinBuilding
	twinReady
	twinRefused
)

// newTwin is the twin of a program of OpenCL C; nothing is built yet.
func (h *host) newTwin(source []byte, options string) *twin {
	if h.inline == nil {
		return nil
	}
	return &twin{host: h, source: source, options: options}
}

// build has the twin built, by a goroutine.
func (t *twin) build() {
	if !t.state.CompareAndSwap(twinUnbuilt, twinBuilding) {
		return
	}
	t.host.builds.Go(func() {
		cl := t.compile()
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case cl == 0:
			t.state.Store(twinRefused)
		case t.closed:
			cl.Release()
		default:
			t.cl = cl
			t.state.Store(twinReady)
		}
	})
}

// compile is 0 where there can be no twin: the compiler refuses, or there are variables of the
// program's, which would be there twice.
func (t *twin) compile() ocl.Program {
	x := t.host.inline
	p, st := t.host.context.NewProgram(t.source)
	if st != 0 {
		return 0
	}
	st = p.Build([]ocl.DeviceID{x.device.ID}, t.host.edge.options(t.options))
	if st == 0 {
		globals, st := p.BuildInfo(x.device.ID, ocl.BuildGlobals)
		if st == 0 && len(globals) > 0 && !slices.ContainsFunc(globals, func(b byte) bool { return b != 0 }) {
			return p
		}
	}
	p.Release()
	return 0
}

// kernel makes a kernel of the twin; 0 where it is not built, or cannot be.
func (t *twin) kernel(name string) ocl.Kernel {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cl == 0 {
		return 0
	}
	k, st := t.cl.NewKernel(name)
	if st != 0 {
		return 0
	}
	return k
}

// close gives the twin up; kernels of it keep what they need.
func (t *twin) close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cl != 0 {
		t.cl.Release()
	}
	t.closed, t.cl = true, 0
}

// inlineKernel is a kernel's part in this.
type inlineKernel struct {
	twin *twin // immutable

	cl  ocl.Kernel  // of the twin; protected by inline.mu, and by nothing once the kernel has no uses
	set ocl.SetArgs // the same

	wait  int  // protected by host.mu: launches that go to OpenCL before anything else is tried
	pause int  // protected by host.mu: what wait is set to next
	good  int  // protected by host.mu: short trials
	long  int  // protected by host.mu: long trials, or launches lately
	since int  // protected by host.mu: launches since the last long one
	doubt int  // protected by host.mu: launches to come whose processor time is taken
	tried bool // protected by host.mu: a trial is on its way
	never bool // protected by host.mu
	built bool // protected by host.mu: the twin has been asked for
}

func (k *inlineKernel) free() {
	if k.cl != 0 {
		k.cl.Release()
		k.set.Free()
	}
}

// prepare makes the cl_kernel, once the twin is there. inline.mu is held.
func (k *inlineKernel) prepare(name string) bool {
	if k.cl == 0 {
		if k.cl = k.twin.kernel(name); k.cl != 0 {
			k.set = ocl.NewSetArgs()
		}
	}
	return k.cl != 0
}

// mayBeInline reports whether r, a launch that nothing holds, may run inline, if it is short. host.mu is held.
func (r *record) mayBeInline() bool {
	c := &r.cmd
	if r.kernel.inline.twin == nil || r.kernel.inline.never || !r.reached || !r.q.dev.direct || r.q.timing ||
		len(r.lent) > 0 || len(r.unpin) > 0 || c.Reached > 0 {
		return false
	}
	items := uint64(1)
	for _, n := range c.Global[:c.Dims] {
		if n > inlineItems { // a product of three that are not is no overflow
			return false
		}
		items *= n
	}
	return items <= inlineItems
}

// inlineLane is how r goes on, which may be inline. Where it is runNow, inline.mu is held.
func (r *record) inlineLane() lane {
	k := &r.kernel.inline
	if !k.built {
		k.built, k.wait, k.pause = true, inlineLimits.after, inlinePause
	}
	switch {
	case k.wait > 0:
		k.wait--
	case k.twin.state.Load() == twinUnbuilt:
		k.twin.build()
	case k.twin.state.Load() == twinRefused:
		k.never = true
	case k.twin.state.Load() != twinReady:
	case k.good == inlineGood:
		if r.host.inline.mu.TryLock() {
			return runNow
		}
	case !k.tried:
		k.tried = true
		r.runner = trial{}
		return toRunner
	}
	return toOpenCL
}

// runInline runs r, whose waits are reached, and returns how long it took: of processor time, which other
// threads do not add to, or by the clock, which is cheap to ask. inline.mu is held.
func (r *record) runInline(processor bool) (time.Duration, ocl.Status) {
	x, k := r.host.inline, &r.kernel.inline
	c := r.cmd
	c.Queue, c.Kernel = x.queue, k.cl
	return c.RunInline(r.args, k.set, processor)
}

// runNowLocked does r within Submit: held to free. mu is released in between, which nobody uses:
// nobody knows of r. It reports false where OpenCL would not have it.
func (h *host) runNowLocked(r *record) (mem.Point, bool) {
	q, k := r.q, &r.kernel.inline
	sure := k.doubt > 0
	h.mu.Unlock()
	took, st := r.runInline(sure)
	h.inline.mu.Unlock()
	h.mu.Lock()
	if st != 0 {
		k.never = true
		return mem.Point{}, false
	}
	k.ran(took)
	p := q.line.Ended()
	if q.inOrder {
		q.tail = p
	}
	h.refuseLocked(r)
	return p, true
}

// ran notes how long a launch took that ran inline: after one that was long by the clock, in which the thread
// may have been interrupted, processor time is what counts, for a while. host.mu is held.
func (k *inlineKernel) ran(took time.Duration) {
	if k.since++; k.since == inlineCalm {
		k.pause = inlinePause
	}
	sure := k.doubt > 0
	if sure {
		k.doubt--
	}
	if took <= inlineLimits.long {
		return
	}
	k.doubt = inlineApart
	if !sure {
		return
	}
	if k.since > inlineApart {
		k.long = 0
	}
	k.since = 0
	if k.long++; took > inlineLimits.twice {
		k.long++
	}
	if k.long >= inlineOften {
		k.stop()
	}
}

// stop has launches go to OpenCL for a while. host.mu is held.
func (k *inlineKernel) stop() {
	k.good, k.long, k.doubt, k.wait = 0, 0, 0, k.pause
	k.pause = min(2*k.pause, inlineMost)
}

// trial runs launches on the inline device, to see how long they take.
type trial struct{}

func (trial) run(r *record) { r.q.calls.Go(r.runTrial) }

// runTrial is the life of a trial's goroutine.
func (r *record) runTrial() {
	h, x, k := r.host, r.host.inline, &r.kernel.inline
	x.mu.Lock()
	there := k.prepare(r.kernel.name)
	var took time.Duration
	var st ocl.Status
	if there {
		r.begun.Store(true)
		took, st = r.runInline(true)
	}
	x.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining++
	k.tried = false
	switch {
	case there && st == 0:
		k.judge(took)
		h.finishLocked(r, nil)
	default: // it did not run
		k.never = true
		r.runner, r.state = nil, held
		h.readyLocked(r)
	}
	h.drainLocked()
}

// judge notes how long a trial took. The first may compile, and any may be interrupted. host.mu is held.
func (k *inlineKernel) judge(took time.Duration) {
	if took > inlineLimits.short {
		if k.long++; k.long == inlineBad {
			k.stop()
		}
		return
	}
	if k.good++; k.good == inlineGood {
		k.long, k.since = 0, 0
	}
}
