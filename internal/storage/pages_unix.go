//go:build unix

package storage

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"godwit/mem"
)

// mapPages maps length bytes of zeros at a multiple of align; both are multiples
// of pages. What a larger mapping has beyond that goes back at once. Sparse ones do not count
// as memory in use before they are touched.
func mapPages(length, align uint64, sparse bool) (uint64, error) {
	spare, flags := align-pageSize, unix.MAP_ANON|unix.MAP_PRIVATE
	if sparse {
		flags |= noReserve
	}
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(length+spare), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return 0, err
	}
	raw := uint64(uintptr(p))
	if spare == 0 {
		return raw, nil
	}
	addr, _ := mem.AlignUp(raw, align)
	return addr, errors.Join(unmapPages(raw, addr-raw), unmapPages(addr+length, raw+spare-addr))
}

// unmapPages gives what mapPages mapped back to the system.
func unmapPages(addr, length uint64) error {
	if length == 0 {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(BytesAt(addr, length))), uintptr(length))
}

// lockPages locks a mapping. The error says what the limit is.
func lockPages(bytes []byte) error {
	err := unix.Mlock(bytes)
	if err == nil {
		return nil
	}
	limit := ""
	var r unix.Rlimit
	if (errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EAGAIN)) && unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) == nil {
		if may := uint64(r.Cur); may < math.MaxInt64 { // no limit is a larger number, on every system
			limit = fmt.Sprintf("; a process may lock %s (RLIMIT_MEMLOCK, ulimit -l)", mem.FormatBytes(may))
		}
	}
	return fmt.Errorf("%s not page-locked: mlock: %w%s", mem.FormatBytes(uint64(len(bytes))), err, limit)
}
