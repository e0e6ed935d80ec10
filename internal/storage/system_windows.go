package storage

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"godwit/mem"
)

// mapPages maps length bytes of zeros at a multiple of align; both are multiples
// of pages. Addresses are reserved to the alignment's end: Windows gives back only
// whole reservations. Memory is taken for the length alone, of sparse ones too: Windows
// counts all that may be touched.
func mapPages(length, align uint64, _ bool) (uint64, error) {
	raw, err := windows.VirtualAlloc(0, uintptr(length+align-pageSize), windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return 0, err
	}
	addr, _ := mem.AlignUp(uint64(raw), align)
	if _, err := windows.VirtualAlloc(uintptr(addr), uintptr(length), windows.MEM_COMMIT, windows.PAGE_READWRITE); err != nil {
		return 0, errors.Join(err, windows.VirtualFree(raw, 0, windows.MEM_RELEASE))
	}
	return addr, nil
}

// unmapPages gives what mapPages mapped back to the system, whole.
func unmapPages(addr, _ uint64) error {
	var m windows.MemoryBasicInformation
	if err := windows.VirtualQuery(uintptr(addr), &m, unsafe.Sizeof(m)); err != nil {
		return err
	}
	return windows.VirtualFree(m.AllocationBase, 0, windows.MEM_RELEASE)
}

// lockPages locks a mapping. Windows bounds it by the process's working set.
func lockPages(bytes []byte) error {
	if err := windows.VirtualLock(uintptr(unsafe.Pointer(&bytes[0])), uintptr(len(bytes))); err != nil {
		return fmt.Errorf("%s not page-locked: VirtualLock: %w; the process's working set is its limit", mem.FormatBytes(uint64(len(bytes))), err)
	}
	return nil
}

// wantHugePages does nothing: large pages need a privilege here, and cannot be paged out.
func wantHugePages(_, _ uint64) {}

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// PhysicalMemory is the bytes of memory that the host has; 0 where it does not say.
func PhysicalMemory() uint64 {
	var s struct { // MEMORYSTATUSEX
		length, load                                         uint32
		physical, free, file, freeFile, virtual, freeVirtual uint64
		freeExtended                                         uint64
	}
	s.length = uint32(unsafe.Sizeof(s))
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return 0
	}
	return s.physical
}
