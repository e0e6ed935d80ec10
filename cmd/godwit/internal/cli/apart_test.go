package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is read is not written over, by whatever name, and no output is lost to another.
func TestAnOutputIsNoInput(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "examples", "overlap.yaml"))
	require.NoError(t, err)
	file, link := filepath.Join(dir, "x.yaml"), filepath.Join(dir, "y.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.NoError(t, os.Symlink(file, link))
	results := filepath.Join(dir, "x.csv")
	allocs := filepath.Join(dir, "allocs.csv")
	require.NoError(t, os.WriteFile(allocs, []byte("op,id,bytes,time_us\na,1,4096,0\n"), 0o600))
	commands := filepath.Join(dir, "commands")
	_, _, err = godwit(t, "run", file, "--record", commands)
	require.NoError(t, err)
	recorded, err := os.ReadFile(commands)
	require.NoError(t, err)
	for _, args := range [][]string{
		{"run", file, "--dot", file},
		{"run", file, "--timeline", link},
		{"run", link, "--dot", filepath.Join(dir, ".", "x.yaml")},
		{"run", file, "--timeline", filepath.Join(dir, "new"), "--dot", filepath.Join(dir, "new")},
		{"run", file, "--machine", link, "--csv", file},
		{"sweep", file, "--fast", "--plot", link},
		{"sweep", file, "--fast", "--out", results, "--out", results},
		{"sweep", file, "--fast", "--out", results, "--plot", filepath.Join(dir, "x.rows")},
		{"trace", "shrink", allocs, "--keep", "fit > 0.5", "--out", allocs},
		{"trace", "convert", allocs, "--out", filepath.Join(dir, ".", "allocs.csv")},
		{"trace", "merge", file, allocs, "--out", allocs},
		{"replay", allocs, "--repeats", "0", "--report", allocs},
		{"replay", commands, "--html", commands},
		{"replay", commands, "--policy", "lru", "--timeline", filepath.Join(dir, ".", "commands")},
		{"replay", commands, "--policy", "lru", "--timeline", filepath.Join(dir, "new"), "--html", filepath.Join(dir, "new")},
		{"replay", commands, "--machine", file, "--html", link},
		{"exec", "--html", filepath.Join(dir, "new"), "--timeline", filepath.Join(dir, "new"), "--", "true"},
		{"exec", "--devices", file, "--html", link, "--", "true"},
	} {
		_, _, err := godwit(t, args...)
		require.ErrorContains(t, err, "would be lost", "%v", args)
		have, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text, have, "%v", args)
		have, err = os.ReadFile(allocs)
		require.NoError(t, err)
		require.Len(t, have, len("op,id,bytes,time_us\na,1,4096,0\n"), "%v", args)
		have, err = os.ReadFile(commands)
		require.NoError(t, err)
		require.Equal(t, recorded, have, "%v", args)
	}
	require.NoError(t, apart([]given{{"--dot", os.DevNull}, {"--timeline", os.DevNull}, {"--csv", "-"}}, given{"the scenario", "-"}))
}

// What cannot be written is refused before the work whose results it would hold: here the inputs
// are at fault, too, and are not looked at.
func TestAnOutputThatCannotBeMadeIsToldFirst(t *testing.T) {
	dir := t.TempDir()
	nowhere := filepath.Join(dir, "no", "where")
	missing := filepath.Join(dir, "missing")
	for _, args := range [][]string{
		{"sweep", missing, "--plot", nowhere},
		{"sweep", missing, "--plot", dir},
		{"sweep", missing, "--out", filepath.Join(dir, "x.csv"), "--out", nowhere + ".jsonl"},
		{"trace", "shrink", missing, "--keep", "fit > 2", "--out", nowhere},
		{"trace", "merge", missing, "--out", nowhere},
		{"replay", missing, "--report", nowhere},
	} {
		_, _, err := godwit(t, args...)
		require.Error(t, err, "%v", args)
		require.Regexp(t, "^--(plot|out|report): ", err.Error(), "%v", args)
		require.NotContains(t, err.Error(), "missing", "%v", args)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
