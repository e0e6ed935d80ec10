package storage

import (
	"fmt"
	"runtime"
	"unsafe"

	"godwit/mem"
)

// userBytes keeps a user's memory alive and in place while it is a block.
type userBytes struct {
	bytes  []byte
	pinner runtime.Pinner
}

// Adopt makes a block of memory of the caller's, see devices.HostDevice; the bytes may be of the Go heap or of C. It fails
// with mem.ErrInvalidHostPtr where there are none.
func (m *Host) Adopt(bytes []byte, tag uint64) (mem.Block, error) {
	if len(bytes) == 0 {
		return mem.Block{}, fmt.Errorf("memory %s: block of 0 bytes of the user's: it must have at least one: %w", m.name, mem.ErrInvalidHostPtr)
	}
	u := &userBytes{bytes: bytes}
	first := unsafe.SliceData(bytes)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost != nil {
		return mem.Block{}, m.lost
	}
	u.pinner.Pin(first)
	size := uint64(len(bytes))
	b := m.enter(Place{Addr: uint64(uintptr(unsafe.Pointer(first)))}, mem.Request{Size: size, Tag: tag})
	m.entries[uint32(b.Ref)-1].user = u
	m.stats.Blocks++
	m.stats.Allocs++
	m.stats.Live += size
	m.stats.PeakLive = max(m.stats.PeakLive, m.stats.Live)
	return b, nil
}
