//go:build cgo

package opencl

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/jgillich/go-opencl/cl"

	"godwit/devices"
	"godwit/mem"
)

// How bytes get between pageable host memory and a discrete device.
//
// Given pageable memory, NVIDIA's OpenCL copies it through a small buffer of its own
// within clEnqueue…Buffer: the caller is held up for the length of the transfer,
// which gets along at 10 GB/s into the device and 19 out of it, where the link has
// 55. So large transfers of pageable memory are staged here, through a ring of
// page-locked memory.
//
// Each device has a stager for each direction, made on first use: lanes (goroutines)
// with two slots each and a queue in OpenCL that all share. A transfer is cut into
// chunks, which lanes that are free take one after the other: into the device, a lane
// copies a chunk into a slot and enqueues the move of it, and copies the next one
// into its other slot meanwhile; out of it, it enqueues the move of the next chunk
// before it copies the last one out. Copying, by several goroutines, overlaps with
// the link. One lane for each MiB is the most that pays: waking a goroutine costs time
// too. On an H200's host, where one goroutine copies 6 GB/s, eight lanes reach 42 GB/s
// up and 36 down, four 28 and 26; larger or smaller slots are slower (docs/measured.md).
//
// To the rest of the package a staged transfer is like a host call: it begins when
// its waits are reached, since the host's bytes may be theirs until then, and Submit
// never waits for it. Transfers of one direction are worked off in the order in which
// they can begin; those that wait hold up nobody.
//
// Lanes end when the device is closed.
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

// pinnedByEnv is whether GODWIT_PINNED_H2D lets transfers be staged.
func pinnedByEnv() bool { return os.Getenv("GODWIT_PINNED_H2D") != "0" }

// stager stages transfers of one device in one direction.
type stager struct {
	dev    *Device               // immutable
	write  bool                  // immutable: into the device
	queue  *cl.CommandQueue      // immutable
	handle handle                // immutable
	memory *devices.PinnedMemory // immutable
	block  mem.Block             // immutable: the ring
	ended  sync.WaitGroup        // lanes

	mu     sync.Mutex
	work   sync.Cond // there are chunks, or closed; its L is mu
	jobs   []*record // protected by mu: transfers with chunks nobody has taken, in order
	closed bool      // protected by mu
	pushed uint64    // protected by mu: transfers ever
}

// stagedCopy is what a record has of its staging. Protected by stager.mu, but for
// what is set before the record is pushed.
type stagedCopy struct {
	stager *stager // nil where the record is not staged
	mem    handle
	off    uint64 // bytes into mem
	chunk  uint64 // bytes
	next   uint64 // bytes taken by lanes so far
	most   int    // lanes that may work on it
	lanes  int    // at work on it
	joined int    // lanes that ever were
	err    error  // the first failure
	times  devices.Times
}

// stagers are a device's two, made on first use.
type stagers struct {
	mu     sync.Mutex
	by     [2]*stager // protected by mu: out of the device, into it
	failed bool       // protected by mu: there was no memory for one
}

// stager returns the device's stager for a direction; nil where there is no
// page-locked memory for it: OpenCL then does what it can.
func (d *Device) stager(write bool) *stager {
	i := 0
	if write {
		i = 1
	}
	d.stagers.mu.Lock()
	defer d.stagers.mu.Unlock()
	if d.stagers.by[i] == nil && !d.stagers.failed {
		s, err := newStager(d, write)
		if d.stagers.failed = err != nil; !d.stagers.failed {
			s.start()
			d.stagers.by[i] = s
		}
	}
	return d.stagers.by[i]
}

func newStager(d *Device, write bool) (*stager, error) {
	m, err := d.PinnedMemory(d.node)
	if err != nil {
		return nil, err
	}
	s := &stager{dev: d, write: write, memory: m}
	s.work.L = &s.mu
	var block [1]mem.Block
	size := 2 * uint64(d.staging.lanes) * d.staging.chunk
	if out, err := m.AllocAll([]mem.Request{{Size: size}}, block[:]); err != nil || out != mem.Ready {
		return nil, fmt.Errorf("device %s: %s of page-locked memory to stage in: %w", d.name, mem.FormatBytes(size), errors.Join(err, mem.ErrNoHostMemory))
	}
	s.block = block[0]
	if s.queue, err = d.host.context.CreateCommandQueue(d.found.device, cl.CommandQueueProfilingEnable); err != nil {
		return nil, errors.Join(err, m.FreeAfter(s.block, nil))
	}
	s.handle = rawHandle(s.queue)
	return s, nil
}

// start starts the lanes.
func (s *stager) start() {
	d := s.dev
	for i := range d.staging.lanes {
		l := &lane{s: s}
		for k := range l.slots {
			l.slots[k].bytes = devices.AddressBytes(s.block.Addr+uint64(2*i+k)*d.staging.chunk, d.staging.chunk)
		}
		s.ended.Go(l.life)
	}
}

// close ends the lanes. No transfer is under way.
func (s *stagers) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, g := range s.by {
		if g == nil {
			continue
		}
		g.mu.Lock()
		g.closed = true
		g.work.Broadcast()
		g.mu.Unlock()
		g.ended.Wait()
		_ = g.queue.Finish() // only errors of a lost device
		g.queue.Release()
		errs = append(errs, g.memory.FreeAfter(g.block, nil))
	}
	s.by = [2]*stager{}
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
	s := d.stager(write)
	if s == nil {
		return
	}
	r.staged.stager = s
	r.staged.most = int(min(max(n/laneShare, 1), uint64(d.staging.lanes)))
	// Chunks are equal, and enough of them for every lane to overlap with itself.
	count := max((n+d.staging.chunk-1)/d.staging.chunk, min(2*uint64(r.staged.most), n/leastChunk))
	r.staged.chunk = min((n/count+pinnedPage)&^(pinnedPage-1), d.staging.chunk)
}

// push has r, whose waits are reached, moved. host.mu is held.
func (s *stager) push(r *record) {
	r.state, r.called = calling, true
	r.staged.mem, r.staged.off = r.cmd.src, uint64(r.cmd.src_off)
	if s.write {
		r.staged.mem, r.staged.off = r.cmd.dst, uint64(r.cmd.dst_off)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, r)
	s.pushed++
	for range r.staged.most {
		s.work.Signal()
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
	h := s.dev.host
	h.mu.Lock()
	h.draining++
	if r.q.timing && err == nil {
		r.q.keepLocked(r.point.Seq, r.staged.times)
	}
	h.finishLocked(r, err)
	h.drainLocked()
	h.mu.Unlock()
}

func (s *stager) fail(r *record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.staged.err == nil {
		r.staged.err = err
	}
}
