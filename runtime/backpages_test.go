package runtime_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/mem"
	"godwit/runtime"
)

// To lock pages takes long, so other threads go on meanwhile; and what was locked for
// nothing is given back.
func TestPagesForWriteBacksAreNotLockedUnderThePlannersLock(t *testing.T) {
	const size = 1 << 20
	for _, refused := range []bool{false, true} {
		d := must(cpu.New(cpu.Options{Memory: 4 * size}))
		var built atomic.Pointer[runtime.Context]
		var asked atomic.Int64
		family := &devicetest.Family{OnLock: func() { // by the mover, for staging, too
			c := built.Load()
			if c == nil {
				return
			}
			asked.Add(1)
			done := make(chan struct{})
			go func() { c.Stats(); close(done) }()
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				t.Error("another thread has to wait")
			}
		}}
		h := build(t, runtime.Options{Devices: []devices.Device{devicetest.NewBus(d, family)}, WholeBelow: 2 * size}, outOfOrder)
		built.Store(h.c)
		family.NoLocks.Store(refused)
		q := h.q[0]
		var all []*runtime.Buffer
		paint := func(i int) { h.ok(q.EnqueueFill(soon(t), all[i], []byte{byte(i)}, 0, size)) }
		for i := range 12 {
			all = append(all, h.buffer(size, nil))
			paint(i)
			require.NoError(t, h.c.Check())
		}
		dropped := h.buffer(size, nil)
		h.ok(q.EnqueueFill(soon(t), dropped, []byte{99}, 0, size))
		require.NoError(t, dropped.Drop(h.devs[0]))
		require.Positive(t, h.c.Stats().BytesWrittenBack)
		require.Positive(t, asked.Load())
		if !refused {
			require.GreaterOrEqual(t, asked.Load(), int64(h.c.Stats().BytesWrittenBack/size))
		}
		for i, b := range append(all, dropped) {
			got, v := make([]byte, size), byte(i)
			if b == dropped {
				v = 99
			}
			h.ended(h.ok(q.EnqueueRead(soon(t), b, 0, got)))
			require.Equal(t, bytes.Repeat([]byte{v}, size), got)
			require.NoError(t, b.Release())
		}
	}
}

// A program that is asked for room may close the context, though the enqueue has locked
// pages before it found that there is none.
func TestAContextIsClosedByWhoIsAskedForRoom(t *testing.T) {
	const size = 1 << 20
	d := must(cpu.New(cpu.Options{Memory: 4 * size}))
	var pin atomic.Pointer[runtime.Buffer]
	var bus devices.Device
	family := &devicetest.Family{OnLock: func() {
		if b := pin.Swap(nil); b != nil {
			require.NoError(t, b.Pin(bus))
		}
	}}
	bus = devicetest.NewBus(d, family)
	var h *house
	h = build(t, runtime.Options{
		Devices: []devices.Device{bus}, WholeBelow: 4 * size,
		OnShortage: func(ctx context.Context, _ *runtime.OutOfMemory) bool {
			h.closed = true
			require.ErrorIs(t, h.c.Close(ctx), runtime.ErrLeak)
			return true
		},
	}, outOfOrder)
	dirty, large := h.buffer(3*size, nil), h.buffer(3*size, nil)
	h.ended(h.ok(h.q[0].EnqueueFill(soon(t), dirty, []byte{1}, 0, 3*size)))
	pin.Store(dirty)
	_, err := h.q[0].EnqueueFill(soon(t), large, []byte{2}, 0, 3*size)
	require.Equal(t, mem.InvalidContext, mem.StatusOf(err))
	require.True(t, h.closed)
}
