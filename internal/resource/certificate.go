package resource

import (
	"fmt"
	"strings"

	"godwit/eviction"
	"godwit/mem"
)

// Verdict is why memory ran out.
type Verdict uint8

// Capacity: what is live leaves too little, however it lies. Budget: a limit
// set by the user would be passed. Fragmentation: enough is free, but nowhere
// in one piece. Cached: EmptyCache would make the room. Pending: frees that
// wait for running commands would make the room.
const (
	Capacity Verdict = iota
	Budget
	Fragmentation
	Cached
	Pending
)

// String is the verdict in words.
func (v Verdict) String() string {
	return [...]string{"capacity", "budget", "fragmentation", "cached", "pending"}[v]
}

// OutOfMemory is the certificate of every refusal for want of memory: an error that says
// what was needed, what there is, who holds it and why that cannot go, and what would
// have helped. errors.Is(err, mem.ErrNoMemory) holds, or mem.ErrNoHostMemory for the
// host's. Bytes unless said.
type OutOfMemory struct {
	Device      string
	Host        bool   // it is the host's memory
	Requested   uint64 // at once
	Capacity    uint64 // of the device; 0 is unknown
	Free        uint64 // neither live, pending nor cached
	LargestHole uint64 // the largest block that could be given
	Cached      uint64 // Trim would give it back
	Pending     uint64 // waits for running commands
	Live        uint64
	Verdict     Verdict
	// Hopeless: no release helps. The command needs more than there is of that memory, at
	// once and with what it uses of what is live, or more than its device gives in one piece.
	Hopeless bool
	// Holders hold what is live: of buffers all of them, the largest first, where a
	// context refuses; else the biggest five that a Track layer knows.
	Holders []Holder
	// Release is the smallest set whose release would make the room; empty where
	// that is not known.
	Release []Holder
}

// Holder is who holds memory.
type Holder struct {
	Name  string // "" where nobody said one
	Tag   uint64 // of the request: a context's are BufferIDs
	Bytes uint64
	Why   eviction.Why // it cannot go; Goes where nobody asked
}

// Unwrap makes it a mem.ErrNoMemory, or a mem.ErrNoHostMemory.
func (e *OutOfMemory) Unwrap() error {
	if e.Host {
		return mem.ErrNoHostMemory
	}
	return mem.ErrNoMemory
}

// Error is the certificate in a few lines.
func (e *OutOfMemory) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: out of memory: %s asked for; %s free, largest hole %s, %s cached, %s waiting for commands, %s live",
		e.Device, mem.FormatBytes(e.Requested), mem.FormatBytes(e.Free), mem.FormatBytes(e.LargestHole),
		mem.FormatBytes(e.Cached), mem.FormatBytes(e.Pending), mem.FormatBytes(e.Live))
	if e.Capacity > 0 {
		fmt.Fprintf(&b, " of %s", mem.FormatBytes(e.Capacity))
	}
	fmt.Fprintf(&b, ": %v", e.Verdict)
	if e.Hopeless {
		b.WriteString(", and no release would help")
	}
	list := func(what string, hs []Holder) {
		for i, h := range hs {
			sep := ", "
			if i == 0 {
				sep = "; " + what + ": "
			}
			if i == biggest {
				fmt.Fprintf(&b, " and %d more", len(hs)-i)
				break
			}
			name := h.Name
			if name == "" {
				name = fmt.Sprintf("tag %#x", h.Tag)
			}
			fmt.Fprintf(&b, "%s%s %s", sep, name, mem.FormatBytes(h.Bytes))
			if h.Why != eviction.Goes {
				fmt.Fprintf(&b, " (%v)", h.Why)
			}
		}
	}
	list("biggest holders", e.Holders)
	list("releasing these would do", e.Release)
	return b.String()
}

const biggest = 5 // holders named in a certificate

// Certify says why r, a device's memory, could not give size bytes. What holds them is
// known where there is a Track layer.
func Certify(device string, r mem.Resource, size uint64, outcome mem.Outcome) *OutOfMemory {
	s := r.Stats()
	e := &OutOfMemory{
		Device: device, Requested: size, Capacity: s.Capacity, LargestHole: s.LargestFree,
		Cached: s.Cached, Pending: s.Pending, Live: s.Live,
	}
	if used := max(s.Reserved, s.Live+s.Pending) - s.Cached; s.Capacity > used+s.Cached {
		e.Free = s.Capacity - used - s.Cached
	}
	free := e.Free
	if s.Reserved > s.Live+s.Pending+s.Cached { // holes in slabs
		free += s.Reserved - s.Live - s.Pending - s.Cached
	}
	if taken := s.Live + s.Pending + s.Cached; s.Capacity > 0 { // a limit above slabs that are larger
		free = min(free, s.Capacity-min(taken, s.Capacity))
	}
	switch {
	case outcome == mem.OverBudget:
		e.Verdict = Budget
	case free >= size:
		e.Verdict = Fragmentation
	case free+s.Cached >= size:
		e.Verdict = Cached
	case free+s.Cached+s.Pending >= size:
		e.Verdict = Pending
	}
	e.Free = free
	t, ok := Find[*Track](r)
	if !ok {
		return e
	}
	holdings := t.Holdings()
	e.Holders = holders(holdings[:min(len(holdings), biggest)])
	e.Release = holders(releaseSet(r, holdings, size, outcome))
	return e
}

// holders is what a Track layer knows, as certificates have it.
func holders(hs []Holding) (out []Holder) {
	for _, h := range hs {
		out = append(out, Holder{Name: h.Name, Tag: h.Tag, Bytes: h.Block.Size})
	}
	return out
}

// releaseSet names the smallest set of holders whose release would make room.
func releaseSet(r mem.Resource, holders []Holding, size uint64, outcome mem.Outcome) []Holding {
	if outcome == mem.OverBudget {
		return underBudget(r, holders, size)
	}
	m, ok := Find[mapper](r)
	if !ok {
		return nil
	}
	blocks, ok := smallestRelease(m.Extents(), size, 1)
	if !ok {
		return nil
	}
	var set []Holding
	for _, b := range blocks {
		for _, h := range holders {
			if h.Block == b {
				set = append(set, h)
			}
		}
	}
	if len(set) < len(blocks) {
		return nil // some belong to others
	}
	return set
}

// underBudget takes the largest holders until the budget has room; a limit
// does not care where the bytes lie, so that fewest is largest first.
func underBudget(r mem.Resource, holders []Holding, size uint64) (set []Holding) {
	l, ok := Find[*Limit](r)
	if !ok || size > l.Max() {
		return nil
	}
	room := l.Max() - l.Held()
	for _, h := range holders {
		if room >= size {
			break
		}
		set = append(set, h)
		room += h.Block.Size
	}
	if room < size {
		return nil
	}
	return set
}
