package journal_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"godwit/internal/journal"
)

// On NFS flock takes a lock of the kind that fcntl takes, for another owner: as this one does.
func TestAJournalOpensWhereTwoKindsOfLocksKeepEachOtherOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rows")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	j, err := journal.Open(path, "godwit test")
	require.NoError(t, err)
	_, err = journal.Open(path, "godwit test")
	require.ErrorIs(t, err, journal.ErrBusy)
	require.ErrorContains(t, err, "it is in use")
	require.NotContains(t, err.Error(), "process")
	require.NoError(t, j.Close())
	require.NoError(t, f.Close())
}

// Who removes a journal by hand and begins anew has another, which is not the first one's to
// remove.
func TestAJournalRemovesNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rows")
	first, err := journal.Open(path, "godwit test")
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.NoError(t, first.Remove(), "it is gone")
	second, err := journal.Open(path, "godwit test")
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.FileExists(t, path)
	require.NoError(t, second.Close())
	require.NoFileExists(t, path)
}
