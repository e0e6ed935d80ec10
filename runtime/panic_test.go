package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/eviction"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// striker is a sink, a policy and a resource of the program's, of which one call panics.
type striker struct {
	eviction.LRU
	what string       // the kind of call
	left atomic.Int32 // calls of that kind until the one that panics; below 0 it has
}

var errStruck = errors.New("the program's own code panics")

func (s *striker) call(what string) {
	if what == s.what && s.left.Add(-1) == 0 {
		panic(errStruck)
	}
}

func (s *striker) Buffer(*trace.BufferRecord)        { s.call("Buffer") }
func (s *striker) Command(*trace.CommandRecord)      { s.call("Command") }
func (s *striker) Ends() trace.Ends                  { return trace.AllEnds }
func (s *striker) Completed(*trace.CompletionRecord) { s.call("Completed") }
func (s *striker) Observe([]mem.Access)              { s.call("Observe") }
func (s *striker) Score(n uint64, c *eviction.Candidate) float64 {
	s.call("Score")
	return s.LRU.Score(n, c)
}

// layer is a resource over a device's.
type layer struct {
	mem.Resource
	s *striker
}

func (l layer) AllocAll(reqs []mem.Request, blocks []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	l.s.call("AllocAll")
	return l.Resource.AllocAll(reqs, blocks, reuse)
}

func (l layer) Fits(reqs []mem.Request, gone []mem.Block, reuse *mem.Reuse) bool {
	l.s.call("Fits")
	return l.Resource.Fits(reqs, gone, reuse)
}

// again calls f until it does not panic.
func again(t *testing.T, f func()) {
	for struck := true; struck; {
		func() {
			defer func() {
				v := recover()
				if struck = v != nil; struck {
					err, ok := v.(error)
					require.True(t, ok, "%v", v)
					require.ErrorIs(t, err, errStruck)
				}
			}()
			f()
		}()
	}
}

// TestAPanicOfTheProgramsOwnCodeLeavesLocksFreeAndCountsRight: C14. Each of the first calls of
// each kind panics once, and who called recovers and calls again.
func TestAPanicOfTheProgramsOwnCodeLeavesLocksFreeAndCountsRight(t *testing.T) {
	for _, what := range []string{"Buffer", "Command", "Completed", "Observe", "Score", "AllocAll", "Fits", "OnShortage"} {
		for n := int32(1); n <= 24; n++ {
			if !survives(t, what, n) {
				require.Greater(t, n, int32(1), "%s is never called", what)
				break
			}
		}
	}
}

// survives runs a program in which call n of a kind panics, and reports whether it came to that.
func survives(t *testing.T, what string, n int32) bool {
	s := &striker{what: what}
	o := runtime.Options{
		Trace: s, Policy: s,
		Resource:   func(_ mem.MemoryID, base mem.Resource) mem.Resource { return layer{base, s} },
		OnShortage: func(context.Context, *runtime.OutOfMemory) bool { s.call("OnShortage"); return false },
	}
	h := crowded(t, o, 1)
	ctx, q := soon(t), h.q[0]
	s.left.Store(n)
	var buffers []*runtime.Buffer
	for range 6 {
		again(t, func() {
			b := h.create(room, 0, nil)
			buffers = append(buffers, b)
		})
	}
	paint := func(i int, b *runtime.Buffer) {
		again(t, func() {
			e := must(q.EnqueueFill(ctx, b, []byte{byte(i)}, 0, room))
			require.NoError(t, e.Release())
		})
		again(t, func() { require.NoError(t, q.Finish(ctx)) })
	}
	for range 2 {
		for i, b := range buffers {
			paint(i, b)
		}
	}
	for i, b := range buffers {
		again(t, func() {
			got := make([]byte, 1) // of each try: what a call accepted that panicked is carried out
			require.NoError(t, q.Read(ctx, b, room-1, got))
			require.Equal(t, byte(i), got[0])
		})
	}
	var gate runtime.Event
	again(t, func() { gate = h.gate() })
	for _, b := range buffers[:4] {
		again(t, func() {
			e := must(q.EnqueueFill(ctx, b, []byte{9}, 0, room, gate))
			require.NoError(t, e.Release())
		})
	}
	again(t, func() { // what is there hangs
		_, err := q.EnqueueFill(ctx, buffers[4], []byte{9}, 0, room)
		require.ErrorIs(t, err, mem.ErrNoMemory)
	})
	again(t, func() { require.NoError(t, gate.SetStatus(runtime.Complete)) })
	require.NoError(t, gate.Release())
	again(t, func() { require.NoError(t, h.c.Check()) })
	for _, b := range buffers {
		again(t, func() {
			if err := b.Release(); err != nil {
				require.ErrorIs(t, err, mem.ErrInvalidBuffer, "the call that panicked released it")
			}
		})
	}
	again(t, func() { require.NoError(t, q.Finish(ctx)) })
	struck := s.left.Load() <= 0
	s.left.Store(-1)
	require.Zero(t, h.c.LiveEvents(), "%s %d", what, n)
	require.Zero(t, h.devs[0].Memory().Stats().Live, "%s %d", what, n)
	// An end may be told after who waited for it has gone on; the next call raises what that panics with.
	again(t, func() { require.NoError(t, h.c.Check()) })
	again(t, func() { require.NoError(t, h.c.Close(ctx), "%s %d", what, n) })
	h.closed = true
	return struck
}

