package mover_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices/devicetest"
	"godwit/internal/mover"
	"godwit/mem"
)

func TestADirectCopyIsOneLegOfWhoReachesBoth(t *testing.T) {
	f := newFabric(t, mover.Options{}, "host", "tce", "tce")
	want := pattern(3)
	f.write(1, want)
	for _, way := range [][2]int{{1, 0}, {0, 1}} {
		x := mover.Transfer{Way: mem.Direct, From: f.ends[way[0]], To: f.ends[way[1] : way[1]+1], Size: blockSize, Points: make([]mem.Point, 1)}
		require.NoError(t, f.m.Move(&x))
		require.NoError(t, x.Points[0].Wait(ctx))
		require.True(t, bytes.Equal(want, f.read(way[1])))
	}
	require.EqualValues(t, 2, f.m.Stats().Legs)
	x := mover.Transfer{Way: mem.Direct, From: f.ends[1], To: f.ends[2:], Size: 1, Points: make([]mem.Point, 1)}
	require.ErrorIs(t, f.m.Move(&x), mem.ErrInvalidOperation, "no queue reaches both: the way is not changed for another")
	for _, bad := range []mover.Transfer{
		{Way: mem.Ring, From: f.ends[1], To: f.ends[2:], Points: make([]mem.Point, 1)},
		{Way: mem.Ring, From: f.ends[1], To: f.ends[2:], Size: 1},
		{Way: mem.Ring, From: f.ends[1], Size: 1},
	} {
		require.ErrorIs(t, f.m.Move(&bad), mem.ErrInvalidValue)
	}
	require.ErrorIs(t, f.m.Move(&mover.Transfer{Way: mem.Same, From: f.ends[1], To: f.ends[2:], Size: 1, Points: make([]mem.Point, 1)}), mem.ErrInvalidOperation)
}

// TestOneReadServesAllDestinations, whatever carries the ring out.
func TestOneReadServesAllDestinations(t *testing.T) {
	for _, kind := range []string{"tce", "bus"} {
		f := newFabric(t, mover.Options{Chunk: 64 << 10, Budget: 1 << 20}, kind, kind, kind, kind, kind)
		want := pattern(1)
		f.write(0, want)
		f.submits.Fail(0)
		before := f.m.Stats().Legs
		out, err := f.ring(0, []int{1, 2, 3, 4}, blockSize)
		require.NoError(t, err)
		for i, p := range out {
			require.NoError(t, p.Wait(ctx))
			require.True(t, bytes.Equal(want, f.read(i+1)), "%s: destination %d", kind, i)
		}
		legs := f.m.Stats().Legs - before
		require.Zero(t, legs%5, "%s: each chunk is read once and written four times", kind)
		require.GreaterOrEqual(t, legs/5, uint64(blockSize/(64<<10)), kind)
		if kind == "bus" {
			require.EqualValues(t, 1, f.m.Stats().Batches)
		} else {
			require.EqualValues(t, legs, f.submits.Count())
		}
	}
}

// Who waits for a ring flushes once. What a gate holds until later, and then gives to queues, starts all the same.
func TestLegsOfARingThatWasHeldStartWithoutAFlush(t *testing.T) {
	f := newFabric(t, mover.Options{Chunk: 64 << 10, Budget: 1 << 20}, "lazy", "lazy", "lazy")
	want := pattern(3)
	f.write(0, want)
	user := mem.NewTimeline("user", false, nil)
	gate := user.Next()
	out, err := f.ring(0, []int{1, 2}, blockSize, mem.Wait{Point: gate, Kind: mem.Data})
	require.NoError(t, err)
	flush := func() {
		for _, q := range f.m.Lazy() {
			_ = q.Flush()
		}
	}
	flush()
	user.End(gate, nil)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	defer flush() // so that Close ends where this has failed
	for i, p := range out {
		require.NoError(t, p.Wait(ctx))
		require.True(t, bytes.Equal(want, f.read(i+1)))
	}
}

