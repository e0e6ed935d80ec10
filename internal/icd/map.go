//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"context"
	"unsafe"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// mapping is a mapped range of a buffer, by the address that the program got.
type mapping struct {
	at  uintptr
	run runtime.Mapping
}

const mapFlags = C.CL_MAP_READ | C.CL_MAP_WRITE | C.CL_MAP_WRITE_INVALIDATE_REGION

//export gwEnqueueMapBuffer
func gwEnqueueMapBuffer(qh, mh uintptr, blocking uint32, flags, off, size uint64, n uint32, list, out unsafe.Pointer) (unsafe.Pointer, int32) {
	var w waits
	q, m, wait, st := use(qh, mh, w[:0], n, list)
	if flags == 0 && st == clSuccess { // as with others: the program may do what the buffer lets it
		flags = m.anyMap()
	}
	if st == clSuccess && (flags&^mapFlags != 0 || size == 0 || !m.contains(off, size)) {
		st = clInvalidValue
	}
	if st != clSuccess {
		return nil, st
	}
	mapped, run, err := q.run.EnqueueMap(context.Background(), m.run, off, size, runtime.MapFlags(flags), wait...)
	return q.mapped(m, mapped, run, err, C.CL_COMMAND_MAP_BUFFER, blocking != 0, out)
}

// mapped ends the enqueue of a map, of which err is the error.
func (q *queue) mapped(m *memObject, mapped runtime.Mapping, run runtime.Event, err error, command uint32, blocking bool, out unsafe.Pointer) (unsafe.Pointer, int32) {
	if err == nil && blocking {
		err = q.mapEnded(mapped, run)
	}
	if err != nil {
		return nil, refusal(err)
	}
	at := unsafe.Pointer(unsafe.SliceData(mapped.Bytes()))
	if st := q.accepted(run, nil, command, false, out); st != clSuccess {
		_ = mapped.Abandon() // the program never learns of it
		return nil, st
	}
	m.mu.Lock()
	m.mapped = append(m.mapped, mapping{uintptr(at), mapped})
	m.mu.Unlock()
	return at, clSuccess
}

// anyMap is all that a buffer may be mapped for.
func (m *memObject) anyMap() (flags uint64) {
	if runtime.Flags(m.flags).HostReads() == nil {
		flags |= C.CL_MAP_READ
	}
	if runtime.Flags(m.flags).HostWrites() == nil {
		flags |= C.CL_MAP_WRITE
	}
	return flags
}

// mapEnded waits for a blocking map. Where it failed nothing stays mapped.
func (q *queue) mapEnded(mapped runtime.Mapping, run runtime.Event) error {
	err := run.Wait(context.Background(), devices.BlockThread)
	if err == nil {
		return nil
	}
	_ = run.Release()
	_ = mapped.Abandon()
	if mem.StatusOf(err) != mem.ExecStatusErrorInWaitList {
		err = runtime.ErrMap
	}
	return err
}

//export gwEnqueueUnmapMemObject
func gwEnqueueUnmapMemObject(qh, mh, at uintptr, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	q, m, wait, st := useObject(qh, mh, w[:0], n, list)
	if st != clSuccess {
		return st
	}
	mapped, ok := m.takeMapping(at)
	if !ok {
		return clInvalidValue
	}
	run, err := q.run.EnqueueUnmap(context.Background(), mapped.run, wait...)
	if err != nil {
		m.mu.Lock()
		m.mapped = append(m.mapped, mapped)
		m.mu.Unlock()
	}
	return q.accepted(run, err, C.CL_COMMAND_UNMAP_MEM_OBJECT, false, out)
}

// takeMapping takes the youngest mapping at an address off the list.
func (m *memObject) takeMapping(at uintptr) (mapping, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.mapped) - 1; i >= 0; i-- {
		if found := m.mapped[i]; found.at == at {
			m.mapped = append(m.mapped[:i], m.mapped[i+1:]...)
			return found, true
		}
	}
	return mapping{}, false
}
