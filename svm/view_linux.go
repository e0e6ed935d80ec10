package svm

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// noReserve keeps the system from counting addresses as memory in use.
const noReserve = unix.MAP_NORESERVE

// memoryFile opens a file of size bytes that is memory, without a name.
func memoryFile(size uint64) (*os.File, error) {
	fd, err := unix.MemfdCreate("godwit-svm", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "godwit-svm")
	if err := f.Truncate(int64(size)); err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	return f, nil
}

// discard gives the memory of a part of the file back; it reads as zeros.
func discard(f *os.File, _ []byte, off, size uint64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(size))
}
