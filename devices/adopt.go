package devices

import (
	"fmt"
	"runtime"
	"unsafe"

	"godwit/mem"
)

// Adopter is a Device that takes memory of the caller's as a block
// (CL_MEM_USE_HOST_PTR).
type Adopter interface {
	// Adopt makes a block of the bytes, which are used in place and stay the
	// caller's; tag is free for the caller, as in mem.Request. The block is
	// freed with the FreeAfter of the device's own Memory, and the bytes must
	// be left to the device until then.
	Adopt(bytes []byte, tag uint64) (mem.Block, error)
}

// userBytes keeps a user's memory alive and in place while it is a block.
type userBytes struct {
	bytes  []byte
	pinner runtime.Pinner
}

// Adopt implements Adopter; the bytes may be of the Go heap or of C. It fails
// with mem.ErrInvalidHostPtr where there are none.
func (m *HostMemory) Adopt(bytes []byte, tag uint64) (mem.Block, error) {
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

// Adopt implements Adopter.
func (h *Host) Adopt(bytes []byte, tag uint64) (mem.Block, error) {
	return h.memory.Adopt(bytes, tag)
}