// TestASinksPanicInACloseThatGoesOnByItselfIsItsCallers: no goroutine of the runtime's has it,
// where nobody could recover from it.
func TestASinksPanicInACloseThatGoesOnByItselfIsItsCallers(t *testing.T) {
	s := &striker{what: "Buffer"}
	h := build(t, runtime.Options{Devices: memories(1), Trace: s}, runtime.QueueOptions{})
	released := false
	require.NoError(t, h.buffer(room, nil).OnRelease(func() { released = true }))
	s.left.Store(1)
	for range 2 {
		require.PanicsWithError(t, errStruck.Error(), func() {
			defer func() {
				if p, ok := recover().(*runtime.HookPanic); ok {
					panic(p.Value)
				}
			}()
			_ = h.c.CloseWithin(soon(t))
		})
		require.True(t, released, "the rest of closing was done")
	}
	h.closed = true
}

// TestACallbackThatEndsItsGoroutineDoesNotHoldUpOthers: as a test's FailNow does.
func TestACallbackThatEndsItsGoroutineDoesNotHoldUpOthers(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	e := h.ok(h.q[0].EnqueueMarker(soon(t)))
	called := make(chan struct{})
	require.NoError(t, e.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) { goruntime.Goexit() }))
	require.NoError(t, e.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) { close(called) }))
	h.ended(e)
	<-called
	require.NoError(t, h.c.Close(soon(t)))
	h.closed = true
	require.Zero(t, h.c.LiveEvents())
}

// ranker is a policy whose score number left panics, of one that keeps an order of blocks.
type ranker struct {
	eviction.LRU
	left int
}

func (r *ranker) ScoreAt(base, now uint64, c *eviction.Candidate) float64 {
	if r.left--; r.left == 0 {
		panic(errStruck)
	}
	return r.LRU.ScoreAt(base, now, c)
}

// TestAnOrderOfBlocksInWhoseMakingAPolicyPanickedIsMadeAnew: else the blocks that it had not
// come to would never leave.
func TestAnOrderOfBlocksInWhoseMakingAPolicyPanickedIsMadeAnew(t *testing.T) {
	const blocks = 64
	d := must(cpu.New(cpu.Options{Memory: blocks * room}))
	policy := &ranker{}
	h := build(t, runtime.Options{Devices: []devices.Device{d}, Policy: policy}, runtime.QueueOptions{OutOfOrder: true})
	var all []*runtime.Buffer
	for range blocks + 1 {
		all = append(all, h.buffer(room, nil))
	}
	for i, b := range all[:blocks] {
		h.ended(h.paint(h.q[0], b, byte(i)))
	}
	gate := h.gate()
	for _, b := range all[:2] { // they have to stay
		require.NoError(t, h.paint(h.q[0], b, 9, gate).Release())
	}
	policy.left = 3
	tries := 0
	again(t, func() {
		tries++
		h.ended(h.paint(h.q[0], all[blocks], 9))
	})
	require.Equal(t, 2, tries)
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, gate.Release())
	require.NoError(t, h.q[0].Finish(soon(t)))
}
