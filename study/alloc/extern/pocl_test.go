//go:build linux

package extern

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/study/alloc/replay"
)

// The strategies that reproduce PoCL's allocator put everything where PoCL's
// own code does, failures included.
func TestPoCLStrategiesPlaceAsPoCLDoes(t *testing.T) {
	pools, err := OpenPoCL(t.Context(), t.TempDir(), "", Options{})
	if errors.Is(err, ErrNoPoCL) {
		t.Skip(err)
	}
	require.NoError(t, err)
	small, err := replay.W1(100, 5000, 0, 3)
	require.NoError(t, err)
	large, err := replay.W1(1000, 5000, 0, 3)
	require.NoError(t, err)
	mix, err := replay.W2(replay.W2Mix, 1000, 3)
	require.NoError(t, err)
	for i, s := range []bufalloc.Strategy{bufalloc.PoCLTight, bufalloc.PoCLWasteful} {
		require.Equal(t, []string{"pocl-c-tight", "pocl-c-wasteful"}[i], pools[i].Name())
		for _, st := range []*replay.Stream{small, large, mix} {
			for _, size := range []uint64{st.PeakLive, 3 * st.PeakLive} {
				theirs, err := replay.Record(t.Context(), st, replay.OfRemote(pools[i]), size)
				require.NoError(t, err)
				ours, err := replay.Record(t.Context(), st, replay.Of(s), size)
				require.NoError(t, err)
				assert.Equal(t, ours.Chunks, theirs.Chunks, "%s, %s, region %d", st.Name, s, size)
			}
		}
		require.NoError(t, pools[i].Close())
	}
}

func TestPoCLMissingIsSaid(t *testing.T) {
	_, err := OpenPoCL(t.Context(), t.TempDir(), t.TempDir()+"/none", Options{})
	require.ErrorIs(t, err, ErrNoPoCL)
	_, err = OpenPoCL(t.Context(), t.TempDir(), t.TempDir(), Options{})
	require.ErrorIs(t, err, ErrNoPoCL)
}
