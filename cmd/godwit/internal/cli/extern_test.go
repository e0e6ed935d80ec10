package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cLibrary compiles the C allocator of extern's tests.
func cLibrary(t *testing.T, defines ...string) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "..", "study", "alloc", "extern")
	so := filepath.Join(t.TempDir(), "mine.so")
	args := append([]string{"-shared", "-fPIC", "-O2", "-I", filepath.Join(dir, "host"), "-o", so,
		filepath.Join(dir, "testdata", "bump.c")}, defines...)
	out, err := exec.Command("cc", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return so
}

func TestACAllocatorGoesThroughAllVerbs(t *testing.T) {
	lib := "lib:" + cLibrary(t)
	page := filepath.Join(t.TempDir(), "report.html")
	out, _, err := godwit(t, "replay", traceFile("minimalloc/A.1048576.csv"), "-s", "fit,"+lib, "--report", page, "--repeats", "1", "--json")
	require.NoError(t, err)
	var re replayOutput
	require.NoError(t, json.Unmarshal([]byte(out), &re))
	require.Len(t, re.Results, 2)
	assert.Equal(t, lib, re.Results[1].Strategy)
	assert.Greater(t, re.Results[1].Overhead, 1.0)
	assert.Positive(t, re.Results[1].NSPerOp)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(html), lib)

	out, _, err = godwit(t, "bench", "alloc", "-s", lib, "--live", "50", "--pairs", "500", "--rounds", "1", "--pocl", "-")
	require.NoError(t, err)
	assert.Contains(t, out, "lib:")
	out, _, err = godwit(t, "fuzz", "-s", lib, "--evals", "30", "--ops", "60", "--out", t.TempDir())
	require.NoError(t, err)
	assert.Contains(t, out, "lib:")
}

// What takes no times is not shown as one that takes none.
func TestAProgramGoesThroughReplayAndBench(t *testing.T) {
	prog := "exec:python3 " + filepath.Join("..", "..", "..", "..", "study", "alloc", "extern", "testdata", "first.py")
	out, _, err := godwit(t, "replay", traceFile("minimalloc/A.1048576.csv"), "-s", "tight,"+prog, "--repeats", "1", "--json")
	require.NoError(t, err)
	var re replayOutput
	require.NoError(t, json.Unmarshal([]byte(out), &re))
	require.Len(t, re.Results, 2)
	assert.Equal(t, re.Results[0].Overhead, re.Results[1].Overhead, "it is first fit")
	assert.Nil(t, re.Results[1].Times)

	out, _, err = godwit(t, "bench", "alloc", "-s", prog, "--live", "20,40", "--pairs", "50", "--rounds", "1", "--pocl", "-")
	require.NoError(t, err)
	assert.NotContains(t, out, "0.00")
	assert.NotContains(t, out, "NaN")
}

func TestAnUnknownStrategyIsToldOfAllThereAre(t *testing.T) {
	_, _, err := godwit(t, "replay", traceFile("minimalloc/A.1048576.csv"), "-s", "mine.so")
	require.ErrorContains(t, err, "lib:PATH")
	require.ErrorContains(t, err, "bestfit")
}

func TestAFaultIsReportedWithWhatShowsItAgain(t *testing.T) {
	lib, dir := "lib:"+cLibrary(t, "-DOVERLAP"), t.TempDir()
	_, errOut, err := godwit(t, "replay", traceFile("minimalloc/A.1048576.csv"), "-s", "fit,"+lib, "--repeats", "0", "--faults", dir)
	require.True(t, isFailed(err), "%v", err)
	assert.Contains(t, errOut, "overlap at operation")
	files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	_, errOut, err = godwit(t, "replay", files[0], "-s", lib, "--repeats", "0", "--region", "1GiB", "--faults", t.TempDir())
	require.True(t, isFailed(err))
	assert.Contains(t, errOut, "overlap at operation 1")
	_, errOut, err = godwit(t, "fuzz", "-s", lib, "--evals", "300", "--ops", "60", "--out", dir)
	require.True(t, isFailed(err))
	assert.Contains(t, errOut, "overlap at operation")
	_, errOut, err = godwit(t, "bench", "alloc", "-s", "lib:"+cLibrary(t, "-DCRASH"), "--live", "50", "--pairs", "500", "--rounds", "1", "--pocl", "-", "--faults", dir)
	require.True(t, isFailed(err))
	assert.Contains(t, errOut, "crash")
}
