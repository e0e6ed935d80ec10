package replay

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/google/btree"

	"godwit/bufalloc"
	"godwit/mem"
)

// A model of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator, as its notes on memory
// management and its comments have it, in its default settings):
//
//   - sizes are rounded up to 512 bytes; requests of up to 1 MiB are small, with segments, blocks
//     and pools apart from the large ones, and each stream has blocks of its own;
//   - the smallest free block that holds the request is taken, of equal ones the lowest;
//     what is left is split off if it has 512 bytes in a small block, more than 1 MiB in a large one;
//   - where there is none the device gives a segment: 2 MiB for small requests, 20 MiB for
//     those below 10 MiB, else the size rounded up to 2 MiB;
//   - a freed block joins free neighbours of its segment; no segment is given back unless
//     the device has no room for another: then all that are wholly free are, and it is asked again;
//   - a block that other streams used is free when their events have happened, which is when a
//     trace has it freed (free_completed).
//
// With expandable segments each pool of a stream is one range of addresses, of which 2 MiB
// (small) or 20 MiB (large) at a time are mapped behind what is mapped already, as many as
// are missing behind a free end; blocks are split down to 512 bytes; and what is given back are whole such
// pieces that are free.
const (
	pyGrain      = 512
	pySmall      = 1 << 20  // requests up to it are small
	pySmallPiece = 2 << 20  // bytes of a small segment
	pyLargePiece = 20 << 20 // of one for large requests below pyLarge
	pyLarge      = 10 << 20
	pyRound      = 2 << 20 // what larger segments are rounded up to
	pyRange      = 5 << 50 // addresses of an expandable segment: whole pieces, large and small, and more than maxPeak
	pyEnough     = 1 << 62 // bytes of a device that has enough
)

// The names of the models, beside the strategies; what is behind them is what they held.
const (
	PyTorchName           = "pytorch"
	PyTorchExpandableName = "pytorch-expandable"
	reservedSuffix        = "-reserved"
)

// PyTorch is the model as a Subject, for Measure; its region is the device's memory, and
// its chunks have no place in one. It takes no times.
func PyTorch(expandable bool) Subject { return caching{expandable} }

// Placeless reports whether the Subject's chunks have no places in a region, so that it
// can be measured but not recorded or played against.
func Placeless(s Subject) bool {
	_, is := s.(caching)
	return is
}

// Reserved is what a Placeless subject takes from a device that refuses nothing: reserved
// over allocated, with the sizes as st has them.
func Reserved(ctx context.Context, st *Stream, s Subject) (Result, error) {
	run, err := Replay(ctx, st, s, pyEnough)
	res := Result{Trace: st.Name, Strategy: s.Name() + reservedSuffix, Align: st.Align, Ops: len(st.Ops), PeakLive: st.PeakLive,
		Region: run.HighWater, MinRegion: run.HighWater, Overhead: ratio(run.HighWater) / ratio(st.PeakLive)}
	res.HighWater, res.Failures, res.FirstFailure = run.HighWater, run.Failures, run.FirstFailure
	return res, err
}

// pyPool says whose blocks may serve a request.
type pyPool struct {
	stream uint32
	large  bool
}

// pyPiece is a block of a segment, or of an expandable one what is not mapped.
type pyPiece struct {
	addr, size uint64
	pool       pyPool
	prev, next *pyPiece // neighbours in the segment
	live       bool
	unmapped   bool
}

func (b *pyPiece) free() bool { return b != nil && !b.live && !b.unmapped }

// pyModel is the allocator over a device of so many bytes.
type pyModel struct {
	capacity   uint64
	expandable bool
	reserved   uint64 // bytes that the device has given
	most       uint64 // of reserved
	next       uint64 // the next segment's address
	free       *btree.BTreeG[*pyPiece]
	ranges     map[pyPool]*pyPiece // the last piece of each expandable segment
}

func newPyModel(capacity uint64, expandable bool) *pyModel {
	return &pyModel{capacity: capacity, expandable: expandable, ranges: make(map[pyPool]*pyPiece), next: pyRange,
		free: btree.NewG(32, func(a, b *pyPiece) bool {
			return cmp.Or(cmp.Compare(a.pool.stream, b.pool.stream), cmp.Compare(a.pool.granule(), b.pool.granule()),
				cmp.Compare(a.size, b.size), cmp.Compare(a.addr, b.addr)) < 0
		})}
}

