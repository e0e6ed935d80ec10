package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"godwit/internal/input"
	"godwit/internal/process"
)

// stdinName is what errors call standard input.
const stdinName = "stdin"

// copyStdin copies standard input to w, which is to be left alone where it fails: where ctx
// ends first it leaves a goroutine that waits for input, since the verb is about to end.
func copyStdin(ctx context.Context, w io.Writer, limit uint64) error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, input.Limit(ctx, os.Stdin, stdinName, limit))
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// withStdin has a - among files be a temporary file with standard input, for verbs that read
// a file more than once. end is to be given their error: it deletes that file.
func withStdin(ctx context.Context, files []string, limit uint64) (out []string, end func(error) error, err error) {
	at := slices.Index(files, "-")
	if at < 0 {
		return files, func(err error) error { return err }, nil
	}
	if slices.Contains(files[at+1:], "-") {
		return nil, nil, errors.New("-: standard input is there twice, and can be read once")
	}
	dir, remove, err := process.TempDir(ctx, "", "godwit-stdin")
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, stdinName)
	file, err := os.Create(path)
	if err == nil {
		err = errors.Join(copyStdin(ctx, file, limit), file.Close())
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("standard input: %w", err), remove())
	}
	out = slices.Clone(files)
	out[at] = path
	return out, func(err error) error { return errors.Join(errStdin{path, err}.orNil(), remove()) }, nil
}

// errStdin is an error about standard input, which was in a file that nobody knows.
type errStdin struct {
	path string
	error
}

func (e errStdin) orNil() error {
	if e.error == nil {
		return nil
	}
	return e
}

func (e errStdin) Error() string { return strings.ReplaceAll(e.error.Error(), e.path, stdinName) }

func (e errStdin) Unwrap() error { return e.error }
