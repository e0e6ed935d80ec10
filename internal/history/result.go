package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Result is what a run did.
type Result struct {
	Histories  int            // replayed
	Roots      int            // buffers of theirs
	Lent       int            // of Roots: over memory that the program lends
	Commands   int            // accepted
	Ops        map[string]int // of Commands, by what was called
	Refused    int            // for want of memory, or struck
	BytesMoved uint64         // equal to the oracle's lower bound, where nothing may fail
	Evictions  int            // blocks that left a memory for others' sake
	Evicted    map[string]int // of Evictions, by the policy (trace.EvictionRecord.Policy)
	// WrittenBack is how many bytes of these had to be written back first; not in
	// BytesMoved.
	WrittenBack uint64
	Regrown     uint64           // bytes that went into new blocks from those whose place these took; not in BytesMoved
	RideAlong   uint64           // bytes that came along to the end of a device's word, not in BytesMoved
	Failed      int              // commands that failed after they were accepted
	Struck      int              // of Failed: struck themselves
	Excused     int              // of Failed: rested on a copy that was struck, or on a count
	CalledOff   int              // of Failed: with their request
	Lost        int              // commands refused because they read what a failed one was to write
	BytesRead   int              // compared with the flat memory
	Asked       int              // bytes that were read at the end, one by one where some were lost
	Readable    int              // of Asked: had to be there, and were
	Strikes     map[string]int   // faults, by what was struck
	Calls       map[callKind]int // calls that could be struck, where there are faults
	Unopened    int              // runs whose context could not be opened, since a call of it was struck
}

func newResult(h *History) Result {
	r := Result{Histories: 1, Roots: len(h.Roots), Ops: make(map[string]int), Evicted: make(map[string]int)}
	for _, root := range h.Roots {
		if root.Kind == lentRoot {
			r.Lent++
		}
	}
	return r
}

// Add adds what another run did.
func (r *Result) Add(o Result) {
	r.Histories += o.Histories
	r.Roots += o.Roots
	r.Lent += o.Lent
	r.Commands += o.Commands
	r.Refused += o.Refused
	r.BytesMoved += o.BytesMoved
	r.Evictions += o.Evictions
	addTo(&r.Evicted, o.Evicted)
	r.WrittenBack += o.WrittenBack
	r.Regrown += o.Regrown
	r.RideAlong += o.RideAlong
	r.Failed += o.Failed
	r.Struck += o.Struck
	r.Excused += o.Excused
	r.CalledOff += o.CalledOff
	r.Asked += o.Asked
	r.Readable += o.Readable
	r.Lost += o.Lost
	r.BytesRead += o.BytesRead
	addTo(&r.Ops, o.Ops)
	r.Unopened += o.Unopened
	addTo(&r.Calls, o.Calls)
	addTo(&r.Strikes, o.Strikes)
}

// addTo adds counts to others.
func addTo[K comparable](to *map[K]int, from map[K]int) {
	if *to == nil {
		*to = make(map[K]int)
	}
	for k, n := range from {
		(*to)[k] += n
	}
}

// String is all that is known, for logs.
func (r *Result) String() string {
	struck := 0
	for _, n := range r.Strikes {
		struck += n
	}
	return fmt.Sprintf("%d histories, %d contexts that did not open, %d of %d buffers over lent memory, %d commands accepted, %d refused (%d of them for lost bytes), %d failed (%d struck themselves, %d excused by a copy that was, %d called off), %d calls struck, "+
		"%d blocks evicted (%v), %d bytes written back, %d bytes copied into new blocks, %d bytes moved, %d bytes read and compared; at the end %d bytes asked for, %d readable and right (%.0f %%)\n%s%s",
		r.Histories, r.Unopened, r.Lent, r.Roots, r.Commands, r.Refused+r.Lost, r.Lost, r.Failed, r.Struck, r.Excused, r.CalledOff, struck,
		r.Evictions, r.Evicted, r.WrittenBack, r.Regrown, r.BytesMoved, r.BytesRead, r.Asked, r.Readable, 100*float64(r.Readable)/float64(max(r.Asked, 1)), lines(r.Strikes), lines(r.Ops))
}

// lines is a line for each thing, with how often it was.
func lines(counts map[string]int) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%8d %s\n", counts[k], k)
	}
	return b.String()
}