// alloc gives a block for size bytes on a stream; nil where the device has no room.
func (m *pyModel) alloc(size uint64, stream uint32) *pyPiece {
	size = max(roundTo(size, pyGrain), pyGrain)
	pool := pyPool{stream, size > pySmall}
	b := m.take(pool, size)
	if b == nil {
		b = m.more(pool, size)
	}
	if b == nil {
		m.giveBack()
		b = m.more(pool, size)
	}
	if b == nil {
		return nil
	}
	if rest := b.size - size; rest >= pyGrain && (!pool.large || m.expandable) || rest > pySmall {
		m.split(b, size)
		m.free.ReplaceOrInsert(b.next)
	}
	b.live = true
	return b
}

// take takes the smallest free block that holds size bytes.
func (m *pyModel) take(pool pyPool, size uint64) (found *pyPiece) {
	m.free.AscendGreaterOrEqual(&pyPiece{pool: pool, size: size}, func(b *pyPiece) bool {
		if b.pool == pool {
			found = b
		}
		return false
	})
	if found != nil {
		m.free.Delete(found)
	}
	return found
}

// more is a block of memory that the device gives, taken.
func (m *pyModel) more(pool pyPool, size uint64) *pyPiece {
	if m.expandable {
		return m.expand(pool, size)
	}
	bytes := roundTo(size, pyRound)
	switch {
	case !pool.large:
		bytes = pySmallPiece
	case size < pyLarge:
		bytes = pyLargePiece
	}
	if !m.reserve(bytes) {
		return nil
	}
	b := &pyPiece{addr: m.next, size: bytes, pool: pool}
	m.next += bytes
	return b
}

func (m *pyModel) reserve(bytes uint64) bool {
	if m.reserved > m.capacity || bytes > m.capacity-m.reserved {
		return false
	}
	m.reserved += bytes
	m.most = max(m.most, m.reserved)
	return true
}

// granule is what an expandable segment is mapped by.
func (p pyPool) granule() uint64 {
	if p.large {
		return pyLargePiece
	}
	return pySmallPiece
}

// expand maps what is missing behind the free end of what is mapped, at the lowest place
// that has addresses for the request.
func (m *pyModel) expand(pool pyPool, size uint64) *pyPiece {
	last := m.ranges[pool]
	if last == nil {
		if m.next > math.MaxUint64-pyRange {
			return nil // of more streams than have addresses
		}
		last = &pyPiece{addr: m.next, size: pyRange, pool: pool, unmapped: true}
		m.next += pyRange
		m.ranges[pool] = last
	}
	hole := m.firstHole(last, size)
	if hole.prev.free() {
		size -= hole.prev.size
	}
	bytes := (size + pool.granule() - 1) / pool.granule() * pool.granule()
	if hole == last && bytes >= last.size || !m.reserve(bytes) { // the last piece stays unmapped
		return nil
	}
	if hole.size > bytes {
		m.split(hole, bytes)
		hole.next.unmapped = true
		if hole == last {
			m.ranges[pool] = hole.next
		}
	}
	hole.unmapped = false
	if p := hole.prev; p.free() {
		m.free.Delete(p)
		m.join(p)
		return m.joinNext(p)
	}
	return m.joinNext(hole)
}

// joinNext joins a free block behind b.
func (m *pyModel) joinNext(b *pyPiece) *pyPiece {
	if b.next.free() {
		m.free.Delete(b.next)
		m.join(b)
	}
	return b
}

// firstHole is the unmapped piece at the lowest address that holds size bytes with the
// free block before it.
func (m *pyModel) firstHole(last *pyPiece, size uint64) *pyPiece {
	hole := last
	for b := last; b != nil; b = b.prev {
		room := b.size
		if b.prev.free() {
			room += b.prev.size
		}
		if b.unmapped && room >= size {
			hole = b
		}
	}
	return hole
}

// split makes what is behind the first size bytes of b a piece of its own.
func (m *pyModel) split(b *pyPiece, size uint64) {
	rest := &pyPiece{addr: b.addr + size, size: b.size - size, pool: b.pool, prev: b, next: b.next}
	if b.next != nil {
		b.next.prev = rest
	}
	b.size, b.next = size, rest
}

