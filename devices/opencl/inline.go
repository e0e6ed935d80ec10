//go:build cgo

package opencl

import (
	"slices"
	"strings"
	"sync"
	"time"

	"godwit/devices/opencl/internal/ocl"
)

// Launches in the thread that waits for them.
//
// Where kernels run in this process, OpenCL has threads for them. To wake one, and to be woken by it,
// takes 8 us and more; many kernels take less than one. A platform may have a device that runs a command in
// the thread that enqueues it, in the same memory (quirks.inline). It is in the cl_context beside
// those that Select shows, and nobody is shown it.
//
// So a launch that nothing holds, and that is likely to be short, gets a point from Submit and is left to who
// waits for it, as a transfer may be (blocking.go): within that Wait he runs it on the other device, without
// an event, a callback or a wake-up. If it takes long, it holds nobody but him, who holds no lock. Whatever else may
// need the launch to go on gives it to OpenCL, as if it had not been left: the next command of its queue, a Flush,
// a Poll, somebody who asks to be told of its end, a Wait that may not block the thread, Close. So a queue has at
// most one.
//
// A launch is likely to be short where
//
//   - it has at most inlineItems work-items;
//   - its kernel was launched limits.after times before: then its program is built for the other device, by a
//     goroutine (twin). Programs that launch a few times do not pay for that;
//   - the kernel's last launches that were left took no more than limits.long on average, with a debt of at most
//     limits.debt, which one long launch exceeds. Else inlinePause launches go to OpenCL at once, and the next time
//     twice as many;
//   - none of the last inlinePause was left and given to OpenCL in the end, as in a stream of launches.
//
// OpenCL must have taken one like it: of the same index space, with arguments of the same kinds and sizes. So
// what only OpenCL knows to refuse is refused when it is enqueued.
//
// Not left: launches in queues with profiling, whose times are OpenCL's; those that use shared virtual memory; and those
// without a local size whose program may see what that is: the two devices have not the same (twin.grouped).
const (
	inlineItems = 256
	inlinePause = 64      // launches
	inlineMost  = 1 << 20 // launches, however often it is doubled
	inlineCalm  = 1024    // launches that ran here in a row, after which the pause is the first again
	inlineLikes = 4       // shapes of launches that a kernel remembers
)

// limits of launches, and of processor time, which other threads do not add to: an interrupt now and then does.
type limits struct {
	after      int // launches before the program is built
	long, debt time.Duration
}

// inlineLimits are a variable for tests.
var inlineLimits = limits{128, 25 * time.Microsecond, 200 * time.Microsecond}

var (
	askInline func(library, variable, value string) // of UseInline
	hasInline bool                                  // it was asked; written under firstList
	firstList sync.Once
)

// listPlatforms is ocl.Platforms, but that the first call asks for the device for inline launches.
func listPlatforms() ([]ocl.Platform, error) {
	firstList.Do(func() {
		if askInline != nil {
			hasInline = addInline(askInline)
		}
	})
	return ocl.Platforms()
}

