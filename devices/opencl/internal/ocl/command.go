//go:build cgo

package ocl

// #cgo noescape gw_submit
// #cgo nocallback gw_submit
// #include "calls.h"
import "C"

import (
	"encoding/binary"
	"unsafe"
)

// Op is what a command does.
type Op uint32

// The commands. Those of SVM have addresses in place of buffers.
const (
	Marker Op = iota
	Copy
	Read
	Write
	Fill
	Launch
	CopyRect
	ReadRect
	WriteRect
	SVMCopy
	SVMFill
)

// Command is a command for one queue, free of pointers. It is a gw_cmd of C's, field for
// field.
type Command struct {
	Queue                Queue
	Src, Dst             Mem
	Kernel               Kernel
	Set                  SetArgs // of a Launch's kernel, and the caller's alone meanwhile; the zero value sets all arguments
	Event                Event   // out
	SrcOff, DstOff, Size uint64  // bytes; of copies and fills
	Region               [3]uint64
	SrcPitch, DstPitch   [2]uint64
	Global, Local, Off   [3]uint64
	Op                   Op
	Dims, Args           uint32
	Reached              uint32 // addresses behind the arguments, which the kernel reaches by pointers in memory
	waits                uint32
	HasLocal             uint32
	Pattern              uint32 // bytes
	ByRows               uint32 // of a CopyRect: as a copy for each row
	FailedArg            int32  // out: the argument that could not be set, or -1
	NoCallback           int32  // out: where not 0, no callback will come
	NoEvent              uint32 // of a Launch, or a run
	Enqueued             uint32 // out: of a run, how many were before one was refused
	Cached               uint32 // of a Launch: some argument is by AppendCache
	_                    uint32
}

// The two are laid out alike.
var (
	_ [0]struct{} = [unsafe.Sizeof(Command{}) - C.sizeof_gw_cmd]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Command{}.Event) - unsafe.Offsetof(C.gw_cmd{}.event)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Command{}.Region) - unsafe.Offsetof(C.gw_cmd{}.region)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Command{}.Off) - unsafe.Offsetof(C.gw_cmd{}.offset)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Command{}.Op) - unsafe.Offsetof(C.gw_cmd{}.op)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Command{}.waits) - unsafe.Offsetof(C.gw_cmd{}.nwaits)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Command{}.NoEvent) - unsafe.Offsetof(C.gw_cmd{}.no_event)]struct{}{}
)

// Submit is SubmitRun of c alone.
func (c *Command) Submit(args []byte, waits []Event, host []byte, t Tag) Status {
	return c.SubmitRun(nil, args, waits, host, t)
}

// SubmitRun enqueues c and the launches behind it, where there are some: c behind the events in waits, the last
// with an event. t, where it is not none, is told of its end. args are their arguments, or a fill's pattern. host is the host
// end of a transfer, which stays where it is until the command has ended. c has what is out; where one behind it is
// refused, its Event is that of a marker behind those that were not, 0 where these have ended.
func (c *Command) SubmitRun(then []Command, args []byte, waits []Event, host []byte, t Tag) Status {
	c.waits = uint32(len(waits))
	return Status(C.gw_submit((*C.gw_cmd)(unsafe.Pointer(c)), (*C.gw_cmd)(unsafe.Pointer(unsafe.SliceData(then))), C.uint32_t(len(then)), bytes[C.uint8_t](args), list(waits), bytes[C.char](host), handleOf(unsafe.Pointer(t.c))))
}

// Transfer carries out c, a Read or Write, behind the events in waits, and returns how it
// ended. Where OpenCL has taken it, c.Event is its event. It is an enqueue and a wait, during which buffers
// can be made and released. landing is the address of page-locked memory to go through, of as many bytes; 0 is none. Without,
// and alone, with nothing to wait for in its queue or elsewhere, it is one blocking call.
func (c *Command) Transfer(waits []Event, host []byte, landing uint64, alone bool) Status {
	c.waits = uint32(len(waits))
	return Status(C.gw_transfer((*C.gw_cmd)(unsafe.Pointer(c)), list(waits), bytes[C.char](host), C.uintptr_t(landing), truth(alone && landing == 0)))
}

// SetArgs is what the arguments of a kernel were set to last, so that only those that
// have changed are set again; C memory. The zero value sets all each time.
type SetArgs struct{ c *C.gw_args }

// NewSetArgs makes one for a kernel.
func NewSetArgs() SetArgs { return SetArgs{C.gw_args_new()} }

// Free gives its memory back.
func (s SetArgs) Free() {
	if s.c != nil {
		C.gw_args_free(s.c)
	}
}

// Forget makes the next launch set all arguments.
func (s SetArgs) Forget() {
	if s.c != nil {
		s.c.len = 0
	}
}

// AppendValue, AppendMem, AppendLocal and AppendSVM encode kernel arguments for C.
func AppendValue(dst, v []byte) []byte {
	dst = append(appendArg(dst, C.GW_ARG_VALUE, len(v)), v...)
	for len(dst)%8 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// ArgHead is how many bytes an encoded argument has before its own; those are padded to a multiple of 8.
const ArgHead = 8

// AppendMem appends a buffer; 0 is a null pointer.
func AppendMem(dst []byte, m Mem) []byte {
	return binary.NativeEndian.AppendUint64(appendArg(dst, C.GW_ARG_MEM, 8), uint64(m))
}

// Cache is an image and the bytes of a buffer that it is a copy of: as they are before a launch, and where Back they are as it is after it. Pitches are
// in bytes, of the second and the third side.
type Cache struct {
	Image, Buffer Mem
	Off           uint64
	Sides         [3]uint64 // pixels
	Pixel         uint64    // bytes
	Row, Slice    uint64
	Back          bool
}

// AppendCache appends an image.
func AppendCache(dst []byte, c Cache) []byte {
	back := uint64(0)
	if c.Back {
		back = 1
	}
	dst = appendArg(dst, C.GW_ARG_CACHE, C.sizeof_gw_cache)
	for _, w := range [...]uint64{uint64(c.Image), uint64(c.Buffer), c.Off, c.Sides[0], c.Sides[1], c.Sides[2], c.Pixel, c.Row, c.Slice, back} {
		dst = binary.NativeEndian.AppendUint64(dst, w)
	}
	return dst
}

// AppendLocal appends size bytes of local memory.
func AppendLocal(dst []byte, size uint64) []byte { return appendArg(dst, C.GW_ARG_LOCAL, int(size)) }

// AppendSVM appends an address.
func AppendSVM(dst []byte, addr uint64) []byte {
	return binary.NativeEndian.AppendUint64(appendArg(dst, C.GW_ARG_SVM, 8), addr)
}

func appendArg(dst []byte, kind, size int) []byte {
	return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(dst, uint32(kind)), uint32(size))
}
