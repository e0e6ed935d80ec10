package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/engine"
	"godwit/mem"
	"godwit/runtime"
)

func TestAMarkerWaitsForAllBeforeItOnAnOutOfOrderQueue(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx, q := soon(t), h.q[0]
	a, b := h.buffer(8, nil), h.buffer(8, nil)
	gate := h.gate()
	held := h.ok(q.EnqueueFill(ctx, a, []byte{1}, 0, 8, gate))
	marker := h.ok(q.EnqueueMarker(ctx))
	free := h.ok(q.EnqueueFill(ctx, b, []byte{1}, 0, 8))
	h.done(h.ok(q.EnqueueMarker(ctx, free)))
	h.held(marker)
	require.NoError(t, gate.SetStatus(runtime.Complete))
	h.done(marker)
	h.done(held)
}

func TestABarrierHoldsBackWhatFollowsOnAnOutOfOrderQueue(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx, q := soon(t), h.q[0]
	b := h.buffer(8, nil)
	for _, withList := range []bool{false, true} {
		gate := h.gate()
		var barrier runtime.Event
		if withList {
			barrier = h.ok(q.EnqueueBarrier(ctx, gate))
		} else {
			h.ok(q.EnqueueFill(ctx, b, []byte{1}, 0, 8, gate))
			barrier = h.ok(q.EnqueueBarrier(ctx))
		}
		after := h.ok(q.EnqueueHostCall(ctx, func(context.Context) error { return nil }))
		h.held(barrier)
		h.held(after)
		require.NoError(t, gate.SetStatus(runtime.Complete))
		h.done(after)
		h.done(barrier)
	}
}

func TestAFailureDoesNotPassThroughAnInOrderQueueOrABarrier(t *testing.T) {
	for _, o := range []runtime.QueueOptions{{}, outOfOrder} {
		h := build(t, runtime.Options{Devices: memories(1)}, o)
		ctx, q := soon(t), h.q[0]
		bad := h.ok(q.EnqueueHostCall(ctx, func(context.Context) error { return errInjected }))
		h.done(h.ok(q.EnqueueBarrier(ctx)))
		h.done(h.ok(q.EnqueueHostCall(ctx, func(context.Context) error { return nil })))
		require.ErrorIs(t, bad.Wait(ctx), errInjected)
		dependent := h.ok(q.EnqueueMarker(ctx, bad))
		err := dependent.Wait(ctx)
		require.ErrorIs(t, err, mem.ErrDependency)
		require.ErrorIs(t, err, errInjected)
		require.ErrorIs(t, q.Finish(ctx), errInjected, "the first failure since the last Finish")
		require.NoError(t, q.Finish(ctx))
	}
}

func TestFinishGivesUpWithItsContext(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	gate := h.gate()
	h.ok(h.q[0].EnqueueMarker(soon(t), gate))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, h.q[0].Finish(ctx), context.DeadlineExceeded)
}

func TestMigrateBringsContentAheadOrDropsIt(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, runtime.QueueOptions{})
	ctx := soon(t)
	a, b := h.buffer(64, bytes.Repeat([]byte{6}, 64)), h.buffer(64, bytes.Repeat([]byte{7}, 64))
	valid := func(b *runtime.Buffer) mem.MemorySet {
		seg := must(b.Segments())
		require.Len(t, seg, 1)
		return seg[0].Valid
	}
	h.done(h.ok(h.q[0].EnqueueMigrate(ctx, []*runtime.Buffer{a, b}, 0)))
	require.Equal(t, mem.SetOf(0, 1), valid(a))
	require.Equal(t, uint64(128), h.c.Stats().BytesMoved)
	h.done(h.ok(h.q[1].EnqueueFill(ctx, a, []byte{8}, 0, 64)))
	h.done(h.ok(h.q[1].EnqueueMigrate(ctx, []*runtime.Buffer{a}, runtime.MigrateToHost)))
	require.Equal(t, mem.SetOf(0, 2), valid(a))
	moved := h.c.Stats().BytesMoved
	h.done(h.ok(h.q[0].EnqueueMigrate(ctx, []*runtime.Buffer{a}, runtime.ContentUndefined)))
	require.Equal(t, mem.SetOf(1), valid(a))
	require.Equal(t, moved, h.c.Stats().BytesMoved, "no content was brought")
}

// lazy is a device whose queues start nothing until they are flushed.
type lazy struct{ *engine.Host }

func (l *lazy) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := l.Host.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return &lazyQueue{Queue: q, gates: mem.NewTimeline("gates", false, nil)}, nil
}

type lazyQueue struct {
	devices.Queue
	gates *mem.Timeline
	mu    sync.Mutex
	gate  mem.Point // protected by mu
}

func (q *lazyQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gate.IsZero() {
		q.gate = q.gates.Next()
	}
	return q.Queue.Submit(cmd, append(append([]mem.Wait(nil), waits...), mem.Wait{Point: q.gate}))
}

func (q *lazyQueue) Wait(ctx context.Context, p mem.Point, mode devices.WaitMode) error {
	if err := q.Flush(); err != nil {
		return err
	}
	return q.Queue.Wait(ctx, p, mode)
}

func (q *lazyQueue) Flush() error {
	q.mu.Lock()
	gate := q.gate
	q.gate = mem.Point{}
	q.mu.Unlock()
	if !gate.IsZero() {
		q.gates.End(gate, nil)
	}
	return nil
}

