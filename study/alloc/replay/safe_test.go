package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
)

// Above the safe region nothing fails of the grid, and just below it something does.
func TestTheSafeRegionIsAboveAllThatFail(t *testing.T) {
	differ := 0
	for _, file := range minimalloc {
		st := open(t, file, 1)
		for _, s := range []bufalloc.Strategy{bufalloc.Fit, bufalloc.BestFit, bufalloc.Tight, bufalloc.GoodFit} {
			safe, err := safeRegion(t.Context(), st, Of(s))
			require.NoError(t, err)
			least, err := MinRegion(t.Context(), st, Of(s))
			require.NoError(t, err)
			p := newProber(st, Of(s))
			sizes := safeGrid(st)
			above := 0 // of the largest of the grid that fails
			for k, size := range sizes {
				ok, err := p.try(t.Context(), size)
				require.NoError(t, err)
				require.True(t, ok || size < safe, "%s, %v: %d fails above %d", st.Name, s, size, safe)
				if !ok {
					above = k + 1
				}
			}
			if sizes[above] != safe {
				require.NotEqual(t, bufalloc.Tight, s, "one size that works tells of all larger")
				failing, err := p.sample(t.Context(), sizes[above], sizes[len(sizes)-1])
				require.NoError(t, err)
				assert.GreaterOrEqual(t, failing+failing/safeStep+st.Align, safe, "%s, %v: what is below %d works", st.Name, s, safe)
			}
			assert.GreaterOrEqual(t, safe*1006/1000, least.Region)
			if safe > least.Region*102/100 {
				differ++
				assert.NotEqual(t, bufalloc.Tight, s, "its placement does not depend on the size")
			}
		}
	}
	assert.Positive(t, differ, "the smallest flatters some")
}

func TestNothingIsSafeWhereTheGridsEndFails(t *testing.T) {
	st, err := NewStream("x", 1, []Op{{Size: 100, Slot: 0}})
	require.NoError(t, err)
	safe, err := safeRegion(t.Context(), st, Of(bufalloc.PoCLTight))
	require.NoError(t, err)
	assert.EqualValues(t, 100, safe, "one chunk fits wherever it does")
	var ops []Op
	for i := range uint32(1100) {
		ops = append(ops, Op{Size: 1, Slot: i})
	}
	st, err = NewStream("x", 1, ops)
	require.NoError(t, err)
	safe, err = safeRegion(t.Context(), st, Of(bufalloc.PoCLTight))
	require.NoError(t, err)
	assert.Zero(t, safe, "1,023 chunks are its limit")
}

func TestMeansAreInTheOrderOfSafeRegions(t *testing.T) {
	means := Means([]Result{{Strategy: "a", Region: 1, Overhead: 1, Safe: 3}, {Strategy: "b", Region: 1, Overhead: 2, Safe: 2},
		{Strategy: "c", Region: 1, Overhead: 1}, {Strategy: "d", Fault: &Fault{}}, {Strategy: "b", Region: 1, Overhead: 2, Safe: 4}})
	var names []string
	for _, m := range means {
		names = append(names, m.Strategy)
	}
	assert.Equal(t, []string{"b", "a", "c", "d"}, names)
	assert.InDelta(t, 2.828, float64(means[0].Safe), 0.001)
	assert.InDelta(t, 4, float64(means[0].SafeMax), 0)
	assert.Zero(t, means[2].Safe)
}
