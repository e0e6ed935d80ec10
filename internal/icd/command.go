//go:build cgo

package icd

// #include "command_buffer.h"
import "C"

import (
	"bytes"
	"context"
	"slices"
	"unsafe"

	"godwit/runtime"
)

// Commands of command buffers.

// command is one of a command buffer's, and a cl_mutable_command_khr where the program has asked for a handle, which
// lives as long as the command buffer.
type command struct {
	self       uintptr        // of the handle; 0 where there is none
	b          *commandBuffer // immutable
	n          int            // its place in the list; immutable once it is there
	q          *queue         // immutable: one of b.queues
	on         int            // immutable: its place in b.run
	typ        uint32         // immutable: cl_command_type
	after      []int          // immutable: the commands of its sync points
	barrier    bool           // immutable
	properties []uint64       // immutable: as given, with the final zero
	keeps      []uintptr      // immutable: objects that it retains
	enqueue    verb           // immutable; nil for launches
	dispatch   *dispatch      // of a launch; replaced under b.mu, and immutable itself
}

// verb enqueues a command.
type verb func(on *runtime.Queue, wait ...runtime.Event) (runtime.Event, error)

// destroy implements destroyer, of the handle alone.
func (c *command) destroy() {}

// drop gives up what the command retains.
func (c *command) drop() {
	for _, h := range c.keeps {
		release(h)
	}
}

// record enqueues the command on a queue that records.
func (c *command) record(on *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	switch d := c.dispatch; {
	case d == nil:
		return c.enqueue(on, wait...)
	case d.args.unset > 0 || d.space.empty(): // its place is kept, for the numbers of commands
		return on.EnqueueMarker(context.Background(), wait...)
	default:
		return on.EnqueueLaunch(context.Background(), d.launch(), wait...)
	}
}

// copy is the command for another command buffer and queue.
func (c *command) copy(b *commandBuffer, q *queue) (*command, int32) {
	n := *c
	n.self, n.b, n.q, n.on = 0, b, q, slices.Index(b.run, q.run)
	for _, h := range c.keeps {
		retain(h) // c does
	}
	if c.dispatch != nil {
		n.dispatch = c.dispatch.copy()
		if st := n.dispatch.args.launchable(q, &n.dispatch.space, b.mayLack(n.dispatch.fields)); st != clSuccess {
			n.drop()
			return nil, st
		}
	}
	return &n, clSuccess
}

// points are what a recording call says of synchronisation, and where the command's names go.
type points struct {
	n            uint32
	list         unsafe.Pointer
	point        unsafe.Pointer // *cl_sync_point_khr
	handle       unsafe.Pointer // *cl_mutable_command_khr
	handleIsFine bool
}

// recording begins a recording call: it resolves command buffer, queue and sync points, and keeps the command buffer locked where it does not fail.
func recording(h, qh uintptr, typ uint32, properties unsafe.Pointer, take func(name, value uint64) int32, p *points) (*command, int32) {
	b := lockBuffer(h)
	if b == nil {
		return nil, C.GW_INVALID_COMMAND_BUFFER
	}
	c, st := b.newCommand(qh, typ, properties, take, p)
	if st != clSuccess {
		b.mu.Unlock()
	}
	return c, st
}

// newCommand makes a command that does nothing yet. mu is held.
func (b *commandBuffer) newCommand(qh uintptr, typ uint32, properties unsafe.Pointer, take func(name, value uint64) int32, p *points) (*command, int32) {
	if b.draft == nil {
		return nil, clInvalidOperation
	}
	c := &command{b: b, typ: typ}
	var st int32
	if c.q, st = b.queue(qh); st != clSuccess {
		return nil, st
	}
	c.on = slices.Index(b.run, c.q.run)
	if c.properties, st = readProperties(properties, take); st != clSuccess {
		return nil, st
	}
	if p.handle != nil && !p.handleIsFine {
		return nil, clInvalidValue
	}
	if (p.n == 0) != (p.list == nil) {
		return nil, C.GW_INVALID_SYNC_POINT_WAIT_LIST
	}
	for _, n := range unsafe.Slice((*uint32)(p.list), p.n) {
		if n == 0 || uint64(n) > uint64(len(b.commands)) {
			return nil, C.GW_INVALID_SYNC_POINT_WAIT_LIST
		}
		c.after = append(c.after, int(n)-1)
	}
	return c, clSuccess
}

