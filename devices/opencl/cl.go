//go:build cgo

package opencl

// #cgo CFLAGS: -O2
// #cgo linux LDFLAGS: -Wl,--as-needed -ldl
// #cgo noescape gw_submit
// #cgo nocallback gw_submit
// #cgo noescape gw_ring_copy
// #cgo nocallback gw_ring_copy
// #cgo noescape gw_sink_take
// #cgo nocallback gw_sink_take
// #cgo noescape gw_sink_some
// #cgo nocallback gw_sink_some
// #cgo noescape gw_sink_hurry
// #cgo nocallback gw_sink_hurry
// #cgo noescape gw_release_events
// #cgo nocallback gw_release_events
// #cgo noescape gw_release_mems
// #cgo nocallback gw_release_mems
// #cgo noescape gw_sub_buffer
// #cgo nocallback gw_sub_buffer
// #cgo noescape gw_times
// #cgo nocallback gw_times
// #cgo noescape gw_move
// #cgo nocallback gw_move
// #cgo noescape gw_moved
// #cgo nocallback gw_moved
// #include <stdlib.h>
// #include "bridge.h"
import "C"

import (
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"

	"github.com/jgillich/go-opencl/cl"

	"godwit/devices/storage"
	"godwit/mem"
)

// handle is a cl object, as an integer: Go never follows it. Who keeps one
// keeps the reference it stands for, or the go-opencl object that does.
type handle = C.gw_handle

// rawHandle reads the cl object out of a go-opencl object, which has it in its
// first field (a test checks each type against the field's name and offset).
func rawHandle[T cl.Context | cl.CommandQueue | cl.MemObject | cl.Program | cl.Device | cl.Event](o *T) handle {
	return *(*handle)(unsafe.Pointer(o))
}

// loaderMissing says what keeps OpenCL from being used, or "".
func loaderMissing() string {
	if why := C.gw_load(); why != nil {
		return C.GoString(why)
	}
	return ""
}

// sink is where callbacks put ended commands.
type sink struct{ c *C.gw_sink }

type tag = *C.gw_tag

type done = C.gw_done

func newSink(watching bool) sink {
	if watching {
		return sink{C.gw_sink_new(1)}
	}
	return sink{C.gw_sink_new(0)}
}
func (s sink) tag(i int) tag { return C.gw_tag_new(s.c, C.uint64_t(i)) }
func (s sink) close()        { C.gw_sink_close(s.c) }
func (s sink) free()         { C.gw_sink_free(s.c) }
func freeTag(t tag)          { C.gw_tag_free(t) }

// take blocks until commands have ended, or somebody is in a hurry, and returns
// how many it put in out; -1 when the sink is closed and empty. Where prompt is
// false it may take its time.
func (s sink) take(out []done, prompt bool) int {
	if prompt {
		return int(C.gw_sink_take(s.c, &out[0], C.int(len(out)), 1))
	}
	return int(C.gw_sink_take(s.c, &out[0], C.int(len(out)), 0))
}

// some takes what there is.
func (s sink) some(out []done) int { return int(C.gw_sink_some(s.c, &out[0], C.int(len(out)))) }

// hurry ends a take that takes its time.
func (s sink) hurry() { C.gw_sink_hurry(s.c) }

// nativeCmd is a command as C gets it, without pointers.
type nativeCmd = C.gw_cmd

const (
	nativeMarker    = C.GW_MARKER
	nativeCopy      = C.GW_COPY
	nativeRead      = C.GW_READ
	nativeWrite     = C.GW_WRITE
	nativeFill      = C.GW_FILL
	nativeLaunch    = C.GW_LAUNCH
	nativeCopyRect  = C.GW_COPY_RECT
	nativeReadRect  = C.GW_READ_RECT
	nativeWriteRect = C.GW_WRITE_RECT
	nativeSVMCopy   = C.GW_SVM_COPY
	nativeSVMFill   = C.GW_SVM_FILL
)

func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// submit enqueues c. host is pinned by the caller until the command has ended.
func submit(c *nativeCmd, args []byte, set setArgs, waits []handle, host []byte, t tag) C.cl_int {
	c.nwaits = C.uint32_t(len(waits))
	return C.gw_submit(c, unsafe.Pointer(first(args)), set, first(waits), unsafe.Pointer(first(host)), t)
}

// setArgs is what the arguments of a cl_kernel were set to last; C memory.
type setArgs = *C.gw_args

func newSetArgs() setArgs { return C.gw_args_new() }
func freeSetArgs(s setArgs) {
	if s != nil {
		C.gw_args_free(s)
	}
}

