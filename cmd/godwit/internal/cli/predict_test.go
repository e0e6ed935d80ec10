package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/predict"
	"godwit/study/sweep"
)

var judged = filepath.Join("..", "..", "..", "..", "testdata", "truth", "list")

// The list that models are judged by has what it promises, and each case can run: at least sixty
// scenarios, six of each kind, twenty small ones, and pairs.
func TestJudgedCasesAreWhatTheyPromise(t *testing.T) {
	f := predictFlags{scenarioFlags: scenarioFlags{memory: "4GiB"}, list: judged}
	configs, err := f.listed(t.Context(), nil)
	require.NoError(t, err)
	kinds, all, small, variants := make(map[string]int), 0, 0, 0
	for _, c := range configs {
		points, err := c.Points()
		require.NoError(t, err)
		c.Base.Times, c.Base.Warm = 6, 1
		for p := range points.All() {
			rounds := &sweep.Axis{Kind: sweep.Parameter, Name: "rounds"}
			s, err := c.Scenario(t.Context(), append(p[:len(p):len(p)], sweep.Setting{Axis: rounds, Value: "12"}))
			require.NoError(t, err)
			all++
			kinds[s.Kind]++
			if s.LargestBuffer() < 256<<10 {
				small++
			}
		}
		for _, a := range c.Axes {
			if a.Name == predict.Variant {
				variants += points.Len() / 2
			}
		}
	}
	require.GreaterOrEqual(t, all, 60)
	require.GreaterOrEqual(t, small, 20)
	require.GreaterOrEqual(t, variants, 10)
	require.Len(t, kinds, 7)
	for kind, n := range kinds {
		require.GreaterOrEqual(t, n, 6, kind)
	}
}

func jsonOf(t *testing.T, v any) []byte {
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return out
}

func TestPredictHoldsCasesAgainstAMachine(t *testing.T) {
	relay := filepath.Join(filepath.Dir(judged), "relay.yaml")
	args := []string{"predict", relay, "--set", "bytes=4KiB,8KiB", "--machine", "h200x2-nvlink", "--slope", "rounds=2,6", "--repeat", "3"}
	out, _, err := godwit(t, append(args, "--json")...)
	require.NoError(t, err)
	var got predictOutput
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Cases, 2)
	require.Equal(t, 2, got.Summary[0].Cases)
	require.Equal(t, "rounds=2,6", got.Slope)
	for _, k := range got.Cases {
		require.Positive(t, k.Modelled)
	}
	out, _, err = godwit(t, append(args, "--markdown")...)
	require.NoError(t, err)
	require.Contains(t, out, "# Modelled time against measured time")
	require.Contains(t, out, "| one small transfer | relay | bytes=4KiB |")
	file := filepath.Join(t.TempDir(), "measured.json")
	require.NoError(t, os.WriteFile(file, jsonOf(t, got), 0o600))
	out, told, err := godwit(t, "predict", relay, "--set", "bytes=8KiB,16KiB", "--machine", "h200x2-pcie", "--slope", "rounds=2,6", "--measured", file, "--json")
	require.ErrorContains(t, err, "1 case of 2 could not be measured")
	require.Contains(t, told, "relay bytes=16KiB: it was not measured")
	var again predictOutput
	require.NoError(t, json.Unmarshal([]byte(out), &again))
	require.Equal(t, got.Cases[1].Each, again.Cases[0].Each)
	require.Equal(t, got.Cases[1].Measured, again.Cases[0].Measured)
	require.Equal(t, got.Cases[1].MeasuredSteps, again.Cases[0].MeasuredSteps)
	require.NotEqual(t, got.Cases[1].Modelled, again.Cases[0].Modelled, "it is another machine")
	_, _, err = godwit(t, "predict", relay, "--machine", "laptop", "--measured", file)
	require.ErrorContains(t, err, `its times are of --slope "rounds=2,6"`)
	_, _, err = godwit(t, "predict", relay)
	require.ErrorContains(t, err, "want --machine")
	_, _, err = godwit(t, "predict", relay, "--machine", "laptop", "--slope", "rounds=4")
	require.ErrorContains(t, err, "want NAME=FROM,TO")
	none := filepath.Join(t.TempDir(), "none")
	require.NoError(t, os.WriteFile(none, []byte("# nothing yet\n"), 0o600))
	_, _, err = godwit(t, "predict", "--list", none, "--machine", "laptop")
	require.ErrorContains(t, err, "it lists no case")
}
