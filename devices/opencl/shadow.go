//go:build cgo

package opencl

import (
	"bytes"
	"encoding/binary"

	"godwit/devices/opencl/internal/ocl"
)

// A check for reads of uninitialised bytes, made exact.
//
// Where a platform looks for such reads, but follows only what kernels do
// (quirks.checks), all bytes get into a buffer by a kernel of ours, which copies their
// state with them: from another buffer, or from one that is made of the host's bytes, as
// a whole, for that. And each new buffer is told to be uninitialised, as a whole (fresh).
// Then the findings are true: there is one where a kernel uses a byte that nobody wrote, or
// that Godwit should have brought and has not, and else none. Programs are built without
// optimisation, since the check does not know all that it makes.
//
// That is for whole cl_mems, which is what checkers are given: the shadow of a carved
// block is its slab's.
//
// A shadow is how a worker's commands, new buffers and builds get to OpenCL: with all that changes bytes done
// otherwise, or, where it is nil, as they are. All but options is called in the worker's thread.
type shadow struct {
	context ocl.Context
	program ocl.Program
	copies  ocl.Kernel
	touches ocl.Kernel
}

// A structure is copied by llvm.memcpy, which takes the state of the bytes along and
// does not complain of what is uninitialised: it is used by nobody yet. Were it not
// volatile, the compiler would make a load and a store of a small one.
const shadowSource = `
typedef struct { uchar b[65536]; } huge;
typedef struct { uchar b[1024]; } large;
typedef struct { uchar b[32]; } small;
typedef struct { uchar b[1]; } one;
#define STEP(type) for (; n >= sizeof(type); n -= sizeof(type), dst += sizeof(type), src += sizeof(type)) \
	*(volatile global type *)dst = *(volatile global const type *)src;
kernel void godwit_copy(global uchar *to, global const uchar *from, ulong bytes, ulong rows, ulong slices,
                        ulong to_at, ulong to_row, ulong to_slice, ulong from_at, ulong from_row, ulong from_slice)
{
	for (ulong z = 0; z < slices; z++)
		for (ulong y = 0; y < rows; y++) {
			global uchar *dst = to + to_at + y * to_row + z * to_slice;
			global const uchar *src = from + from_at + y * from_row + z * from_slice;
			ulong n = bytes;
			STEP(huge) STEP(large) STEP(small) STEP(one)
		}
}
kernel void godwit_touch(global uchar *whole) {}
`

// newShadow returns the shadow of a context.
func newShadow(context ocl.Context) (*shadow, error) {
	s := &shadow{context: context}
	var st ocl.Status
	if s.program, st = context.NewProgram([]byte(shadowSource)); st == 0 {
		st = s.program.Build(nil, "")
	}
	if st == 0 {
		s.copies, st = s.program.NewKernel("godwit_copy")
	}
	if st == 0 {
		s.touches, st = s.program.NewKernel("godwit_touch")
	}
	if st == 0 {
		return s, nil
	}
	s.free()
	return nil, statusError(st, "kernels for the check for uninitialised reads")
}

func (s *shadow) free() {
	if s == nil {
		return
	}
	for _, k := range []ocl.Kernel{s.copies, s.touches} {
		if k != 0 {
			k.Release()
		}
	}
	if s.program != 0 {
		s.program.Release()
	}
}

// options are what a program is built with, where options are its own.
func (s *shadow) options(options string) string {
	if s == nil {
		return options
	}
	return options + " -cl-opt-disable"
}

// launch is a kernel of ours: one work-item, since checkers may leave out work-groups.
func (s *shadow) launch(q ocl.Queue, k ocl.Kernel, n uint32) ocl.Command {
	return ocl.Command{Queue: q, Op: ocl.Launch, Kernel: k, Args: n, Dims: 1, Global: [3]uint64{1}}
}

// fresh sees to a new cl_mem: it makes all bytes uninitialised. A write of nothing leaves a
// shadow of no bytes, and a kernel that is given a buffer without shadow makes one for
// all of it, uninitialised.
func (s *shadow) fresh(q ocl.Queue, m ocl.Mem) ocl.Status {
	if s == nil {
		return 0
	}
	nothing := ocl.Command{Queue: q, Op: ocl.Write, Dst: m}
	st := nothing.Submit(nil, nil, make([]byte, 1), ocl.Tag{})
	if st == 0 {
		touch := s.launch(q, s.touches, 1)
		st = touch.Submit(ocl.AppendMem(nil, m), nil, nil, ocl.Tag{})
		defer ocl.ReleaseEvents([]ocl.Event{nothing.Event, touch.Event})
	}
	if end := q.Finish(); st == 0 {
		st = end
	}
	return st
}

// submit enqueues a command without waits. It may return when the command has ended.
func (s *shadow) submit(c *ocl.Command, args, host []byte) ocl.Status {
	switch {
	case s == nil:
	case c.Op == ocl.Write:
		c.Region, c.SrcPitch, c.SrcOff = [3]uint64{c.Size, 1, 1}, [2]uint64{}, 0
		return s.bring(c, host[:c.Size])
	case c.Op == ocl.Fill:
		c.Region, c.SrcPitch, c.SrcOff = [3]uint64{c.Size, 1, 1}, [2]uint64{}, 0
		return s.bring(c, bytes.Repeat(args, int(c.Size)/len(args)))
	case c.Op == ocl.WriteRect:
		c.SrcOff = 0
		return s.bring(c, host)
	case c.Op == ocl.Copy:
		c.Region = [3]uint64{c.Size, 1, 1}
		return s.copy(c, c.Src)
	case c.Op == ocl.CopyRect:
		return s.copy(c, c.Src)
	}
	return c.Submit(args, nil, host, ocl.Tag{}) // what changes no bytes, or by a kernel
}

// bring copies bytes of the host, which are initialised, by way of a buffer of their own.
func (s *shadow) bring(c *ocl.Command, host []byte) ocl.Status {
	from, st := s.context.NewBufferOf(host)
	if st != 0 {
		return st
	}
	defer ocl.ReleaseMems(from)
	st = s.copy(c, from)
	c.Queue.Finish() // before it goes
	return st
}

// copy enqueues a copy of rows.
func (s *shadow) copy(c *ocl.Command, from ocl.Mem) ocl.Status {
	args := ocl.AppendMem(ocl.AppendMem(nil, c.Dst), from)
	for _, v := range []uint64{c.Region[0], c.Region[1], c.Region[2], c.DstOff, c.DstPitch[0], c.DstPitch[1], c.SrcOff, c.SrcPitch[0], c.SrcPitch[1]} {
		args = ocl.AppendValue(args, binary.NativeEndian.AppendUint64(nil, v))
	}
	k := s.launch(c.Queue, s.copies, 11)
	st := k.Submit(args, nil, nil, ocl.Tag{})
	c.Event, c.FailedArg = k.Event, -1
	return st
}
