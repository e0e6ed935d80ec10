//go:build unix && !linux

package svm

import "os"

// noReserve: addresses count as memory in use by default.
const noReserve = 0

// memoryFile opens a file of size bytes without a name.
func memoryFile(size uint64) (*os.File, error) {
	f, err := os.CreateTemp("", "godwit-svm")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err == nil {
		err = f.Truncate(int64(size))
		if err == nil {
			return f, nil
		}
	}
	_ = f.Close() // the first error counts
	return nil, err
}

// discard makes a part of the file read as zeros.
func discard(_ *os.File, view []byte, off, size uint64) error {
	clear(view[off : off+size])
	return nil
}
