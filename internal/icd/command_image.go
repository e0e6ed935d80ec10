//go:build cgo

package icd

// #include "command_buffer.h"
import "C"

import (
	"context"
	"unsafe"

	"godwit/runtime"
)

// Commands of command buffers on images.

// part is a part of an image that a command names, which it keeps.
func (c *command) part(h uintptr, origin, region unsafe.Pointer) (u imageUse, st int32) {
	m, st := c.usesAny(h)
	if st == clSuccess {
		st = c.q.isImage(m[0])
	}
	switch {
	case st != clSuccess:
		return u, st
	case origin == nil || region == nil:
		return u, clInvalidValue
	}
	u = imageUse{q: c.q, m: m[0], origin: triple(origin), region: triple(region)}
	s := u.m.image.Shape()
	if s.Within(u.origin, u.region) != nil {
		return u, clInvalidValue
	}
	return u, clSuccess
}

// recordingPart begins the recording of a command that reads or fills a part of an image.
func recordingPart(h, qh uintptr, typ uint32, properties unsafe.Pointer, p *points, mh uintptr, origin, region unsafe.Pointer) (c *command, u imageUse, st int32) {
	if c, st = recording(h, qh, typ, properties, none, p); st != clSuccess {
		return c, u, st
	}
	if u, st = c.part(mh, origin, region); st != clSuccess {
		st = c.fail(st)
	}
	return c, u, st
}

//export gwCommandCopyBufferToImageKHR
func gwCommandCopyBufferToImageKHR(h, qh uintptr, properties unsafe.Pointer, sh, dh uintptr, off uint64, origin, region unsafe.Pointer, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle}
	c, st := recording(h, qh, C.CL_COMMAND_COPY_BUFFER_TO_IMAGE, properties, none, &p)
	if st != clSuccess {
		return st
	}
	src, st := c.uses(sh)
	if st != clSuccess {
		return c.fail(st)
	}
	u, st := c.part(dh, origin, region)
	if st != clSuccess {
		return c.fail(st)
	}
	return c.fills(&p, src[0].run, off, &u)
}

// fills ends the recording of a copy from a buffer to an image.
func (c *command) fills(p *points, src *runtime.Buffer, off uint64, u *imageUse) int32 {
	to, origin, region := u.m.image, u.origin, u.region
	c.enqueue = func(on *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
		return on.EnqueueCopyBufferToImage(context.Background(), src, to, off, origin, region, wait...)
	}
	return c.recorded(p)
}

//export gwCommandCopyImageKHR
func gwCommandCopyImageKHR(h, qh uintptr, properties unsafe.Pointer, sh, dh uintptr, from, to, region unsafe.Pointer, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle}
	c, src, st := recordingPart(h, qh, C.CL_COMMAND_COPY_IMAGE, properties, &p, sh, from, region)
	if st != clSuccess {
		return st
	}
	dst, st := c.part(dh, to, region)
	if st != clSuccess {
		return c.fail(st)
	}
	c.enqueue = func(on *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
		return on.EnqueueCopyImage(context.Background(), src.m.image, dst.m.image, src.origin, dst.origin, src.region, wait...)
	}
	return c.recorded(&p)
}

//export gwCommandCopyImageToBufferKHR
func gwCommandCopyImageToBufferKHR(h, qh uintptr, properties unsafe.Pointer, sh, dh uintptr, origin, region unsafe.Pointer, off uint64, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle}
	c, u, st := recordingPart(h, qh, C.CL_COMMAND_COPY_IMAGE_TO_BUFFER, properties, &p, sh, origin, region)
	if st != clSuccess {
		return st
	}
	dst, st := c.uses(dh)
	if st != clSuccess {
		return c.fail(st)
	}
	c.enqueue = func(on *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
		return on.EnqueueCopyImageToBuffer(context.Background(), u.m.image, dst[0].run, u.origin, u.region, off, wait...)
	}
	return c.recorded(&p)
}

// gwCommandFillImageKHR records a copy from a buffer that has the colour throughout, and is the command's.
//
//export gwCommandFillImageKHR
func gwCommandFillImageKHR(h, qh uintptr, properties unsafe.Pointer, mh uintptr, color, origin, region unsafe.Pointer, n uint32, list, point, handle unsafe.Pointer) int32 {
	p := points{n: n, list: list, point: point, handle: handle}
	c, u, st := recordingPart(h, qh, C.CL_COMMAND_FILL_IMAGE, properties, &p, mh, origin, region)
	switch {
	case st != clSuccess:
		return st
	case color == nil:
		return c.fail(clInvalidValue)
	}
	pixel := u.m.pixel(color)
	full := make([]byte, 0, u.region[0]*u.region[1]*u.region[2]*uint64(len(pixel)))
	for len(full) < cap(full) {
		full = append(full, pixel...)
	}
	own, st := createBuffer(c.q.c.self, nil, C.CL_MEM_COPY_HOST_PTR, uint64(len(full)), unsafe.Pointer(&full[0]))
	if st != clSuccess {
		return c.fail(st)
	}
	c.keeps = append(c.keeps, own)
	return c.fills(&p, mems.get(own).run, 0, &u)
}