// TestEveryLegThatFails makes each Submit of a transfer to three destinations fail in
// turn: a destination whose point succeeds has the bytes, and one lost write leg costs no
// other destination anything.
func TestEveryLegThatFails(t *testing.T) {
	for _, kind := range []string{"tce", "bus"} {
		for _, gated := range []bool{false, true} {
			f := newFabric(t, mover.Options{Chunk: 64 << 10, Budget: 1 << 20}, kind, kind, kind, kind)
			user := mem.NewTimeline("user", false, nil)
			for n := 1; ; n++ {
				want := pattern(byte(n))
				f.write(0, want)
				var waits []mem.Wait
				var gate mem.Point
				if gated {
					gate = user.Next()
					waits = []mem.Wait{{Point: gate, Kind: mem.Data}}
				}
				f.submits.Fail(0)
				if kind == "bus" {
					n += 3 // the fake driver's own commands, which end the points
				}
				f.submits.Fail(n)
				out, err := f.ring(0, []int{1, 2, 3}, blockSize, waits...)
				if gated {
					require.NoError(t, err)
					user.End(gate, nil)
				}
				if err != nil {
					require.Equal(t, 1, n, "only the first leg is refused before anything is accepted")
					require.ErrorIs(t, err, devicetest.ErrInjected)
					require.Equal(t, make([]mem.Point, 3), out)
					require.NoError(t, f.m.Check())
					continue
				}
				lost := 0
				for i, p := range out {
					if err := p.Wait(ctx); err != nil {
						require.ErrorIs(t, err, devicetest.ErrInjected)
						lost++
						continue
					}
					require.True(t, bytes.Equal(want, f.read(i+1)), "%s: submit %d, destination %d", kind, n, i)
				}
				require.NoError(t, f.m.Check())
				if f.submits.Count() < n {
					require.Zero(t, lost)
					break
				}
				require.Contains(t, []int{1, 3}, lost, "a write is one's own, a read everybody's")
				if kind == "bus" {
					n -= 3
				}
			}
		}
	}
}

func TestAFailedSourceFailsTheTransferWithItsCause(t *testing.T) {
	for _, kinds := range [][]string{{"tce", "tce"}, {"bus", "bus"}, {"host", "bus"}} {
		f := newFabric(t, mover.Options{}, kinds...)
		user := mem.NewTimeline("user", false, nil)
		for _, early := range []bool{true, false} {
			bad := user.Next()
			if early {
				user.End(bad, errTest)
			}
			data, err := f.ring(0, []int{1}, 1000, mem.Wait{Point: bad, Kind: mem.Data})
			require.NoError(t, err)
			order, err := f.ring(0, []int{1}, 1000, mem.Wait{Point: bad, Kind: mem.Order})
			require.NoError(t, err)
			if !early {
				user.End(bad, errTest)
			}
			err = data[0].Wait(ctx)
			require.ErrorIs(t, err, mem.ErrDependency)
			require.ErrorIs(t, err, errTest)
			require.NoError(t, order[0].Wait(ctx), "an Order wait only delays")
			f.mu.Lock()
			require.Contains(t, f.fails, data[0])
			require.NotContains(t, f.fails, order[0])
			f.mu.Unlock()
		}
		require.NoError(t, f.m.Check())
	}
}

// TestARingThatWaitsHoldsNoStaging, so that one that is never to begin costs nothing.
func TestARingThatWaitsHoldsNoStaging(t *testing.T) {
	for _, kinds := range [][]string{{"tce", "tce"}, {"bus", "bus"}, {"host", "bus"}} {
		f := newFabric(t, mover.Options{Budget: 256 << 10}, kinds...)
		user := mem.NewTimeline("user", false, nil)
		gate := user.Next()
		var waiting []mem.Point
		for range 50 {
			out, err := f.ring(0, []int{1}, blockSize, mem.Wait{Point: gate})
			require.NoError(t, err)
			waiting = append(waiting, out...)
		}
		require.Zero(t, f.m.Stats().InFlight)
		out, err := f.ring(0, []int{1}, blockSize)
		require.NoError(t, err)
		require.NoError(t, out[0].Wait(ctx), "those that wait hold up nobody")
		user.End(gate, nil)
		for _, p := range waiting {
			require.NoError(t, p.Wait(ctx))
		}
	}
}

