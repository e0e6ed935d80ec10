package outfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/outfile"
	"godwit/internal/process"
)

// only checks that the folder holds one file, with this text.
func only(t *testing.T, path, text string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, all, 1, "%v", all)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func TestAFileIsAsItWasUntilItIsComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, outfile.Write(t.Context(), path, []byte("old")))
	only(t, path, "old")
	require.NoError(t, os.Chmod(path, 0o640))
	for _, commit := range []bool{false, true} {
		f, err := outfile.Create(t.Context(), path)
		require.NoError(t, err)
		_, err = f.WriteString("new")
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "old", string(got))
		if commit {
			require.NoError(t, f.Commit())
			require.NoError(t, f.Abort(), "changes nothing any more")
			only(t, path, "new")
		} else {
			require.NoError(t, f.Abort())
			only(t, path, "old")
		}
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
}

func TestTheGuardGivesAFileUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	var g process.Guard
	ctx := process.With(t.Context(), &g)
	_, err := outfile.Create(ctx, path)
	require.NoError(t, err)
	g.Undo()
	only(t, path, "old")
	require.ErrorContains(t, outfile.Write(ctx, path, nil), "the process is ending")
}

func TestLinksStayAndDevicesAreWritten(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a", "f"), filepath.Join(dir, "link")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, outfile.Write(t.Context(), link, []byte("new")))
	only(t, path, "new")
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, path, to)

	require.NoError(t, outfile.Write(t.Context(), "/dev/null", []byte("x")))
	require.Error(t, outfile.Write(t.Context(), "/dev/full", []byte("x")))
	err = outfile.Write(t.Context(), filepath.Join(dir, "none", "f"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "none/f:")
}
