//go:build unix

package outfile_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/outfile"
)

func TestAPipeIsWrittenWhereSomebodyReadsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	require.EqualError(t, outfile.Write(t.Context(), path, nil), path+": nobody reads this pipe")

	text := strings.Repeat("more than a pipe holds at once\n", 10_000)
	pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	got := make(chan string)
	written := make(chan error, 1)
	go func() { written <- outfile.Write(t.Context(), path, []byte(text)) }()
	go func() {
		var b strings.Builder
		for b.Len() < len(text) {
			if _, err := io.Copy(&b, pipe); err != nil { // it may end before it has begun: nobody writes yet
				break
			}
		}
		got <- b.String()
	}()
	require.Equal(t, text, <-got)
	require.NoError(t, <-written)
	require.NoError(t, pipe.Close())
}
