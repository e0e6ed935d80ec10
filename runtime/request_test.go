package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
	"godwit/runtime"
)

var errGone = errors.New("the client has gone")

// outcomes waits for events and says which failed.
func outcomes(t require.TestingT, ctx context.Context, events []runtime.Event) []error {
	out := make([]error, len(events))
	for i, e := range events {
		if out[i] = e.Wait(ctx); ctx.Err() != nil {
			require.Fail(t, "a command hangs", "%v", e)
		}
	}
	return out
}

// TestAnAbortedRequestRunsAtMostItsWindow: behind a user event the window is full of what the device has been given; all else fails, and
// poisons what it would have written and no more.
func TestAnAbortedRequestRunsAtMostItsWindow(t *testing.T) {
	for _, by := range []string{"request", "queue", "context"} {
		h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
		ctx := soon(t)
		of, cancel := context.WithCancelCause(ctx)
		r := must(h.c.NewRequest(of))
		q := h.q[0].With(runtime.CommandOptions{Request: r})
		var bufs []*runtime.Buffer
		var events []runtime.Event
		gate := h.gate()
		h.ok(h.q[0].EnqueueMarker(ctx, gate))
		for i := range 10 {
			b := h.buffer(64, make([]byte, 64))
			bufs = append(bufs, b)
			events = append(events, h.ok(q.EnqueueFill(ctx, b, []byte{byte(i + 1)}, 0, 32)))
		}
		others := h.ok(h.q[0].EnqueueFill(ctx, bufs[9], []byte{99}, 32, 32))
		switch by {
		case "request":
			require.NoError(t, r.Abort(errGone))
		case "queue":
			require.NoError(t, h.q[0].Abort(errGone))
		case "context":
			cancel(errGone)
			require.Eventually(t, func() bool { return r.Err() != nil }, 10*time.Second, time.Millisecond)
			require.NoError(t, r.Abort(errGone)) // the other abort may be under way yet
		}
		require.NoError(t, gate.SetStatus(runtime.Complete))
		for i, err := range outcomes(t, ctx, events) {
			got := make([]byte, 32)
			if i < 4 {
				require.NoError(t, err)
				require.NoError(t, h.q[0].Read(ctx, bufs[i], 0, got))
				require.Equal(t, byte(i+1), got[31])
				continue
			}
			require.ErrorIs(t, err, errGone)
			require.ErrorIs(t, h.q[0].Read(ctx, bufs[i], 0, got), mem.ErrPoisoned)
			require.NoError(t, h.q[0].Read(ctx, bufs[i], 32, got), "what it would not have written")
		}
		require.NoError(t, others.Wait(ctx), "of no request")
		_, err := q.EnqueueFill(ctx, bufs[0], []byte{1}, 0, 32)
		if by == "queue" {
			require.NoError(t, err, "the queue goes on")
		} else {
			require.ErrorIs(t, err, errGone)
		}
		r.Close()
		_, err = q.EnqueueMarker(ctx)
		require.Error(t, err)
		require.ErrorIs(t, h.q[0].Finish(ctx), errGone)
		cancel(nil)
	}
}

// TestWhatOthersNeedIsNotCalledOff: another request reads, on another device, what the fifth command of the aborted one writes, which is copied there; that
// needs the fourth one beyond the window. The others fail.
func TestWhatOthersNeedIsNotCalledOff(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, runtime.QueueOptions{})
	ctx := soon(t)
	r, other := must(h.c.NewRequest(ctx)), must(h.c.NewRequest(ctx))
	q := h.q[0].With(runtime.CommandOptions{Request: r})
	gate := h.gate()
	h.ok(h.q[0].EnqueueMarker(ctx, gate))
	a, b, c := h.buffer(64, make([]byte, 64)), h.buffer(64, make([]byte, 64)), h.buffer(64, make([]byte, 64))
	for i := range 4 {
		h.ok(q.EnqueueFill(ctx, a, []byte{byte(i)}, 0, 64))
	}
	events := []runtime.Event{
		h.ok(q.EnqueueFill(ctx, a, []byte{7}, 0, 64)),
		h.ok(q.EnqueueCopy(ctx, a, b, 0, 0, 64)),
		h.ok(q.EnqueueFill(ctx, c, []byte{8}, 0, 64)),
	}
	got := make([]byte, 64)
	reads := h.ok(h.q[1].With(runtime.CommandOptions{Request: other}).EnqueueRead(ctx, b, 0, got))
	require.NoError(t, r.Abort(errGone))
	require.NoError(t, gate.SetStatus(runtime.Complete))
	failed := outcomes(t, ctx, append(events, reads))
	require.NoError(t, errors.Join(failed[0], failed[1], failed[3]))
	require.ErrorIs(t, failed[2], errGone)
	require.EqualValues(t, 7, got[63])
	r.Close()
	other.Close()
	_ = h.q[0].Finish(ctx)
}