// join makes b and the piece behind it one.
func (m *pyModel) join(b *pyPiece) {
	x := b.next
	b.size += x.size
	if b.next = x.next; b.next != nil {
		b.next.prev = b
	}
}

// release frees b.
func (m *pyModel) release(b *pyPiece) {
	b.live = false
	if p := b.prev; p.free() {
		m.free.Delete(p)
		m.join(p)
		b = p
	}
	m.free.ReplaceOrInsert(m.joinNext(b))
}

// giveBack returns to the device what is free: whole segments, or whole pieces of
// expandable ones.
func (m *pyModel) giveBack() {
	var all []*pyPiece
	m.free.Ascend(func(b *pyPiece) bool { all = append(all, b); return true })
	for _, b := range all {
		switch {
		case m.expandable:
			m.unmap(b)
		case b.prev == nil && b.next == nil:
			m.free.Delete(b)
			m.reserved -= b.size
		}
	}
}

// unmap unmaps the whole pieces of a free block.
func (m *pyModel) unmap(b *pyPiece) {
	g := b.pool.granule()
	low, high := (b.addr+g-1)/g*g, b.end()/g*g
	if low >= high {
		return
	}
	m.free.Delete(b)
	m.reserved -= high - low
	if low > b.addr {
		m.split(b, low-b.addr)
		m.free.ReplaceOrInsert(b)
		b = b.next
	}
	if b.end() > high {
		m.split(b, high-b.addr)
		m.free.ReplaceOrInsert(b.next)
	}
	b.unmapped = true
	if n := b.next; n != nil && n.unmapped {
		if m.ranges[b.pool] == n {
			m.ranges[b.pool] = b
		}
		m.join(b)
	}
	if p := b.prev; p != nil && p.unmapped {
		if m.ranges[b.pool] == b {
			m.ranges[b.pool] = p
		}
		m.join(p)
	}
}

func (b *pyPiece) end() uint64 { return b.addr + b.size }

// caching is the model as a Subject: its region is the device's memory.
type caching struct{ expandable bool }

func (c caching) Name() string {
	if c.expandable {
		return PyTorchExpandableName
	}
	return PyTorchName
}

func (c caching) open(_ context.Context, st *Stream, size uint64, _ asking) (machine, error) {
	return &cached{m: newPyModel(size, c.expandable), st: st, held: make([]*pyPiece, st.Slots)}, nil
}

// contend makes a contender that is not timed: it is a model of placement, not of speed.
func (c caching) contend(context.Context, *Stream, uint64) (contender, error) { return untimed{}, nil }

type untimed struct{}

func (untimed) grow() (used, aside uint64, err error)                          { return 0, 0, nil }
func (untimed) round(context.Context, []float64, []float64) (l lap, err error) { return lap{}, nil }
func (untimed) scanned() map[int]bool                                          { return nil }
func (untimed) close() error                                                   { return nil }

// cached is one replay through the model.
type cached struct {
	m    *pyModel
	st   *Stream
	held []*pyPiece // by slot; nil where there was no room
	live uint64
	n    int // operations done
}

func (c *cached) do(op Op) (bool, error) {
	queue := uint32(0)
	if c.st.Queues != nil {
		queue = c.st.Queues[c.n]
	}
	c.n++
	if op.Size != 0 {
		b := c.m.alloc(op.Size, queue)
		if c.held[op.Slot] = b; b != nil {
			c.live += b.size
		}
		return b != nil, nil
	}
	if b := c.held[op.Slot]; b != nil {
		c.live -= b.size
		c.m.release(b)
	}
	return true, nil
}

func (c *cached) addr(slot uint32) (uint64, error) {
	return 0, fmt.Errorf("%s: slot %d has no place in a region: %w", PyTorchName, slot, mem.ErrInvalidOperation)
}

func (c *cached) stats() bufalloc.Stats {
	return bufalloc.Stats{Capacity: c.m.capacity, Live: c.live, Free: c.m.capacity - c.live, LargestFree: c.m.capacity - c.m.reserved, HighWater: c.m.most}
}

func (c *cached) quick() bool  { return true }
func (c *cached) close() error { return nil }
