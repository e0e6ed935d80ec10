//go:build cgo

package opencl

import (
	"fmt"
	"testing"

	"godwit/mem"
)

// overRanges runs f again and again among n ranges of 4 KiB, each 8 KiB after the last;
// at is the start of another one every time.
func overRanges(b *testing.B, f func(b *testing.B, p *pinnedRanges, at uint64)) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := new(pinnedRanges)
			at := func(i int) uint64 { return uint64(i*7919%n+1) << 13 }
			for i := range n {
				p.add(mem.Range{Start: at(i), End: at(i) + 4096})
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				f(b, p, at(i))
			}
		})
	}
}

// A transfer looks for its host end.
func BenchmarkPinnedHolds(b *testing.B) {
	overRanges(b, func(b *testing.B, p *pinnedRanges, at uint64) {
		if !p.holds(at+100, 1000) {
			b.Fatal(at)
		}
	})
}

// Page-locked memory comes and goes: one range more and one less.
func BenchmarkPinnedAddRemove(b *testing.B) {
	overRanges(b, func(_ *testing.B, p *pinnedRanges, at uint64) {
		p.add(mem.Range{Start: at + 4096, End: at + 8192})
		p.remove(at + 4096)
	})
}
