package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/study/alloc/fuzz"
)

func TestFuzzFindsTheSameTwiceAndWhatItSavesReplays(t *testing.T) {
	find := func(dir string) []fuzz.Finding {
		out, _, err := godwit(t, "fuzz", "-s", "fit,buddy", "--evals", "120", "--ops", "80", "--seed", "9", "--out", dir, "--json")
		require.NoError(t, err)
		var got []fuzz.Finding
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		require.Len(t, got, 2)
		return got
	}
	dirA, dirB := t.TempDir(), t.TempDir()
	a, b := find(dirA), find(dirB)
	for i := range a {
		left, err := os.ReadFile(a[i].TraceFile)
		require.NoError(t, err)
		right, err := os.ReadFile(b[i].TraceFile)
		require.NoError(t, err)
		assert.Equal(t, string(left), string(right))
		_, err = os.Stat(a[i].CorpusFile)
		require.NoError(t, err)
	}
	out, _, err := godwit(t, "replay", a[0].TraceFile, "-s", "fit", "--json", "--repeats", "0")
	require.NoError(t, err)
	var re replayOutput
	require.NoError(t, json.Unmarshal([]byte(out), &re))
	assert.Equal(t, a[0].MinRegion, re.Results[0].MinRegion)
}

func TestFuzzStopsInTimeAndPrintsATable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	out, errOut, err := godwit(t, "fuzz", "--for", "150ms", "--objective", "slow-op", "--out", dir, "--ops", "60")
	require.NoError(t, err)
	assert.NotContains(t, errOut, "stopped early", "it had the time it was given")
	assert.Contains(t, out, filepath.Join(dir, "fit-slow-op-1.csv"))
}

func TestFuzzUsage(t *testing.T) {
	for _, args := range [][]string{{"-s", "x"}, {"--objective", "x"}, {"--ops", "0"}, {"--evals", "0"}, {"--for", "-1s"}, {"x"}, {"--shard", "0/2"}, {"--shard", "3/2"}, {"--shard", "2"}, {"--shard", "1/x"},
		{"--seeds", "0"}, {"--against", "fit"}, {"--against", "fit,fit"}, {"-s", "lib:"}} {
		_, _, err := godwit(t, append([]string{"fuzz", "--out", t.TempDir()}, args...)...)
		require.Error(t, err, "%v", args)
		assert.False(t, isFailed(err), "%v", args)
	}
}

func TestFuzzResumesDividesItsTimeAndComparesTwo(t *testing.T) {
	dir := t.TempDir()
	search := func(args ...string) []fuzz.Finding {
		out, _, err := godwit(t, append([]string{"fuzz", "--ops", "60", "--out", dir, "--json"}, args...)...)
		require.NoError(t, err)
		var got []fuzz.Finding
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		return got
	}
	first := search("-s", "tight,bestfit", "--seeds", "2", "--evals", "60")
	require.Len(t, first, 4)
	again := search("-s", "tight", "--evals", "20", "--resume")
	assert.GreaterOrEqual(t, again[0].Score, max(first[0].Score, first[1].Score), "it begins with what was found")
	for _, f := range search("-s", "fit,bestfit,tight,goodfit,buddy", "--for", "500ms") {
		assert.Positive(t, f.Evals, "%s has its part of the time", f.Strategy)
		assert.Positive(t, f.Score, f.Strategy)
	}
	both := search("--against", "goodfit,fit", "--evals", "60")
	require.Len(t, both, 1)
	assert.Equal(t, "fit", both[0].Against)
	assert.Greater(t, both[0].Score, 1.0, "it hurts the one more than the other")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "corpus", "FuzzStrategies", "x"), []byte("no corpus"), 0o600))
	_, _, err := godwit(t, "fuzz", "--out", dir, "--resume")
	require.ErrorContains(t, err, "not a corpus file")
}

// TestShardsOfAFuzzAreAllOfIt: each search is in one of them, and finds what it finds elsewhere; who
// resumes from the directories of all begins with what is worst in any.
func TestShardsOfAFuzzAreAllOfIt(t *testing.T) {
	dir := t.TempDir()
	search := func(args ...string) []fuzz.Finding {
		out, _, err := godwit(t, append([]string{"fuzz", "-s", "bestfit,tight", "--seeds", "3", "--evals", "30", "--ops", "60", "--json", "--out"}, args...)...)
		require.NoError(t, err)
		var got []fuzz.Finding
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		return got
	}
	genome := func(f fuzz.Finding) string {
		text, err := os.ReadFile(f.CorpusFile)
		require.NoError(t, err)
		return string(text)
	}
	all, worst := make(map[string]string), 0.0
	for _, f := range search(filepath.Join(dir, "whole")) {
		all[filepath.Base(f.CorpusFile)], worst = genome(f), max(worst, f.Score)
	}
	require.Len(t, all, 6)
	var parts []string
	for _, k := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		part := filepath.Join(dir, k)
		parts = append(parts, part)
		for _, f := range search(part, "--shard", k+"/7") {
			name := filepath.Base(f.CorpusFile)
			assert.Equal(t, all[name], genome(f), name)
			delete(all, name)
		}
	}
	require.Empty(t, all, "no shard has these")
	best := 0.0
	for _, f := range search(append([]string{filepath.Join(dir, "again"), "--resume"}, parts...)...) {
		best = max(best, f.Score)
	}
	assert.GreaterOrEqual(t, best, worst)
}

// What rounds have found stays in their journal until it is saved.
func TestRoundsThatCannotBeSavedAreNotLost(t *testing.T) {
	dir := t.TempDir()
	inTheWay := filepath.Join(dir, "corpus")
	require.NoError(t, os.WriteFile(inTheWay, nil, 0o600))
	args := []string{"fuzz", "-s", "fit", "--rounds", "1", "--evals", "40", "--ops", "40", "--objective", "failure", "--out", dir}
	_, _, err := godwit(t, args...)
	require.Error(t, err)
	journal := filepath.Join(dir, "rounds.rows")
	require.FileExists(t, journal)
	require.NoError(t, os.Remove(inTheWay))
	_, _, err = godwit(t, args...)
	require.NoError(t, err)
	require.NoFileExists(t, journal)
}
