//go:build cgo

package opencl

import (
	"fmt"
	"testing"

	"godwit/mem"
)

func spread(n int) *pinnedRanges {
	p := new(pinnedRanges)
	for i := range n {
		start := uint64(i*7919%n+1) << 13
		p.add(mem.Range{Start: start, End: start + 4096})
	}
	return p
}

// A transfer looks for its host end.
func BenchmarkPinnedHolds(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := spread(n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7919) % n
				if !p.holds(uint64(i+1)<<13+100, 1000) {
					b.Fatal(i)
				}
			}
		})
	}
}

// Page-locked memory comes and goes: one range more and one less.
func BenchmarkPinnedAddRemove(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := spread(n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7919) % n
				start := uint64(i+1)<<13 + 4096
				p.add(mem.Range{Start: start, End: start + 4096})
				p.remove(start)
			}
		})
	}
}
