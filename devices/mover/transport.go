// Package mover moves ranges between memories.
package mover

import (
	"errors"
	"fmt"
	"sync"

	"godwit/devices"
	"godwit/devices/storage"
	"godwit/mem"
)

// How a range gets from one memory to others.
//
// Assumptions: a range is up to gigabytes, links work in both directions at
// once, staging memory is dear (pinned), many transfers are gated and few run
// at a time, and the caller holds the planner's lock while it asks.
//
// What follows. One leg where a driver knows both ends: inside one device, a
// destination that is a PeerCopier which accepts the source, or an end whose
// bytes the host can reach in place (Viewer). Such a copy is one command on one
// hidden queue, which also does its waiting. Everything else goes in two legs
// through a ring of staging buffers, in chunks: chunk k is read into slot k mod
// ring as soon as the writes of chunk k - ring have left it, and written to
// every destination once it is read; so reads of one chunk overlap writes of
// another, and one read leg serves all destinations. All legs are submitted at
// once, tied together by points, and the host does nothing in between.
//
// Life of a staged transfer: free -> gated (waits not reached; it holds no
// staging and no place in a queue) -> starving (no staging free; first come,
// first served) -> submitting -> flying -> landed per destination, when its
// point on the transport's own out-of-order timeline ends -> free, when nothing
// touches its slots. A transfer whose waits are reached goes from free to
// flying inside Copy.
//
// What may not be done inside Copy (end a point with an error) or inside a
// waiter's call (submit) is done by the pump, a goroutine that starts with the
// first such work and ends in Close.
//
// Lock order: submit, then a queue's own; mu is a leaf but for the staging
// resource.

// End is one end of a transfer: a block on a device, and the hidden queue of
// that device to use. The transport must be the only one to submit to it.
type End struct {
	Device devices.Device
	Queue  devices.Queue
	Block  mem.Block
	Off    uint64    // bytes into the block
	Route  mem.Route // of a destination: RouteHost forbids a peer copy, anything else leaves it to the transport
}

// TransportOptions say how a transport is to work; zero values are defaults.
type TransportOptions struct {
	Name    string         // of its timeline; "transport"
	Staging mem.Resource   // of staging buffers; nil is host memory of the transport's own
	View    devices.Viewer // of Staging's blocks; required with Staging
	Budget  uint64         // most bytes of staging; 64 MiB
	Chunk   uint64         // largest chunk in bytes, a power of two; 4 MiB
	Ring    int            // most slots of one transfer; 4
	// Profiling keeps times: see Times. Hidden queues must profile too, for
	// copies of one leg.
	Profiling bool
	// OnFail is told of each failed point of the transport's own timeline, as
	// in QueueOptions; never from within Copy.
	OnFail func(p mem.Point, cause error)
}

// TransportStats are a transport's figures; counts since it was made.
type TransportStats struct {
	Direct   uint64 // copies of one leg
	Staged   uint64 // transfers through staging
	Legs     uint64 // commands submitted
	Flying   int    // staged transfers under way or waiting, now
	Staging  uint64 // bytes of staging held, now
	InFlight uint64 // bytes of staging in use, now
}

// Transport moves ranges between memories. All methods are safe for use from
// many goroutines; steady state allocates nothing on the Go heap.
type Transport struct {
	opts TransportOptions // immutable
	line *mem.Timeline    // immutable
	own  *storage.Host    // immutable; not nil where Staging was not given

	submit sync.Mutex      // held over each Submit
	leg    devices.Command // protected by submit

	pumped  sync.WaitGroup
	landed  sync.Cond // flying is zero; its L is mu
	work    sync.Cond // todo is not empty, or closed; its L is mu
	mu      sync.Mutex
	stats   TransportStats                     // protected by mu
	chunks  map[[2]devices.Device]uint64       // protected by mu: tuned pairs
	idle    [64][]slot                         // protected by mu: staging not in use, by class
	starved []*transfer                        // protected by mu: wait for staging, in order
	spare   []*transfer                        // protected by mu
	todo    []task                             // protected by mu: for the pump
	times   []timed                            // protected by mu: of staged transfers, a ring; nil unless profiling
	queues  map[*mem.Timeline]devices.Profiler // protected by mu: of copies of one leg; nil unless profiling
	pumping bool                               // protected by mu: the pump has been started
	closed  bool                               // protected by mu
}

