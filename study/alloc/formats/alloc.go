package formats

import (
	"fmt"

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
	formatVMA        AllocFormat = "vma"        // Vulkan Memory Allocator's statistics, JSON
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
// so Chunk indexes a table of all of them. An AllocBuilder makes it and keeps its
// rules: chunks are numbered in the order of allocation; a chunk is freed at most
// once, after its allocation, with its size; sizes are positive, and sums of live
// ones never overflow 63 bits. It is immutable; use from many goroutines is safe.
type Allocs struct {
	Name     string // a file's base name without its extensions, or what the caller says
	Format   AllocFormat
	Events   []AllocEvent
	Chunks   int // allocations in Events
	Oddities oddities

	// LivedBefore is how many chunks live since before the recording began: the first
	// in Events.
	LivedBefore int
	// Held is the most bytes that the recorded program's allocator held for them, where
	// the file tells: PyTorch's segments, VMA's blocks; else 0.
	Held uint64
	// Places are the chunks' addresses in what was held, where the file tells; else nil.
	Places []uint64
	// Streams are the chunks' streams, numbered in the order of appearance, in a PyTorch
	// snapshot of several; else nil.
	Streams []uint32
	// IDs are the chunks' names in MiniMalloc's files; else nil, and a chunk's number is
	// its name.
	IDs []string
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

// PeakLive is the largest sum of live sizes, and the index of the event that
// reaches it first (-1 in an empty trace).
func (t *Allocs) PeakLive() (bytes uint64, at int) {
	var live uint64
	at = -1
	for i, e := range t.Events {
		if e.Op == trace.OpFree {
			live -= e.Size
		} else if live += e.Size; live > bytes {
			bytes, at = live, i
		}
	}
	return bytes, at
}