// TestGatedBatchesLeaveARing, where the driver gates them itself: they hold
// their staging for as long as what they wait for takes.
func TestGatedBatchesLeaveARing(t *testing.T) {
	f := newFabric(t, mover.Options{Budget: 512 << 10}, "bus", "bus", "bus")
	f.family.Native = true
	user := mem.NewTimeline("user", false, nil)
	gate := user.Next()
	var waiting []mem.Point
	defer func() { // a test that fails must not hang
		if !gate.Reached() {
			user.End(gate, nil)
		}
	}()
	for i := 0; i < 20; i++ {
		out, err := f.ring(0, []int{1}, blockSize, mem.Wait{Point: gate})
		require.NoError(t, err)
		waiting = append(waiting, out...)
		if i == 0 { // which found it short
			require.Eventually(t, func() bool { return f.m.Stats().Staging > 128<<10 }, 10*time.Second, time.Millisecond)
		}
	}
	require.Positive(t, f.m.Stats().InFlight)
	require.LessOrEqual(t, f.m.Stats().InFlight, uint64(384<<10))
	for range 5 {
		out, err := f.ring(1, []int{2}, blockSize)
		require.NoError(t, err)
		require.NoError(t, out[0].Wait(ctx))
	}
	user.End(gate, nil)
	for _, p := range waiting {
		require.NoError(t, p.Wait(ctx))
	}
}

// TestWithoutPageLockedMemoryRingsGoThroughOrdinary, and try again later.
func TestWithoutPageLockedMemoryRingsGoThroughOrdinary(t *testing.T) {
	f := newFabric(t, mover.Options{Budget: 1 << 20}, "host", "bus")
	f.family.NoLocks.Store(true)
	want := pattern(7)
	f.write(0, want)
	out, err := f.ring(0, []int{1}, blockSize)
	require.NoError(t, err)
	require.NoError(t, out[0].Wait(ctx))
	require.True(t, bytes.Equal(want, f.read(1)))
	require.EqualValues(t, 1, f.m.Stats().Unlocked)
	require.NotEmpty(t, f.m.Stats().Why)
	require.Eventually(t, func() bool { return f.m.Stats().Staging == 0 }, 10*time.Second, time.Millisecond, "ordinary memory goes back once it is idle")
	f.family.NoLocks.Store(false)
	out, err = f.ring(0, []int{1}, blockSize)
	require.NoError(t, err)
	require.NoError(t, out[0].Wait(ctx))
	require.EqualValues(t, 1, f.m.Stats().Unlocked)
	require.Positive(t, f.m.Stats().Staging)
}

func TestUserMemoryGoesThroughStaging(t *testing.T) {
	f := newFabric(t, mover.Options{Budget: 1 << 20, Lanes: 3}, "host", "bus")
	want, got := pattern(9), make([]byte, blockSize-100)
	carry := func(block mover.End, bytes []byte, into bool) error {
		done := make(carried, 1)
		f.m.Bytes(block, bytes, into, nil).Carry(done)
		return <-done
	}
	require.NoError(t, carry(f.ends[1], want, true))
	require.True(t, bytes.Equal(want, f.read(1)))
	part := f.ends[1]
	part.Off = 50
	require.NoError(t, carry(part, got, false))
	require.True(t, bytes.Equal(want[50:blockSize-50], got))
	f.submits.Fail(2)
	require.ErrorIs(t, carry(f.ends[1], want, true), devicetest.ErrInjected)
	require.NoError(t, f.m.Check())
}

type carried chan error

func (c carried) Carried(err error) { c <- err }

// TestRandomTransfersArrive runs random transfers between memories of all kinds, gated at
// random and opened in random order, with less staging than they want, against bytes.
func TestRandomTransfersArrive(t *testing.T) {
	kinds := []string{"host", "tce", "bus", "bus", "tce", "bus"}
	n := len(kinds)
	for _, native := range []bool{false, true} {
		f := newFabric(t, mover.Options{Chunk: 16 << 10, Budget: 256 << 10, Lanes: 3}, kinds...)
		f.family.Native = native
		rapid.Check(t, func(rt *rapid.T) {
			user := mem.NewTimeline("user", false, nil)
			model := make([][]byte, n)
			for i := range model {
				model[i] = pattern(byte(i) + byte(rapid.IntRange(0, 255).Draw(rt, "seed")))
				f.write(i, model[i])
			}
			var gates, last []mem.Point
			defer func() { // a test that fails must not hang
				for _, g := range gates {
					if !g.Reached() {
						user.End(g, nil)
					}
				}
			}()
			for range rapid.IntRange(1, 12).Draw(rt, "transfers") {
				from := rapid.IntRange(0, n-1).Draw(rt, "from")
				size := rapid.Uint64Range(1, blockSize/2).Draw(rt, "size")
				x := mover.Transfer{Way: mem.Ring, From: f.ends[from], Size: size}
				x.From.Off = rapid.Uint64Range(0, blockSize-size).Draw(rt, "off")
				for i := range n {
					if i != from && rapid.Bool().Draw(rt, "to") {
						d := f.ends[i]
						d.Off = rapid.Uint64Range(0, blockSize-size).Draw(rt, "at")
						x.To = append(x.To, d)
						copy(model[i][d.Off:d.Off+size], model[from][x.From.Off:])
					}
				}
				if len(x.To) == 0 {
					continue
				}
				// All after all earlier ones, so that the model is simple.
				for _, p := range last {
					x.Waits = append(x.Waits, mem.Wait{Point: p, Kind: mem.Data})
				}
				if rapid.Bool().Draw(rt, "gated") {
					gates = append(gates, user.Next())
					x.Waits = append(x.Waits, mem.Wait{Point: gates[len(gates)-1], Kind: mem.Order})
				}
				x.Points = make([]mem.Point, len(x.To))
				require.NoError(rt, f.m.Move(&x))
				last = x.Points
			}
			for _, g := range rapid.Permutation(gates).Draw(rt, "order") {
				user.End(g, nil)
			}
			for _, p := range last {
				require.NoError(rt, p.Wait(ctx))
			}
			for i := range model {
				require.True(rt, bytes.Equal(model[i], f.read(i)), "memory %d", i)
			}
			require.NoError(rt, f.m.Check())
		})
	}
}

