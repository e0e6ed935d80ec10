package pool_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/internal/resource"
	"godwit/lib/pool"
	"godwit/mem"
	"godwit/runtime"
)

// allocator is a DeviceAllocator over a device of the given bytes with a stack
// of o.
func allocator(t *testing.T, bytes uint64, o pool.StackOptions) (*pool.DeviceAllocator, *runtime.Context, devices.Device) {
	t.Helper()
	d, err := cpu.New(cpu.Options{Name: "cpu0", Memory: bytes})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true, Resource: pool.Stack(o), NoEviction: true})
	require.NoError(t, err)
	a, err := pool.NewDeviceAllocator(c, d)
	require.NoError(t, err)
	t.Cleanup(func() {
		if a.Initialized() {
			require.NoError(t, a.Close())
		}
		require.NoError(t, c.Close(bg))
	})
	return a, c, d
}

func take(t *testing.T, a *pool.DeviceAllocator, size uint64, name string) *pool.Allocation {
	t.Helper()
	h, err := a.Allocate(bg, size, name)
	require.NoError(t, err)
	return h
}

func TestAnAllocatorTakesMemoryWhenAskedAndCountsIt(t *testing.T) {
	a, _, _ := allocator(t, 1<<20, pool.StackOptions{Pool: &resource.PoolOptions{Slab: 1 << 18}})
	require.True(t, a.Initialized())
	empty := take(t, a, 0, "")
	require.Zero(t, empty.Size())
	require.Nil(t, empty.Buffer())
	h := take(t, a, 1000, "weights")
	f, ok := a.Stats()
	require.True(t, ok)
	require.EqualValues(t, 1000, f.Allocated.Current)
	require.EqualValues(t, 1<<18, f.Reserved.Current)
	require.NoError(t, h.Release())
	require.ErrorIs(t, h.Release(), pool.ErrReturned)
	require.NoError(t, empty.Release())
	f, _ = a.Stats()
	require.Zero(t, f.Allocated.Current)
	require.EqualValues(t, 1000, f.Allocated.Peak)
	require.EqualValues(t, 1<<18, f.Reserved.Current, "cached")
	require.EqualValues(t, 1<<18, a.EmptyCache())
	f, _ = a.Stats()
	require.Zero(t, f.Reserved.Current)
	a.ResetPeak()
	a.ResetAccumulated()
	f, _ = a.Stats()
	require.Zero(t, f.Allocated.Peak+f.Allocated.Accumulated)
}

func certificate(t *testing.T, err error) *resource.OutOfMemory {
	t.Helper()
	require.ErrorIs(t, err, mem.ErrNoMemory)
	var oom *resource.OutOfMemory
	require.True(t, errors.As(err, &oom), "%v", err)
	require.Equal(t, mem.MemObjectAllocationFailure, mem.StatusOf(err))
	return oom
}

func TestOutOfMemoryIsACertificate(t *testing.T) {
	const kib = 1 << 10
	carve := &resource.PoolOptions{Slab: 64 * kib}
	t.Run("capacity", func(t *testing.T) {
		a, _, _ := allocator(t, 64*kib, pool.StackOptions{Pool: carve})
		h := take(t, a, 40*kib, "weights")
		defer func() { require.NoError(t, h.Release()) }()
		_, err := a.Allocate(bg, 32*kib, "more")
		oom := certificate(t, err)
		require.Equal(t, resource.Capacity, oom.Verdict)
		require.EqualValues(t, 24*kib, oom.Free)
		require.EqualValues(t, 24*kib, oom.LargestHole)
		require.Len(t, oom.Release, 1)
		require.Equal(t, "weights", oom.Release[0].Name)
		require.ErrorContains(t, err, "cpu0: out of memory: 32 KiB asked for; 24 KiB free, largest hole 24 KiB")
		require.ErrorContains(t, err, "releasing these would do: weights 40 KiB")
		f, _ := a.Stats()
		require.EqualValues(t, 1, f.OutOfMemory, "counted once")
	})
	t.Run("fragmentation", func(t *testing.T) {
		a, _, _ := allocator(t, 64*kib, pool.StackOptions{Pool: carve})
		var hs []*pool.Allocation
		for _, name := range []string{"a", "b", "c", "d"} {
			hs = append(hs, take(t, a, 16*kib, name))
		}
		require.NoError(t, hs[0].Release())
		require.NoError(t, hs[2].Release())
		_, err := a.Allocate(bg, 32*kib, "")
		oom := certificate(t, err)
		require.Equal(t, resource.Fragmentation, oom.Verdict)
		require.EqualValues(t, 32*kib, oom.Free)
		require.EqualValues(t, 16*kib, oom.LargestHole)
		require.Len(t, oom.Release, 1, "either neighbour of a hole will do")
		_, frag := a.LargestFree()
		require.InDelta(t, 0.5, frag, 1e-9)
		more := []*pool.Allocation{take(t, a, 16*kib, "e"), take(t, a, 16*kib, "f")}
		largest, frag := a.LargestFree()
		require.Zero(t, largest)
		require.Zero(t, frag, "nothing is free")
		for _, h := range more {
			require.NoError(t, h.Release())
		}
		require.NoError(t, hs[1].Release())
		h := take(t, a, 32*kib, "")
		for _, h := range []*pool.Allocation{h, hs[3]} {
			require.NoError(t, h.Release())
		}
	})
	t.Run("pending", func(t *testing.T) {
		a, c, d := allocator(t, 64*kib, pool.StackOptions{Pool: carve})
		q, err := c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		gate, err := c.NewUserEvent()
		require.NoError(t, err)
		h := take(t, a, 48*kib, "busy")
		_, err = q.EnqueueFill(bg, h.Buffer(), []byte{1}, 0, 48*kib, gate)
		require.NoError(t, err)
		require.NoError(t, h.Release())
		_, err = a.Allocate(bg, 32*kib, "")
		oom := certificate(t, err)
		require.Equal(t, resource.Pending, oom.Verdict)
		require.EqualValues(t, 48*kib, oom.Pending)
		require.NoError(t, gate.SetStatus(runtime.Complete))
		require.NoError(t, q.Finish(bg))
		require.NoError(t, take(t, a, 32*kib, "").Release())
	})
	t.Run("budget", func(t *testing.T) {
		a, _, _ := allocator(t, 64*kib, pool.StackOptions{Limit: 16 * kib})
		small, big := take(t, a, 2*kib, "small"), take(t, a, 10*kib, "big")
		_, err := a.Allocate(bg, 8*kib, "")
		oom := certificate(t, err)
		require.Equal(t, resource.Budget, oom.Verdict)
		require.Len(t, oom.Release, 1)
		require.Equal(t, "big", oom.Release[0].Name)
		require.NoError(t, small.Release())
		require.NoError(t, big.Release())
	})
}

