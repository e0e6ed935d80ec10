package virtual_test

import (
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/virtual"
	"godwit/mem"
	"godwit/runtime"
)

func TestARingAsOneFlowAndChunkByChunkAgree(t *testing.T) {
	for _, size := range []uint64{3 << 20, 16 << 20, 40_000_000} {
		for _, shared := range []uint64{0, 12 * gig} { // what both of the ring's paths, and the other ring, share
			var took [2]uint64
			for i, exact := range []bool{false, true} {
				h := open(t, &bench{devices: 4, rates: []uint64{10 * gig, 10 * gig, 14 * gig, 7 * gig}, rate: 10 * gig, shared: shared, latency: 2000, setup: 3000, kernel: 100 * gig}, virtual.Options{Exact: exact})
				a, b := h.buffer(size), h.buffer(size)
				h.runs(func() {
					h.ok(h.qs[0].EnqueueFill(bg, a, []byte{1}, 0, size))
					h.ok(h.qs[2].EnqueueFill(bg, b, []byte{2}, 0, size))
				})
				took[i] = h.runs(func() {
					h.migrate(1, a)
					h.migrate(3, b)
				})
				require.EqualValues(t, 2, h.c.MoverStats().Rings)
			}
			require.InEpsilon(t, took[1], took[0], 0.02, "%d bytes, %d shared", size, shared)
		}
	}
}

func TestRingsToSeveralDestinationsDoNotWaitForEachOther(t *testing.T) {
	h := open(t, &bench{devices: 4, rate: 10 * gig, kernel: 100 * gig}, virtual.Options{Seed: 1})
	a, b := h.buffer(1<<20), h.buffer(1<<20)
	h.runs(func() {
		h.ok(h.qs[0].EnqueueFill(bg, a, []byte{1}, 0, 1<<20))
		h.ok(h.qs[1].EnqueueFill(bg, b, []byte{2}, 0, 1<<20))
	})
	h.runs(func() {
		h.ok(h.qs[0].EnqueueMigrateTo(bg, []*runtime.Buffer{a}, []mem.MemoryID{3, 4}))
		h.ok(h.qs[1].EnqueueMigrateTo(bg, []*runtime.Buffer{b}, []mem.MemoryID{4, 3}))
	})
	for _, at := range []struct {
		b *runtime.Buffer
		v byte
	}{{a, 1}, {b, 2}} {
		for q := 2; q < 4; q++ {
			got := make([]byte, 1<<20)
			require.NoError(t, h.qs[q].Read(bg, at.b, 0, got))
			require.Equal(t, at.v, got[len(got)-1])
		}
	}
}

func TestRingsBothWaysThroughOneEngineOfEachDeviceDoNotWaitForEachOther(t *testing.T) {
	for _, slots := range []int{1, 3} {
		for _, all := range []bool{false, true} {
			for seed := range uint64(4) {
				h := open(t, &bench{devices: 3, rate: 10 * gig, kernel: 100 * gig, setup: 1000, slots: slots, both: true, all: all}, virtual.Options{Seed: seed})
				bs := make([]*runtime.Buffer, 6*slots)
				h.runs(func() {
					for i := range bs {
						bs[i] = h.buffer(1 << 20)
						h.ok(h.qs[i%3].EnqueueFill(bg, bs[i], []byte{byte(i)}, 0, 1<<20))
					}
				})
				h.runs(func() { // from each device to each other, as often as there are slots
					for i, b := range bs {
						h.migrate((i+1+i/3%2)%3, b)
					}
				})
				h.runs(func() { // to two at once, which share an engine with where it comes from
					h.ok(h.qs[0].EnqueueMigrateTo(bg, bs[:1], []mem.MemoryID{2, 3}))
					h.ok(h.qs[1].EnqueueMigrateTo(bg, bs[1:2], []mem.MemoryID{1, 3}))
				})
				require.NotZero(t, h.c.MoverStats().Batches)
				for i, b := range bs {
					got := make([]byte, 1<<20)
					require.NoError(t, h.qs[(i+1)%3].Read(bg, b, 0, got))
					require.Equal(t, byte(i), got[len(got)-1])
				}
			}
		}
	}
}

