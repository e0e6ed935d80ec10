package runtime_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

// noSVM is a device without shared virtual memory.
type noSVM struct{ devices.Device }

func (d noSVM) Unwrap() devices.Device { return devicetest.Unwrap(d.Device) }

func (d noSVM) Info() devices.Info {
	info := d.Device.Info()
	info.SVM = devices.SVMCaps{Why: "a test"}
	return info
}

// A device whose kernels cannot have pointers still uses the buffer, on any command.
func TestABufferOverAPointerIsMappedOnDevicesWithoutSharedVirtualMemory(t *testing.T) {
	c := must(cpu.New(cpu.Options{}))
	d := must(tce.New(tce.Options{}))
	without := noSVM{devicetest.FailNth(d, new(devicetest.Submits))}
	h := build(t, runtime.Options{Devices: []devices.Device{c, without}, SVMSize: 1 << 20}, runtime.QueueOptions{})
	ctx := soon(t)
	p := must(h.c.SVMAlloc(4096, 0, 0))
	bytes := must(h.c.SVMBytes(p, 4096))
	b := h.create(4096, runtime.UseHostPtr, bytes)
	h.done(h.ok(h.q[1].EnqueueFill(ctx, b, []byte{3}, 0, 4096)))
	_, _, err := h.q[1].EnqueueSVMMap(ctx, p, 4096, runtime.SVMMapRead)
	require.ErrorIs(t, err, mem.ErrInvalidOperation, "by pointer")
	m := must(h.q[1].Map(ctx, b, 0, 4096, runtime.MapRead|runtime.MapWrite))
	require.Equal(t, byte(3), m.Bytes()[4095])
	m.Bytes()[0] = 4
	h.done(h.ok(h.q[1].EnqueueUnmap(ctx, m)))
	got := make([]byte, 2)
	h.done(h.ok(h.q[1].EnqueueRead(ctx, b, 0, got)))
	require.Equal(t, []byte{4, 3}, got)
	require.NoError(t, b.Release())
	require.NoError(t, h.c.SVMFree(p))
}

func TestARectanglePassesOverMappedBytes(t *testing.T) {
	h := svmBuild(t)
	ctx := soon(t)
	p := h.alloc(4096, 0)
	bytes := must(h.c.SVMBytes(p, 4096))
	b := h.create(4096, runtime.UseHostPtr, bytes)
	defer func() { require.NoError(t, b.Release()) }()
	h.ends(h.q[own].EnqueueSVMFill(ctx, p, []byte{5}, 4096))
	between := h.mapped(own, p+64, 64, runtime.SVMMapWrite)
	rows := runtime.Box{Row: 128} // of 64 bytes at 0, 128, ...
	write := func(at runtime.Box) (runtime.Event, error) {
		return h.q[sim].EnqueueWriteRect(ctx, b, at, make([]byte, 256), runtime.Box{}, [3]uint64{64, 4, 1})
	}
	h.ends(write(rows))
	rows.Origin[0] = 60
	_, err := write(rows)
	require.ErrorIs(t, err, svm.ErrMapped, "four bytes of it are mapped")
	between[0] = 9
	h.unmap(own, p+64)
	got := make([]byte, 129)
	h.ends(h.q[sim].EnqueueSVMRead(ctx, p, got))
	require.Equal(t, []byte{0, 9, 5, 5, 0}, []byte{got[63], got[64], got[65], got[127], got[128]})
}

func TestABufferIsNotLargerThanTheSharedVirtualMemoryItIsMadeOf(t *testing.T) {
	h := svmBuild(t)
	p := h.alloc(4096, 0)
	h.alloc(4096, 0) // so that more bytes follow that are shared virtual memory
	whole := must(h.c.SVMBytes(p, 4096))
	more := unsafe.Slice(&whole[0], 4097)
	_, err := h.c.CreateBuffer(4097, runtime.UseHostPtr, more)
	require.ErrorIs(t, err, mem.ErrInvalidSize)
	require.Equal(t, mem.InvalidBufferSize, mem.StatusOf(err))
	require.ErrorContains(t, err, "4097 bytes")
	_, err = h.c.CreateBuffer(4096, runtime.UseHostPtr, more[1:])
	require.ErrorIs(t, err, mem.ErrInvalidSize, "from its second byte on")
	b := h.create(4095, runtime.UseHostPtr, whole[1:])
	require.NoError(t, b.Release())
}

func TestABufferOverAPointerIsGoneBeforeThePointerIs(t *testing.T) {
	h := svmBuild(t)
	bytes := must(h.c.SVMBytes(h.alloc(4096, 0), 2048))
	b := h.create(2048, runtime.UseHostPtr, bytes)
	gone := make(chan struct{})
	require.NoError(t, b.OnRelease(func() { close(gone) }))
	require.NoError(t, b.Release())
	select {
	case <-gone:
	case <-soon(t).Done():
		t.Fatal("it waits for the pointer to be freed")
	}
}
