package replay

import (
	"fmt"
	"math"
	"slices"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/alloc/formats"
)

// Op is one operation of a Stream, 16 bytes.
type Op struct {
	Size uint64 // bytes to allocate into the slot; 0 frees the slot
	Slot uint32
	Life uint32 // of an allocation: operations until its free, plus 1, for hints; 0 says nothing
}

// Stream is a sequence of allocations and frees, ready to be replayed. A slot
// holds at most one chunk at a time. It is immutable; any number of goroutines
// may replay it.
type Stream struct {
	Name     string
	Align    uint64 // bytes, a power of two: every chunk's alignment, and sizes are rounded up to it
	Slots    int
	Warm     int // operations at the start that times leave out
	Ops      []Op
	Leaks    bool     // an allocator outside that refuses with nothing live what it gave so before is at fault
	Queues   []uint32 // by operation, the stream that its chunk belongs to; nil where all are one's
	PeakLive uint64   // the largest sum of live sizes, rounded up to Align; 0 until sealed
	PeakAt   int      // the first operation that reaches PeakLive
}

// FromTrace makes a stream of t. Slots are as few as live chunks at most. It
// fails where align is not a power of two or the trace is empty.
func FromTrace(t *formats.Allocs, align uint64) (*Stream, error) {
	st := &Stream{Name: t.Name, Align: align, Ops: make([]Op, len(t.Events))}
	slotOf := make([]uint32, t.Chunks)
	var free []uint32
	for i, e := range t.Events {
		if e.Op == trace.OpFree {
			st.Ops[i] = Op{Slot: slotOf[e.Chunk]}
			free = append(free, slotOf[e.Chunk])
			continue
		}
		var slot uint32
		if n := len(free); n > 0 {
			slot, free = free[n-1], free[:n-1]
		} else {
			slot = uint32(st.Slots)
			st.Slots++
		}
		slotOf[e.Chunk] = slot
		st.Ops[i] = Op{Size: e.Size, Slot: slot}
	}
	if t.Streams != nil {
		for _, e := range t.Events {
			st.Queues = append(st.Queues, t.Streams[e.Chunk])
		}
	}
	return st, st.seal()
}

// NewStream makes a stream of operations; it keeps ops. It fails where a slot
// is freed empty or allocated full, align is not a power of two, or nothing is
// allocated.
func NewStream(name string, align uint64, ops []Op) (*Stream, error) {
	st := &Stream{Name: name, Align: align, Ops: ops}
	for _, op := range ops {
		st.Slots = max(st.Slots, int(op.Slot)+1)
	}
	return st, st.seal()
}

// hint is what an allocation's Life says.
func (o Op) hint() mem.Hint {
	if o.Life == 0 {
		return 0
	}
	return mem.Lives(uint64(o.Life) - 1)
}

// Lives lists, by operation, how many operations later an allocation is freed;
// len(st.Ops) for one that never is.
func (st *Stream) lives() []int {
	out, held := make([]int, len(st.Ops)), make([]int, st.Slots)
	for i, op := range st.Ops {
		if op.Size != 0 {
			held[op.Slot], out[i] = i, len(st.Ops)
		} else {
			out[held[op.Slot]] = i - held[op.Slot]
		}
	}
	return out
}

// WithHints gives back a stream whose allocations carry hints of how long they
// live: the truth where scramble is 0, else the truth of other allocations,
// drawn at random from that seed.
func (st *Stream) WithHints(scramble uint64) *Stream {
	c := *st
	c.Ops = slices.Clone(st.Ops)
	lives := st.lives()
	var allocs []int
	for i, op := range st.Ops {
		if op.Size != 0 {
			allocs = append(allocs, i)
		}
	}
	rng := splitmix(scramble)
	for _, i := range allocs {
		of := i
		if scramble != 0 {
			of = allocs[rng.next()%uint64(len(allocs))]
		}
		c.Ops[i].Life = uint32(min(lives[of], math.MaxUint32-1)) + 1
	}
	return &c
}

// seal checks the stream and finds its peak.
func (st *Stream) seal() error {
	if !mem.IsPow2(st.Align) {
		return fmt.Errorf("%s: alignment %d is not a power of two: %w", st.Name, st.Align, mem.ErrInvalidValue)
	}
	sizes := make([]uint64, st.Slots)
	var live uint64
	st.PeakLive, st.PeakAt = 0, 0
	for i, op := range st.Ops {
		if int(op.Slot) >= st.Slots || (op.Size == 0) == (sizes[op.Slot] == 0) {
			return fmt.Errorf("%s: operation %d on slot %d (size %d) of %d: the slot is not in the state for it: %w",
				st.Name, i, op.Slot, op.Size, st.Slots, mem.ErrInvalidValue)
		}
		if op.Size == 0 {
			live -= sizes[op.Slot]
			sizes[op.Slot] = 0
			continue
		}
		size, ok := mem.AlignUp(op.Size, st.Align)
		if !ok || size > maxPeak-live {
			return fmt.Errorf("%s: operation %d: %d live bytes + %d are more than %d: %w",
				st.Name, i, live, op.Size, uint64(maxPeak), mem.ErrInvalidSize)
		}
		sizes[op.Slot] = size
		if live += size; live > st.PeakLive {
			st.PeakLive, st.PeakAt = live, i
		}
	}
	if st.PeakLive == 0 {
		return fmt.Errorf("%s: nothing is allocated in it: %w", st.Name, mem.ErrInvalidValue)
	}
	return nil
}

// maxPeak bounds PeakLive, so that regions of a thousand times its size have a
// size of 63 bits. In bytes.
const maxPeak = 1 << 52

// Trace is the stream as an allocation trace; times count operations.
func (st *Stream) Trace() *formats.Allocs {
	var b formats.AllocBuilder
	for i, op := range st.Ops {
		if op.Size == 0 {
			b.Free(uint64(op.Slot), int64(i))
		} else if err := b.Alloc(uint64(op.Slot), op.Size, int64(i)); err != nil {
			panic(err) // seal admits none that a builder refuses
		}
	}
	return b.Build(st.Name, formats.FormatGodwit)
}
