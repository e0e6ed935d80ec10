package formats

import (
	"fmt"
	"math"
	"slices"

	"godwit/mem"
	"godwit/mem/trace"
)

// AllocEvent is one allocation or free, 24 bytes.
type AllocEvent struct {
	Size  uint64 // bytes as requested; a free carries its chunk's size
	Time  int64  // microseconds from the trace's start; MiniMalloc: its own unit
	Chunk uint32 // counts the trace's allocations: the first one is chunk 0
	Op    trace.Op
}

// AllocFormat names a file format of allocation traces.
type AllocFormat string

// The formats that ReadAllocs knows.
const (
	FormatGodwit     AllocFormat = "godwit"     // op,id,bytes,time_us
	FormatMiniMalloc AllocFormat = "minimalloc" // id,lower,upper,size
	FormatRMM        AllocFormat = "rmm"        // Thread,Time,Action,Pointer,Size,Stream
	FormatPyTorch    AllocFormat = "pytorch"    // memory snapshot, a pickle or JSON
	FormatVMA        AllocFormat = "vma"        // Vulkan Memory Allocator's statistics, JSON
)

// Oddity is one thing in a file that a reader passed over.
type Oddity struct {
	Line int    `json:"line"` // 1-based
	Text string `json:"text"` // what was odd, with the id or pointer it was about
}

// oddities counts what a reader passed over: real logs begin and end in the
// middle of a run. None of it is in Events.
type oddities struct {
	UnknownFrees int // frees of something that is not live
	MissingFrees int // allocations of a pointer that is still live; the old chunk is freed there
	FailedAllocs int // allocations that the recorded program did not get
	ZeroSized    int // allocations of no byte, and their frees
	First        []Oddity
}

// maxOddities is how many oddities are kept with their lines; the rest are
// only counted.
const maxOddities = 16

// Total is the number of lines passed over or mended.
func (o *oddities) Total() int {
	return o.UnknownFrees + o.MissingFrees + o.FailedAllocs + o.ZeroSized
}

func (o *oddities) note(counter *int, line int, format string, args ...any) {
	*counter++
	if len(o.First) < maxOddities {
		o.First = append(o.First, Oddity{line, fmt.Sprintf(format, args...)})
	}
}

// Allocs is an allocation trace: who was allocated and freed, in order. Every
// allocation is a chunk of its own, whatever id or pointer its file gave it,
// so Chunk indexes a table of all of them. Sums of live sizes never overflow
// 63 bits. It is immutable after reading; use from many goroutines is safe.
type Allocs struct {
	Name     string // a file's base name without its extensions, or what the caller says
	Format   AllocFormat
	Events   []AllocEvent
	Chunks   int // allocations in Events
	Oddities oddities
}

// lifetime is a chunk's place in its trace: it is live in the half-open
// interval [Start, End) of event indices. End is len(Events) where it is
// never freed.
type lifetime struct {
	Size       uint64 // bytes as requested
	Start, End int    // event indices
}

// Lifetimes lists every chunk's size and lifetime, indexed by chunk.
func (t *Allocs) Lifetimes() []lifetime {
	out := make([]lifetime, t.Chunks)
	for i, e := range t.Events {
		if e.Op == trace.OpAlloc {
			out[e.Chunk] = lifetime{e.Size, i, len(t.Events)}
		} else {
			out[e.Chunk].End = i
		}
	}
	return out
}

// PeakLive is the largest sum of live sizes, each rounded up to align, and the
// index of the event that reaches it first (-1 in an empty trace). It fails
// where align is not a power of two or the rounded sum overflows 63 bits.
func (t *Allocs) PeakLive(align uint64) (bytes uint64, at int, err error) {
	var live uint64
	at = -1
	for i, e := range t.Events {
		size, ok := mem.AlignUp(e.Size, align)
		if !ok {
			return 0, 0, fmt.Errorf("event %d: size %d rounded up to alignment %d: %w", i, e.Size, align, mem.ErrInvalidValue)
		}
		if e.Op == trace.OpFree {
			live -= size
			continue
		}
		if size > math.MaxInt64-live {
			return 0, 0, fmt.Errorf("event %d: %d live bytes + %d overflow 63 bits: %w", i, live, size, mem.ErrInvalidSize)
		}
		live += size
		if live > bytes {
			bytes, at = live, i
		}
	}
	return bytes, at, nil
}

// Close gives back a copy in which every chunk still live at the end is freed,
// in the order of allocation, at the last event's time. It returns t itself
// where nothing is live.
func (t *Allocs) Close() *Allocs {
	var open []AllocEvent
	for _, l := range t.openChunks() {
		open = append(open, AllocEvent{Size: t.Events[l].Size, Chunk: t.Events[l].Chunk,
			Op: trace.OpFree, Time: t.Events[len(t.Events)-1].Time})
	}
	if len(open) == 0 {
		return t
	}
	c := *t
	c.Events = append(slices.Clone(t.Events), open...)
	return &c
}

// openChunks lists the allocating events of the chunks never freed.
func (t *Allocs) openChunks() []int {
	var open []int
	for _, l := range t.Lifetimes() {
		if l.End == len(t.Events) {
			open = append(open, l.Start)
		}
	}
	return open
}

// Check verifies the rules that every reader and the Builder keep: chunks are
// numbered in the order of allocation; a chunk is freed at most once, after
// its allocation, with its size; sizes are positive; live sums stay under 63
// bits. The error names the first event that breaks one.
func (t *Allocs) Check() error {
	var sizes []uint64 // by chunk; 0 once freed
	var live uint64
	for i, e := range t.Events {
		switch e.Op {
		case trace.OpAlloc:
			if int(e.Chunk) != len(sizes) || e.Size == 0 || e.Size > math.MaxInt64-live {
				return fmt.Errorf("event %d: alloc of %d bytes as chunk %d, next is %d, %d live: %w",
					i, e.Size, e.Chunk, len(sizes), live, mem.ErrInvalidValue)
			}
			sizes = append(sizes, e.Size)
			live += e.Size
		case trace.OpFree:
			if int(e.Chunk) >= len(sizes) || sizes[e.Chunk] == 0 || sizes[e.Chunk] != e.Size {
				return fmt.Errorf("event %d: free of chunk %d (%d bytes), which is not live with that size: %w",
					i, e.Chunk, e.Size, mem.ErrInvalidValue)
			}
			live -= e.Size
			sizes[e.Chunk] = 0
		default:
			return fmt.Errorf("event %d: %v: %w", i, e.Op, mem.ErrInvalidValue)
		}
	}
	if t.Chunks != len(sizes) {
		return fmt.Errorf("%d chunks counted, %d allocated: %w", t.Chunks, len(sizes), mem.ErrInvalidValue)
	}
	return nil
}
