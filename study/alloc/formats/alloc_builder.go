package formats

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"godwit/internal/input"
	"godwit/mem/trace"
)

// AllocBuilder makes an Allocs from ids that may be used again once freed, as
// files and programs have them. The zero value is ready. Not safe for
// concurrent use.
type AllocBuilder struct {
	t      Allocs
	live   map[uint64]liveID
	sum    uint64              // of live sizes
	peak   uint64              // the greatest sum, with what lived before counted from the start
	seen   map[uint64]struct{} // ids of a recording that was begun late; nil where all are known
	before []before
}

// before is a chunk that is live since before its recording began.
type before struct {
	id, size uint64
	number   uint32 // what events call it: counted down from the greatest number
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
	if err := b.fits(b.sum, size); err != nil {
		return err
	}
	chunk := uint32(b.t.Chunks)
	b.enter(id, liveID{size, chunk, line})
	b.sum += size
	b.peak = max(b.peak, b.sum)
	b.t.Chunks++
	b.t.Events = append(b.t.Events, AllocEvent{Size: size, Time: timeUS, Chunk: chunk, Op: trace.OpAlloc})
	return nil
}

// fits reports whether one more chunk keeps the rules of Allocs.
func (b *AllocBuilder) fits(sum, size uint64) error {
	if size > math.MaxInt64-sum {
		return fmt.Errorf("%d live bytes + %d overflow 63 bits: %w", sum, size, input.ErrMalformed)
	}
	if b.t.Chunks+len(b.before) == math.MaxUint32 {
		return fmt.Errorf("more than %d allocations: %w", b.t.Chunks, input.ErrMalformed)
	}
	return nil
}

func (b *AllocBuilder) enter(id uint64, l liveID) {
	if b.live == nil {
		b.live = make(map[uint64]liveID)
	}
	b.live[id] = l
	if b.seen != nil {
		b.seen[id] = struct{}{}
	}
}

// beganLate says that what is freed without having been allocated, and whose size is
// told, has lived since before the recording began.
func (b *AllocBuilder) beganLate() { b.seen = make(map[uint64]struct{}) }

// lived records that id, which no event was about, lives since before the recording.
func (b *AllocBuilder) lived(id, size uint64, line int) error {
	if err := b.fits(b.peak, size); err != nil {
		return err
	}
	number := math.MaxUint32 - uint32(len(b.before))
	b.before = append(b.before, before{id, size, number})
	b.enter(id, liveID{size, number, line})
	b.sum += size
	b.peak += size
	return nil
}

// recordedFree is free of a pointer in a recording, with its size where that is told.
func (b *AllocBuilder) recordedFree(ptr, size uint64, at int64, line int) error {
	if _, live := b.live[ptr]; !live && size > 0 {
		if _, again := b.seen[ptr]; !again {
			if err := b.lived(ptr, size, line); err != nil {
				return err
			}
		}
	}
	b.free(ptr, at, line)
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
	b.live, b.seen = nil, nil
	b.prepend()
	return &b.t
}

// prepend puts what lived before first, in the order of ids, which are addresses.
func (b *AllocBuilder) prepend() {
	n := len(b.before)
	if n == 0 {
		return
	}
	slices.SortFunc(b.before, func(x, y before) int { return cmp.Compare(x.id, y.id) })
	events := make([]AllocEvent, 0, n+len(b.t.Events))
	chunkOf := make([]uint32, n)
	for i, x := range b.before {
		chunkOf[math.MaxUint32-x.number] = uint32(i)
		events = append(events, AllocEvent{Size: x.size, Chunk: uint32(i), Op: trace.OpAlloc})
	}
	for _, e := range b.t.Events {
		if k := math.MaxUint32 - e.Chunk; k < uint32(n) {
			e.Chunk = chunkOf[k]
		} else {
			e.Chunk += uint32(n)
		}
		events = append(events, e)
	}
	b.t.Events, b.t.LivedBefore, b.before = events, n, nil
	b.t.Chunks += n
}
