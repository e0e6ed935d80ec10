package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/lib/kernels"
	"godwit/runtime"
)

// house is a context in virtual time.
type house struct {
	testing.TB
	w    *virtual.World
	c    *runtime.Context
	devs []devices.Device
	qs   []*runtime.Queue // by device, from 0
}

var bg = context.Background()

func open(t testing.TB, b virtual.Machine, o virtual.Options, more ...func(*runtime.Options)) *house {
	w, err := virtual.New(b, o)
	require.NoError(t, err)
	h := &house{TB: t, w: w, devs: w.Devices()}
	opts := runtime.Options{Name: t.Name(), Devices: h.devs, Host: w.Host(), Executor: w, OwnDevices: true}
	for _, f := range more {
		f(&opts)
	}
	h.c, err = runtime.NewContext(opts)
	require.NoError(t, err)
	for _, d := range h.devs {
		q, err := h.c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		h.qs = append(h.qs, q)
	}
	t.Cleanup(func() { require.NoError(t, h.c.Close(bg)) })
	return h
}

func (h *house) buffer(size uint64) *runtime.Buffer {
	b, err := h.c.CreateBuffer(size, 0, nil)
	require.NoError(h, err)
	h.Cleanup(func() { require.NoError(h, b.Release()) })
	return b
}

// runs has some calls made, waits for all queues, and says how long that took.
func (h *house) runs(f func()) uint64 {
	start := h.w.Time()
	f()
	for _, q := range h.qs {
		require.NoError(h, q.Finish(bg))
	}
	require.NoError(h, h.c.Check())
	return h.w.Time() - start
}

func (h *house) ok(e runtime.Event, err error) {
	h.Helper()
	require.NoError(h, err)
	if !e.IsZero() {
		require.NoError(h, e.Release())
	}
}

func (h *house) write(q int, b *runtime.Buffer, data []byte) {
	h.ok(h.qs[q].EnqueueWrite(bg, b, 0, data))
}

func (h *house) migrate(q int, b *runtime.Buffer) {
	h.ok(h.qs[q].EnqueueMigrate(bg, []*runtime.Buffer{b}, 0))
}

func TestOneTransferTakesItsLatencyAndItsBytesByTheBandwidth(t *testing.T) {
	for setup := range uint64(2) {
		h := open(t, &bench{devices: 1, rate: 10 * gig, latency: 1700, setup: setup}, virtual.Options{})
		b := h.buffer(1 << 20)
		require.EqualValues(t, 1700+104858+setup, h.runs(func() { h.write(0, b, make([]byte, 1<<20)) })) // 104857.6
	}
}

func TestALaunchOverlapsACopyThatItDoesNotNeed(t *testing.T) {
	h := open(t, &bench{devices: 1, rate: 10 * gig, kernel: 100 * gig}, virtual.Options{})
	p, err := h.c.Build(bg, kernels.Program())
	require.NoError(t, err)
	k, err := p.Kernel("copy")
	require.NoError(t, err)
	x, y, z := h.buffer(1e6), h.buffer(1e6), h.buffer(1e6)
	other, err := h.c.NewQueue(h.devs[0], runtime.QueueOptions{})
	require.NoError(t, err)
	data := make([]byte, 1e6)
	h.runs(func() { h.write(0, x, data) })
	launch := runtime.Launch{Kernel: k, Global: []uint64{1000}, Args: []runtime.Arg{runtime.In(x), runtime.Out(z), runtime.Uint64(1e6)}, Takes: 70 * time.Microsecond}
	require.EqualValues(t, 100_000, h.runs(func() {
		h.ok(other.EnqueueLaunch(bg, launch))
		h.write(0, y, data)
	}))
	require.EqualValues(t, 170_000, h.runs(func() { // the launch needs what is copied
		h.write(0, x, data)
		h.ok(h.qs[0].EnqueueLaunch(bg, launch))
	}))
}

func TestARingTakesItsBytesAndOneChunkMore(t *testing.T) {
	for _, exact := range []bool{false, true} {
		h := open(t, &bench{devices: 2, rate: 10 * gig, latency: 3000, chunk: 1 << 20}, virtual.Options{Exact: exact})
		b := h.buffer(16 << 20)
		data := make([]byte, 16<<20)
		for i := range data {
			data[i] = byte(i * 7 / 3)
		}
		h.runs(func() { h.write(0, b, data) })
		took := h.runs(func() { h.migrate(1, b) })
		const want = 17*104857.6 + 2*3000 // 16 chunks on the slower path, one to fill, latency twice
		require.InDelta(t, want, took, 40, "exact: %v", exact)
		got := make([]byte, len(data))
		h.runs(func() { h.ok(h.qs[1].EnqueueRead(bg, b, 0, got)) })
		require.Equal(t, data, got)
		s := h.c.MoverStats()
		require.EqualValues(t, 1, s.Rings)
		require.EqualValues(t, 1, s.Batches)
	}
}