func TestACommandThatIsToFailFailsWhateverItIsAndWithStampsAlike(t *testing.T) {
	for _, stamps := range []bool{false, true} {
		for i, what := range []string{"write", "map", "unmap", "marker", "barrier"} {
			h := open(t, &bench{devices: 1, rate: gig}, virtual.Options{Stamps: stamps, Fail: []virtual.Failure{{Command: uint64(i + 1)}}})
			q, b := h.qs[0], h.buffer(4096)
			write, err := q.EnqueueWrite(bg, b, 0, make([]byte, 4096))
			require.NoError(t, err)
			m, mapped, err := q.EnqueueMap(bg, b, 0, 4096, runtime.MapWrite)
			require.NoError(t, err)
			unmapped, err := q.EnqueueUnmap(bg, m)
			require.NoError(t, err)
			marker, err := q.EnqueueMarker(bg)
			require.NoError(t, err)
			barrier, err := q.EnqueueBarrier(bg)
			require.NoError(t, err)
			e := []runtime.Event{write, mapped, unmapped, marker, barrier}[i]
			require.ErrorIs(t, e.Wait(bg), virtual.ErrInjected, "%s, stamps %v", what, stamps)
			require.ErrorIs(t, q.Finish(bg), virtual.ErrInjected)
		}
	}
}

func TestWhatIsToFailFailsWhenItWouldHaveEnded(t *testing.T) {
	h := open(t, &bench{devices: 2, rate: gig}, virtual.Options{Fail: []virtual.Failure{{Command: 2}, {Memory: 2, At: 2_500_000}}})
	data := make([]byte, 1e6)
	x, y := h.buffer(1e6), h.buffer(1e6)
	e, err := h.qs[0].EnqueueWrite(bg, x, 0, data)
	require.NoError(t, err)
	f, err := h.qs[0].EnqueueWrite(bg, x, 0, data)
	require.NoError(t, err)
	require.NoError(t, e.Wait(bg))
	require.EqualValues(t, 1_000_000, h.w.Time())
	require.ErrorIs(t, f.Wait(bg), virtual.ErrInjected)
	require.EqualValues(t, 2_000_000, h.w.Time())
	g, err := h.qs[1].EnqueueWrite(bg, y, 0, data) // under way at 2.5 ms
	require.NoError(t, err)
	require.ErrorIs(t, g.Wait(bg), virtual.ErrInjected)
	require.EqualValues(t, 3_000_000, h.w.Time())
	_, err = h.qs[1].EnqueueRead(bg, y, 0, data)
	require.ErrorIs(t, err, mem.ErrPoisoned)
	require.NoError(t, h.qs[1].Write(bg, y, 0, data))
	require.NoError(t, h.qs[1].Read(bg, y, 0, data))
	require.ErrorIs(t, h.qs[0].Finish(bg), virtual.ErrInjected)
	require.ErrorIs(t, h.qs[1].Finish(bg), virtual.ErrInjected)
}

func TestADeviceThatFailsFailsWhatIsCopiedOutOfIt(t *testing.T) {
	for _, peers := range []uint64{0, gig} { // by a ring, whose second part waits for its engine at that time; and at once
		h := open(t, &bench{devices: 2, rate: gig, peers: peers, kernel: 100 * gig, chunk: 64 << 10}, virtual.Options{Fail: []virtual.Failure{{Memory: 1, At: 5_000_000}}})
		x, y := h.buffer(1e6), h.buffer(8e6)
		h.ok(h.qs[0].EnqueueFill(bg, x, []byte{1}, 0, 1e6))
		require.NoError(t, h.qs[0].Finish(bg))
		require.NoError(t, h.w.Pause(bg, 4_500_000))
		if peers == 0 {
			h.write(1, y, make([]byte, 8e6))
		}
		e, err := h.qs[1].EnqueueMigrate(bg, []*runtime.Buffer{x}, 0)
		require.NoError(t, err)
		require.ErrorIs(t, e.Wait(bg), virtual.ErrInjected)
		require.Greater(t, h.w.Time(), uint64(5_000_000))
		require.NoError(t, e.Release())
		require.Error(t, h.qs[1].Finish(bg))
	}
}

