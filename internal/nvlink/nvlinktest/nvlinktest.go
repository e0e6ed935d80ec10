//go:build cgo

// Package nvlinktest has a fake of CUDA's driver library, and what a test needs to start
// copies with it: hooks and gates.
//
// The fake is a shared object, built with the C compiler that cgo uses. Its memory is files in
// memory, so that who imports a window's descriptor maps it; its streams are threads. It fails calls
// on request, is as slow as asked for, loses contexts, and notes what is forbidden. GODWIT_FAKE_GPUS is
// how many GPUs it has, 2 where it is not set; GPU i has a UUID of 16 bytes i+1.
package nvlinktest

// #cgo LDFLAGS: -ldl -lpthread
// #cgo noescape gw_test_take
// #cgo nocallback gw_test_take
// #include <dlfcn.h>
// #include <stdlib.h>
// #include "hooks.h"
import "C"

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"godwit/internal/nvlink"
)

//go:embed testdata/fake.c
var source []byte

// Results of CUDA's for Fail.
const (
	OutOfMemory = 2
	Failed      = 719
)

// Fake is the library, loaded.
type Fake struct {
	Library string // its path
	handle  unsafe.Pointer
}

// Build builds the library in a folder and loads it.
func Build(dir string) (*Fake, error) {
	from, to := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libcuda-fake.so")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return nil, err
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if out, err := exec.Command(cc, "-O1", "-g", "-shared", "-fPIC", "-o", to, from, "-lpthread").CombinedOutput(); err != nil { //nolint:gosec,noctx // the compiler of cgo
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return Load(to)
}

// Load loads a library that Build has built.
func Load(library string) (*Fake, error) {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	f := &Fake{library, C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)}
	if f.handle == nil {
		return nil, fmt.Errorf("%s: %s", library, C.GoString(C.dlerror()))
	}
	return f, nil
}

func (f *Fake) call(name string, args ...int64) int64 {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var a [3]C.int64_t
	for i, v := range args {
		a[i] = C.int64_t(v)
	}
	return int64(C.gw_test_call(C.dlsym(f.handle, n), a[0], a[1], a[2]))
}

// UUID is the name of a GPU.
func UUID(gpu int) (u nvlink.UUID) {
	for i := range u {
		u[i] = byte(gpu + 1)
	}
	return u
}

// Fail has so many calls, from the nth from now on, fail with a CUresult; 0 times is none. With
// more than two that are Failed all contexts die, as if Lose had been called.
func (f *Fake) Fail(nth, times, code int) { f.call("fake_fail", int64(nth), int64(times), int64(code)) }

// Calls is how many calls there were since Fail.
func (f *Fake) Calls() int { return int(f.call("fake_calls")) }

// Slow has each MiB of a copy take so long.
func (f *Fake) Slow(d time.Duration) { f.call("fake_slow", int64(d)) }

// Capacity is how much memory each GPU has, in bytes.
func (f *Fake) Capacity(bytes int64) { f.call("fake_capacity", bytes) }

// Late has memory come back so long after it was released.
func (f *Fake) Late(d time.Duration) { f.call("fake_late", int64(d)) }

// Peak is the most memory that a GPU had in use since Capacity, in bytes.
func (f *Fake) Peak() int64 { return f.call("fake_peak") }

// InChild forks, and says what the child found: "" where package nvlink refused it.
func InChild() string {
	switch status := C.gw_test_in_child(); status {
	case 0:
		return ""
	case 1:
		return "the child does not know that it is one"
	case 2:
		return "the child was let in"
	default:
		return fmt.Sprintf("the child did not end: %d", int(status))
	}
}

// Lose has the contexts of a GPU die; nothing of them touches memory from then on.
func (f *Fake) Lose(gpu int) { f.call("fake_lose", int64(gpu), 1) }

// Revive has contexts live again.
func (f *Fake) Revive(gpu int) { f.call("fake_lose", int64(gpu), 0) }

// Forbid says that the calling thread is the program's, where CUDA may not be called.
func (f *Fake) Forbid(on bool) {
	v := int64(0)
	if on {
		v = 1
	}
	f.call("fake_forbid", v)
}

// Exit ends the process as a C program ends, with all its handlers of exit.
func Exit() { C.exit(0) }

// Live is what there is.
type Live struct{ Memories, Mappings, Contexts, Streams, Events int64 }

// Live returns what there is.
func (f *Fake) Live() (l Live) {
	out := (*Live)(C.malloc(C.size_t(unsafe.Sizeof(l))))
	defer C.free(unsafe.Pointer(out))
	f.call("fake_live", int64(uintptr(unsafe.Pointer(out))))
	return *out
}

// Violations are what was forbidden and happened since the last call, a line each.
func (f *Fake) Violations() string {
	out := C.malloc(4096)
	defer C.free(out)
	f.call("fake_violations", int64(uintptr(out)), 4096)
	return C.GoString((*C.char)(out))
}

// Map maps a window's descriptor, as an import does, and closes it.
func Map(fd int, size uint64) ([]byte, error) {
	defer func() { _ = syscall.Close(fd) }()
	return syscall.Mmap(fd, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// Sink is told of the ends of copies.
type Sink struct{ c *C.gw_test_sink }

// NewSink makes a sink.
func NewSink() *Sink { return &Sink{C.gw_test_sink_new()} }

// Hook is what a copy tells.
func (s *Sink) Hook() nvlink.Hook {
	return nvlink.Hook{Func: uintptr(C.gw_test_ended), Arg: uintptr(unsafe.Pointer(s.c))}
}

// Ended is the end of a copy.
type Ended struct {
	ID     uint64
	Status int32
	_      int32
}

// Take waits for the oldest end that nobody has taken; ok is false where none comes within a minute.
func (s *Sink) Take() (e Ended, ok bool) {
	ok = C.gw_test_take(s.c, (*C.gw_ended)(unsafe.Pointer(&e)), C.int64_t(time.Minute)) != 0
	return e, ok
}

// None reports whether no end comes for d.
func (s *Sink) None(d time.Duration) bool {
	var e Ended
	return C.gw_test_take(s.c, (*C.gw_ended)(unsafe.Pointer(&e)), C.int64_t(d)) == 0
}

// Free gives the sink's memory back.
func (s *Sink) Free() { C.gw_test_sink_free(s.c) }

// Gate is a gate that a test opens.
type Gate struct{ status *int32 }

// NewGate makes a gate that is closed.
func NewGate() *Gate { return &Gate{(*int32)(C.calloc(1, 8))} }

// Gate is what a copy waits for.
func (g *Gate) Gate() nvlink.Gate {
	return nvlink.Gate{Poll: uintptr(C.gw_test_poll), Arg: uintptr(unsafe.Pointer(g.status))}
}

// Set opens the gate, with 1, or fails it.
func (g *Gate) Set(status int32) { atomic.StoreInt32(g.status, status) }
