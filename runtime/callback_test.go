package runtime_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

// calls records callbacks.
type calls struct {
	mu   sync.Mutex
	list []call
	all  chan struct{}
	want int
}

type call struct {
	name   string
	status runtime.ExecStatus
}

func expect(n int) *calls { return &calls{all: make(chan struct{}), want: n} }

func (c *calls) on(t *testing.T, e runtime.Event, s runtime.ExecStatus, name string) {
	t.Helper()
	require.NoError(t, e.OnStatus(s, func(got runtime.Event, status runtime.ExecStatus) {
		if got != e {
			status = 999
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, call{name, status})
		if len(c.list) == c.want {
			close(c.all)
		}
	}))
}

func (c *calls) get(t *testing.T) []call {
	t.Helper()
	select {
	case <-c.all:
	case <-soon(t).Done():
		t.Fatal("callbacks are missing")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

func TestCallbacksComeInTheOrderOfTheStates(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx := soon(t)
	b, gate := h.buffer(8, nil), h.gate()
	e := h.ok(h.q[0].EnqueueFill(ctx, b, []byte{1}, 0, 8, gate))
	c, d := expect(4), expect(2)
	c.on(t, e, runtime.Complete, "complete 1")
	c.on(t, e, runtime.Running, "running")
	c.on(t, e, runtime.Submitted, "submitted")
	c.on(t, e, runtime.Complete, "complete 2")
	require.NoError(t, e.Release(), "the callbacks keep it")
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, h.q[0].Finish(ctx))
	e2 := h.gate()
	d.on(t, e2, runtime.Submitted, "a user event")
	d.on(t, e2, runtime.Running, "its end")
	require.NoError(t, e2.SetStatus(runtime.Complete))
	require.Equal(t, []call{
		{"submitted", runtime.Submitted}, {"running", runtime.Running}, {"complete 1", runtime.Complete}, {"complete 2", runtime.Complete},
	}, c.get(t))
	require.Equal(t, []call{{"a user event", runtime.Submitted}, {"its end", runtime.Running}}, d.get(t))
	require.ErrorIs(t, e.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) {}), mem.ErrInvalidEvent, "its last reference is gone")
}

// Whoever asks before the command starts, or while it runs, is told while it runs.
func TestRunningIsToldWhileTheCommandRuns(t *testing.T) {
	for _, o := range []runtime.QueueOptions{{}, outOfOrder, {Profiling: true}} {
		h := build(t, runtime.Options{Devices: memories(1)}, o)
		ctx := soon(t)
		gate, end := h.gate(), make(chan struct{})
		e := h.ok(h.q[0].EnqueueHostCall(ctx, func(context.Context) error { <-end; return nil }, gate))
		c, d, last := expect(1), expect(1), expect(1)
		c.on(t, e, runtime.Running, "before")
		last.on(t, e, runtime.Complete, "complete")
		s := must(e.Status())
		require.Equal(t, runtime.Submitted, s)
		require.NoError(t, gate.SetStatus(runtime.Complete))
		require.Equal(t, []call{{"before", runtime.Running}}, c.get(t))
		d.on(t, e, runtime.Running, "meanwhile")
		require.Equal(t, []call{{"meanwhile", runtime.Running}}, d.get(t))
		s = must(e.Status())
		require.Equal(t, runtime.Running, s, "also where no times are kept")
		close(end)
		require.Equal(t, []call{{"complete", runtime.Complete}}, last.get(t))
		late := expect(1)
		late.on(t, e, runtime.Running, "after")
		require.Equal(t, []call{{"after", runtime.Running}}, late.get(t))
	}
}

// The device asks nobody: its first listener came for the end.
func TestRunningIsToldToWhoAsksAfterAListenerForTheEnd(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx := soon(t)
	end, started := make(chan struct{}), make(chan struct{})
	e := h.ok(h.q[0].EnqueueHostCall(ctx, func(context.Context) error { close(started); <-end; return nil }))
	c, last := expect(1), expect(1)
	last.on(t, e, runtime.Complete, "complete")
	<-started
	c.on(t, e, runtime.Running, "running")
	require.Equal(t, []call{{"running", runtime.Running}}, c.get(t))
	close(end)
	last.get(t)
}

func TestCallbacksOfAFailureAreGivenItsStatus(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, outOfOrder)
	ctx := soon(t)
	a, b, gate := h.buffer(8, nil), h.buffer(8, nil), h.gate()
	first := h.ok(h.q[0].EnqueueFill(ctx, a, []byte{1}, 0, 8, gate))
	second := h.ok(h.q[1].EnqueueCopy(ctx, a, b, 0, 0, 8)) // by its data
	third := h.ok(h.q[0].EnqueueMarker(ctx, second))       // by its wait list
	c := expect(4)
	c.on(t, third, runtime.Complete, "third")
	require.NoError(t, gate.SetStatus(-1234))
	for _, e := range []runtime.Event{first, second, third} {
		require.Error(t, e.Wait(ctx))
		s := must(e.Status())
		require.Negative(t, s, "a negative status reaches all dependants")
	}
	c.on(t, third, runtime.Running, "late")
	c.on(t, third, runtime.Submitted, "late")
	c.on(t, gate, runtime.Complete, "gate")
	const waited = runtime.ExecStatus(mem.ExecStatusErrorInWaitList)
	require.ElementsMatch(t, []call{{"third", waited}, {"late", waited}, {"late", waited}, {"gate", -1234}}, c.get(t))
}

