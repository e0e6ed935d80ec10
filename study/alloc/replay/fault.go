package replay

import "fmt"

// FaultKind says how an allocator broke its contract.
type FaultKind string

// The kinds of faults.
const (
	overlap    FaultKind = "overlap"    // a chunk on bytes of a live one
	outside    FaultKind = "outside"    // a chunk not wholly in the region
	misaligned FaultKind = "misaligned" // a chunk not at a multiple of its alignment
	misplaced  FaultKind = "misplaced"  // a Placement's answer that is no place in a hole
	Crash      FaultKind = "crash"      // a panic, or the end of the other process
	Hang       FaultKind = "hang"       // no answer in time
	Nonsense   FaultKind = "nonsense"   // an answer that is none
	Leak       FaultKind = "leak"       // a refusal with nothing live, of a size that was given before
)

// Fault is an allocator of one's own that broke its contract: a result of a
// replay, and no failure of the program that replays.
type Fault struct {
	Subject string    `json:"strategy"`
	Kind    FaultKind `json:"kind"`
	Op      int       `json:"op"` // index of the operation, -1 before the first
	Detail  string    `json:"detail"`
	Region  uint64    `json:"region"`          // bytes
	Again   string    `json:"again,omitempty"` // the command that shows it again, once its stream is saved

	stream *Stream
}

// Error names the allocator, the operation and what is wrong.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s: %s at operation %d in a region of %d bytes: %s", f.Subject, f.Kind, f.Op, f.Region, f.Detail)
}

// at completes a fault with where it happened.
func (f *Fault) at(st *Stream, op int, size uint64) *Fault {
	f.stream, f.Op, f.Region = st, op, size
	return f
}

// Reproducer is the stream up to the operation that shows the fault, to be
// replayed in a region of Region bytes; nil where there is none.
func (f *Fault) Reproducer() *Stream {
	if f.stream == nil {
		return nil
	}
	ops := f.stream.Ops[:min(f.Op+1, len(f.stream.Ops))]
	st, err := NewStream(fmt.Sprintf("%s-%s", f.stream.Name, f.Kind), f.stream.Align, ops)
	if err != nil {
		return nil // the fault came before the first allocation
	}
	st.Leaks = f.stream.Leaks
	return st
}

// Command is what shows the fault again, once the stream that shows it is saved in file.
func (f *Fault) Command(file string, st *Stream) string {
	again := fmt.Sprintf("godwit replay %s -s '%s' --region %d --align %d", file, f.Subject, f.Region, st.Align)
	if f.Kind == Leak {
		again += " --leaks"
	}
	return again
}
