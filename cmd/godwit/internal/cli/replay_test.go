package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// godwit runs the command and returns what it printed.
func godwit(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := newRoot()
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

// isFailed tells exit status 1 from 2.
func isFailed(err error) bool {
	var f failed
	return errors.As(err, &f)
}

func traceFile(name string) string {
	return filepath.Join("..", "..", "..", "..", "testdata", "traces", name)
}

func TestReplayFindsTheSmallestRegions(t *testing.T) {
	out, _, err := godwit(t, "replay", traceFile("minimalloc/A.1048576.csv"), traceFile("minimalloc/B.1048576.csv"),
		"-s", "bestfit,fit", "--json", "--repeats", "1", "--series")
	require.NoError(t, err)
	var got replayOutput
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Results, 4)
	r := got.Results[0]
	assert.Equal(t, "bestfit", r.Strategy)
	assert.EqualValues(t, 1, r.Align, "MiniMalloc's units are not bytes")
	assert.InDelta(t, 1.753, float64(r.Overhead), 0.005)
	assert.Positive(t, r.NSPerOp)
	assert.NotEmpty(t, r.Series)
	require.Len(t, got.Means, 2)
	assert.Equal(t, 2, got.Means[1].Traces)
	assert.Equal(t, 308, got.Traces[0].Events)

	out, _, err = godwit(t, "replay", traceFile("minimalloc/A.1048576.csv"), "--repeats", "0")
	require.NoError(t, err)
	assert.Contains(t, out, "A.1048576")
	assert.Contains(t, out, "1.7533")
}

func TestReplayExitStatus(t *testing.T) {
	a := traceFile("minimalloc/A.1048576.csv")
	_, _, err := godwit(t, "replay", a, "--region", "512KiB", "--repeats", "0")
	require.Error(t, err)
	assert.True(t, isFailed(err), "failures in a given region are exit 1")
	for _, args := range [][]string{
		{}, {"nowhere.csv"}, {a, "-s", "other"}, {a, "--region", "much"}, {a, "--region", "0"},
		{a, "--align", "3"}, {a, "--repeats", "-1"}, {a, "--no-such-flag"},
	} {
		_, _, err := godwit(t, append([]string{"replay"}, args...)...)
		require.Error(t, err, "%v", args)
		assert.False(t, isFailed(err), "%v is bad usage, exit 2", args)
	}
}

func TestReplayOfPerturbedTraces(t *testing.T) {
	a := traceFile("minimalloc/A.1048576.csv")
	read := func(half string) replayOutput {
		out, _, err := godwit(t, "replay", a, "--perturbed", half, "--draws", "2", "-s", "fit,tight", "--repeats", "0", "--json")
		require.NoError(t, err)
		var got replayOutput
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		return got
	}
	choose, report := read("choose"), read("report")
	require.Len(t, choose.Results, 2*2*6)
	names := make(map[string]bool)
	for _, r := range append(choose.Results, report.Results...) {
		names[r.Trace] = true
	}
	assert.Len(t, names, 2*2*6, "no stream is in both halves")
	assert.Equal(t, choose, read("choose"), "the same every time")

	out, _, err := godwit(t, "replay", a, "--perturbed", "report", "--draws", "1", "-s", "fit", "--repeats", "0")
	require.NoError(t, err)
	assert.Contains(t, out, "geometric mean")
	assert.NotContains(t, out, "backwards", "of hundreds of streams only the means are shown")
	for _, args := range [][]string{{"--perturbed", "both"}, {"--perturbed", "report", "--draws", "0"}, {"--perturbed", "choose", "--draws", "100000"}} {
		_, _, err := godwit(t, append([]string{"replay", a}, args...)...)
		require.Error(t, err)
		assert.False(t, isFailed(err), "%v is bad usage, exit 2", args)
	}
}

func TestReplaySaysWhatItPassedOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "odd.csv")
	require.NoError(t, os.WriteFile(file, []byte("op,id,bytes,time_us\nf,3,10,0\na,3,10,1\n"), 0o600))
	out, errOut, err := godwit(t, "replay", file, "--json", "--repeats", "0", "-s", "all")
	require.NoError(t, err)
	assert.Contains(t, errOut, "passed over 1 frees of what is not live")
	assert.Contains(t, errOut, "odd.csv:2: free of 3, which is not live")
	var got replayOutput
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	assert.Equal(t, 1, got.Traces[0].UnknownFrees)
}

func TestReplayWritesAReportWithThePackerBeside(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.html")
	out, _, err := godwit(t, "replay", traceFile("minimalloc/A.1048576.csv"), traceFile("minimalloc/B.1048576.csv"),
		"-s", "fit,offline,pocl-tight", "--offline-limit", "100ms", "--repeats", "0", "--json", "--report", file)
	require.NoError(t, err)
	var got replayOutput
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Results, 6)
	assert.Equal(t, []string{"fit", "pocl-tight", "offline"},
		[]string{got.Results[0].Strategy, got.Results[1].Strategy, got.Results[2].Strategy})
	assert.GreaterOrEqual(t, float64(got.Results[2].Overhead), 1.0)
	assert.Less(t, got.Results[2].Overhead, got.Results[0].Overhead)
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(html), "<h2>B.1048576</h2>")

	_, _, err = godwit(t, "replay", traceFile("minimalloc/A.1048576.csv"), "--repeats", "0", "--report", filepath.Join(file, "no"))
	require.Error(t, err)
	_, _, err = godwit(t, "fuzz", "-s", "offline", "--out", t.TempDir())
	require.Error(t, err)
}
