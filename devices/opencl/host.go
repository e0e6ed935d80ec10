//go:build cgo

package opencl

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// host is what the open devices of one platform share: the cl_context, the
// records of accepted commands, and two goroutines that move them on.
//
// The life of a record is in record.go, the ready list in ready.go.
//
// OpenCL's callbacks put (record, status) into the sink, a list in C, and never
// enter Go. A record is free again only when its callback has come.
//
// Lock order: a queue's submit order (the caller's), Device.launching, mu, then the locks of
// batches (Stage, Ended) and of mem.Timelines. Nothing is called under mu that takes long:
// no OpenCL call is, but those that read the times of an event that has ended (profile.go).
type host struct {
	name    string
	context ocl.Context
	devices []ocl.Device // all of the platform
	open    int          // protected by driver.mu: devices
	apart   bool         // protected by driver.mu: OpenCL's calls are kept apart (quirks.crowdsBreak)

	quirks     quirks  // immutable
	spareTrash int     // immutable: how many events those with time to release them leave
	worker     *worker // immutable; runs the commands of a platform that has no threads for that, else nil
	shadow     *shadow // immutable; of a platform that checks, else nil

	buildMu  sync.Mutex
	programs map[[3]string]*program // protected by buildMu
	builds   sync.WaitGroup

	pinned pinnedRanges // page-locked host memory of all devices

	samplers samplers

	fabric fabric // copies between its devices

	sink     ocl.Sink
	use      sync.RWMutex  // held, shared, to hurry the sink; and to free it
	gone     bool          // protected by use: the sink is freed
	lazy     atomic.Bool   // take was called, or is about to be, and nobody may have waited
	wake     chan struct{} // capacity 1: something is ready
	unfenced atomic.Bool   // some queue is to be fenced
	stop     chan struct{}
	moving   sync.WaitGroup // the goroutines

	mu       sync.Mutex
	ended    sync.Cond                // L is mu: a command has ended
	lines    map[*mem.Timeline]*Queue // protected by mu
	records  []*record                // protected by mu: by index
	free     [2][]*record             // protected by mu: with room for few waits, and for many
	ready    []*record                // protected by mu: from next on, in order
	next     int                      // protected by mu
	routes   map[routeKey]*route      // protected by mu; nil while one is being made
	unstaged []*batch                 // protected by mu: that need staging, in order
	batches  []*batch                 // protected by mu: free ones
	trash    []ocl.Event              // protected by mu: events to be released
	emptied  []ocl.Event              // protected by mu: room for trash
	hopping  int                      // protected by mu: hops accepted and not ended
	draining int                      // protected by mu: goroutines that will look at ready again
	closing  bool                     // protected by mu
}

func newHost(f Found, opts options) (*host, error) {
	h, devs := &host{name: f.Info.Platform, devices: f.all, quirks: opts.over(quirksOf(f.Info.Platform))}, f.all
	var err error
	if h.quirks.oneThread {
		h.worker = newWorker()
	}
	h.do(func() {
		if h.context, err = ocl.NewContext(devs); err != nil || !h.quirks.checks {
			return
		}
		if h.shadow, err = newShadow(h.context); err != nil {
			h.context.Release()
		}
	})
	if err != nil {
		if h.worker != nil {
			h.worker.close()
		}
		return nil, fmt.Errorf("platform %s: no context for its %d devices: %w", f.Info.Platform, len(devs), errors.Join(err, mem.ErrDeviceLost))
	}
	h.programs, h.lines = make(map[[3]string]*program), make(map[*mem.Timeline]*Queue)
	h.routes = make(map[routeKey]*route)
	h.sink = ocl.NewSink(h.quirks.slowCallbacks)
	if h.quirks.slowEvents {
		h.spareTrash = muchTrash
	}
	h.wake, h.stop = make(chan struct{}, 1), make(chan struct{})
	h.ended.L = &h.mu
	h.moving.Go(h.receive)
	h.moving.Go(h.dispatch)
	return h, nil
}

// opens counts one device more or less. driver.mu is held.
func (h *host) opens(more int) {
	h.open += more
	if apart := h.quirks.crowdsBreak && h.open > 1; apart != h.apart {
		h.apart = apart
		ocl.KeepApart(apart)
	}
}

// close releases everything, after the last device. It waits for callbacks that
// are still to come, of commands that a poll has seen end: they write to the
// sink, and the record's event is released by them.
func (h *host) close() {
	h.mu.Lock()
	h.closing = true
	h.hurry()
	for h.inUseLocked() > 0 {
		h.ended.Wait()
	}
	trash := h.trash
	h.trash = nil // a goroutine that drains looks again
	h.mu.Unlock()
	h.fabric.close()
	ocl.ReleaseEvents(trash)
	close(h.stop)
	h.sink.Close()
	h.moving.Wait()
	h.builds.Wait()
	for _, p := range h.programs {
		p.release()
	}
	for _, r := range h.records {
		r.tag.Free()
	}
	h.use.Lock()
	h.gone = true
	h.sink.Free()
	h.use.Unlock()
	h.do(func() {
		h.samplers.close()
		h.shadow.free()
		h.context.Release()
	})
	if h.worker != nil {
		h.worker.close()
	}
	if debugging("leaks") {
		created, released := ocl.Objects()
		fmt.Fprintf(os.Stderr, "godwit: opencl: platform %s closed: created %+v, released %+v\n", h.name, created, released)
	}
}

// receive takes ended commands out of the sink.
func (h *host) receive() {
	var out [128]ocl.Done
	for {
		h.lazy.Store(true) // before looking: who asks from now on makes take hurry
		prompt := h.awaited()
		n := h.sink.Take(out[:], prompt)
		h.lazy.Store(false)
		if n < 0 {
			return
		}
		h.mu.Lock()
		h.takenUnlocks(out[:n], h.spareTrash)
		h.mu.Unlock()
	}
}

// awaited reports whether anybody waits for notice of a command's end: then it is
// given at once. Else a millisecond more does no harm, and who looks at a single
// command looks by itself (poll).
func (h *host) awaited() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return true
	}
	for line, q := range h.lines {
		if q.closing || line.Waiters() > 0 {
			return true
		}
	}
	return false
}

// hurry sees that waiters are notified at once from now on.
func (h *host) hurry() {
	if !h.lazy.Load() {
		return
	}
	h.use.RLock()
	defer h.use.RUnlock()
	if !h.gone {
		h.sink.Hurry()
	}
}

// dispatch works off what becomes ready other than by OpenCL.
func (h *host) dispatch() {
	for {
		select {
		case <-h.stop:
			return
		case <-h.wake:
		}
		h.mu.Lock()
		h.draining++
		h.drainUnlocks(h.spareTrash)
		if h.unfenced.Swap(false) {
			h.fenceAllUnlocks()
		}
		h.mu.Unlock()
	}
}
