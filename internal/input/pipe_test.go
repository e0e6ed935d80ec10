//go:build unix

package input_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/input"
)

// Opening a pipe does not wait, and a read that waits ends with its context.
func TestAPipeWithoutAWriterDoesNotHang(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	got, err := input.ReadAny(context.Background(), path, 100)
	require.NoError(t, err)
	require.Empty(t, got)

	w, err := os.OpenFile(path, os.O_RDWR, 0) // so that there is a writer, which says nothing
	require.NoError(t, err)
	defer func() { _ = w.Close() }()
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err = input.ReadAny(ctx, path, 100)
	require.ErrorIs(t, err, context.Canceled)
}
