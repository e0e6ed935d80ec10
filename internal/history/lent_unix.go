//go:build unix

package history

import (
	"os"

	"golang.org/x/sys/unix"
)

// lent is memory that a history lends to a buffer (C13): a mapping of its own, so that a
// touch after it was taken back ends the process, at the place that touches it, or fails (noTouch).
type lent struct {
	pages []byte
	bytes []byte // the first of pages
}

func lend(content []byte) (*lent, error) {
	size := (len(content) + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1)
	pages, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	copy(pages, content)
	return &lent{pages, pages[:len(content):len(content)]}, nil
}

// takeBack leaves nobody any rights to it.
func (l *lent) takeBack() error { return unix.Mprotect(l.pages, unix.PROT_NONE) }

// end gives its addresses back, once nothing is left that may touch it.
func (l *lent) end() error { return unix.Munmap(l.pages) }