// slot is one staging buffer.
type slot struct {
	block mem.Block
	bytes []byte
}

// NewTransport returns a transport without goroutines or staging memory. It
// fails with mem.ErrInvalidValue on options that make no sense.
func NewTransport(opts TransportOptions) (*Transport, error) {
	if opts.Name == "" {
		opts.Name = "transport"
	}
	if opts.Chunk == 0 {
		opts.Chunk = 4 << 20
	}
	if opts.Budget == 0 {
		opts.Budget = 64 << 20
	}
	if opts.Ring == 0 {
		opts.Ring = 4
	}
	switch {
	case !mem.IsPow2(opts.Chunk) || opts.Chunk > opts.Budget:
		return nil, fmt.Errorf("transport chunk %d: it must be a power of two, at most the budget of %d: %w", opts.Chunk, opts.Budget, mem.ErrInvalidValue)
	case opts.Ring < 1:
		return nil, fmt.Errorf("transport ring %d: it must have a slot: %w", opts.Ring, mem.ErrInvalidValue)
	case (opts.Staging == nil) != (opts.View == nil):
		return nil, fmt.Errorf("transport staging needs both a resource and a viewer of its blocks: %w", mem.ErrInvalidValue)
	}
	t := &Transport{line: mem.NewTimeline(opts.Name, false, opts.OnFail), chunks: make(map[[2]devices.Device]uint64)}
	if opts.Staging == nil {
		t.own = storage.NewHost(opts.Name, 0)
		opts.Staging, opts.View = t.own, t.own
	}
	if opts.Profiling {
		t.times, t.queues = make([]timed, keptTimes), make(map[*mem.Timeline]devices.Profiler)
	}
	t.opts = opts
	t.landed.L, t.work.L = &t.mu, &t.mu
	return t, nil
}

// Timeline is the order of the points of staged transfers.
func (t *Transport) Timeline() *mem.Timeline { return t.line }