// Room that comes back when a command has ended is waited for until then.
func TestAnEnqueueThatNeedsToWaitForRoomMovesTheClockToIt(t *testing.T) {
	const size = 1 << 20
	h := open(t, &bench{devices: 1, rate: gig, memory: size + size/2}, virtual.Options{}, func(o *runtime.Options) { o.WaitForMemory, o.NoEviction = true, true })
	x, err := h.c.CreateBuffer(size, 0, nil)
	require.NoError(t, err)
	data := make([]byte, size)
	h.ok(h.qs[0].EnqueueWrite(bg, x, 0, data))
	require.NoError(t, x.Release())
	require.Zero(t, h.w.Time())
	y := h.buffer(size)
	h.ok(h.qs[0].EnqueueWrite(bg, y, 0, data))
	require.LessOrEqual(t, h.w.Time(), uint64(size))
	require.NoError(t, h.qs[0].Finish(bg))
	require.EqualValues(t, 2*size, h.w.Time())
}

func TestACallbackRunsOnAHostThreadAtTheEndOfItsCommand(t *testing.T) {
	h := open(t, &bench{devices: 1, rate: gig}, virtual.Options{})
	x := h.buffer(1e6)
	data := make([]byte, 1e6)
	gate, err := h.c.NewUserEvent()
	require.NoError(t, err)
	e, err := h.qs[0].EnqueueWrite(bg, x, 0, data)
	require.NoError(t, err)
	var at uint64
	require.NoError(t, e.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) {
		require.NoError(t, h.qs[0].Write(bg, x, 0, data)) // waits, as code on a host thread may
		at = h.w.Time()
		require.NoError(t, gate.SetStatus(runtime.Complete))
	}))
	require.NoError(t, gate.Wait(bg))
	require.EqualValues(t, 2_000_000, at)
	require.EqualValues(t, at, h.w.Time())
}

func TestNoGoroutineIsLeftOrStartedByTheHouse(t *testing.T) {
	before := goroutines()
	none := func() {
		t.Helper()
		for id, stack := range goroutines() {
			require.Contains(t, before, id, "started meanwhile:\n%s", stack)
		}
	}
	h := open(t, &bench{devices: 8, rate: gig, kernel: 100 * gig}, virtual.Options{})
	b := h.buffer(1 << 20)
	h.ok(h.qs[0].EnqueueFill(bg, b, []byte{1}, 0, 1<<20))
	for i := range h.qs {
		h.migrate(i, b)
		none()
	}
	require.NoError(t, h.qs[7].Finish(bg))
	none()
}

// goroutines are those that Godwit's code has started, by their numbers, which are given
// once: those of earlier tests may end at any time, so that how many there are says nothing.
func goroutines() map[string]string {
	all := make([]byte, 1<<20)
	out := make(map[string]string)
	for _, stack := range strings.Split(string(all[:goruntime.Stack(all, true)]), "\n\n") {
		if strings.Contains(stack, "\ncreated by godwit/") {
			out[strings.Fields(stack)[1]] = stack
		}
	}
	return out
}

func TestTheSeedChangesNoTimeWhereNothingIsShared(t *testing.T) {
	var first uint64
	for seed := range uint64(5) {
		h := open(t, &bench{devices: 8, rate: gig, peers: 10 * gig, kernel: 100 * gig}, virtual.Options{Seed: seed})
		var took uint64
		for i := range h.qs {
			b := h.buffer(1 << 16)
			took += h.runs(func() {
				for range 10 {
					h.ok(h.qs[i].EnqueueFill(bg, b, []byte{1}, 0, 1<<16))
					h.migrate((i+1)%8, b)
				}
			})
		}
		if first == 0 {
			first = took
		}
		require.Equal(t, first, took)
	}
}

// Memory of the program's is no part of what a machine's host has: it was given back to a bound that had not given it.
func TestAHostOfSoManyBytesUsesTheProgramsBesides(t *testing.T) {
	h := open(t, &bench{devices: 1, rate: gig, memory: 1 << 20}, virtual.Options{})
	own := make([]byte, 1<<20)
	b, err := h.c.CreateBuffer(uint64(len(own)), runtime.UseHostPtr, own)
	require.NoError(t, err)
	require.NoError(t, b.Release())
	p, err := h.c.SVMAlloc(4096, 0, 0)
	require.NoError(t, err)
	require.NoError(t, h.c.SVMFree(p))
	require.NoError(t, h.c.Check())
	_, err = open(t, &bench{devices: 1, rate: gig}, virtual.Options{Stamps: true}).c.SVMAlloc(4096, 0, 0)
	require.ErrorIs(t, err, mem.ErrInvalidOperation, "there are no bytes to point at")
}
