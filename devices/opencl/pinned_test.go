//go:build cgo

package opencl

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

func TestPinnedRangesHoldWhatLiesInOne(t *testing.T) {
	var p pinnedRanges
	for _, start := range []uint64{8192, 0x1000, 65536} {
		p.add(mem.Range{Start: start, End: start + 4096})
	}
	for _, c := range []struct {
		addr, size uint64
		want       bool
	}{
		{8192, 4096, true}, {8192, 4097, false}, {8193, 4095, true}, {8191, 1, true}, {8191, 2, false}, {12288, 1, false},
		{0, 1, false}, {0xfff, 2, false}, {65536 + 4095, 1, true}, {1 << 40, 1, false}, {^uint64(0), 1, false},
	} {
		require.Equal(t, c.want, p.holds(c.addr, c.size), "%d at %d", c.size, c.addr)
	}
	p.remove(8192)
	require.False(t, p.holds(8192, 1))
	require.True(t, p.holds(0x1000, 4096))
}

// A model of pages, each locked or not, while others look: a range that is always there
// is always found.
func TestPinnedRangesAgreeWithAModelWhileOthersLook(t *testing.T) {
	var p pinnedRanges
	const pages, page = 500, 4096
	p.add(mem.Range{Start: page, End: 2 * page}) // the one that stays
	at := map[int]int{1: 1}                      // pages of ranges by their first
	stop := make(chan struct{})
	var looking sync.WaitGroup
	defer looking.Wait()
	defer close(stop)
	for range 2 {
		looking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if !p.holds(page+10, 100) {
					t.Error("a range was lost")
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		first, n := 2+rng.IntN(pages), 1+rng.IntN(3)
		if _, ok := at[first]; ok {
			p.remove(uint64(first) * page)
			delete(at, first)
		} else if vacant(at, first, n) {
			p.add(mem.Range{Start: uint64(first) * page, End: uint64(first+n) * page})
			at[first] = n
		}
		addr, size := uint64(rng.IntN(pages*page)), uint64(1+rng.IntN(3*page))
		want := false
		for f, n := range at {
			want = want || addr >= uint64(f)*page && addr+size <= uint64(f+n)*page
		}
		require.Equal(t, want, p.holds(addr, size), "%d at %d", size, addr)
	}
}

func vacant(at map[int]int, first, n int) bool {
	for f, m := range at {
		if f < first+n && first < f+m {
			return false
		}
	}
	return true
}
