package runtime_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
)

func TestAFailedMapIsUnmappedAndItsFailureIsTheUnmaps(t *testing.T) {
	for _, flags := range []runtime.MapFlags{runtime.MapWrite, runtime.MapInvalidate} {
		failedMap(t, flags)
	}
}

func failedMap(t *testing.T, flags runtime.MapFlags) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx := soon(t)
	b := h.buffer(64, bytes.Repeat([]byte{5}, 64))
	gate := h.gate()
	m, _, err := h.q[0].EnqueueMap(ctx, b, 0, 32, flags, gate)
	require.NoError(t, err)
	early := h.ok(h.q[0].EnqueueUnmap(ctx, m)) // before anybody knows
	rests := h.ok(h.q[0].EnqueueRead(ctx, b, 0, make([]byte, 8)))
	m, e, err := h.q[0].EnqueueMap(ctx, b, 32, 32, runtime.MapWrite, gate)
	require.NoError(t, err)
	require.NoError(t, gate.SetStatus(-77))
	require.ErrorIs(t, early.Wait(ctx), mem.ErrDependency)
	require.ErrorIs(t, e.Wait(ctx), mem.ErrDependency)
	h.done(h.ok(h.q[0].EnqueueUnmap(ctx, m))) // when everybody does: nothing was written
	require.ErrorIs(t, rests.Wait(ctx), mem.ErrDependency)
	got := make([]byte, 64)
	h.done(h.ok(h.q[0].EnqueueRead(ctx, b, 0, got)))
	require.Equal(t, bytes.Repeat([]byte{5}, 64), got, "a map that failed changed nothing, and nor did its unmap")
	require.Zero(t, b.Maps())

	bad := h.gate()
	require.NoError(t, bad.SetStatus(-78))
	_, err = h.q[0].Map(ctx, h.buffer(8, make([]byte, 8)), 0, 8, runtime.MapRead, bad)
	require.ErrorIs(t, err, runtime.ErrMap)
	require.Equal(t, mem.MapFailure, mem.StatusOf(err))
	require.NoError(t, h.c.Check())
}

// A map whose bytes cannot come leaves the content where it was, whatever the map
// was for.
func TestAMapWhoseTransferFailsLeavesTheContentAsItWas(t *testing.T) {
	for name, flags := range map[string]runtime.MapFlags{"read": runtime.MapRead, "write": runtime.MapWrite, "both": runtime.MapRead | runtime.MapWrite} {
		t.Run(name, func(t *testing.T) {
			d, err := tce.New(tce.Options{})
			require.NoError(t, err)
			far := &noWayOut{Device: d}
			h := build(t, runtime.Options{Devices: []devices.Device{far}}, outOfOrder)
			ctx := soon(t)
			b := h.buffer(64, nil)
			h.done(h.ok(h.q[0].EnqueueFill(ctx, b, []byte{7}, 0, 64)))
			far.broken.Store(true)
			_, err = h.q[0].Map(ctx, b, 16, 32, flags)
			require.ErrorIs(t, err, errInjected)
			require.ErrorIs(t, err, runtime.ErrMap)
			far.broken.Store(false)
			require.Zero(t, b.Maps())
			m, err := h.q[0].Map(ctx, b, 0, 64, flags)
			require.NoError(t, err)
			require.Equal(t, bytes.Repeat([]byte{7}, 64), m.Bytes())
			h.done(h.ok(h.q[0].EnqueueUnmap(ctx, m)))
			require.NoError(t, h.c.Check())
		})
	}
}

// noWayOut is a device whose copies to the host fail while broken.
type noWayOut struct {
	*tce.Device
	broken atomic.Bool
}

func (d *noWayOut) Unwrap() devices.Device { return d.Device }

func (d *noWayOut) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return devicetest.Tap(d.Device, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		if cmd.Op == devices.OpCopy && cmd.Src.Device != nil && d.broken.Load() {
			cmd = &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error { return errInjected }}
		}
		return q.Submit(cmd, waits)
	})
}

// TestCloseEndsMaps: a mapping that nobody ended keeps its buffer, which Close names as
// not released; its bytes are gone with the context, and it can only be told so.
func TestCloseEndsMaps(t *testing.T) {
	ctx := soon(t)
	c, err := runtime.NewContext(runtime.Options{Devices: memories(1), OwnDevices: true})
	require.NoError(t, err)
	d, err := c.Device(1)
	require.NoError(t, err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	require.NoError(t, err)
	b, err := c.CreateNamedBuffer("mapped", 8, 0, []byte{1, 2, 3, 4, 5, 6, 7, 8})
	require.NoError(t, err)
	m, err := q.Map(ctx, b, 0, 4, runtime.MapWrite)
	require.NoError(t, err)
	require.NoError(t, b.Release())
	err = c.Close(ctx)
	require.ErrorIs(t, err, runtime.ErrLeak)
	require.ErrorContains(t, err, "mapped")
	_, err = q.EnqueueUnmap(ctx, m)
	require.ErrorContains(t, err, "closed: invalid context")
	require.ErrorContains(t, m.Abandon(), "closed: invalid context")
}

func TestErrorsOfMapsNameTheBuffer(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx, q := soon(t), h.q[0]
	b, err := h.c.CreateNamedBuffer("weights", 8, runtime.HostNoAccess, nil)
	require.NoError(t, err)
	gate, err := h.c.NewUserEvent()
	require.NoError(t, err)
	require.NoError(t, gate.SetStatus(-7))
	open, err := h.c.CreateNamedBuffer("open", 8, 0, nil)
	require.NoError(t, err)
	for name, f := range map[string]func() error{
		"weights": func() error { _, err := q.Map(ctx, b, 0, 4, runtime.MapRead); return err },
		"open":    func() error { _, err := q.Map(ctx, open, 0, 4, 0); return err },
		"open ":   func() error { _, err := q.Map(ctx, open, 4, 8, runtime.MapRead); return err },
		" open":   func() error { _, err := q.Map(ctx, open, 0, 4, runtime.MapRead, gate); return err },
	} {
		require.ErrorContains(t, f(), "buffer "+strings.TrimSpace(name))
	}
	require.NoError(t, b.Release())
	require.NoError(t, open.Release())
}
