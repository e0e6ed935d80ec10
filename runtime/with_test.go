package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/runtime"
)

// enqueues are all ways to enqueue something that accesses b, or nothing.
func enqueues(b, other *runtime.Buffer) map[string]func(context.Context, *runtime.Queue) (runtime.Event, error) {
	type queue = *runtime.Queue
	data := make([]byte, 64)
	return map[string]func(context.Context, queue) (runtime.Event, error){
		"write": func(ctx context.Context, q queue) (runtime.Event, error) { return q.EnqueueWrite(ctx, b, 0, data) },
		"read":  func(ctx context.Context, q queue) (runtime.Event, error) { return q.EnqueueRead(ctx, b, 0, data) },
		"copy": func(ctx context.Context, q queue) (runtime.Event, error) {
			return q.EnqueueCopy(ctx, b, other, 0, 0, 64)
		},
		"content": func(ctx context.Context, q queue) (runtime.Event, error) {
			return q.EnqueueCopyContent(ctx, b, other, 0, 0, 64)
		},
		"fill": func(ctx context.Context, q queue) (runtime.Event, error) {
			return q.EnqueueFill(ctx, b, []byte{1}, 0, 64)
		},
		"migrate": func(ctx context.Context, q queue) (runtime.Event, error) {
			return q.EnqueueMigrate(ctx, []*runtime.Buffer{b}, 0)
		},
		"marker":  func(ctx context.Context, q queue) (runtime.Event, error) { return q.EnqueueMarker(ctx) },
		"barrier": func(ctx context.Context, q queue) (runtime.Event, error) { return q.EnqueueBarrier(ctx) },
		"read-rect": func(ctx context.Context, q queue) (runtime.Event, error) {
			return q.EnqueueReadRect(ctx, b, runtime.Box{}, data, runtime.Box{}, [3]uint64{8, 2, 1})
		},
		"host-call": func(ctx context.Context, q queue) (runtime.Event, error) {
			return q.EnqueueHostCall(ctx, func(context.Context) error { return nil })
		},
		"blocking write": func(ctx context.Context, q queue) (runtime.Event, error) { return q.BlockingWrite(ctx, b, 0, data) },
		"blocking read":  func(ctx context.Context, q queue) (runtime.Event, error) { return q.BlockingRead(ctx, b, 0, data) },
		"map": func(ctx context.Context, q queue) (runtime.Event, error) {
			m, e, err := q.EnqueueMap(ctx, b, 0, 64, runtime.MapRead)
			if err == nil {
				_, err = q.With(runtime.CommandOptions{NoEvent: true}).EnqueueUnmap(ctx, m)
			}
			return e, err
		},
	}
}

func TestNoEnqueueAcceptsWhatADeadContextAsksFor(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	b, other := h.buffer(64, make([]byte, 64)), h.buffer(64, make([]byte, 64))
	why := context.DeadlineExceeded // any
	gone, cancel := context.WithCancelCause(soon(t))
	cancel(why)
	for name, enqueue := range enqueues(b, other) {
		last := h.q[0].Last()
		_, err := enqueue(gone, h.q[0])
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorIs(t, err, why, name)
		require.Equal(t, last, h.q[0].Last(), name)
	}
	m, e, err := h.q[0].EnqueueMap(soon(t), b, 0, 64, runtime.MapRead)
	require.NoError(t, err)
	require.NoError(t, e.Wait(soon(t)))
	_, err = h.q[0].EnqueueUnmap(gone, m)
	require.NoError(t, err, "what gives something back")
}

func TestNobodyGetsEventsWhoAsksForNone(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx, q := soon(t), h.q[0].With(runtime.CommandOptions{NoEvent: true, Label: "layer 3"})
	b, other := h.buffer(64, make([]byte, 64)), h.buffer(64, make([]byte, 64))
	for name, enqueue := range enqueues(b, other) {
		e, err := enqueue(ctx, q)
		require.NoError(t, err, name)
		require.True(t, e.IsZero(), name)
	}
	require.NoError(t, q.Finish(ctx))
	require.Equal(t, h.q[0].Last(), q.Last(), "it is the same queue")
	labels := 0
	for _, r := range h.rec.Commands() {
		if r.Label == "layer 3" {
			labels++
		}
	}
	require.Equal(t, len(enqueues(b, other)), labels, "all but the unmap, which was enqueued by other options")
	gate := h.gate()
	require.NoError(t, gate.SetStatus(-5))
	_, err := q.BlockingRead(ctx, b, 0, make([]byte, 4), gate)
	require.Error(t, err, "the command's own, since no event tells it")
}
