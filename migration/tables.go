package migration

import (
	"fmt"
	"slices"
	"strings"

	"godwit/mem"
)

// Stats are a planner's figures since it was made, counts unless said.
type Stats struct {
	Buffers    int    // alive now
	Commands   uint64 // committed
	Copies     uint64 // inserted, committed
	BytesMoved uint64 // arriving through steps because a command needed them, each once whatever the hops
	LateBytes  uint64 // bytes of steps whose count decides when they run how many of them move; not in BytesMoved
	RideAlong  uint64 // bytes that came along though nobody needed them (links' alignment)

	Evictions        uint64 // blocks that left for others' sake, a count
	BytesEvicted     uint64 // bytes of their blocks
	BytesDropped     uint64 // of what they held: what another memory held, too
	BytesWrittenBack uint64 // and what was moved first, which is in BytesMoved

	Regrows      uint64 // blocks that took the place of others, a count
	BytesRegrown uint64 // bytes copied into them within their memory; not in BytesMoved
}

// Stats returns the figures.
func (p *Planner) Stats() Stats { return p.stats }

// Version is the last version given out.
func (p *Planner) Version() mem.Version { return p.version }

// Segment is a row of a buffer's table: bytes that are worth the same.
type Segment struct {
	Range   mem.Range
	Version mem.Version   // 0: never written
	Valid   mem.MemorySet // where that version is
	Pending mem.MemorySet // of Valid: where (a part of) it is still being written or copied
	Poison  *loss         // not nil: the content was lost; do not change it
}

// Segments returns a buffer's table, in ascending order. It fails with
// mem.ErrInvalidBuffer where there is no such buffer.
func (p *Planner) Segments(id mem.BufferID) ([]Segment, error) {
	b, err := p.buffer(id)
	if err != nil {
		return nil, err
	}
	out := make([]Segment, 0, b.content.Len())
	for r, c := range b.content.All() {
		s := Segment{Range: r, Version: c.version, Valid: c.valid, Poison: c.poison}
		for m := range c.valid.All() {
			if b.at(m).pending(r) {
				s.Pending = s.Pending.With(m)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// Resident is how many bytes of a range of a buffer a memory holds in their latest version, or will
// when what is under way has ended. It fails with mem.ErrInvalidBuffer or mem.ErrInvalidValue where
// there is no such buffer, memory or range.
func (p *Planner) Resident(id mem.BufferID, m mem.MemoryID, r mem.Range) (bytes uint64, err error) {
	b, err := p.inside(id, r)
	if err == nil {
		m, err = p.store(m)
	}
	if err != nil {
		return 0, err
	}
	for part, c := range b.content.In(r) {
		if c.valid.Has(m) {
			bytes += part.Size()
		}
	}
	return bytes, nil
}

// Time is how long a plan's copies are expected to take one after the other, in seconds; it is not
// known where the time of one is not.
func (p *Planner) Time(plan *Plan) (seconds float64, known bool) {
	for i := range plan.Steps {
		st := &plan.Steps[i]
		t, ok := p.time(p.buffers[uint32(st.Buffer)], st.From, st.To, st.Range)
		if !ok {
			return 0, false
		}
		seconds += t
	}
	return seconds, true
}

// pending reports whether a writer of r has not succeeded yet.
func (s *store) pending(r mem.Range) bool {
	if s == nil {
		return false
	}
	for _, h := range s.hazards.In(r) {
		if !h.writer.Succeeded() {
			return true
		}
	}
	return false
}

// Explain says in one sentence why a step of a plan is what it is.
func (p *Planner) Explain(s *Step) string {
	var b strings.Builder
	if s.Reason.Choice == forWriteBack {
		return fmt.Sprintf("%s gives its block up: %s of %v go to %s %s", p.topo.Name(s.From), s.Reason.versions(), s.Range, p.topo.Name(s.To), s.Way.Phrase())
	}
	if s.Reason.Choice == forExchange {
		return fmt.Sprintf("%s has a new block: %s of %v go there from the old one", p.topo.Name(s.From), s.Reason.versions(), s.Range)
	}
	fmt.Fprintf(&b, "%s lacks %s of %v", p.topo.Name(s.To), s.Reason.versions(), s.Range)
	if s.RideAlong > 0 {
		fmt.Fprintf(&b, " (%d of its bytes ride along)", s.RideAlong)
	}
	fmt.Fprintf(&b, ", fresh on %s; from %s %s: %s", p.names(s.Reason.Fresh), p.topo.Name(s.From), s.Way.Phrase(), s.Reason.Choice)
	if l := s.Late; l != nil && l.Count != 0 {
		fmt.Fprintf(&b, "; as far as version %d of %s counts", l.Version, bufferName(l.Count))
	}
	return b.String()
}

func (r Reason) versions() string {
	if r.Oldest == r.Newest {
		return fmt.Sprintf("version %d", r.Newest)
	}
	return fmt.Sprintf("versions %d to %d", r.Oldest, r.Newest)
}

// names lists the memories of a set.
func (p *Planner) names(s mem.MemorySet) string {
	if s.Empty() {
		return "none"
	}
	var names []string
	for _, m := range slices.Collect(s.All()) {
		names = append(names, p.topo.Name(m))
	}
	return strings.Join(names, " and ")
}
