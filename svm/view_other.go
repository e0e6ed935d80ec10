//go:build !unix

package svm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// An arena is two views of one piece of memory, of which one has rights that
// change page by page. That is written for Unix.

func memoryFile(uint64) (*os.File, error) {
	return nil, fmt.Errorf("shared virtual memory on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func mapView(*os.File, int, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapView([]byte) error { return errors.ErrUnsupported }

func setRights([]byte, int) error { return errors.ErrUnsupported }

func discard(*os.File, []byte, uint64, uint64) error { return errors.ErrUnsupported }