// forget makes the next launch set all arguments.
func forget(s setArgs) {
	if s != nil {
		s.len = 0
	}
}

// appendValue, appendMem and appendLocal encode kernel arguments for C.
func appendValue(dst, v []byte) []byte {
	dst = appendArg(dst, C.GW_ARG_VALUE, len(v))
	dst = append(dst, v...)
	for len(dst)%8 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

func appendMem(dst []byte, m handle) []byte {
	return binary.NativeEndian.AppendUint64(appendArg(dst, C.GW_ARG_MEM, 8), uint64(m))
}

func appendSVM(dst []byte, addr uint64) []byte {
	return binary.NativeEndian.AppendUint64(appendArg(dst, C.GW_ARG_SVM, 8), addr)
}

// hasSVM reports whether the loader has the functions of shared virtual memory.
func hasSVM() bool { return C.gw_has_svm() != 0 }

func address(a uint64) handle { return handle(a) }

func appendLocal(dst []byte, size uint64) []byte { return appendArg(dst, C.GW_ARG_LOCAL, int(size)) }

func appendArg(dst []byte, kind, size int) []byte {
	return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(dst, uint32(kind)), uint32(size))
}

func size(n uint64) C.size_t { return C.size_t(n) }

func u32[T int | uint32](n T) C.uint32_t { return C.uint32_t(n) }

func eventStatus(e handle) int32 { return int32(C.gw_status(e)) }
func eventWait(e handle) int32   { return int32(C.gw_wait(e)) }

// eventEnd waits for the command of e, which was submitted without a tag.
func eventEnd(e handle) int32 { return int32(C.gw_end(e)) }

// serialize lets one thread at a time into OpenCL, or ends that.
func serialize(on bool) {
	if on {
		C.gw_serial(1)
	} else {
		C.gw_serial(-1)
	}
}

func flush(q handle) int32  { return int32(C.gw_flush(q)) }
func finish(q handle) int32 { return int32(C.gw_finish(q)) }

func releaseEvents(e []handle) {
	if len(e) > 0 {
		C.gw_release_events(&e[0], C.int(len(e)))
	}
}

func releaseMems(m []handle) {
	if len(m) > 0 {
		C.gw_release_mems(&m[0], C.int(len(m)))
	}
}

func eventTimes(e handle) (t [4]uint64) {
	C.gw_times(e, (*C.uint64_t)(&t[0]))
	return t
}

func subBuffer(m handle, off, size uint64) (handle, int32) {
	var err C.cl_int
	h := C.gw_sub_buffer(m, C.size_t(off), C.size_t(size), &err)
	return h, int32(err)
}

// touch writes a few bytes at off of a fresh buffer, because drivers allocate
// on first use: here is where running out shows.
func touch(queue, m handle, off uint64) int32 {
	return int32(C.gw_touch(queue, m, C.size_t(off)))
}

// deviceInfo is clGetDeviceInfo without go-opencl's limit of 1,024 bytes, and
// without its panics.
func deviceInfo(d handle, what uint32) []byte {
	var n C.size_t
	if C.gw_device_info(d, C.uint32_t(what), nil, 0, &n) != 0 || n == 0 {
		return nil
	}
	b := make([]byte, n)
	if C.gw_device_info(d, C.uint32_t(what), unsafe.Pointer(&b[0]), n, nil) != 0 {
		return nil
	}
	return b
}

func deviceString(d handle, what uint32) string {
	return strings.TrimSpace(strings.TrimRight(string(deviceInfo(d, what)), "\x00"))
}

