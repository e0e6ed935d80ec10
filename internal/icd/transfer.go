//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"context"
	"unsafe"

	"godwit/runtime"
)

// Commands that move bytes. OpenCL lets them have no bytes at all, which is then a
// marker with the command's name.

// use resolves what most commands begin with: a queue, a buffer of its context,
// a wait list.
func use(qh, mh uintptr, room []runtime.Event, n uint32, list unsafe.Pointer) (q *queue, m *memObject, wait []runtime.Event, st int32) {
	q, m, wait, st = useObject(qh, mh, room, n, list)
	if st == clSuccess && m.image != nil {
		st = clInvalidMemObject
	}
	return q, m, wait, st
}

// useObject is use of any memory object.
func useObject(qh, mh uintptr, room []runtime.Event, n uint32, list unsafe.Pointer) (q *queue, m *memObject, wait []runtime.Event, st int32) {
	if q = queues.get(qh); q == nil {
		return nil, nil, nil, clInvalidCommandQueue
	}
	if m, st = q.object(mh); st != clSuccess {
		return nil, nil, nil, st
	}
	wait, st = q.c.waitList(room, n, list)
	return q, m, wait, st
}

// buffer resolves a buffer that a command of the queue uses.
func (q *queue) buffer(h uintptr) (*memObject, int32) {
	m, st := q.object(h)
	if st == clSuccess && m.image != nil {
		st = clInvalidMemObject
	}
	return m, st
}

// object resolves a memory object that a command of the queue uses.
func (q *queue) object(h uintptr) (*memObject, int32) {
	m := mems.get(h)
	switch {
	case m == nil:
		return nil, clInvalidMemObject
	case m.c != q.c:
		return nil, clInvalidContext
	}
	return m, clSuccess
}

// bytesAt is the program's memory.
func bytesAt(p unsafe.Pointer, n uint64) []byte { return unsafe.Slice((*byte)(p), n) }

//export gwEnqueueReadBuffer
func gwEnqueueReadBuffer(qh, mh uintptr, blocking uint32, off, size uint64, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	return enqueueTransfer(qh, mh, false, blocking, off, size, p, n, list, out)
}

//export gwEnqueueWriteBuffer
func gwEnqueueWriteBuffer(qh, mh uintptr, blocking uint32, off, size uint64, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	return enqueueTransfer(qh, mh, true, blocking, off, size, p, n, list, out)
}

// enqueueTransfer reads or writes one range.
func enqueueTransfer(qh, mh uintptr, write bool, blocking uint32, off, size uint64, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	q, m, wait, st := use(qh, mh, w[:0], n, list)
	switch {
	case st != clSuccess:
		return st
	case p == nil || !m.contains(off, size):
		return clInvalidValue
	}
	command, may := uint32(C.CL_COMMAND_READ_BUFFER), runtime.Flags.HostReads
	if write {
		command, may = C.CL_COMMAND_WRITE_BUFFER, runtime.Flags.HostWrites
	}
	if size == 0 { // a marker has no buffer whose flags the runtime could ask
		if err := may(runtime.Flags(m.flags)); err != nil {
			return refusal(err)
		}
		return q.marker(command, blocking != 0, wait, out)
	}
	if blocking != 0 && out == nil {
		return transferNow(q, m, write, off, bytesAt(p, size), wait)
	}
	var run runtime.Event
	var err error
	switch {
	case write && blocking != 0:
		run, err = q.run.BlockingWrite(context.Background(), m.run, off, bytesAt(p, size), wait...)
	case write:
		run, err = q.run.EnqueueWrite(context.Background(), m.run, off, bytesAt(p, size), wait...)
	case blocking != 0:
		run, err = q.run.BlockingRead(context.Background(), m.run, off, bytesAt(p, size), wait...)
	default:
		run, err = q.run.EnqueueRead(context.Background(), m.run, off, bytesAt(p, size), wait...)
	}
	return q.accepted(run, err, command, blocking != 0, out)
}

