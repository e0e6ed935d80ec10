package resource

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

// Against trying every subset of the live blocks.
func TestSmallestReleaseIsTheSmallest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := extent{Range: mem.Range{End: 64}}
		for at := uint64(0); at < 60; {
			at += rapid.Uint64Range(0, 9).Draw(t, "gap")
			size := rapid.Uint64Range(1, 12).Draw(t, "size")
			if at+size > 64 {
				break
			}
			e.Used = append(e.Used, use{
				Block:   mem.Block{Addr: at, Size: size, Ref: 1 + uint64(len(e.Used))},
				Pending: rapid.IntRange(0, 5).Draw(t, "pending") == 0,
			})
			at += size
		}
		want := rapid.Uint64Range(1, 64).Draw(t, "want")
		align := uint64(1) << rapid.IntRange(0, 3).Draw(t, "align")
		best := -1
		for set := range 1 << len(e.Used) {
			if n := bits.OnesCount(uint(set)); (best < 0 || n < best) && hole(e, set, want, align) {
				best = n
			}
		}
		got, ok := smallestRelease([]extent{e}, want, align)
		require.Equal(t, best >= 0, ok)
		if ok {
			require.Len(t, got, best)
			set := 0
			for _, b := range got {
				set |= 1 << (b.Ref - 1)
			}
			require.True(t, hole(e, set, want, align), "releasing %v leaves no hole", got)
		}
	})
}

// hole reports whether releasing the set leaves room.
func hole(e extent, set int, want, align uint64) bool {
	var used [64]bool
	for i, u := range e.Used {
		if set&(1<<i) != 0 {
			if u.Pending {
				return false
			}
			continue
		}
		for at := u.Block.Addr; at < u.Block.Addr+u.Block.Size; at++ {
			used[at] = true
		}
	}
	for start := uint64(0); start+want <= 64; start += align {
		free := true
		for at := start; at < start+want; at++ {
			free = free && !used[at]
		}
		if free {
			return true
		}
	}
	return false
}
