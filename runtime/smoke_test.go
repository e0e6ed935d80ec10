package runtime_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon bounds every wait of a test: one that takes longer hangs.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// house is a context over devices that move real bytes, with a queue each.
type house struct {
	t    testing.TB
	c    *runtime.Context
	devs []devices.Device
	q    []*runtime.Queue
	rec  *trace.Recorder

	closed bool // by the test
}

// memories makes n devices of real bytes without kernels.
func memories(n int) []devices.Device {
	var devs []devices.Device
	for range n {
		devs = append(devs, engine.NewHost(engine.HostOptions{}))
	}
	return devs
}

func build(t testing.TB, o runtime.Options, qo runtime.QueueOptions) *house {
	t.Helper()
	h := &house{t: t, rec: &trace.Recorder{}, devs: o.Devices}
	o.OwnDevices = true
	if o.Trace == nil {
		o.Trace = h.rec
	}
	h.c = must(runtime.NewContext(o))
	for _, d := range o.Devices {
		q := h.queue(d, qo)
		h.q = append(h.q, q)
	}
	t.Cleanup(func() {
		if !h.closed {
			require.NoError(t, h.c.Check())
			require.NoError(t, h.c.Close(soon(t)))
		}
	})
	return h
}

func (h *house) buffer(size uint64, init []byte) *runtime.Buffer {
	h.t.Helper()
	b := h.create(size, 0, init)
	h.t.Cleanup(func() { _ = b.Release() })
	return b
}

// create is a buffer that the test releases.
func (h *house) create(size uint64, flags runtime.Flags, host []byte) *runtime.Buffer {
	h.t.Helper()
	b := must(h.c.CreateBuffer(size, flags, host))
	return b
}

func (h *house) queue(d devices.Device, o runtime.QueueOptions) *runtime.Queue {
	h.t.Helper()
	q, err := h.c.NewQueue(d, o)
	require.NoError(h.t, err)
	return q
}

// must is for what a test begins with.
func must[T any](v T, err error) T {
	check(err)
	return v
}

func (h *house) ok(e runtime.Event, err error) runtime.Event {
	h.t.Helper()
	require.NoError(h.t, err)
	return e
}

func TestABufferGoesAroundDevicesWithItsContent(t *testing.T) {
	for _, noPeer := range []bool{false, true} {
		h := build(t, runtime.Options{Devices: memories(3), NoPeer: noPeer}, runtime.QueueOptions{})
		ctx := soon(t)
		init := bytes.Repeat([]byte("godwit--"), 512)
		b := h.buffer(4096, init)
		got := make([]byte, 4096)
		h.ok(h.q[0].EnqueueRead(ctx, b, 0, got))
		require.NoError(t, h.q[0].Finish(ctx))
		require.Equal(t, init, got)

		copy(init[100:], bytes.Repeat([]byte{7}, 50))
		h.ok(h.q[1].EnqueueFill(ctx, b, []byte{7}, 100, 50))
		e := h.ok(h.q[2].EnqueueRead(ctx, b, 0, got))
		require.NoError(t, e.Wait(ctx))
		require.Equal(t, init, got)
		require.NoError(t, e.Release())
		require.NoError(t, h.c.Check())
		require.Equal(t, uint64(4096+4096), h.rec.BytesMoved())
		steps := h.rec.Commands()[2].Steps
		require.Len(t, steps, 3)
		require.Equal(t, mem.Range{Start: 100, End: 150}, steps[1].Range)
		require.Equal(t, mem.MemoryID(2), steps[1].From)
		if noPeer {
			require.Equal(t, mem.Ring, steps[1].Way)
		} else {
			require.Equal(t, mem.Direct, steps[1].Way)
		}
	}
}
