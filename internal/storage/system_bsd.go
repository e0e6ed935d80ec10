//go:build darwin || freebsd

package storage

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// noReserve: addresses do not count as memory in use by default.
const noReserve = 0

// PhysicalMemory is the bytes of memory that the host has; 0 where it does not say.
func PhysicalMemory() uint64 {
	name := "hw.physmem"
	if runtime.GOOS == "darwin" {
		name = "hw.memsize" // its hw.physmem has 32 bits
	}
	n, err := unix.SysctlUint64(name)
	if err != nil {
		return 0
	}
	return n
}

// wantHugePages does nothing: FreeBSD promotes pages by itself, a Mac has 16 KiB ones.
func wantHugePages(_, _ uint64) {}