func TestRecordStreamKeepsMemoryUntilTheStreamHasPassed(t *testing.T) {
	a, c, d := allocator(t, 1<<16, pool.StackOptions{})
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	require.NoError(t, err)
	gate, err := c.NewUserEvent()
	require.NoError(t, err)
	_, err = q.EnqueueMarker(bg, gate) // stands for a command on a native handle
	require.NoError(t, err)
	h := take(t, a, 1<<15, "")
	require.NoError(t, h.RecordStream(q))
	require.NoError(t, h.Release())
	require.ErrorIs(t, h.RecordStream(q), pool.ErrReturned)
	_, err = a.Allocate(bg, 1<<16, "")
	require.NotNil(t, certificate(t, err))
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, a.Close())
	require.False(t, a.Initialized())
	require.Zero(t, c.Resource(1).Stats().Live)
	require.ErrorIs(t, a.Close(), mem.ErrClosed)
	_, err = a.Allocate(bg, 1, "")
	require.ErrorIs(t, err, mem.ErrClosed)
}

func TestCopyDataWithinADeviceBetweenDevicesAndBetweenContexts(t *testing.T) {
	a, c1, d1 := allocator(t, 1<<16, pool.StackOptions{})
	other, _, _ := allocator(t, 1<<16, pool.StackOptions{})
	cd, err := cpu.New(cpu.Options{Name: "cpu1"})
	require.NoError(t, err)
	td, err := tce.New(tce.Options{Name: "tce0"})
	require.NoError(t, err)
	c2, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{cd, td}, OwnDevices: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, c2.Close(bg)) }()
	b1, err := pool.NewDeviceAllocator(c2, cd)
	require.NoError(t, err)
	b2, err := pool.NewDeviceAllocator(c2, td)
	require.NoError(t, err)

	want := bytes.Repeat([]byte("godwit"), 100)
	src := take(t, a, 600, "")
	q, err := c1.NewQueue(d1, runtime.QueueOptions{})
	require.NoError(t, err)
	_, err = q.EnqueueWrite(bg, src.Buffer(), 0, want)
	require.NoError(t, err)
	chain := []*pool.Allocation{src, take(t, a, 600, ""), take(t, other, 700, ""), take(t, b1, 600, ""), take(t, b2, 600, ""), take(t, a, 600, "")}
	for i := range len(chain) - 1 {
		require.NoError(t, pool.CopyData(bg, chain[i+1], chain[i], 600))
	}
	got := make([]byte, 600)
	_, err = q.EnqueueRead(bg, chain[len(chain)-1].Buffer(), 0, got)
	require.NoError(t, err)
	require.NoError(t, q.Finish(bg))
	require.Equal(t, want, got)
	require.ErrorIs(t, pool.CopyData(bg, chain[1], chain[2], 601), mem.ErrInvalidValue)
	for _, h := range chain {
		require.NoError(t, h.Release())
	}
	require.NoError(t, b1.Close())
	require.NoError(t, b2.Close())
}

func TestCloseNamesWhatWasNotReleased(t *testing.T) {
	a, _, _ := allocator(t, 1<<16, pool.StackOptions{})
	take(t, a, 100, "lost")
	err := a.Close()
	require.ErrorIs(t, err, runtime.ErrLeak)
	require.ErrorContains(t, err, "100 bytes not released")
}
