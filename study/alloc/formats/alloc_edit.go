package formats

import (
	"fmt"

	"godwit/mem"
	"godwit/mem/trace"
)

// Cut is the part of a trace from event from up to event to: what is live at its
// start is allocated first, in the order in which it was. It fails where
// the bounds are not in order and in the trace.
func (t *Allocs) Cut(name string, from, to int) (*Allocs, error) {
	if from < 0 || from >= to || to > len(t.Events) {
		return nil, fmt.Errorf("%s: cut [%d, %d) of %d events: %w", t.Name, from, to, len(t.Events), mem.ErrInvalidValue)
	}
	var b AllocBuilder
	for _, l := range t.Lifetimes() {
		if e := t.Events[l.Start]; l.Start < from && l.End >= from {
			if err := b.Alloc(uint64(e.Chunk), e.Size, t.Events[from].Time); err != nil {
				return nil, err
			}
		}
	}
	for _, e := range t.Events[from:to] {
		if err := b.again(e, 0); err != nil {
			return nil, err
		}
	}
	return b.Build(name, FormatGodwit), nil
}

// again records an event of another trace whose chunks are counted from base on.
func (b *AllocBuilder) again(e AllocEvent, base uint64) error {
	if e.Op == trace.OpFree {
		b.Free(base+uint64(e.Chunk), e.Time)
		return nil
	}
	return b.Alloc(base+uint64(e.Chunk), e.Size, e.Time)
}

// Merge is several traces at once, as programs that share a memory make them:
// each goes on evenly, so that all end together, whatever their clocks say. It
// fails where the live bytes would overflow 63 bits.
func Merge(name string, traces ...*Allocs) (*Allocs, error) {
	var b AllocBuilder
	next := make([]int, len(traces))
	base := make([]uint64, len(traces))
	left := 0
	for i, t := range traces {
		left += len(t.Events)
		if i > 0 {
			base[i] = base[i-1] + uint64(traces[i-1].Chunks)
		}
	}
	for ; left > 0; left-- {
		k := -1 // the one that is furthest behind
		for i, t := range traces {
			if next[i] < len(t.Events) && (k < 0 || next[i]*len(traces[k].Events) < next[k]*len(t.Events)) {
				k = i
			}
		}
		if err := b.again(traces[k].Events[next[k]], base[k]); err != nil {
			return nil, fmt.Errorf("%s: %w", traces[k].Name, err)
		}
		next[k]++
	}
	return b.Build(name, FormatGodwit), nil
}
