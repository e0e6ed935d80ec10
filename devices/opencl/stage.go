//go:build cgo

package opencl

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/devices/storage"
	"godwit/mem"
)

// How bytes get between pageable host memory and a discrete device.
//
// Given pageable memory, OpenCL copies it through a small buffer of its own
// within clEnqueue…Buffer: the caller is held up for the length of the transfer,
// which gets along at 10 GB/s into the device and 19 out of it, where the link has
// 55. So large transfers of pageable memory are staged here, through a ring of
// page-locked memory.
//
// Each device has a stager for each direction: lanes (goroutines) with two slots each
// and a queue in OpenCL that all share. They are made, by a goroutine of its own, when
// the first transfer can begin: Submit takes no memory and does not wait for any. A
// transfer is cut into chunks, which lanes that are free take one after the other: into
// the device, a lane copies a chunk into a slot and enqueues the move of it, and copies
// the next one into its other slot meanwhile; out of it, it enqueues the move of the
// next chunk before it copies the last one out. Copying, by several goroutines, overlaps with
// the link. One lane for each MiB is the most that pays: waking a goroutine costs time
// too. On an H200's host, where one goroutine copies 6 GB/s, eight lanes reach 42 GB/s
// up and 36 down, four 28 and 26; larger or smaller slots are slower (docs/measured.md).
//
// To the rest of the package a staged transfer is like a host call: it begins when
// its waits are reached, since the host's bytes may be theirs until then, and Submit
// never waits for it. Transfers of one direction are worked off in the order in which
// they can begin; those that wait hold up nobody.
//
// A stager is idle (it has no memory, and nothing to do), then serving (a goroutine
// looks for memory for the transfers that there are), then open (lanes work, until the
// device is closed). Where there is no memory, that goroutine has OpenCL move the
// pageable bytes, goes through the transfers there are, and the stager is idle again.
// After failures one after the other it tries for the next transfer, then for the
// second, the fourth and so on. Staging counts, and says under GODWIT_DEBUG=staging.
//
// Lock order: host.mu, mu. Neither is held while bytes are copied or OpenCL is called.
const (
	stageFrom  = 2 << 20   // bytes from which on a transfer is staged
	stageChunk = 2 << 20   // bytes of a slot
	leastChunk = 128 << 10 // bytes: smaller ones cost more than they overlap
	laneShare  = 1 << 20   // bytes of a transfer for each lane
	mostLanes  = 8
)

// staging says how a device stages. Immutable.
type staging struct {
	on    bool
	lanes int
	chunk uint64 // bytes
	from  uint64 // bytes
}

func defaultStaging(discrete bool) staging {
	return staging{on: discrete, lanes: min(max(runtime.NumCPU()/2, 1), mostLanes), chunk: stageChunk, from: stageFrom}
}

// stager stages transfers of one device in one direction.
type stager struct {
	dev   *Device        // immutable
	write bool           // immutable: into the device
	ended sync.WaitGroup // its goroutines
	ring  func() error   // immutable but for tests: newRing

	queue  ocl.Queue            // what ring makes; immutable once open
	memory devices.PinnedMemory // as queue
	block  mem.Block            // as queue: the ring

	mu     sync.Mutex
	work   sync.Cond // there are chunks, or closed; its L is mu
	jobs   []*record // protected by mu: transfers with chunks nobody has taken, in order
	state  stagerState
	closed bool    // protected by mu
	skip   int     // protected by mu: transfers to go without before the next try
	misses int     // protected by mu: tries that failed since one went well
	counts Staging // protected by mu
}

type stagerState uint8 // protected by stager.mu

const (
	stagerIdle stagerState = iota
	stagerServing
	stagerOpen
)

// mostMisses bounds the transfers that go without, after so many failures, to half of
// two to its power.
const mostMisses = 11