// queue resolves the queue of a command: NULL is the only one.
func (b *commandBuffer) queue(h uintptr) (*queue, int32) {
	if h == 0 {
		if len(b.queues) > 1 {
			return nil, clInvalidCommandQueue
		}
		return b.queues[0], clSuccess
	}
	q := queues.get(h)
	switch {
	case q == nil:
		return nil, clInvalidCommandQueue
	case q.c != b.c:
		return nil, clInvalidContext
	case !slices.Contains(b.queues, q):
		return nil, clInvalidCommandQueue
	}
	return q, clSuccess
}

// none takes no property: there are none but those of launches.
func none(_, _ uint64) int32 { return clInvalidValue }

// recorded ends a recording call: the command has its verb or dispatch now. b.mu is held, and given up.
func (c *command) recorded(p *points) int32 {
	b := c.b
	defer b.mu.Unlock()
	if p.handle != nil {
		if _, st := commands.add(c, &c.self); st != clSuccess {
			c.drop()
			return st
		}
	}
	if st := b.append(c); st != clSuccess {
		if c.self != 0 {
			release(c.self)
		}
		c.drop()
		return st
	}
	if p.point != nil {
		*(*uint32)(p.point) = uint32(len(b.commands))
	}
	if p.handle != nil {
		*(*uintptr)(p.handle) = c.self
	}
	return clSuccess
}

// append records a command and adds it to the list. mu is held.
func (b *commandBuffer) append(c *command) int32 {
	if err := b.draft.add(c); err != nil {
		return refusal(err)
	}
	if c.dispatch != nil && c.dispatch.args.unset > 0 {
		b.lacking++
	}
	c.n = len(b.commands)
	b.commands = append(b.commands, c)
	return clSuccess
}

// fail gives up a recording call. b.mu is held, and given up.
func (c *command) fail(st int32) int32 {
	c.drop()
	c.b.mu.Unlock()
	return st
}

// uses resolves buffers that the command names, and keeps.
func (c *command) uses(handles ...uintptr) (bufs []*memObject, st int32) {
	bufs, st = c.usesAny(handles...)
	if st == clSuccess && slices.ContainsFunc(bufs, func(m *memObject) bool { return m.image != nil }) {
		st = clInvalidMemObject
	}
	return bufs, st
}

// usesAny is uses of any memory objects.
func (c *command) usesAny(handles ...uintptr) (bufs []*memObject, st int32) {
	for _, h := range handles {
		m := mems.hold(h)
		if m == nil {
			return nil, clInvalidMemObject
		}
		if c.keeps = append(c.keeps, h); m.c != c.b.c {
			return nil, clInvalidContext
		}
		bufs = append(bufs, m)
	}
	return bufs, clSuccess
}

// nothing is the verb of a command that has no bytes.
func nothing(on *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
	return on.EnqueueMarker(context.Background(), wait...)
}

//export gwCommandBarrierWithWaitListKHR
func gwCommandBarrierWithWaitListKHR(h, qh uintptr, properties unsafe.Pointer, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle}
	c, st := recording(h, qh, C.CL_COMMAND_BARRIER, properties, none, &p)
	if st != clSuccess {
		return st
	}
	c.barrier, c.enqueue = true, nothing
	return c.recorded(&p)
}