// deviceUint reads an integer of 4 or 8 bytes; 0 where it is unknown.
func deviceUint(d handle, what uint32) uint64 {
	switch b := deviceInfo(d, what); len(b) {
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	case 8:
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

// kernelArg describes argument i of a kernel: address space and type qualifiers
// as OpenCL has them, name and type.
func kernelArg(k handle, i int) (address uint32, qualifier uint64, name, typ string, status int32) {
	var a C.uint32_t
	var q C.uint64_t
	var n, t [256]C.char
	st := C.gw_kernel_arg(k, C.uint32_t(i), &a, &q, &n[0], 256, &t[0], 256)
	return uint32(a), uint64(q), C.GoString(&n[0]), C.GoString(&t[0]), int32(st)
}

// kernelNames are the names of a program's kernels. Where there is none, OpenCL is not
// asked for names, and only an executable has none.
func kernelNames(p handle) ([]string, int32) {
	if b, st := programInfo(p, programKernels); st != 0 || len(b) == 8 && binary.NativeEndian.Uint64(b) == 0 {
		if st == 0 && !executable(p) {
			st = int32(mem.InvalidProgramExecutable)
		}
		return nil, st
	}
	var n C.size_t
	if st := C.gw_kernel_names(p, nil, 0, &n); st != 0 || n <= 1 {
		return nil, int32(st)
	}
	b := make([]byte, n)
	st := C.gw_kernel_names(p, (*C.char)(unsafe.Pointer(&b[0])), n, nil)
	return strings.Split(strings.TrimRight(string(b), "\x00"), ";"), int32(st)
}

// executable reports whether p has been built, or linked, for any device.
func executable(p handle) bool {
	devs, _ := programInfo(p, programDevices)
	for d := range slices.Chunk(devs, 8) {
		b, st := buildInfo(p, handle(binary.NativeEndian.Uint64(d)), buildType)
		if st == 0 && len(b) == 4 && binary.NativeEndian.Uint32(b) == typeExecutable {
			return true
		}
	}
	return false
}

// buildLog is what the compiler said for a device, and whether it failed there.
func buildLog(p, d handle) (log string, failed bool) {
	var n C.size_t
	var st C.int32_t
	if C.gw_build_log(p, d, nil, 0, &n, &st) != 0 || n == 0 {
		return "", st == C.CL_BUILD_ERROR
	}
	b := make([]byte, n)
	C.gw_build_log(p, d, (*C.char)(unsafe.Pointer(&b[0])), n, nil, &st)
	return strings.TrimSpace(strings.TrimRight(string(b), "\x00")), st == C.CL_BUILD_ERROR
}

// pin makes page-locked host memory, mapped by way of queue.
func pin(context, queue handle, size uint64) (addr uint64, m handle, status int32) {
	var err C.cl_int
	p := C.gw_pin(context, queue, C.size_t(size), &m, &err)
	return uint64(uintptr(p)), m, int32(err)
}

func unpin(queue, m handle, addr uint64) {
	C.gw_unpin(queue, m, unsafe.Pointer(&storage.BytesAt(addr, 1)[0]))
}

// move enqueues and starts a transfer between page-locked bytes and off of a buffer.
func move(queue, m handle, off uint64, bytes []byte, write bool) (event handle, status int32) {
	w := C.int(0)
	if write {
		w = 1
	}
	st := C.gw_move(queue, m, C.size_t(off), C.size_t(len(bytes)), unsafe.Pointer(&bytes[0]), w, &event)
	return event, int32(st)
}

// moved waits for the end of a transfer, lets its event go, and returns its status
// and, where t is not nil, times.
func moved(event handle, t *[4]uint64) int32 {
	return int32(C.gw_moved(event, (*C.uint64_t)(unsafe.Pointer(t))))
}

// ring is a staged way from one device to another; see ring.c.
type ring = *C.gw_ring

func newRing(host uintptr, bytes uint64, read, write handle, flush bool) ring {
	f := C.int(0)
	if flush {
		f = 1
	}
	return C.gw_ring_new(handle(host), C.size_t(bytes), read, write, f)
}

func freeRing(r ring) { C.gw_ring_free(r) }

// ringCopy enqueues c in chunks of at most so many bytes.
func ringCopy(r ring, c *nativeCmd, chunk uint64, waits []handle, t tag) C.cl_int {
	c.nwaits = C.uint32_t(len(waits))
	return C.gw_ring_copy(r, c, C.size_t(chunk), first(waits), t)
}

// Counts are objects of each kind, by OpenCL's names.
type Counts struct {
	Contexts, Queues, Buffers, Programs, Kernels, Events int64
}

// Objects returns how many cl objects this process has created and released
// through this package and go-opencl, so far.
func Objects() (created, released Counts) {
	var c, r [C.GW_KINDS]C.int64_t
	C.gw_counts(&c[0], &r[0])
	return counts(c), counts(r)
}

func counts(c [C.GW_KINDS]C.int64_t) Counts {
	return Counts{int64(c[C.GW_CONTEXT]), int64(c[C.GW_QUEUE]), int64(c[C.GW_MEM]),
		int64(c[C.GW_PROGRAM]), int64(c[C.GW_KERNEL]), int64(c[C.GW_EVENT])}
}

// Places where tests make OpenCL report errors.
const (
	faultEnqueue = 0
	faultCreate  = 1
	faultEnd     = 2
)

// injectFault makes the nth call from now report status; nth 0 disarms.
func injectFault(op, nth int, status int32) { C.gw_fault(C.int(op), C.int(nth), C.cl_int(status)) }