func TestWhoeverWaitsFlushesAllThatMayBeWaitedFor(t *testing.T) {
	for name, wait := range map[string]func(h *house, e runtime.Event) error{
		"event":  func(h *house, e runtime.Event) error { return e.Wait(soon(t)) },
		"finish": func(h *house, _ runtime.Event) error { return h.q[1].Finish(soon(t)) },
		"flush": func(h *house, e runtime.Event) error {
			p, err := e.Point()
			return errors.Join(err, h.q[1].Flush(), p.Wait(soon(t)))
		},
		"close": func(h *house, _ runtime.Event) error { return h.q[1].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t, runtime.Options{Devices: []devices.Device{&lazy{engine.NewHost(engine.HostOptions{})}, &lazy{engine.NewHost(engine.HostOptions{})}}}, runtime.QueueOptions{})
			ctx := soon(t)
			b := h.buffer(64, nil)
			got := make([]byte, 64)
			h.ok(h.q[0].EnqueueFill(ctx, b, []byte{5}, 0, 64))
			e := h.ok(h.q[1].EnqueueRead(ctx, b, 0, got)) // waits for a copy on a hidden queue, which waits for the fill
			require.NoError(t, wait(h, e))
			require.Equal(t, bytes.Repeat([]byte{5}, 64), got)
		})
	}
}

// tight is two queues over a device that has room for one of two buffers.
func tight(t *testing.T, wait bool) (*house, *runtime.Buffer, *runtime.Buffer) {
	d := must(cpu.New(cpu.Options{Memory: 96 << 10}))
	h := build(t, runtime.Options{Devices: []devices.Device{d}, WaitForMemory: wait}, outOfOrder)
	a := h.create(64<<10, 0, nil)
	return h, a, h.buffer(64<<10, nil)
}

func TestAnEnqueueWithoutRoomFailsOrWaitsForPendingFrees(t *testing.T) {
	for _, wait := range []bool{false, true} {
		h, a, b := tight(t, wait)
		ctx, q := soon(t), h.q[0]
		gate := h.gate()
		h.ok(q.EnqueueFill(ctx, a, []byte{1}, 0, 64<<10, gate))
		require.NoError(t, a.Release()) // freed when the gated fill has ended
		if !wait {
			_, err := q.EnqueueFill(ctx, b, []byte{2}, 0, 64<<10)
			require.ErrorIs(t, err, mem.ErrNoMemory)
			require.NoError(t, gate.SetStatus(runtime.Complete))
			require.NoError(t, q.Finish(ctx))
			continue
		}
		brief, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		_, err := q.EnqueueFill(brief, b, []byte{2}, 0, 64<<10)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, mem.ErrNoMemory)
		require.NoError(t, h.c.Check())

		result := make(chan error, 1)
		go func() {
			_, err := q.EnqueueFill(ctx, b, []byte{2}, 0, 64<<10)
			result <- err
		}()
		select {
		case err := <-result:
			t.Fatalf("the enqueue did not wait: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		_, err = h.c.CreateBuffer(8, 0, nil) // others are not held up meanwhile
		require.NoError(t, err)
		require.NoError(t, gate.SetStatus(runtime.Complete))
		require.NoError(t, <-result)
		require.NoError(t, q.Finish(ctx))
		err = h.c.Close(ctx)
		require.ErrorIs(t, err, runtime.ErrLeak)
		require.ErrorContains(t, err, "65536 bytes")
		h.closed = true
	}
}

func TestCloseNamesLeaksAndFreesThem(t *testing.T) {
	devs := memories(1)
	c := must(runtime.NewContext(runtime.Options{Devices: devs})) // the device outlives it
	ctx := soon(t)
	q := must(c.NewQueue(devs[0], runtime.QueueOptions{}))
	weights := must(c.CreateNamedBuffer("weights", 4096, 0, nil))
	sub := must(weights.Sub(128, 128, 0))
	_ = must(q.EnqueueFill(ctx, weights, []byte{1}, 0, 4096))
	require.NoError(t, weights.Release()) // the sub-buffer still holds it
	require.Equal(t, 1, devs[0].Memory().Stats().Blocks)
	err := c.Close(ctx)
	require.ErrorIs(t, err, runtime.ErrLeak)
	require.ErrorContains(t, err, "weights (4096 bytes)")
	s := devs[0].Memory().Stats()
	require.Zero(t, s.Blocks)
	require.Zero(t, s.Live+s.Pending)
	require.Error(t, sub.Release())
	require.NoError(t, devs[0].Close())
}

func TestCloseCancelsWhatNobodyWillEverStart(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, outOfOrder)
	b := h.buffer(64, nil)
	gate := h.gate()
	never := h.ok(h.q[0].EnqueueFill(soon(t), b, []byte{1}, 0, 64, gate))
	point := must(never.Point())
	h.ok(h.q[1].EnqueueRead(soon(t), b, 0, make([]byte, 64)))
	require.NoError(t, b.Release())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	require.NoError(t, h.c.Close(ctx))
	require.ErrorIs(t, point.Err(), context.DeadlineExceeded)
	require.ErrorIs(t, gate.SetStatus(runtime.Complete), mem.ErrInvalidOperation)
	h.closed = true
}
