package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBenchAllocMeasuresEveryContenderOnEveryWorkload(t *testing.T) {
	out, _, err := godwit(t, "bench", "alloc", "--json", "--live", "50,200", "--pairs", "500", "--rounds", "2", "-s", "fit,bestfit")
	require.NoError(t, err)
	var got benchAllocOutput
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	seen := make(map[string]int)
	for _, r := range got.Rows {
		seen[r.Workload]++
		assert.Positive(t, r.NSPerPair, "%s %s", r.Workload, r.Contender)
		assert.Positive(t, r.Ratio)
		switch r.Contender {
		case "yardstick":
			assert.Equal(t, 1.0, r.Ratio)
			fallthrough
		case "fit", "bestfit":
			assert.Zero(t, r.Failures, "%s %s", r.Workload, r.Contender)
			require.NotNil(t, r.Worst)
			assert.Positive(t, r.Worst.NS)
			assert.GreaterOrEqual(t, r.BytesChunk, 32.0)
			assert.LessOrEqual(t, r.BytesChunk, 96.0)
			assert.LessOrEqual(t, r.BestNS, r.NSPerPair)
		}
		if r.Contender == "fit" {
			assert.Zero(t, r.AllocsPair)
		}
	}
	assert.Len(t, seen, 5, "W1 twice and three kinds of W2")
	for w, n := range seen {
		assert.GreaterOrEqual(t, n, 3, w)
	}
}

func TestBenchAllocWithoutPoCLSaysSo(t *testing.T) {
	out, errOut, err := godwit(t, "bench", "alloc", "--live", "20", "--pairs", "50", "--rounds", "1", "-s", "fit",
		"--pocl", t.TempDir()+"/none")
	require.NoError(t, err)
	assert.Contains(t, errOut, "without PoCL: PoCL's bufalloc.c is not available")
	assert.Contains(t, out, "yardstick")
	assert.Contains(t, out, "pocl-source")
}

func TestBenchUsage(t *testing.T) {
	for _, args := range [][]string{{"bench"}, {"bench", "alloc", "x"}, {"bench", "alloc", "--live", "0"},
		{"bench", "alloc", "--pairs", "0"}, {"bench", "alloc", "-s", "other"}} {
		_, _, err := godwit(t, args...)
		require.Error(t, err, "%v", args)
		assert.False(t, isFailed(err), "%v", args)
	}
}