// Staging says what became of the large transfers of pageable memory in one direction.
type Staging struct {
	Staged   uint64 // transfers staged through page-locked memory
	Unstaged uint64 // transfers that were to be, but OpenCL moved the pageable bytes
	Failures uint64 // tries to get page-locked memory that failed
	Why      string // the last failure, for people
}

// Staging says what became of transfers out of the device and into it.
func (d *Device) Staging() (read, write Staging) {
	var out [2]Staging
	for i, s := range d.stagers {
		if s != nil {
			s.mu.Lock()
			out[i] = s.counts
			s.mu.Unlock()
		}
	}
	return out[0], out[1]
}

// stagedCopy is what a record has of its staging. Protected by stager.mu, but for
// what is set before the record is pushed.
type stagedCopy struct {
	stager *stager // nil where the record is not staged
	mem    ocl.Mem
	off    uint64 // bytes into mem
	chunk  uint64 // bytes
	next   uint64 // bytes taken by lanes so far
	most   int    // lanes that may work on it
	lanes  int    // at work on it
	joined int    // lanes that ever were
	err    error  // the first failure
	times  devices.Times
}

// stagers are a device's two: out of it, into it. None where it does not stage.
type stagers [2]*stager

func newStagers(d *Device) (g stagers) {
	for i := range g {
		s := &stager{dev: d, write: i == 1}
		s.ring, s.work.L = s.newRing, &s.mu
		g[i] = s
	}
	return g
}

// newRing takes what lanes need.
func (s *stager) newRing() error {
	d := s.dev
	m, err := d.PinnedMemory(d.node)
	if err != nil {
		return err
	}
	var block [1]mem.Block
	size := 2 * uint64(d.staging.lanes) * d.staging.chunk
	if out, err := m.AllocAll([]mem.Request{{Size: size}}, block[:]); err != nil || out != mem.Ready {
		return fmt.Errorf("device %s: %s of page-locked memory to stage in: %w", d.name, mem.FormatBytes(size), errors.Join(err, mem.ErrNoHostMemory))
	}
	q, err := d.host.context.NewQueue(d.found.device, false, true)
	if err != nil {
		return errors.Join(err, m.FreeAfter(block[0], nil))
	}
	s.memory, s.block, s.queue = m, block[0], q
	return nil
}

// serve is the life of the goroutine that looks for memory.
func (s *stager) serve() {
	for {
		s.mu.Lock()
		if len(s.jobs) == 0 {
			s.state = stagerIdle
			s.mu.Unlock()
			return
		}
		try := s.skip == 0
		if !try {
			s.skip--
		}
		s.mu.Unlock()
		if try {
			err := s.ring()
			if s.tried(err); err == nil {
				return
			}
		}
		s.mu.Lock()
		r := s.jobs[0]
		s.jobs = slices.Delete(s.jobs, 0, 1)
		s.counts.Unstaged++
		s.mu.Unlock()
		s.unstaged(r)
	}
}

// tried notes how a try to get memory went, and opens the stager where it went well.
func (s *stager) tried(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.misses, s.state = 0, stagerOpen
		s.startLocked()
		return
	}
	s.misses = min(s.misses+1, mostMisses)
	s.skip = 1<<(s.misses-1) - 1
	s.counts.Failures++
	s.counts.Why = err.Error()
	if debugging("staging") {
		fmt.Fprintf(os.Stderr, "godwit: opencl: device %s: transfers %s it are not staged, failure %d: %v; %d transfers go without before the next try\n",
			s.dev.name, map[bool]string{true: "into", false: "out of"}[s.write], s.counts.Failures, err, s.skip)
	}
}

// unstaged has OpenCL move r, whose waits are reached. It may take as long as that.
func (s *stager) unstaged(r *record) {
	h := s.dev.host
	h.mu.Lock()
	r.staged, r.runner, r.state = stagedCopy{}, nil, held
	h.mu.Unlock()
	_, err := r.enqueue()
	r.q.flushOnce()
	h.mu.Lock()
	h.draining++
	h.enqueuedLocked(r, err)
	h.drainLocked()
	h.mu.Unlock()
}

