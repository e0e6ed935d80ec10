package storage

import (
	"slices"

	"godwit/mem"
)

// BusyRanges are addresses that were freed and may have been given again while
// points that use them have not been reached. The zero value is empty. It is not
// safe for concurrent use. Steady state allocates nothing on the Go heap.
type BusyRanges struct {
	list  []busyRange
	spare [][]mem.Point
}

type busyRange struct {
	space uint64
	r     mem.Range
	after []mem.Point
}

// Add lists the addresses r of a space until the points, which it copies, have been
// reached.
func (b *BusyRanges) Add(space uint64, r mem.Range, after []mem.Point) {
	var keep []mem.Point
	if n := len(b.spare); n > 0 {
		keep, b.spare = b.spare[n-1], b.spare[:n-1]
	}
	b.list = append(b.list, busyRange{space, r, append(keep, after...)})
}

// Reap forgets what nobody has to wait for any more.
func (b *BusyRanges) Reap() {
	kept := b.list[:0]
	for _, e := range b.list {
		if slices.ContainsFunc(e.after, func(p mem.Point) bool { return !p.Reached() }) {
			kept = append(kept, e)
			continue
		}
		clear(e.after)
		b.spare = append(b.spare, e.after[:0])
	}
	clear(b.list[len(kept):])
	b.list = kept
}

// Empty reports whether nothing is listed.
func (b *BusyRanges) Empty() bool { return len(b.list) == 0 }

// Takes reports whether reuse takes what is busy of a range.
func (b *BusyRanges) Takes(reuse *mem.Reuse, space uint64, r mem.Range) bool {
	for i := range b.list {
		if e := &b.list[i]; e.space == space && e.r.Overlaps(r) && !reuse.Takes(e.after) {
			return false
		}
	}
	return true
}

// Tell adds to reuse what block i, at a range, must wait for.
func (b *BusyRanges) Tell(reuse *mem.Reuse, i int, space uint64, r mem.Range) {
	for k := range b.list {
		if e := &b.list[k]; e.space == space && e.r.Overlaps(r) {
			reuse.Add(i, e.after)
		}
	}
}

// Points appends what is waited for in a range.
func (b *BusyRanges) Points(dst []mem.Point, space uint64, r mem.Range) []mem.Point {
	for i := range b.list {
		if e := &b.list[i]; e.space == space && e.r.Overlaps(r) {
			for _, p := range e.after {
				if !p.Reached() {
					dst = append(dst, p)
				}
			}
		}
	}
	return dst
}
