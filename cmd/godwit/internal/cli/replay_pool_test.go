package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplayRunsTracesThroughPools(t *testing.T) {
	out, _, err := godwit(t, "replay", traceFile("gpt2-train.csv.gz"), "-s", "fit", "--repeats", "0", "--json",
		"--pool", "power-of-two,leading-bits:1.1,power-of-two")
	require.NoError(t, err)
	var got replayOutput
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Pools, 2, "named twice, run once")
	require.Equal(t, "power-of-two", got.Pools[0].Pool)
	require.Len(t, got.Pools[0].Passes, 2)
	require.Greater(t, got.Pools[0].Passes[1].HitRate, 0.99)
	require.LessOrEqual(t, got.Pools[1].Passes[1].Held, got.Pools[1].Ceiling)

	out, _, err = godwit(t, "replay", traceFile("gpt2-train.csv.gz"), "-s", "fit", "--repeats", "0", "--pool", "leading-bits")
	require.NoError(t, err)
	require.Contains(t, out, "leading-bits")
	require.Contains(t, out, "held/peak")

	_, _, err = godwit(t, "replay", traceFile("gpt2-train.csv.gz"), "--pool", "best")
	require.ErrorContains(t, err, `pool "best"`)
	require.False(t, isFailed(err))
}