// TestAWindowNeverHoldsUpWhatIsReady: out of order, commands that wait for the program come first, and what they wait for is behind them.
func TestAWindowNeverHoldsUpWhatIsReady(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx := soon(t)
	r := must(h.c.NewRequest(ctx))
	defer r.Close()
	q := h.q[0].With(runtime.CommandOptions{Request: r})
	gate := h.gate()
	var events []runtime.Event
	for range 20 {
		b := h.buffer(64, make([]byte, 64))
		events = append(events, h.ok(q.EnqueueFill(ctx, b, []byte{1}, 0, 64, gate)))
	}
	var all []runtime.Event
	for range 8 { // more than the window, each waits for the last
		done := make(chan struct{})
		all = append(all, h.ok(q.EnqueueHostCall(ctx, func(context.Context) error { <-done; return nil })))
		defer close(done)
	}
	last := h.ok(q.EnqueueFill(ctx, h.buffer(64, nil), []byte{1}, 0, 64))
	require.NoError(t, last.Wait(ctx))
	require.NoError(t, gate.SetStatus(runtime.Complete))
	for _, err := range outcomes(t, ctx, events) {
		require.NoError(t, err)
	}
	_ = all
}

// notAborted is more commands than there are.
const notAborted = 1 << 30

// wanted is a command of a random history: it fills a buffer, or copies one to another.
type wanted struct {
	of       int // request; -1 is none
	src, dst int // src -1 is a fill
	value    byte
	event    runtime.Event
	refused  bool
}

// TestAbortedRequestsLoseExactlyTheirs runs random commands of requests that are aborted at random on queues of all kinds, and looks at each command and
// byte: C9 and C15. A command fails only where its request was aborted or something that it reads was lost; a command that nobody called off and
// that an outsider needs has run.
func TestAbortedRequestsLoseExactlyTheirs(t *testing.T) {
	var off int
	rapid.Check(t, func(rt *rapid.T) { off += requestHistory(t, rt) })
	require.Positive(t, off, "commands were called off")
}

// requestHistory runs one, and returns how many commands were called off.
func requestHistory(t *testing.T, rt *rapid.T) (off int) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := must(runtime.NewContext(runtime.Options{Devices: memories(2), OwnDevices: true}))
	defer func() { require.NoError(rt, c.Close(ctx)) }()
	var qs []*runtime.Queue
	for m := range 2 {
		for _, ooo := range []bool{false, true} {
			qs = append(qs, must(c.NewQueue(must(c.Device(mem.MemoryID(m+1))), runtime.QueueOptions{OutOfOrder: ooo})))
		}
	}
	var bufs []*runtime.Buffer
	for range 5 {
		bufs = append(bufs, must(c.CreateBuffer(8, 0, make([]byte, 8))))
	}
	var requests []*runtime.Request
	aborted := make([]int, 3) // how many commands came before; more than there are where it was not
	for k := range aborted {
		aborted[k] = notAborted
		requests = append(requests, must(c.NewRequest(ctx)))
	}
	gate := must(c.NewUserEvent())
	for _, q := range qs {
		must(q.EnqueueBarrier(ctx, gate))
	}
	var all []wanted
	var aborts sync.WaitGroup
	for range rapid.IntRange(1, 60).Draw(rt, "commands") {
		if rapid.IntRange(0, 19).Draw(rt, "abort") == 0 {
			k := rapid.IntRange(0, len(aborted)-1).Draw(rt, "which")
			aborted[k] = min(aborted[k], len(all))
			if rapid.Bool().Draw(rt, "beside") {
				aborts.Go(func() { check(requests[k].Abort(errGone)) })
			} else {
				check(requests[k].Abort(errGone))
			}
		}
		x := wanted{of: rapid.IntRange(-1, len(requests)-1).Draw(rt, "of"), src: rapid.IntRange(-1, len(bufs)-1).Draw(rt, "src"), dst: rapid.IntRange(0, len(bufs)-1).Draw(rt, "dst"), value: byte(len(all) + 1)}
		q := qs[rapid.IntRange(0, len(qs)-1).Draw(rt, "queue")]
		if x.of >= 0 {
			q = q.With(runtime.CommandOptions{Request: requests[x.of]})
		}
		var err error
		if x.src < 0 || x.src == x.dst {
			x.src = -1
			x.event, err = q.EnqueueFill(ctx, bufs[x.dst], []byte{x.value}, 0, 8)
		} else {
			x.event, err = q.EnqueueCopy(ctx, bufs[x.src], bufs[x.dst], 0, 0, 8)
		}
		if x.refused = err != nil; x.refused && !errors.Is(err, mem.ErrPoisoned) {
			require.ErrorIs(rt, err, errGone)
			require.True(rt, x.of >= 0 && aborted[x.of] < notAborted)
		}
		all = append(all, x)
		if rapid.IntRange(0, 29).Draw(rt, "open") == 0 {
			_ = gate.SetStatus(runtime.Complete)
		}
	}
	_ = gate.SetStatus(runtime.Complete)
	aborts.Wait()
	off = requestVerdict(rt, ctx, qs[0], bufs, aborted, all)
	for _, b := range bufs {
		require.NoError(rt, b.Release())
	}
	for _, r := range requests {
		r.Close()
	}
	require.NoError(rt, c.Check())
	return off
}

