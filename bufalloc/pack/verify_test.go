package pack_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/bufalloc/pack"
	"godwit/mem"
	"godwit/study/alloc/formats"
)

func TestVerifyAgreesWithComparingAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t, 12)
		offsets := make([]uint64, len(items))
		for i := range offsets {
			offsets[i] = rapid.Uint64Range(0, 40).Draw(t, "offset")
		}
		if err := pack.Verify(items, offsets); (err != nil) != clashes(items, offsets) {
			t.Fatalf("offsets %v: %v", offsets, err)
		}
	})
}

func TestVerifyNamesTheRule(t *testing.T) {
	items := []pack.Item{
		{Lower: 0, Upper: 5, Size: 8},
		{Lower: 5, Upper: 9, Size: 8}, // starts where the first one ends
		{Lower: 4, Upper: 6, Size: 8, Align: 8},
	}
	require.NoError(t, pack.Verify(items, []uint64{0, 0, 8}))
	require.NoError(t, pack.Verify(items, []uint64{0, 4, 16}))
	require.ErrorIs(t, pack.Verify(items, []uint64{0, 1, 8}), pack.ErrOverlap)
	require.ErrorIs(t, pack.Verify(items, []uint64{9, 0, 8}), pack.ErrOverlap)
	require.ErrorIs(t, pack.Verify(items, []uint64{0, 0, 9}), mem.ErrMisaligned)
	require.ErrorIs(t, pack.Verify(items, []uint64{0, 0}), mem.ErrInvalidValue)
	require.ErrorIs(t, pack.Verify(items, []uint64{^uint64(0), 0, 8}), mem.ErrInvalidValue)
	require.ErrorContains(t, pack.Verify(items, []uint64{0, 1, 8}), "at time 5 item 2 at [8, 16) and item 1 at [1, 9)")
}

// Any offset moved by its own size or less runs into a neighbour or leaves its
// alignment, in a placement without gaps.
func TestVerifyCatchesCorruption(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	items := cut(rng, 0, 1000, 1000, 40)
	r, err := pack.Minimize(t.Context(), items, pack.Options{Nodes: 5_000_000})
	require.NoError(t, err)
	for i, it := range items {
		bad := append([]uint64(nil), r.Offsets...)
		bad[i] += 1 + rng.Uint64N(it.Size)
		if bad[i]+it.Size <= 1000 {
			require.ErrorIs(t, pack.Verify(items, bad), pack.ErrOverlap, "item %d", i)
		}
	}
}

func TestItemsOfATrace(t *testing.T) {
	var b formats.AllocBuilder
	require.NoError(t, b.Alloc(7, 300, 0))
	require.NoError(t, b.Alloc(8, 1, 1))
	require.True(t, b.Free(7, 2))
	require.NoError(t, b.Alloc(7, 256, 3))
	tr := b.Build("t", formats.FormatGodwit)
	items, err := tr.Items(256)
	require.NoError(t, err)
	require.Equal(t, []pack.Item{
		{Lower: 0, Upper: 2, Size: 512, Align: 256},
		{Lower: 1, Upper: 4, Size: 256, Align: 256},
		{Lower: 3, Upper: 4, Size: 256, Align: 256},
	}, items)
	require.EqualValues(t, 768, peak(items))
	_, err = tr.Items(3)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	items, err = tr.Items(0)
	require.NoError(t, err)
	require.Equal(t, uint64(300), items[0].Size)
}