// transferNow is a blocking transfer of which the program wants no event.
func transferNow(q *queue, m *memObject, write bool, off uint64, bytes []byte, wait []runtime.Event) int32 {
	var err error
	if write { // called by its name: by a variable, the wait list would be on the heap
		_, err = q.quiet.BlockingWrite(context.Background(), m.run, off, bytes, wait...)
	} else {
		_, err = q.quiet.BlockingRead(context.Background(), m.run, off, bytes, wait...)
	}
	complain(err)
	return status(err)
}

// contains reports whether size bytes at off are within the buffer.
func (m *memObject) contains(off, size uint64) bool { return off <= m.size && size <= m.size-off }

//export gwEnqueueCopyBuffer
func gwEnqueueCopyBuffer(qh, sh, dh uintptr, srcOff, dstOff, size uint64, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	q, src, wait, st := use(qh, sh, w[:0], n, list)
	if st != clSuccess {
		return st
	}
	dst, st := q.buffer(dh)
	switch {
	case st != clSuccess:
		return st
	case !src.contains(srcOff, size) || !dst.contains(dstOff, size):
		return clInvalidValue
	}
	if size == 0 {
		return q.marker(C.CL_COMMAND_COPY_BUFFER, false, wait, out)
	}
	run, err := q.run.EnqueueCopyContent(context.Background(), src.run, dst.run, srcOff, dstOff, size, wait...)
	return q.accepted(run, err, C.CL_COMMAND_COPY_BUFFER, false, out)
}

// isPattern reports whether a pattern may fill size bytes at an offset or address.
func isPattern(pattern unsafe.Pointer, n, off, size uint64) bool {
	return pattern != nil && n > 0 && n <= 128 && n&(n-1) == 0 && off%n == 0 && size%n == 0
}

//export gwEnqueueFillBuffer
func gwEnqueueFillBuffer(qh, mh uintptr, pattern unsafe.Pointer, patternSize, off, size uint64, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	q, m, wait, st := use(qh, mh, w[:0], n, list)
	switch {
	case st != clSuccess:
		return st
	case !isPattern(pattern, patternSize, off, size) || !m.contains(off, size):
		return clInvalidValue
	}
	if size == 0 {
		return q.marker(C.CL_COMMAND_FILL_BUFFER, false, wait, out)
	}
	run, err := q.run.EnqueueFill(context.Background(), m.run, bytesAt(pattern, patternSize), off, size, wait...)
	return q.accepted(run, err, C.CL_COMMAND_FILL_BUFFER, false, out)
}

//export gwEnqueueMigrateMemObjects
func gwEnqueueMigrateMemObjects(qh uintptr, count uint32, objects unsafe.Pointer, flags uint64, n uint32, list, out unsafe.Pointer) int32 {
	q := queues.get(qh)
	if q == nil {
		return clInvalidCommandQueue
	}
	how, ok := migrateFlags(flags)
	if count == 0 || objects == nil || !ok {
		return clInvalidValue
	}
	bufs := make([]*runtime.Buffer, count)
	for i, h := range unsafe.Slice((*uintptr)(objects), count) {
		m, st := q.object(h)
		if st != clSuccess {
			return st
		}
		bufs[i] = m.run
	}
	var w waits
	wait, st := q.c.waitList(w[:0], n, list)
	if st != clSuccess {
		return st
	}
	run, err := q.run.EnqueueMigrate(context.Background(), bufs, how, wait...)
	return q.accepted(run, err, C.CL_COMMAND_MIGRATE_MEM_OBJECTS, false, out)
}

// migrateFlags are cl_mem_migration_flags as the runtime has them; ok is false
// where there are others among them.
func migrateFlags(flags uint64) (f runtime.MigrateFlags, ok bool) {
	if flags&C.CL_MIGRATE_MEM_OBJECT_HOST != 0 {
		f |= runtime.MigrateToHost
	}
	if flags&C.CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED != 0 {
		f |= runtime.ContentUndefined
	}
	return f, flags&^(C.CL_MIGRATE_MEM_OBJECT_HOST|C.CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED) == 0
}
