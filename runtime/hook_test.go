package runtime_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/eviction"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// caller is a sink and a policy that call what they must not.
type caller struct {
	eviction.LRU
	trace.Recorder
	call func(from string)
}

func (k *caller) Buffer(r *trace.BufferRecord)        { k.call("Buffer"); k.Recorder.Buffer(r) }
func (k *caller) Command(r *trace.CommandRecord)      { k.call("Command"); k.Recorder.Command(r) }
func (k *caller) Completed(r *trace.CompletionRecord) { k.call("Completed"); k.Recorder.Completed(r) }
func (k *caller) Observe([]mem.Access)                { k.call("Observe") }
func (k *caller) Score(n uint64, c *eviction.Candidate) float64 {
	k.call("Score")
	return k.LRU.Score(n, c)
}

func TestWhatASinkOrAPolicyCallsFailsInsteadOfHanging(t *testing.T) {
	var h *house
	var b *runtime.Buffer
	var user runtime.Event
	var p runtime.Pointer
	ctx := soon(t)
	calls := map[string]func() error{
		"CreateBuffer":  func() error { _, err := h.c.CreateBuffer(8, 0, nil); return err },
		"SVMAlloc":      func() error { _, err := h.c.SVMAlloc(8, 0, 0); return err },
		"SVMFree":       func() error { return h.c.SVMFree(p) },
		"SVMGuard":      func() error { return h.c.SVMGuard(func() {}) },
		"NewQueue":      func() error { _, err := h.c.NewQueue(h.devs[0], runtime.QueueOptions{}); return err },
		"NewUserEvent":  func() error { _, err := h.c.NewUserEvent(); return err },
		"Check":         func() error { return h.c.Check() },
		"Close":         func() error { return h.c.Close(ctx) },
		"CloseWithin":   func() error { return h.c.CloseWithin(ctx) },
		"Attached":      func() error { _, err := h.c.Attached(h, nil); return err },
		"Sub":           func() error { _, err := b.Sub(0, 8, 0); return err },
		"Segments":      func() error { _, err := b.Segments(); return err },
		"Retain":        func() error { return b.Retain() },
		"Release":       func() error { return b.Release() },
		"OnRelease":     func() error { return b.OnRelease(func() {}) },
		"SetHint":       func() error { return b.SetHint(0) },
		"EnqueueFill":   func() error { _, err := h.q[0].EnqueueFill(ctx, b, []byte{1}, 0, 8); return err },
		"EnqueueRead":   func() error { _, err := h.q[0].EnqueueRead(ctx, b, 0, make([]byte, 8)); return err },
		"EnqueueMarker": func() error { _, err := h.q[0].EnqueueMarker(ctx); return err },
		"Map":           func() error { _, err := h.q[0].Map(ctx, b, 0, 8, runtime.MapRead); return err },
		"Finish":        func() error { return h.q[0].Finish(ctx) },
		"Flush":         func() error { return h.q[0].Flush() },
		"Queue.Close":   func() error { return h.q[0].Close() },
		"Wait":          func() error { return user.Wait(ctx) },
		"SetStatus":     func() error { return user.SetStatus(runtime.Complete) },
		"Drop":          func() error { return b.Drop(h.devs[0]) },
	}
	var from sync.Map // which have called
	var armed atomic.Bool
	called := make(chan string, 5)
	k := &caller{}
	k.call = func(by string) { // "Completed" on a goroutine of the device's, beside the others
		if !armed.Load() {
			return
		}
		if _, before := from.LoadOrStore(by, true); before {
			return
		}
		for name, call := range calls {
			assert.ErrorIs(t, call(), mem.ErrInvalidOperation, "%s from %s", name, by)
		}
		assert.Zero(t, h.c.Stats())
		assert.Zero(t, h.c.Figures())
		assert.Zero(t, b.Maps())
		h.c.Flush()
		called <- by
	}
	h = crowded(t, runtime.Options{Trace: k, Policy: k}, 1)
	user = h.gate()
	p = must(h.c.SVMAlloc(8, 0, 0))
	var buffers []*runtime.Buffer
	for range 6 {
		b = h.create(room, 0, nil)
		buffers = append(buffers, b)
	}
	armed.Store(true)
	for i, b := range buffers { // the fifth finds no room
		h.ended(h.paint(h.q[0], b, byte(i)))
	}
	for i, b := range buffers {
		h.holds(h.q[0], b, byte(i))
		require.NoError(t, b.Release())
	}
	var all []string
	for range cap(called) {
		all = append(all, <-called)
	}
	require.ElementsMatch(t, []string{"Buffer", "Command", "Completed", "Observe", "Score"}, all)
	armed.Store(false)
	require.NoError(t, user.SetStatus(runtime.Complete))
	require.NoError(t, user.Release())
	require.NoError(t, h.c.SVMFree(p))
}

func TestAContextIsNotClosedByItsCallbacks(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	other := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	e := h.ok(h.q[0].EnqueueMarker(soon(t)))
	got := make(chan error, 3)
	require.NoError(t, e.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) {
		got <- h.c.Close(context.Background())
		got <- h.c.CloseWithin(context.Background())
		got <- other.c.Close(context.Background())
	}))
	h.ended(e)
	require.ErrorIs(t, <-got, mem.ErrInvalidOperation)
	require.ErrorIs(t, <-got, mem.ErrInvalidOperation)
	require.NoError(t, <-got, "another's context can be closed")
	other.closed = true
}

type closer func() error

func (f closer) Close() error { return f() }

func TestWhatIsAttachedMayAskForItselfAsItIsClosed(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	type key struct{}
	_, err := h.c.Attached(key{}, func() (io.Closer, error) {
		return closer(func() error {
			_, err := h.c.Attached(key{}, nil)
			return err
		}), nil
	})
	require.NoError(t, err)
	require.NoError(t, h.c.Close(soon(t)))
	h.closed = true
}