//export gwCommandCopyBufferKHR
func gwCommandCopyBufferKHR(h, qh uintptr, properties unsafe.Pointer, sh, dh uintptr, srcOff, dstOff, size uint64, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle}
	c, st := recording(h, qh, C.CL_COMMAND_COPY_BUFFER, properties, none, &p)
	if st != clSuccess {
		return st
	}
	m, st := c.uses(sh, dh)
	switch {
	case st != clSuccess:
		return c.fail(st)
	case !m[0].contains(srcOff, size) || !m[1].contains(dstOff, size):
		return c.fail(clInvalidValue)
	}
	if c.enqueue = nothing; size > 0 {
		c.enqueue = func(on *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
			return on.EnqueueCopyContent(context.Background(), m[0].run, m[1].run, srcOff, dstOff, size, wait...)
		}
	}
	return c.recorded(&p)
}

//export gwCommandCopyBufferRectKHR
func gwCommandCopyBufferRectKHR(h, qh uintptr, properties unsafe.Pointer, sh, dh uintptr, srcOrigin, dstOrigin, region unsafe.Pointer, srcRow, srcSlice, dstRow, dstSlice uint64, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle}
	c, st := recording(h, qh, C.CL_COMMAND_COPY_BUFFER_RECT, properties, none, &p)
	if st != clSuccess {
		return st
	}
	m, st := c.uses(sh, dh)
	switch {
	case st != clSuccess:
		return c.fail(st)
	case srcOrigin == nil || dstOrigin == nil || region == nil:
		return c.fail(clInvalidValue)
	}
	from, to, sides := (&box{srcOrigin, srcRow, srcSlice}).box(), (&box{dstOrigin, dstRow, dstSlice}).box(), triple(region)
	c.enqueue = func(on *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
		return on.EnqueueCopyRect(context.Background(), m[0].run, m[1].run, from, to, sides, wait...)
	}
	return c.recorded(&p)
}

//export gwCommandFillBufferKHR
func gwCommandFillBufferKHR(h, qh uintptr, properties unsafe.Pointer, mh uintptr, pattern unsafe.Pointer, patternSize, off, size uint64, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle}
	c, st := recording(h, qh, C.CL_COMMAND_FILL_BUFFER, properties, none, &p)
	if st != clSuccess {
		return st
	}
	m, st := c.uses(mh)
	switch {
	case st != clSuccess:
		return c.fail(st)
	case !isPattern(pattern, patternSize, off, size) || !m[0].contains(off, size):
		return c.fail(clInvalidValue)
	}
	if c.enqueue = nothing; size > 0 {
		with := bytes.Clone(bytesAt(pattern, patternSize))
		c.enqueue = func(on *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
			return on.EnqueueFill(context.Background(), m[0].run, with, off, size, wait...)
		}
	}
	return c.recorded(&p)
}

//export gwCommandSVMMemcpyKHR
func gwCommandSVMMemcpyKHR(h, qh uintptr, properties, dst, src unsafe.Pointer, size uint64, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle}
	c, st := recording(h, qh, C.CL_COMMAND_SVM_MEMCPY, properties, none, &p)
	switch {
	case st != clSuccess:
		return st
	case c.q.d.svm() == 0:
		return c.fail(clInvalidOperation)
	}
	if c.enqueue, st = c.q.c.memcpy(dst, src, size); st != clSuccess {
		return c.fail(st)
	}
	return c.recorded(&p)
}

//export gwCommandSVMMemFillKHR
func gwCommandSVMMemFillKHR(h, qh uintptr, properties unsafe.Pointer, at uintptr, pattern unsafe.Pointer, patternSize, size uint64, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle}
	c, st := recording(h, qh, C.CL_COMMAND_SVM_MEMFILL, properties, none, &p)
	switch {
	case st != clSuccess:
		return st
	case c.q.d.svm() == 0:
		return c.fail(clInvalidOperation)
	case at == 0 || !isPattern(pattern, patternSize, uint64(at), size):
		return c.fail(clInvalidValue)
	}
	if c.enqueue = nothing; size > 0 {
		with := bytes.Clone(bytesAt(pattern, patternSize))
		c.enqueue = func(on *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
			return on.EnqueueSVMFill(context.Background(), runtime.Pointer(at), with, size, wait...)
		}
	}
	return c.recorded(&p)
}
