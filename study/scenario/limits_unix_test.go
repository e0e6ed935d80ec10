//go:build unix

package scenario

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What never ends, or never begins, is not read.
func TestAScenarioReadsRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	f, err := os.Create(filepath.Join(dir, "holes")) // takes no room
	require.NoError(t, err)
	require.NoError(t, f.Truncate(1<<40))
	require.NoError(t, f.Close())
	for path, want := range map[string]string{
		"/dev/zero": "not a regular file", "/dev/stdin": "not a regular file", "pipe": "not a regular file", ".": "not a regular file",
		"holes": "larger than is read", "none": "no such file",
	} {
		_, err := Parse(t.Context(), filepath.Join(dir, "s.yaml"), []byte("devices: [{name: l, driver: cpu}]\nbuffers: [{name: a, size: 16, file: "+path+"}]\ncommands: []"), Options{})
		require.ErrorContains(t, err, want, path)
	}
	_, err = Load(t.Context(), "/dev/zero", Options{})
	require.Error(t, err)
}