// SetChunk sets the chunk size of transfers from one device to another, a
// power of two up to the budget.
func (t *Transport) SetChunk(from, to devices.Device, bytes uint64) error {
	if !mem.IsPow2(bytes) || bytes > t.opts.Budget {
		return fmt.Errorf("chunk %d: it must be a power of two, at most the budget of %d: %w", bytes, t.opts.Budget, mem.ErrInvalidValue)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chunks[[2]devices.Device{from, to}] = bytes
	return nil
}

// Copy moves size bytes from src to each of dsts once waits are reached, and
// sets out[i] to the point at which dsts[i] has them; len(out) must be that of
// dsts. It never blocks. A Data wait that fails, or a leg that does, fails the
// points that depend on it. Where Copy itself fails, out[i] is the zero Point
// for the destinations that were not accepted; the others go on.
func (t *Transport) Copy(src End, dsts []End, size uint64, waits []mem.Wait, out []mem.Point) error {
	return t.move(src, dsts, size, nil, waits, out)
}

// CopyLate is Copy from one end to one other of the part that late says, once
// waits are reached.
func (t *Transport) CopyLate(src, dst End, size uint64, late devices.Late, waits []mem.Wait) (mem.Point, error) {
	dsts, out := [1]End{dst}, [1]mem.Point{}
	err := t.move(src, dsts[:], size, late, waits, out[:])
	return out[0], err
}

// move is Copy, or where late is not nil, CopyLate; then there is one destination.
func (t *Transport) move(src End, dsts []End, size uint64, late devices.Late, waits []mem.Wait, out []mem.Point) error {
	clear(out)
	if size == 0 || len(dsts) == 0 || len(out) != len(dsts) {
		return fmt.Errorf("transfer of %d bytes to %d destinations with room for %d points: %w", size, len(dsts), len(out), mem.ErrInvalidValue)
	}
	var staged *transfer
	var errs error
	for i := range dsts {
		q, to, from, err := direct(&src, &dsts[i])
		if err == nil && q != nil {
			out[i], err = t.submitLeg(q, to, from, size, late, waits)
		}
		switch {
		case err != nil:
			errs = errors.Join(errs, fmt.Errorf("copy to destination %d: %w", i, err))
		case q != nil:
			t.countDirect(q)
		default:
			if staged == nil {
				staged = t.take(src, size)
				staged.late = late
			}
			staged.add(dsts[i], i)
		}
	}
	if staged == nil {
		return errs
	}
	return errors.Join(errs, t.begin(staged, waits, out))
}

// direct finds the one leg that does a transfer: the queue to use, and the
// ends as it knows them. The queue is nil where it takes two legs.
func direct(src, dst *End) (q devices.Queue, to, from devices.Loc, err error) {
	to = devices.Loc{Device: dst.Device, Block: dst.Block, Off: dst.Off}
	from = devices.Loc{Device: src.Device, Block: src.Block, Off: src.Off}
	if src.Device == dst.Device {
		return dst.Queue, to, from, nil
	}
	if peer, ok := dst.Device.(devices.PeerCopier); ok && dst.Route != mem.RouteHost {
		if _, ok := peer.PeerLink(src.Device); ok {
			return dst.Queue, to, from, nil
		}
	}
	if v, ok := src.Device.(devices.Viewer); ok {
		from = devices.Loc{}
		if from.Bytes, err = viewRest(v, src); err != nil {
			return nil, to, from, err
		}
		return dst.Queue, to, from, nil
	}
	if v, ok := dst.Device.(devices.Viewer); ok {
		to = devices.Loc{}
		if to.Bytes, err = viewRest(v, dst); err != nil {
			return nil, to, from, err
		}
		return src.Queue, to, from, nil
	}
	return nil, to, from, nil
}

// viewRest returns the bytes from an end on.
func viewRest(v devices.Viewer, e *End) ([]byte, error) {
	if e.Off >= e.Block.Size {
		return nil, fmt.Errorf("offset %d of a block of %d bytes: %w", e.Off, e.Block.Size, mem.ErrInvalidValue)
	}
	return v.View(e.Block, e.Off, e.Block.Size-e.Off)
}

// submitLeg submits a copy to a hidden queue.
func (t *Transport) submitLeg(q devices.Queue, to, from devices.Loc, size uint64, late devices.Late, waits []mem.Wait) (mem.Point, error) {
	t.submit.Lock()
	t.leg = devices.Command{Op: devices.OpCopy, Dst: to, Src: from, Size: size, Late: late}
	p, err := q.Submit(&t.leg, waits)
	t.leg = devices.Command{}
	t.submit.Unlock()
	if err == nil {
		t.count(func(s *TransportStats) { s.Legs++ })
	}
	return p, err
}

func (t *Transport) count(f func(*TransportStats)) {
	t.mu.Lock()
	f(&t.stats)
	t.mu.Unlock()
}

// Stats returns a consistent copy of the figures.
func (t *Transport) Stats() TransportStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// Close refuses further transfers, waits for those under way and gives staging
// memory back. Gated transfers end when the points they wait for do.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return fmt.Errorf("transport %s: %w", t.opts.Name, mem.ErrClosed)
	}
	t.closed = true
	for t.stats.Flying > 0 {
		t.landed.Wait()
	}
	t.work.Broadcast()
	err := t.freeIdle(0)
	t.mu.Unlock()
	t.pumped.Wait()
	if t.own != nil {
		err = errors.Join(err, t.own.Close())
	}
	return err
}

// Check tests the transport's invariants: staging in use and idle is what the
// figures say, within the budget, and nothing starves while staging is idle.
func (t *Transport) Check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := uint64(0)
	for class, slots := range t.idle {
		for _, s := range slots {
			if s.block.Size != 1<<class {
				return fmt.Errorf("transport %s: a slot of %d bytes among those of %d", t.opts.Name, s.block.Size, 1<<class)
			}
		}
		idle += uint64(len(slots)) << class
	}
	switch s := t.stats; {
	case s.Staging != idle+s.InFlight:
		return fmt.Errorf("transport %s: %d bytes of staging are not the %d idle and %d in use", t.opts.Name, s.Staging, idle, s.InFlight)
	case s.Staging > t.opts.Budget:
		return fmt.Errorf("transport %s: %d bytes of staging, the budget is %d", t.opts.Name, s.Staging, t.opts.Budget)
	case s.Flying == 0 && (s.InFlight != 0 || len(t.starved) != 0):
		return fmt.Errorf("transport %s: nothing under way, but %d bytes in use and %d transfers starve", t.opts.Name, s.InFlight, len(t.starved))
	}
	return nil
}
