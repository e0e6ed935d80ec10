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
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "overlap.yaml"))
	require.NoError(t, err)
	file, link := filepath.Join(dir, "x.yaml"), filepath.Join(dir, "y.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.NoError(t, os.Symlink(file, link))
	results := filepath.Join(dir, "x.csv")
	for _, args := range [][]string{
		{"run", file, "--dot", file},
		{"run", file, "--timeline", link},
		{"run", link, "--dot", filepath.Join(dir, ".", "x.yaml")},
		{"run", file, "--timeline", filepath.Join(dir, "new"), "--dot", filepath.Join(dir, "new")},
		{"run", file, "--machine", link, "--csv", file},
		{"sweep", file, "--fast", "--plot", link},
		{"sweep", file, "--fast", "--out", results, "--out", results},
		{"sweep", file, "--fast", "--out", results, "--plot", filepath.Join(dir, "x.rows")},
	} {
		_, _, err := godwit(t, args...)
		require.ErrorContains(t, err, "would be lost", "%v", args)
		have, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text, have, "%v", args)
	}
	require.NoError(t, apart([]given{{"--dot", os.DevNull}, {"--timeline", os.DevNull}, {"--csv", "-"}}, given{"the scenario", "-"}))
}
