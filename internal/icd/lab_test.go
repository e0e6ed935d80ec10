//go:build cgo

package icd

import (
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The tests call the entries as C does, in process: what the race detector
// cannot see in a shared library it sees here.

func init() {
	for name, v := range map[string]string{"POCL_DEVICES": "pthread pthread", "GODWIT_DEVICES": "3"} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, v) // three devices over two real ones
		}
	}
}

// lab is a context over all devices, with a queue for each.
type lab struct {
	*testing.T
	ctx, other   uintptr // contexts
	devs, queues []uintptr
}

// at is the address of a value, as C passes it.
func at[T any](v *T) unsafe.Pointer { return unsafe.Pointer(v) }

// cstr is a text with its final zero.
func cstr(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s + "\x00")) }

func newLab(t *testing.T) *lab {
	t.Helper()
	p := start()
	if p == nil {
		t.Skip("no OpenCL here")
	}
	l := &lab{T: t}
	for _, d := range p.devices {
		l.devs = append(l.devs, d.self)
	}
	l.ctx = l.make(gwCreateContext(nil, uint32(len(l.devs)), at(&l.devs[0]), nil, nil))
	l.other = l.make(gwCreateContext(nil, 1, at(&l.devs[0]), nil, nil))
	for _, d := range l.devs {
		l.queues = append(l.queues, l.make(gwCreateCommandQueue(l.ctx, d, 0)))
	}
	return l
}

// make is given an object that was created; the program's reference is given up when
// the test ends.
func (l *lab) make(h uintptr, st int32) uintptr {
	l.Helper()
	l.Cleanup(func() { release(h) })
	return l.made(h, st)
}

// made is the same, of an object that the test releases.
func (l *lab) made(h uintptr, st int32) uintptr {
	l.Helper()
	require.Zero(l, st)
	require.NotZero(l, h)
	return h
}

// live counts the objects of a kind.
func live[T any](t *table[T]) (n int) {
	for i := range t.pages {
		if page := t.pages[i].Load(); page != nil {
			for k := range page {
				if page[k].Load() != nil {
					n++
				}
			}
		}
	}
	return n
}

// refused expects that nothing is created, with a status.
func refused(h uintptr, st int32) int32 {
	if h != 0 {
		release(h)
		return clSuccess
	}
	return st
}

// source is a program of OpenCL C.
func (l *lab) source(text string) uintptr {
	l.Helper()
	s, n := unsafe.Pointer(unsafe.StringData(text)), uint64(len(text))
	return l.make(gwCreateProgramWithSource(l.ctx, 1, at(&s), at(&n)))
}

// build builds a program for all devices.
func (l *lab) build(p uintptr) uintptr {
	l.Helper()
	require.Zero(l, gwBuildProgram(p, 0, nil, cstr("-DA=1"), nil, nil))
	return p
}

func (l *lab) kernel(p uintptr, name string) uintptr {
	l.Helper()
	return l.make(gwCreateKernel(p, cstr(name)))
}

// ints is a buffer with values.
func (l *lab) ints(v ...int32) uintptr {
	l.Helper()
	const copyHostPtr = 1 << 5
	return l.make(gwCreateBuffer(l.ctx, copyHostPtr, uint64(4*len(v)), at(&v[0])))
}

// read is the content of a buffer by way of a queue.
func (l *lab) read(q, m uintptr, n int) []int32 {
	l.Helper()
	got := make([]int32, n)
	require.Zero(l, gwEnqueueReadBuffer(q, m, 1, 0, uint64(4*n), at(&got[0]), 0, nil, nil))
	return got
}

// set sets arguments: buffers by handle (uintptr), values by pointer.
func (l *lab) set(k uintptr, args ...any) {
	l.Helper()
	for i, a := range args {
		switch a := a.(type) {
		case uintptr:
			require.Zero(l, gwSetKernelArg(k, uint32(i), 8, at(&a)), "argument %d", i)
		case int32:
			require.Zero(l, gwSetKernelArg(k, uint32(i), 4, at(&a)), "argument %d", i)
		case localBytes:
			require.Zero(l, gwSetKernelArg(k, uint32(i), uint64(a), nil), "argument %d", i)
		default:
			l.Fatalf("argument %d: %T", i, a)
		}
	}
}

type localBytes uint64

// launch enqueues over one dimension; local 0 is NULL.
func launch(q, k uintptr, global, local uint64) int32 {
	if local == 0 {
		return gwEnqueueNDRangeKernel(q, k, 1, nil, at(&global), nil, 0, nil, nil)
	}
	return gwEnqueueNDRangeKernel(q, k, 1, nil, at(&global), at(&local), 0, nil, nil)
}

// word and texts are answers of info queries.
func word[T any](l *lab, query func(room uint64, value, size unsafe.Pointer) int32) T {
	l.Helper()
	var v T
	var n uint64
	require.Zero(l, query(0, nil, at(&n)))
	require.EqualValues(l, unsafe.Sizeof(v), n)
	require.Zero(l, query(n, at(&v), nil))
	require.Equal(l, clInvalidValue, query(n-1, at(&v), nil))
	return v
}

func list(l *lab, query func(room uint64, value, size unsafe.Pointer) int32) []byte {
	l.Helper()
	var n uint64
	require.Zero(l, query(0, nil, at(&n)))
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	require.Zero(l, query(n, at(&b[0]), nil))
	require.Equal(l, clInvalidValue, query(n-1, at(&b[0]), nil))
	return b
}

func str(l *lab, query func(room uint64, value, size unsafe.Pointer) int32) string {
	l.Helper()
	b := list(l, query)
	require.NotEmpty(l, b)
	require.Zero(l, b[len(b)-1])
	return string(b[:len(b)-1])
}