// requestVerdict holds a history's commands and bytes against what became of each.
func requestVerdict(rt *rapid.T, ctx context.Context, q *runtime.Queue, bufs []*runtime.Buffer, aborted []int, all []wanted) (gone int) {
	values, lost, writer := make([]byte, len(bufs)), make([]bool, len(bufs)), make([]int, len(bufs))
	off := make([]bool, len(all)) // called off, not for what it reads
	for i := range writer {
		writer[i] = -1
	}
	for i, x := range all {
		if x.refused {
			continue
		}
		err := x.event.Wait(ctx)
		require.NoError(rt, ctx.Err(), "command %d hangs", i)
		reads := x.src >= 0 && lost[x.src]
		switch {
		case reads:
			require.Error(rt, err, "command %d reads what was lost", i)
			if w := writer[x.src]; off[w] && i < aborted[all[w].of] {
				require.Equal(rt, all[w].of, x.of, "command %d of request %d needs %d of %d, which was called off after that", i, x.of, w, all[w].of)
			}
		case err != nil:
			require.ErrorIs(rt, err, errGone)
			require.True(rt, x.of >= 0 && aborted[x.of] < notAborted, "command %d failed: %v", i, err)
			off[i] = true
			gone++
		}
		lost[x.dst], writer[x.dst] = err != nil, i
		if values[x.dst] = x.value; x.src >= 0 {
			values[x.dst] = values[x.src]
		}
		require.NoError(rt, x.event.Release())
	}
	for i, b := range bufs {
		got := make([]byte, 8)
		err := q.Read(ctx, b, 0, got)
		if lost[i] {
			require.ErrorIs(rt, err, mem.ErrPoisoned)
			continue
		}
		require.NoError(rt, err)
		require.Equal(rt, values[i], got[7], "buffer %d", i)
	}
	return gone
}

// BenchmarkRequestFills is a fill in a row, short and long, of no request and of one.
func BenchmarkRequestFills(b *testing.B) {
	c := must(runtime.NewContext(runtime.Options{Devices: memories(1), OwnDevices: true}))
	ctx := context.Background()
	defer func() { check(c.Close(ctx)) }()
	q := must(c.NewQueue(must(c.Device(1)), runtime.QueueOptions{}))
	buf := must(c.CreateBuffer(1<<20, 0, nil))
	defer func() { check(buf.Release()) }()
	r := must(c.NewRequest(ctx))
	defer r.Close()
	one := []byte{1}
	for _, size := range []uint64{1 << 16, 1 << 20} {
		for _, of := range []*runtime.Request{nil, r} {
			with := q.With(runtime.CommandOptions{NoEvent: true, Request: of, Label: "fill"})
			b.Run(fmt.Sprintf("%d KiB/request=%t", size>>10, of != nil), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					must(with.EnqueueFill(ctx, buf, one, 0, size))
					if i%1000 == 999 {
						check(q.Finish(ctx))
					}
				}
				check(q.Finish(ctx))
			})
		}
	}
}

