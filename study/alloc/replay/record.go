package replay

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"godwit/bufalloc/pack"
	"godwit/study/alloc/formats"
)

// placed is where and when a chunk was. Sizes and addresses in bytes.
type placed struct {
	Addr       uint64 // NoPlace where the allocation failed
	Size       uint64 // rounded up to the alignment
	Start, End int    // operations: allocated by Start, freed by End, or len(Ops)
}

// NoPlace is the address of a chunk that was refused.
const NoPlace = math.MaxUint64

// Recording is a replay with every chunk's place, for a picture.
type Recording struct {
	Strategy string
	Region   uint64   // bytes
	Chunks   []placed // in the order of allocation
	Series   []Point  // a few thousand at even distances, the peak and Worst among them
	Worst    Point    // when the largest hole was smallest: nearest to failing
}

// recordPoints is about how many points a Recording's Series has.
const recordPoints = 3000

// Record replays st through a region of size bytes and keeps where each chunk
// was.
func Record(ctx context.Context, st *Stream, subject Subject, size uint64) (*Recording, error) {
	rec := &Recording{Strategy: subject.Name(), Region: size}
	held := make([]int, st.Slots) // chunk in the slot
	err := through(ctx, st, subject, size, all, func(m machine, i int, ok bool) (err error) {
		if op := st.Ops[i]; op.Size == 0 {
			rec.Chunks[held[op.Slot]].End = i
		} else {
			held[op.Slot] = len(rec.Chunks)
			p := placed{NoPlace, roundTo(op.Size, st.Align), i, len(st.Ops)}
			if ok {
				p.Addr, err = m.addr(op.Slot)
			}
			rec.Chunks = append(rec.Chunks, p)
		}
		if err == nil && (i%lookEvery(m, len(st.Ops)) == 0 || rec.sample(i, st)) {
			rec.add(pointOf(i, m.stats()), st)
			err = ctx.Err()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	rec.insertWorst()
	return rec, nil
}

// lookEvery is the distance of the operations looked at for Worst: each where
// a region knows its largest hole at once, else some tens of thousands.
func lookEvery(m machine, ops int) int {
	if m.quick() {
		return 1
	}
	return max(ops/30_000, 1)
}

func roundTo(size, align uint64) uint64 { return (size + align - 1) &^ (align - 1) }

func (rec *Recording) sample(i int, st *Stream) bool {
	return i%max(len(st.Ops)/recordPoints, 1) == 0 || i == st.PeakAt || i == len(st.Ops)-1
}

// Stranded is the bytes that are free but not in the largest hole.
func (p Point) Stranded() uint64 { return p.Free - p.LargestFree }

func (rec *Recording) add(p Point, st *Stream) {
	if len(rec.Series) == 0 || p.LargestFree < rec.Worst.LargestFree ||
		(p.LargestFree == rec.Worst.LargestFree && p.Stranded() > rec.Worst.Stranded()) {
		rec.Worst = p
	}
	if rec.sample(p.Op, st) {
		rec.Series = append(rec.Series, p)
	}
}

// insertWorst puts Worst into Series.
func (rec *Recording) insertWorst() {
	i, found := slices.BinarySearchFunc(rec.Series, rec.Worst.Op, func(p Point, op int) int { return p.Op - op })
	if !found {
		rec.Series = slices.Insert(rec.Series, i, rec.Worst)
	}
}

// OfflineName is the name of the offline packer beside the strategies.
const OfflineName = "offline"

// Offline packs the trace that st was made of with all lifetimes known, for at
// most limit: what placement could reach. It gives a Result without times and
// a Recording.
func Offline(ctx context.Context, t *formats.Allocs, st *Stream, limit time.Duration) (Result, *Recording, error) {
	res := Result{Trace: st.Name, Strategy: OfflineName, Align: st.Align, Ops: len(st.Ops), PeakLive: st.PeakLive}
	res.FirstFailure = -1
	items, err := t.Items(st.Align)
	if err != nil {
		return res, nil, fmt.Errorf("%s: %w", st.Name, err)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	packed, err := pack.Minimize(limited, items, pack.Options{})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = pack.Verify(items, packed.Offsets)
	}
	if err != nil {
		return res, nil, fmt.Errorf("%s: %w", st.Name, err)
	}
	res.Region, res.MinRegion, res.HighWater = packed.Height, packed.Height, packed.Height
	res.Overhead = ratio(packed.Height) / ratio(st.PeakLive)
	res.Exhaustive = packed.Proven
	rec, err := recordOffline(ctx, st, items, packed)
	return res, rec, err
}

// recordOffline makes the picture of a packing. Holes are not looked for: the
// packer needs none, so LargestFree stays 0 and nothing is worst but the peak.
func recordOffline(ctx context.Context, st *Stream, items []pack.Item, packed pack.Result) (*Recording, error) {
	rec := &Recording{Strategy: OfflineName, Region: packed.Height, Chunks: make([]placed, len(items))}
	for i, it := range items {
		rec.Chunks[i] = placed{packed.Offsets[i], it.Size, int(it.Lower), min(int(it.Upper), len(st.Ops))}
	}
	var live, high uint64
	next := 0
	held := make([]int, st.Slots)
	for i, op := range st.Ops {
		if op.Size == 0 {
			live -= items[held[op.Slot]].Size
		} else {
			held[op.Slot] = next
			live += items[next].Size
			high = max(high, packed.Offsets[next]+items[next].Size)
			next++
		}
		if rec.sample(i, st) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			p := Point{Op: i, Live: live, Free: packed.Height - live, HighWater: high}
			if rec.Series = append(rec.Series, p); i == st.PeakAt {
				rec.Worst = p
			}
		}
	}
	return rec, nil
}

// RecordedName is the name of the allocator that the recorded program used, beside the
// strategies.
const RecordedName = "recorded"

// Recorded is what the recorded program's own allocator made of the trace that st was
// made of: what it held, and where chunks were if the file tells. ok is false where
// the file tells nothing of it; the Recording is nil where it tells no places.
func Recorded(ctx context.Context, t *formats.Allocs, st *Stream) (res Result, rec *Recording, ok bool, err error) {
	if t.Held == 0 {
		return res, nil, false, nil
	}
	peak, _ := t.PeakLive() // sizes as they are: how the recorded allocator rounded them is part of what it held
	res = Result{Trace: st.Name, Strategy: RecordedName, Align: 1, Ops: len(st.Ops), PeakLive: peak,
		Region: t.Held, MinRegion: t.Held, Overhead: ratio(t.Held) / ratio(peak)}
	res.FirstFailure, res.HighWater = -1, t.Held
	if t.Places == nil {
		return res, nil, true, nil
	}
	items, err := t.Items(1)
	if err == nil {
		rec, err = recordOffline(ctx, st, items, pack.Result{Offsets: t.Places, Height: t.Held})
	}
	if err == nil {
		rec.Strategy = RecordedName
	}
	return res, rec, true, err
}
