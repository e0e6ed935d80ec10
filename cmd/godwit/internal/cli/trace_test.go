package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/study/alloc/formats"
)

func TestTraceConvertsBetweenAllFormats(t *testing.T) {
	dir := t.TempDir()
	pickled := filepath.Join("..", "..", "..", "..", "study", "alloc", "formats", "testdata", "snapshot4.pickle")
	want, err := formats.OpenAllocs(t.Context(), pickled)
	require.NoError(t, err)
	for _, to := range []string{"godwit", "minimalloc", "rmm", "pytorch"} {
		file := filepath.Join(dir, to)
		_, _, err := godwit(t, "trace", "convert", pickled, "--to", to, "-o", file)
		require.NoError(t, err, to)
		got, err := formats.OpenAllocs(t.Context(), file)
		require.NoError(t, err, to)
		require.Len(t, got[0].Events, len(want[0].Events)+map[string]int{"minimalloc": 1}[to], to) // it has an end for each chunk
		assert.Equal(t, want[0].Chunks, got[0].Chunks, to)
	}
	_, _, err = godwit(t, "trace", "convert", filepath.Join("..", "..", "..", "..", "study", "alloc", "formats", "testdata", "vma.json"))
	require.ErrorContains(t, err, "--index")
	out, _, err := godwit(t, "trace", "convert", filepath.Join("..", "..", "..", "..", "study", "alloc", "formats", "testdata", "vma.json"), "--index", "1")
	require.NoError(t, err)
	assert.Equal(t, "op,id,bytes,time_us\na,0,32,0\n", out)
}

func TestTraceInfoCutAndMerge(t *testing.T) {
	dir, file := t.TempDir(), traceFile("resnet50-train.csv.gz")
	figures := func(file string) (f []traceFigures) {
		out, _, err := godwit(t, "trace", "info", "--json", file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(out), &f))
		return f
	}
	whole := figures(file)[0]
	assert.Equal(t, 16808, whole.Chunks)
	part := filepath.Join(dir, "part.csv.gz")
	_, _, err := godwit(t, "trace", "cut", file, "--from", "1000", "--until", "30000", "-o", part)
	require.NoError(t, err)
	cut := figures(part)[0]
	assert.Equal(t, whole.PeakLive, cut.PeakLive, "the peak is in this part, on what was live before")
	assert.Less(t, cut.Chunks, whole.Chunks)
	both := filepath.Join(dir, "both.csv")
	_, _, err = godwit(t, "trace", "merge", file, part, "-o", both)
	require.NoError(t, err)
	assert.Equal(t, whole.Chunks+cut.Chunks, figures(both)[0].Chunks)
	_, _, err = godwit(t, "trace", "perturb", part, "--kind", "late,resized", "-o", both)
	require.NoError(t, err)
	out, _, err := godwit(t, "trace", "info", both)
	require.NoError(t, err)
	assert.Contains(t, out, "never freed")
	for _, args := range [][]string{{"cut", file, "--from", "9", "--until", "9"}, {"convert", file, "--to", "x"}, {"convert", file, "--index", "1"},
		{"perturb", file, "--kind", "x"}, {}, {"shrink", part, "--keep", "fit"}, {"shrink", part, "--keep", "none > 1"}, {"shrink", part, "--keep", "fit > 9"}} {
		_, _, err := godwit(t, append([]string{"trace"}, args...)...)
		require.Error(t, err, "%v", args)
		assert.False(t, isFailed(err), "%v", args)
	}
}

func TestTraceShrinkKeepsWhatWasAskedFor(t *testing.T) {
	small := filepath.Join(t.TempDir(), "small.csv")
	_, said, err := godwit(t, "trace", "shrink", traceFile("minimalloc/A.1048576.csv"), "--align", "256",
		"--keep", "bestfit / fit > 1.1 and fit < 1.6", "-o", small)
	require.NoError(t, err)
	assert.Contains(t, said, "operations of 308 show bestfit / fit > 1.1 and fit < 1.6")
	out, _, err := godwit(t, "replay", small, "-s", "bestfit,fit", "--align", "256", "--repeats", "0", "--json")
	require.NoError(t, err)
	var re replayOutput
	require.NoError(t, json.Unmarshal([]byte(out), &re))
	assert.Greater(t, re.Results[0].Overhead, 1.1*re.Results[1].Overhead)
	assert.Less(t, re.Results[1].Overhead, 1.6)
	assert.Less(t, re.Results[0].Ops, 100)
	_, err = os.Stat(small)
	require.NoError(t, err)
}