// startLocked starts the lanes.
func (s *stager) startLocked() {
	d := s.dev
	for i := range d.staging.lanes {
		l := &stagerLane{s: s}
		for k := range l.slots {
			l.slots[k].bytes = storage.BytesAt(s.block.Addr+uint64(2*i+k)*d.staging.chunk, d.staging.chunk)
		}
		s.ended.Go(l.life)
	}
}

// close ends both. No transfer is under way.
func (g *stagers) close() error {
	var errs []error
	for _, s := range g {
		if s == nil {
			continue
		}
		s.mu.Lock()
		s.closed = true
		s.work.Broadcast()
		s.mu.Unlock()
		s.ended.Wait()
		if s.queue != 0 {
			_ = s.queue.Finish() // only errors of a lost device
			s.queue.Release()
			errs = append(errs, s.memory.FreeAfter(s.block, nil))
		}
	}
	return errors.Join(errs...)
}

// stage has a plain transfer staged where that is worth it: its host end is
// pageable, and it is large. n is its bytes.
func (r *record) stage(write bool, n uint64) {
	d := r.q.dev
	r.pinned = d.host.pinned.holds(addressOf(r.bytes), n)
	if r.pinned || !r.q.staged || n < d.staging.from {
		return
	}
	r.staged.stager = d.stagers[0]
	if write {
		r.staged.stager = d.stagers[1]
	}
	r.runner = r.staged.stager
	r.staged.most = int(min(max(n/laneShare, 1), uint64(d.staging.lanes)))
	// Chunks are equal, and enough of them for every lane to overlap with itself.
	count := max((n+d.staging.chunk-1)/d.staging.chunk, min(2*uint64(r.staged.most), n/leastChunk))
	r.staged.chunk = min((n/count+pinnedPage)&^(pinnedPage-1), d.staging.chunk)
}

// run has r, whose waits are reached, moved.
func (s *stager) run(r *record) {
	r.staged.mem, r.staged.off = r.cmd.Src, r.cmd.SrcOff
	if s.write {
		r.staged.mem, r.staged.off = r.cmd.Dst, r.cmd.DstOff
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, r)
	switch s.state {
	case stagerIdle:
		s.state = stagerServing
		s.ended.Go(s.serve)
	case stagerOpen:
		for range r.staged.most {
			s.work.Signal()
		}
	}
}

// join waits for a transfer that has chunks left and takes another lane; nil once the
// stager is closed.
func (s *stager) join() *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed {
		for _, r := range s.jobs {
			if c := &r.staged; c.joined < c.most {
				if c.joined == 0 {
					s.counts.Staged++
				}
				c.joined++
				c.lanes++
				return r
			}
		}
		s.work.Wait()
	}
	return nil
}

// chunk takes the next chunk of r; ok is false where there is none left, or one has
// failed.
func (s *stager) chunk(r *record) (off, n uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, total := &r.staged, uint64(len(r.bytes))
	if c.err != nil {
		c.next = total
	}
	if c.next < total {
		off, n, ok = c.next, min(c.chunk, total-c.next), true
		c.next += n
	}
	if i := slices.Index(s.jobs, r); c.next == total && i >= 0 {
		s.jobs = slices.Delete(s.jobs, i, i+1)
	}
	return off, n, ok
}

// leave ends a lane's part in r, and with the last one's the transfer.
func (s *stager) leave(r *record) {
	s.mu.Lock()
	r.staged.lanes--
	last := r.staged.lanes == 0
	err := r.staged.err
	s.mu.Unlock()
	if !last {
		return
	}
	if r.q.timing && err == nil {
		s.dev.host.mu.Lock()
		r.q.keepLocked(r.point.Seq, r.staged.times)
		s.dev.host.mu.Unlock()
	}
	s.dev.host.finishedBy(r, err)
}

func (s *stager) fail(r *record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.staged.err == nil {
		r.staged.err = err
	}
}
