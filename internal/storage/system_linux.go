package storage

import "golang.org/x/sys/unix"

// noReserve keeps the system from counting addresses as memory in use.
const noReserve = unix.MAP_NORESERVE

// PhysicalMemory is the bytes of memory that the host has; 0 where it does not say.
func PhysicalMemory() uint64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return s.Totalram * uint64(s.Unit)
}

// wantHugePages asks for huge pages: a wish. A system that does not grant it is slower.
func wantHugePages(addr, length uint64) {
	_ = unix.Madvise(BytesAt(addr, length), unix.MADV_HUGEPAGE)
}