// takeInline takes the device for inline launches out of a platform's, which its others are without. It
// is nil where nobody has tried it.
func takeInline(p *ocl.Platform) ([]ocl.Device, *ocl.Device) {
	q := quirksOf(p.Name)
	if !hasInline {
		return p.Devices, nil
	}
	begins := func(prefix string) func(ocl.Device) bool {
		return func(d ocl.Device) bool { return prefix != "" && strings.HasPrefix(d.ID.Text(infoName), prefix) }
	}
	rest := slices.DeleteFunc(slices.Clone(p.Devices), begins(q.untriedInline))
	i := slices.IndexFunc(rest, begins(q.inline))
	if i < 0 {
		return rest, nil
	}
	d := rest[i]
	return slices.Delete(rest, i, i+1), &d
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

// inlineKernel is a kernel's part in this.
type inlineKernel struct {
	twin *twin // immutable; nil where nothing of it runs inline

	cl   ocl.Kernel  // of the twin; protected by inline.mu, and by nothing once the kernel has no uses
	set  ocl.SetArgs // the same
	warm bool        // protected by inline.mu: it has run, so that what it needs is compiled

	wait  int                 // protected by host.mu: launches that go to OpenCL before one is left
	pause int                 // protected by host.mu: what wait is set to next
	runs  int                 // protected by host.mu: launches that ran here in a row
	debt  time.Duration       // protected by host.mu: of these, what they took more than limits.long each
	likes [inlineLikes]uint64 // protected by host.mu: of launches that OpenCL has taken
	last  int                 // protected by host.mu: of likes
}

func newInlineKernel(t *twin) inlineKernel {
	return inlineKernel{twin: t, wait: inlineLimits.after, pause: inlinePause}
}

func (k *inlineKernel) free() {
	if k.cl != 0 {
		k.cl.Release()
		k.set.Free()
	}
}

// mayBeInline reports whether r, a launch that nothing holds, is left to who waits for it. host.mu is held.
func (r *record) mayBeInline() bool {
	k := &r.kernel.inline
	if k.twin == nil || k.twin.grouped && !r.hasGroups() || r.q.here != nil || !r.q.dev.direct || r.q.timing || len(r.lent) > 0 || len(r.unpin) > 0 || r.cmd.Reached > 0 || !r.isSmall() {
		return false
	}
	if k.wait > 0 {
		k.wait--
		return false
	}
	return r.reached && k.twin.ready() && slices.Contains(k.likes[:], r.like())
}

// hasGroups reports whether r's work-groups are the same on all devices.
func (r *record) hasGroups() bool { return r.cmd.HasLocal != 0 || r.items() == 1 }

func (r *record) isSmall() bool { return r.items() <= inlineItems }

// items is how many work-items r, a launch, has, or some number above inlineItems.
func (r *record) items() uint64 {
	items := uint64(1)
	for _, n := range r.cmd.Global[:r.cmd.Dims] {
		if n > inlineItems { // a product of three that are not is no overflow
			return n
		}
		items *= n
	}
	return items
}

// like is the same number for launches that OpenCL takes, or refuses, alike; never 0.
func (r *record) like() uint64 {
	c, n := &r.cmd, uint64(1)
	mix := func(v uint64) { n = (n ^ v) * 0x9e3779b97f4a7c15; n ^= n >> 29 } // any odd number with many ones
	mix(uint64(c.Dims)<<1 | uint64(c.HasLocal))
	for i := range c.Dims {
		mix(c.Global[i])
		mix(c.Local[i])
		mix(c.Off[i])
	}
	ocl.Heads(r.args, mix)
	return n | 1
}

// taken notes that OpenCL has taken r, a launch. host.mu is held.
func (k *inlineKernel) taken(r *record) {
	if k.twin == nil || k.wait > 0 || !r.isSmall() {
		return
	}
	if n := r.like(); !slices.Contains(k.likes[:], n) {
		k.last = (k.last + 1) % inlineLikes
		k.likes[k.last] = n
	}
}

// ran notes how long a launch took that was left and ran here. host.mu is held.
func (k *inlineKernel) ran(took time.Duration) {
	if k.debt = max(0, k.debt+took-inlineLimits.long); k.debt > inlineLimits.debt {
		k.backOff()
	} else if k.runs++; k.runs == inlineCalm {
		k.pause = inlinePause
	}
}

// backOff has launches go to OpenCL for a while. host.mu is held.
func (k *inlineKernel) backOff() {
	k.runs, k.debt, k.wait = 0, 0, k.pause
	k.pause = min(2*k.pause, inlineMost)
}

// hereLocked is the launch of q that is left, which it is no more; nil where there is none.
func (q *Queue) hereLocked() *record {
	r := q.here
	if r != nil {
		r.left, q.here = false, nil
		q.leaves.Store(false)
	}
	return r
}

// giveHere gives OpenCL the launch of q that is left, where there is one, to be started.
func (q *Queue) giveHere() {
	if !q.leaves.Load() {
		return
	}
	h := q.dev.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.giveHereLocked(q)
}

// giveHereLocked is giveHere. mu is released in between, and no point is ended.
func (h *host) giveHereLocked(q *Queue) {
	if r := q.hereLocked(); r != nil {
		r.kernel.inline.wait = inlinePause
		h.giveLocked(r)
	}
}

// giveLocked gives r, a launch that was left, to OpenCL: elsewhere to native. mu is released in between.
func (h *host) giveLocked(r *record) {
	r.state = held
	if r.q.abort == nil {
		h.mu.Unlock()
		_, err := r.enqueue()
		h.mu.Lock()
		if err != nil {
			r.strict, r.failure = true, err
		} else if h.nativeLocked(r); !r.told {
			return
		}
	}
	h.readyLocked(r)
}

// runLocked runs r, a launch that was left, in this thread, or gives it to OpenCL where it cannot. mu is
// released in between.
func (h *host) runLocked(r *record) {
	x, k := h.inline, &r.kernel.inline
	if r.q.abort != nil || !x.mu.TryLock() {
		h.giveLocked(r)
		return
	}
	h.mu.Unlock()
	took, ran, st := x.run(r)
	x.mu.Unlock()
	h.mu.Lock()
	switch ran {
	case ocl.Ran:
		k.ran(took)
		var err error
		if r.q.dev.sees(st) != 0 {
			r.cmd.FailedArg = -1 // all were set, by a copy of cmd
			err = r.refusal(st)
		}
		h.draining++
		h.finishLocked(r, err)
		h.drainLocked()
	case ocl.Refused:
		k.backOff()
		h.giveLocked(r)
	case ocl.Elsewhere:
		h.giveLocked(r)
	}
}

// run runs r in this thread. mu is held.
func (x *inline) run(r *record) (time.Duration, ocl.Run, ocl.Status) {
	k := &r.kernel.inline
	if k.cl == 0 {
		if k.cl = k.twin.kernel(r.kernel.name); k.cl == 0 {
			return 0, ocl.Refused, 0
		}
		k.set = ocl.NewSetArgs()
	}
	c := r.cmd
	c.Queue, c.Kernel = x.queue, k.cl
	took, ran, st := c.RunInline(r.args, k.set)
	if ran == ocl.Ran && !k.warm {
		k.warm, took = true, 0 // it may have been compiled
	}
	return took, ran, st
}

// here has launches left to who waits for them.
type here struct{}

func (here) run(r *record) {
	r.left, r.q.here = true, r
	r.q.leaves.Store(true)
}
