package formats

import (
	"fmt"
	"math"

	"godwit/internal/input"
	"godwit/mem/trace"
)

// AllocBuilder makes an Allocs from ids that may be used again once freed, as
// files and programs have them. The zero value is ready. Not safe for
// concurrent use.
type AllocBuilder struct {
	t    Allocs
	live map[uint64]liveID
	sum  uint64
}

// liveID is what is known of an id that is live.
type liveID struct {
	size  uint64
	chunk uint32
	line  int
}

// Alloc records that id came to life with size bytes. It fails where size is
// zero, id is live already, or the live bytes would overflow 63 bits.
func (b *AllocBuilder) Alloc(id, size uint64, timeUS int64) error {
	return b.alloc(id, size, timeUS, 0)
}

func (b *AllocBuilder) alloc(id, size uint64, timeUS int64, line int) error {
	if size == 0 {
		return fmt.Errorf("allocation %d of 0 bytes: %w", id, input.ErrMalformed)
	}
	if old, ok := b.live[id]; ok {
		return fmt.Errorf("id %d is live already (line %d): %w", id, old.line, input.ErrMalformed)
	}
	if size > math.MaxInt64-b.sum {
		return fmt.Errorf("%d live bytes + %d overflow 63 bits: %w", b.sum, size, input.ErrMalformed)
	}
	if b.t.Chunks == math.MaxUint32 {
		return fmt.Errorf("more than %d allocations: %w", b.t.Chunks, input.ErrMalformed)
	}
	if b.live == nil {
		b.live = make(map[uint64]liveID)
	}
	chunk := uint32(b.t.Chunks)
	b.live[id] = liveID{size, chunk, line}
	b.sum += size
	b.t.Chunks++
	b.t.Events = append(b.t.Events, AllocEvent{Size: size, Time: timeUS, Chunk: chunk, Op: trace.OpAlloc})
	return nil
}

// recorded is alloc of a pointer in a recording, which may be of no byte, or lack the pointer's free.
func (b *AllocBuilder) recorded(ptr uint64, text string, size uint64, at int64, line int) error {
	odd := &b.t.Oddities
	if size == 0 {
		odd.note(&odd.ZeroSized, line, "allocation of 0 bytes at %s", text)
		return nil
	}
	if old, live := b.live[ptr]; live {
		odd.note(&odd.MissingFrees, line, "%s is live since line %d and allocated again", text, old.line)
		b.free(ptr, at, line)
	}
	return b.alloc(ptr, size, at, line)
}

// Free records that id died. known is false, and nothing is recorded but the
// count in Oddities, where id is not live.
func (b *AllocBuilder) Free(id uint64, timeUS int64) (known bool) {
	return b.free(id, timeUS, 0)
}

func (b *AllocBuilder) free(id uint64, timeUS int64, line int) bool {
	l, ok := b.live[id]
	if !ok {
		b.t.Oddities.note(&b.t.Oddities.UnknownFrees, line, "free of %d, which is not live", id)
		return false
	}
	delete(b.live, id)
	b.sum -= l.size
	b.t.Events = append(b.t.Events, AllocEvent{Size: l.size, Time: timeUS, Chunk: l.chunk, Op: trace.OpFree})
	return true
}

// Build returns the trace so far. The builder must not be used afterwards.
func (b *AllocBuilder) Build(name string, format AllocFormat) *Allocs {
	b.t.Name, b.t.Format = name, format
	b.live = nil
	return &b.t
}
