//go:build unix

package svm

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapView maps the first size bytes of a file, or memory of its own where file is
// nil. Memory is taken when it is touched.
func mapView(file *os.File, size, rights int) ([]byte, error) {
	if file == nil {
		return unix.Mmap(-1, 0, size, rights, unix.MAP_PRIVATE|unix.MAP_ANON|noReserve)
	}
	return unix.Mmap(int(file.Fd()), 0, size, rights, unix.MAP_SHARED|noReserve)
}

func unmapView(view []byte) error { return unix.Munmap(view) }

// setRights changes the rights of whole pages.
func setRights(pages []byte, rights int) error { return unix.Mprotect(pages, rights) }
