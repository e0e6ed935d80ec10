package mem_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

func TestRangesEqualSetsOfBytes(t *testing.T) {
	draw := func(t *rapid.T, name string) mem.Range {
		return mem.Range{Start: rapid.Uint64Range(0, 12).Draw(t, name+".start"), End: rapid.Uint64Range(0, 12).Draw(t, name+".end")}
	}
	bytes := func(r mem.Range) map[uint64]bool {
		m := map[uint64]bool{}
		for i := r.Start; i < r.End; i++ {
			m[i] = true
		}
		return m
	}
	rapid.Check(t, func(t *rapid.T) {
		r, s := draw(t, "r"), draw(t, "s")
		br, bs, both := bytes(r), bytes(s), map[uint64]bool{}
		for i := range br {
			if bs[i] {
				both[i] = true
			}
		}
		require.EqualValues(t, len(br), r.Size())
		require.Equal(t, len(br) == 0, r.Empty())
		require.Equal(t, both, bytes(r.Intersect(s)))
		require.Equal(t, len(both) > 0, r.Overlaps(s))
		require.Equal(t, len(both) == len(bs), r.Contains(s))
		if !r.Empty() {
			require.Equal(t, r, r.Shift(5).Shift(^uint64(4)), "up and down again")
		}
	})
}

func TestSpanRefusesWhatIsNoRange(t *testing.T) {
	for _, c := range []struct {
		name             string
		off, size, total uint64
		ok               bool
	}{
		{"one byte", 0, 1, 1, true},
		{"up to the end", 90, 10, 100, true},
		{"no bytes", 5, 0, 100, false},
		{"past the end", 90, 11, 100, false},
		{"the sum overflows", math.MaxUint64, 2, 100, false},
		{"the size overflows", 1, math.MaxUint64, math.MaxUint64, false},
		{"the last range there is", math.MaxUint64 - 1, 1, math.MaxUint64, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := mem.SpanIn(c.off, c.size, c.total)
			if !c.ok {
				require.ErrorIs(t, err, mem.ErrInvalidValue)
				require.True(t, r.Empty())
				return
			}
			require.NoError(t, err)
			require.Equal(t, mem.Range{Start: c.off, End: c.off + c.size}, r)
		})
	}
}

func TestAlignUp(t *testing.T) {
	for _, c := range []struct {
		v, align, want uint64
		ok             bool
	}{
		{0, 1, 0, true}, {1, 256, 256, true}, {256, 256, 256, true}, {257, 256, 512, true},
		{math.MaxUint64, 1, math.MaxUint64, true}, {math.MaxUint64, 2, 0, false}, {8, 0, 0, false}, {8, 24, 0, false},
	} {
		up, ok := mem.AlignUp(c.v, c.align)
		require.Equal(t, c.ok, ok, "%d to %d", c.v, c.align)
		if ok {
			require.Equal(t, c.want, up)
		}
	}
}
