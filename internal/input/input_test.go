package input_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/input"
)

func TestAFileIsReadUpToItsBound(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("12345"), 0o600))
	for _, read := range []func(context.Context, string, uint64) ([]byte, error){input.ReadFile, input.ReadAny} {
		got, err := read(ctx, path, 5)
		require.NoError(t, err)
		require.Equal(t, "12345", string(got))
		_, err = read(ctx, path, 4)
		require.ErrorIs(t, err, input.ErrTooLarge)
		require.ErrorContains(t, err, "more than 4 bytes")
		_, err = read(ctx, path+"x", 4)
		require.ErrorIs(t, err, os.ErrNotExist)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = read(ended, path, 5)
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestWhatNeverEndsIsNotReadForEver(t *testing.T) {
	ctx := context.Background()
	_, err := input.ReadFile(ctx, "/dev/zero", 1<<40)
	require.ErrorIs(t, err, input.ErrKind)
	_, err = input.ReadFile(ctx, t.TempDir(), 1<<40)
	require.ErrorIs(t, err, input.ErrKind)
	_, err = input.ReadAny(ctx, "/dev/zero", 1<<20)
	require.ErrorIs(t, err, input.ErrTooLarge)
	got, err := io.ReadAll(input.Limit(ctx, strings.NewReader("123"), "x", 3))
	require.NoError(t, err)
	require.Equal(t, "123", string(got))
}

// A regular file whose reader would wait for ever. The kernel's log gives what it has first.
func TestARegularFileThatKeepsItsReaderWaiting(t *testing.T) {
	const log = "/proc/kmsg"
	f, err := os.Open(log)
	if err != nil {
		t.Skipf("no such file that may be read here: %v", err)
	}
	require.NoError(t, f.Close())
	for _, read := range []func(context.Context, string, uint64) ([]byte, error){input.ReadFile, input.ReadAny} {
		_, err := read(t.Context(), log, 1<<30)
		require.ErrorIs(t, err, input.ErrKind)
		require.ErrorContains(t, err, log)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = read(ctx, log, 1<<30)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
}
