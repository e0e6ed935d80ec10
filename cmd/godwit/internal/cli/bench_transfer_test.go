package cli

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/cmd/godwit/internal/transferbench"
	"godwit/mem"
)

// benchmarked reads into r what a benchmark prints as JSON.
func benchmarked(t *testing.T, r any, args ...string) {
	t.Helper()
	out, _, err := godwit(t, append(append([]string{"bench"}, args...), "--json")...)
	if errors.Is(err, mem.ErrDeviceNotFound) {
		t.Skipf("no OpenCL here: %v", err)
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(out), r))
}

func TestBenchTransferMeasuresEveryWayBothWays(t *testing.T) {
	var r transferbench.Report
	benchmarked(t, &r, "transfer", "--sizes", "64KiB,1MiB", "--reps", "1", "--set", "carve=off")
	require.Len(t, r.Moves, 4)
	for _, m := range r.Moves {
		var names []string
		for _, w := range m.Ways {
			names = append(names, w.Name)
			assert.Positive(t, w.Time, w.Name)
			assert.LessOrEqual(t, w.Returned, w.Time, w.Name)
		}
		require.Equal(t, []string{"raw, pageable", "raw, pinned", "unstaged", "pageable", "pinned"}, names)
	}
	require.Len(t, r.Tensors, 1)
	x := r.Tensors[0]
	require.EqualValues(t, 1<<20, x.Size)
	for _, d := range []int64{int64(x.Memcpy), int64(x.Staged), int64(x.Borrowed), int64(x.Pageable), int64(x.Pinned), int64(x.RawPageable), int64(x.RawPinned), int64(x.DriverPageable)} {
		assert.Positive(t, d)
	}
	assert.LessOrEqual(t, x.StagedReturned, x.Staged)
}

func TestBenchPoolComparesAHitWithANewBuffer(t *testing.T) {
	var r transferbench.Pool
	benchmarked(t, &r, "pool", "--sizes", "4KiB", "--reps", "1")
	require.Len(t, r.Rows, 1)
	row := r.Rows[0]
	assert.Positive(t, row.Hit)
	assert.Positive(t, row.Pinned)
	assert.Greater(t, row.Raw, row.Hit)
	text, _, err := godwit(t, "bench", "pool", "--sizes", "4KiB", "--reps", "1")
	require.NoError(t, err)
	assert.Contains(t, text, "4.0 KiB")
}

func TestBenchTransferUsage(t *testing.T) {
	for _, args := range [][]string{{"bench", "transfer", "x"}, {"bench", "transfer", "--sizes", "3"}, {"bench", "pool", "--reps", "0"},
		{"bench", "transfer", "--set", "carve=none"}, {"bench", "pool", "--set", "other=1"}} {
		_, _, err := godwit(t, args...)
		require.Error(t, err, "%v", args)
		assert.False(t, isFailed(err), "%v", args)
	}
}
