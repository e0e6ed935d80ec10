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
)

//go:embed testdata/fake.c
var source []byte

// Fake is the library, loaded.
type Fake struct {
	Library string // its path
	handle  unsafe.Pointer
}

// Open loads the library at path, or builds it in the folder at path first.
func Open(path string) (*Fake, error) {
	if at, err := os.Stat(path); err == nil && at.IsDir() {
		from := filepath.Join(path, "fake.c")
		path = filepath.Join(path, "libcuda-fake.so")
		if err := compile(from, source, path, "-lpthread"); err != nil {
			return nil, err
		}
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	f := &Fake{path, C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)}
	if f.handle == nil {
		return nil, fmt.Errorf("%s: %s", path, C.GoString(C.dlerror()))
	}
	return f, nil
}

// compile makes a library of source, which it writes to a file.
func compile(from string, source []byte, to string, libraries ...string) error {
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return err
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if out, err := exec.Command(cc, append([]string{"-O1", "-g", "-shared", "-fPIC", "-o", to, from}, libraries...)...).CombinedOutput(); err != nil { //nolint:gosec,noctx // the compiler of cgo
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
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
func (*Fake) UUID(gpu int) (u [16]byte) {
	for i := range u {
		u[i] = byte(gpu + 1)
	}
	return u
}

// Fail has so many calls, from the nth from now on, fail with CUDA_ERROR_LAUNCH_FAILED, 719; 0 times is none. With
// more than two all contexts die, as if Lose had been called.
func (f *Fake) Fail(nth, times int) { f.call("fake_fail", int64(nth), int64(times), 719) }

// RunOut is Fail with CUDA_ERROR_OUT_OF_MEMORY, of which no context dies.
func (f *Fake) RunOut(nth, times int) { f.call("fake_fail", int64(nth), int64(times), 2) }

// Calls is how many calls there were since Fail or RunOut.
func (f *Fake) Calls() int { return int(f.call("fake_calls")) }

// Slow has each MiB of a copy take so long.
func (f *Fake) Slow(d time.Duration) { f.call("fake_slow", int64(d)) }

// Capacity is how much memory each GPU has, in bytes.
func (f *Fake) Capacity(bytes int64) { f.call("fake_capacity", bytes) }

// Late has memory come back so long after it was released.
func (f *Fake) Late(d time.Duration) { f.call("fake_late", int64(d)) }

// Peak is the most memory that a GPU had in use since Capacity, in bytes.
func (f *Fake) Peak() int64 { return f.call("fake_peak") }

// InChild forks, and says what the child found: "" where package nvlink, which the program must have, refused it.
func (*Fake) InChild() string {
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
func (*Fake) Exit() { C.exit(0) }

// Live returns what there is.
func (f *Fake) Live() (l struct{ Memories, Mappings, Contexts, Streams, Events int64 }) {
	out := C.malloc(C.size_t(unsafe.Sizeof(l)))
	defer C.free(out)
	f.call("fake_live", int64(uintptr(out)))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&l)), unsafe.Sizeof(l)), unsafe.Slice((*byte)(out), unsafe.Sizeof(l)))
	return l
}

// Violations are what was forbidden and happened since the last call, a line each.
func (f *Fake) Violations() string {
	out := C.malloc(4096)
	defer C.free(out)
	f.call("fake_violations", int64(uintptr(out)), 4096)
	return C.GoString((*C.char)(out))
}

// Map maps a window's descriptor, as an import does, and closes it.
func (*Fake) Map(fd int, size uint64) ([]byte, error) {
	defer func() { _ = syscall.Close(fd) }()
	return syscall.Mmap(fd, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// Sink is told of the ends of copies.
type Sink struct{ c *C.gw_test_sink }

// NewSink makes a sink.
func (*Fake) NewSink() *Sink { return &Sink{C.gw_test_sink_new()} }

// Hook is what a copy tells: a function, and its argument.
func (s *Sink) Hook() (f, arg uintptr) {
	return uintptr(C.gw_test_ended), uintptr(unsafe.Pointer(s.c))
}

// Take waits for the oldest end that nobody has taken, of the copy id; ok is false where none comes for patience.
func (s *Sink) Take(patience time.Duration) (id uint64, status int32, ok bool) {
	var e C.gw_ended
	ok = C.gw_test_take(s.c, &e, C.int64_t(patience)) != 0
	return uint64(e.id), int32(e.status), ok
}

// Free gives the sink's memory back.
func (s *Sink) Free() { C.gw_test_sink_free(s.c) }

// Gate is a gate that a test opens.
type Gate struct{ status *int32 }

// NewGate makes a gate that is closed.
func (*Fake) NewGate() *Gate { return &Gate{(*int32)(C.calloc(1, 8))} }

// Poll is what a copy asks: a function, and its argument.
func (g *Gate) Poll() (f, arg uintptr) {
	return uintptr(C.gw_test_poll), uintptr(unsafe.Pointer(g.status))
}

// Set opens the gate, with 1, or fails it.
func (g *Gate) Set(status int32) { atomic.StoreInt32(g.status, status) }