// TestManyWantAllOfLittleStaging at once.
func TestManyWantAllOfLittleStaging(t *testing.T) {
	f := newFabric(t, mover.Options{Chunk: 32 << 10, Budget: 64 << 10, Lanes: 2}, "host", "bus", "bus", "tce", "tce")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for k := range 20 {
				out, err := f.ring(i, []int{(i + 1) % 5, (i + 2) % 5}, uint64(1000+k*10_000))
				if err != nil {
					t.Error(err)
					return
				}
				for _, p := range out {
					if err := p.Wait(ctx); err != nil {
						t.Error(err)
					}
				}
				if err := f.m.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestAClosedMoverMovesNothing(t *testing.T) {
	f := newFabric(t, mover.Options{}, "tce", "tce")
	m, err := mover.Open(mover.Options{Memories: []mover.Memory{{Device: f.devs[0], Name: "a"}, {Device: f.devs[1], Name: "b"}}})
	require.NoError(t, err)
	require.NoError(t, m.Close())
	require.ErrorIs(t, m.Close(), mem.ErrClosed)
	x := mover.Transfer{Way: mem.Ring, From: f.ends[0], To: f.ends[1:], Size: 1, Points: make([]mem.Point, 1)}
	require.ErrorIs(t, m.Move(&x), mem.ErrClosed)
	for _, o := range []mover.Options{{Budget: 1}, {Lanes: -1}, {Lanes: 1000}} {
		_, err = mover.Open(o)
		require.ErrorIs(t, err, mem.ErrInvalidValue, fmt.Sprint(o))
	}
}

// locked is told of the end of a Carrier by who must not be called under a driver's lock,
// since it takes that.
type locked struct {
	driver sync.Mutex
	ended  chan error
}

func (l *locked) Carried(err error) {
	l.driver.Lock()
	l.driver.Unlock() //nolint:staticcheck // it is only to have had it
	l.ended <- err
}

// TestACarrierTellsOfItsEndNotFromWithin, also where it could not begin, or has ended
// already: drivers call it under their locks.
func TestACarrierTellsOfItsEndNotFromWithin(t *testing.T) {
	f := newFabric(t, mover.Options{}, "host", "bus")
	o := mover.Options{}
	for i, d := range f.devs {
		o.Memories = append(o.Memories, mover.Memory{Device: d, Name: fmt.Sprint(i)})
	}
	closed, err := mover.Open(o)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	block := f.ends[1]
	for m, want := range map[*mover.Mover]error{closed: mem.ErrClosed, f.m: nil} {
		l := &locked{ended: make(chan error, 1)}
		carrier := m.Bytes(block, make([]byte, 100), true, nil)
		carryOn := make(chan struct{})
		go func() { // a Carrier that tells from within would hang here
			l.driver.Lock()
			carrier.Carry(l)
			l.driver.Unlock()
			close(carryOn)
		}()
		select {
		case <-carryOn:
		case <-time.After(20 * time.Second):
			t.Fatal("the carrier told of its end from within")
		}
		require.ErrorIs(t, <-l.ended, want)
	}
}