func TestACallbackMayUseTheContext(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx := soon(t)
	b := h.buffer(8, nil)
	end := h.gate()
	e := h.ok(h.q[0].EnqueueFill(ctx, b, []byte{1}, 0, 8))
	require.NoError(t, e.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) {
		next, err := h.q[0].EnqueueRead(ctx, b, 0, make([]byte, 8))
		if err == nil {
			err = next.Wait(ctx)
		}
		if err == nil {
			_ = end.SetStatus(runtime.Complete)
		} else {
			_ = end.SetStatus(-1)
		}
	}))
	h.done(end)
}

func TestCloseReturnsAfterAllCallbacks(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	n := 0
	var e runtime.Event
	for range 50 {
		e = h.ok(h.q[0].EnqueueMarker(soon(t)))
		require.NoError(t, e.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) { n++ }))
	}
	h.closed = true
	require.NoError(t, h.c.Close(soon(t)))
	require.Equal(t, 50, n)
}

func TestCallbacksThatAreRefused(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	f := func(runtime.Event, runtime.ExecStatus) {}
	e := h.ok(h.q[0].EnqueueMarker(soon(t)))
	require.ErrorIs(t, e.OnStatus(runtime.Complete, nil), mem.ErrInvalidValue)
	require.ErrorIs(t, e.OnStatus(runtime.Queued, f), mem.ErrInvalidValue)
	require.ErrorIs(t, e.OnStatus(-1, f), mem.ErrInvalidValue)
	require.ErrorIs(t, (runtime.Event{}).OnStatus(runtime.Complete, f), mem.ErrInvalidEvent)
	require.NoError(t, e.Release())
	require.ErrorIs(t, e.OnStatus(runtime.Complete, f), mem.ErrInvalidEvent)
}

func TestReleaseCallbacksComeLastFirstOnceNothingUsesTheBuffer(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx := soon(t)
	user := make([]byte, 8)
	b := h.create(8, runtime.UseHostPtr, user)
	require.ErrorIs(t, b.OnRelease(nil), mem.ErrInvalidValue)
	all := make(chan string, 3)
	require.NoError(t, b.OnRelease(func() { all <- "first" }))
	require.NoError(t, b.OnRelease(func() { all <- "second" }))
	gate := h.gate()
	got := make([]byte, 8)
	e := h.ok(h.q[0].EnqueueRead(ctx, b, 0, got, gate))
	sub := must(b.Sub(0, 4, 0))
	require.NoError(t, b.Release())
	require.ErrorIs(t, b.OnRelease(func() {}), mem.ErrInvalidBuffer)
	require.NoError(t, sub.OnRelease(func() { all <- "third" }), "the root is still there")
	require.NoError(t, sub.Release())
	h.held(e)
	require.Empty(t, all)
	require.NoError(t, gate.SetStatus(runtime.Complete))
	plain, gate := h.create(8, 0, nil), h.gate()
	require.NoError(t, plain.OnRelease(func() { all <- "plain" }))
	h.ok(h.q[0].EnqueueWrite(ctx, plain, 0, got, gate))
	require.NoError(t, plain.Release())
	for _, want := range []string{"third", "second", "first", "plain"} {
		if want == "plain" {
			require.Empty(t, all)
			require.NoError(t, gate.SetStatus(runtime.Complete))
		}
		select {
		case name := <-all:
			require.Equal(t, want, name)
		case <-ctx.Done():
			t.Fatal("a callback is missing")
		}
	}
}

// A command that uses other bytes does not hold up a sub-buffer's end, and one that
// uses its bytes does; the whole buffer ends after it.
func TestASubBufferIsGoneOnceNothingUsesItsBytes(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, outOfOrder)
	ctx := soon(t)
	b := h.buffer(512, nil)
	called := make(chan string, 4)
	require.NoError(t, b.OnRelease(func() { called <- "whole" }))
	var gates [2]runtime.Event
	for i, name := range []string{"left", "right"} {
		part := must(b.Sub(uint64(256*i), 256, 0))
		require.NoError(t, part.OnRelease(func() { called <- name + " first" }))
		require.NoError(t, part.OnRelease(func() { called <- name }))
		gates[i] = h.gate()
		h.ok(h.q[i].EnqueueFill(ctx, part, []byte{1}, 0, 256, gates[i]))
		require.NoError(t, part.Release())
	}
	require.NoError(t, b.Release())
	next := func() string {
		select {
		case name := <-called:
			return name
		case <-ctx.Done():
			return "nothing"
		}
	}
	require.Empty(t, called)
	require.NoError(t, gates[1].SetStatus(runtime.Complete))
	require.Equal(t, []string{"right", "right first"}, []string{next(), next()})
	require.Empty(t, called)
	require.NoError(t, gates[0].SetStatus(runtime.Complete))
	require.Equal(t, []string{"left", "left first", "whole"}, []string{next(), next(), next()})
}

func TestCloseCallsTheReleaseCallbacksOfLeaks(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	b := h.create(8, 0, nil)
	called := false
	require.NoError(t, b.OnRelease(func() { called = true }))
	h.closed = true
	require.ErrorIs(t, h.c.Close(soon(t)), runtime.ErrLeak)
	require.True(t, called)
}

func TestAQueueTellsWhatItIs(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, runtime.QueueOptions{})
	q := h.queue(h.devs[1], runtime.QueueOptions{Name: "mine"})
	require.Same(t, h.c, q.Context())
	require.Equal(t, mem.MemoryID(2), q.Memory())
	require.Equal(t, "mine", q.Name())
	require.NotEmpty(t, h.q[0].Name(), "one is made up")
	require.NotEqual(t, h.q[0].Name(), h.q[1].Name())
}