// TestAnEnqueueThatWaitsForRoomIsCalledOffWithItsRequest: what it waits for does not end before it was refused.
func TestAnEnqueueThatWaitsForRoomIsCalledOffWithItsRequest(t *testing.T) {
	for _, closes := range []bool{false, true} {
		h := crowded(t, runtime.Options{WaitForMemory: true, NoEviction: true}, 1)
		q, began, end := h.q[0], make(chan struct{}), make(chan struct{})
		big := h.buffer(3*room, nil)
		h.done(h.ok(q.EnqueueFill(soon(t), big, []byte{1}, 0, 3*room)))
		call := h.ok(q.EnqueueHostCall(soon(t), func(context.Context) error { close(began); <-end; return nil }))
		h.ok(q.EnqueueRead(soon(t), big, 0, make([]byte, 16), call))
		<-began
		r := must(h.c.NewRequest(context.Background()))
		b, got := h.buffer(2*room, nil), make(chan error, 1)
		require.NoError(t, big.Release()) // its bytes come back when the read has ended
		ctx := soon(t)
		go func() {
			_, err := q.With(runtime.CommandOptions{Request: r}).EnqueueFill(ctx, b, []byte{2}, 0, 2*room)
			got <- err
		}()
		time.Sleep(5 * time.Millisecond) // it waits; if it does not yet, it is refused all the same
		cause := mem.ErrInvalidOperation
		if closes {
			r.Close()
		} else {
			cause = errGone
			require.NoError(t, r.Abort(cause))
		}
		require.ErrorIs(t, <-got, cause)
		close(end)
		require.NoError(t, h.c.Check())
	}
}

// TestCloseWaitsForAnAbortThatHasBegun: what its context calls off is called off when Close returns; else nothing is.
func TestCloseWaitsForAnAbortThatHasBegun(t *testing.T) {
	h, ctx := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{}), soon(t)
	b := h.buffer(64, make([]byte, 64))
	for range 100 {
		q := must(h.c.NewQueue(must(h.c.Device(1)), runtime.QueueOptions{})) // whose window has learned nothing
		of, cancel := context.WithCancelCause(ctx)
		r, gate := must(h.c.NewRequest(of)), h.gate()
		h.ok(q.EnqueueMarker(ctx, gate))
		var events []runtime.Event
		for range 6 {
			events = append(events, h.ok(q.With(runtime.CommandOptions{Request: r}).EnqueueFill(ctx, b, []byte{1}, 0, 64)))
		}
		cancel(errGone)
		r.Close()
		closed := !errors.Is(r.Err(), errGone)
		time.Sleep(50 * time.Microsecond) // for an abort that Close has not waited for
		require.NoError(t, gate.SetStatus(runtime.Complete))
		for i, err := range outcomes(t, ctx, events) {
			require.False(t, closed && err != nil, "command %d fails though the request was closed first: %v", i, err)
		}
		require.NoError(t, q.Close())
	}
}

func TestAPreviewForARequestThatIsOverIsRefusedAsItsLaunch(t *testing.T) {
	h := ask(t, 2, 1, runtime.Options{})
	r := must(h.c.NewRequest(context.Background()))
	defer h.close(t)
	l := h.launch(0, 0, 0)
	q := h.q[0].With(runtime.CommandOptions{Request: r})
	_, err := q.Preview(l)
	require.NoError(t, err)
	require.NoError(t, r.Abort(errGone))
	_, err = q.Preview(l)
	require.ErrorIs(t, err, errGone)
	r.Close()
}

func TestARequestOfAContextThatHasEndedTakesNothing(t *testing.T) {
	h := crowded(t, runtime.Options{}, 1)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(gone)
	r := must(h.c.NewRequest(ctx))
	defer r.Close()
	_, err := h.q[0].With(runtime.CommandOptions{Request: r}).EnqueueFill(soon(t), h.buffer(room, nil), []byte{1}, 0, room)
	require.ErrorIs(t, err, gone)
}

func TestWhoWaitsForAReadIsToldWhyItFailed(t *testing.T) {
	h := crowded(t, runtime.Options{}, 1)
	b, user := h.buffer(room, nil), must(h.c.NewUserEvent())
	h.paint(h.q[0], b, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const readers = 200 // more failures than causes are kept for without asking who needs them
	got := make(chan error, readers)
	for range readers {
		go func() { got <- h.q[0].Read(ctx, b, 0, make([]byte, 16), user) }()
	}
	time.Sleep(20 * time.Millisecond) // most wait by then; the others fail alike
	over := make(chan struct{})
	defer close(over)
	for range 4 {
		go func() {
			for {
				select {
				case <-over:
					return
				default:
					h.c.Stats() // settles failures
				}
			}
		}()
	}
	require.NoError(t, user.SetStatus(runtime.ExecStatus(-5)))
	for range readers {
		require.ErrorIs(t, <-got, mem.ErrDependency)
	}
}
