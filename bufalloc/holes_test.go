package bufalloc_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/bufalloc"
	"godwit/mem"
)

// TestHolesAreThoseThatThereAreOnceChunksAreFree compares what would be with what is then.
func TestHolesAreThoseThatThereAreOnceChunksAreFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, err := bufalloc.NewRegion(0, 4096, bufalloc.Options{})
		require.NoError(t, err)
		var live []bufalloc.Chunk
		for range rapid.IntRange(0, 60).Draw(t, "operations") {
			if n := len(live); n > 0 && rapid.IntRange(0, 2).Draw(t, "free") == 0 {
				i := rapid.IntRange(0, n-1).Draw(t, "which")
				require.NoError(t, r.Free(live[i]))
				live = slices.Delete(live, i, i+1)
			} else if c, err := r.Alloc(rapid.Uint64Range(1, 400).Draw(t, "size"), 1); err == nil {
				live = append(live, c)
			}
		}
		var gone []bufalloc.Chunk
		var freed []mem.Range
		for _, c := range live {
			if rapid.Bool().Draw(t, "gone") {
				at, err := r.Range(c)
				require.NoError(t, err)
				gone, freed = append(gone, c), append(freed, at)
			}
		}
		all := r.Holes(nil, slices.Clone(gone))
		some := r.HolesOf(nil, slices.Clone(gone))
		for _, c := range gone {
			require.NoError(t, r.Free(c))
		}
		var want, wantSome []mem.Range
		for v := range r.Walk() {
			if !v.Free() {
				continue
			}
			want = append(want, v.Range)
			if slices.ContainsFunc(freed, v.Range.Overlaps) {
				wantSome = append(wantSome, v.Range)
			}
		}
		require.Equal(t, want, all)
		require.Equal(t, wantSome, some)
		require.NoError(t, r.Check())
	})
}
