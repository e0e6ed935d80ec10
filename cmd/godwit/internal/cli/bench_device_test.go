package cli

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/cmd/godwit/internal/devicebench"
	"godwit/mem"
)

// benchmarked are the ways that a benchmark prints as JSON, by what and size.
func benchmarked(t *testing.T, args ...string) (r devicebench.Report, ways map[string][]string) {
	t.Helper()
	out, _, err := godwit(t, append(append([]string{"bench"}, args...), "--json")...)
	if errors.Is(err, mem.ErrDeviceNotFound) {
		t.Skipf("no OpenCL here: %v", err)
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	ways = make(map[string][]string)
	for _, x := range r.Rows {
		if ways[x.What] == nil {
			assert.Equal(t, 1.0, x.Speed, "the first of %s", x.What)
		}
		ways[x.What] = append(ways[x.What], x.Way)
		assert.Positive(t, x.Time, "%s %s", x.What, x.Way)
		assert.LessOrEqual(t, x.Returned, x.Time, "%s %s", x.What, x.Way)
		assert.Positive(t, x.Speed)
	}
	return r, ways
}

func TestBenchTransferMeasuresEveryWayBothWays(t *testing.T) {
	r, ways := benchmarked(t, "transfer", "--sizes", "64KiB", "--reps", "1", "--set", "carve=off")
	all := []string{"raw, pageable", "raw, pinned", "unstaged", "pageable", "pinned"}
	require.Equal(t, map[string][]string{"up": all, "down": all}, ways)
	for _, x := range r.Rows {
		assert.InEpsilon(t, float64(64<<10)/x.Time.Seconds(), x.Rate, 1e-9)
	}
}

func TestBenchMigrateMeasuresOneWayAndBoth(t *testing.T) {
	t.Setenv("POCL_DEVICES", "pthread pthread")
	r, ways := benchmarked(t, "migrate", "--sizes", "64KiB", "--reps", "1", "--vendor=false", "--count", "2")
	all := []string{"migrate", "with a kernel"}
	require.Len(t, r.Devices, 2)
	if len(ways["0 to 1"]) == len(all) { // no links, on PoCL
		require.Equal(t, map[string][]string{"0 to 1": all, "1 to 0": all, "0 to 1 and back": all}, ways)
	}
	for _, x := range r.Rows {
		assert.Positive(t, x.Rate)
	}
}

func TestBenchPoolComparesAHitWithANewBuffer(t *testing.T) {
	r, ways := benchmarked(t, "pool", "--sizes", "4KiB", "--reps", "1")
	require.Equal(t, map[string][]string{"buffer": {"raw: create, use, release", "godwit: the same", "a hit", "a pinned hit"}}, ways)
	assert.Greater(t, r.Rows[2].Speed, 1.0)
	assert.Zero(t, r.Rows[2].Rate, "no bytes are moved")
	text, _, err := godwit(t, "bench", "pool", "--sizes", "4KiB", "--reps", "1")
	require.NoError(t, err)
	assert.Contains(t, text, "4.0 KiB")
}

func TestBenchDeviceUsage(t *testing.T) {
	for _, args := range [][]string{{"bench", "transfer", "x"}, {"bench", "transfer", "--sizes", "3"}, {"bench", "pool", "--reps", "0"},
		{"bench", "migrate", "--sizes", "100"}, {"bench", "transfer", "--set", "carve=none"}, {"bench", "pool", "--set", "other=1"}} {
		_, _, err := godwit(t, args...)
		require.Error(t, err, "%v", args)
		assert.False(t, isFailed(err), "%v", args)
	}
}
