package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"godwit/internal/input"
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

// readStdin is standard input, if a - is among files: what may be read more than once.
func readStdin(ctx context.Context, files []string, limit uint64) ([]byte, error) {
	at := slices.Index(files, "-")
	if at < 0 {
		return nil, nil
	}
	if slices.Contains(files[at+1:], "-") {
		return nil, errors.New("-: standard input is there twice, and can be read once")
	}
	var data bytes.Buffer
	if err := copyStdin(ctx, &data, limit); err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return data.Bytes(), nil
}
