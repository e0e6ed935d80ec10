package mover_test

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices/devicetest"
	"godwit/internal/mover"
	"godwit/mem"
)

// TestLockedMemoryThatRunsOutHoldsUpNobodyElse: a batch that starves for page-locked
// memory, of which there is no more, leaves the pump to those that it can go on with.
func TestLockedMemoryThatRunsOutHoldsUpNobodyElse(t *testing.T) {
	f := newFabric(t, mover.Options{Budget: 256 << 10}, "host", "bus", "bus", "tce", "tce")
	user := mem.NewTimeline("user", false, nil)
	gate, other := user.Next(), user.Next()
	f.family.NoLocks.Store(true)
	var batches []mem.Point
	for range 8 { // more than one arena serves at once
		p, err := f.ring(1, []int{2}, blockSize, mem.Wait{Point: gate, Kind: mem.Data})
		require.NoError(t, err)
		batches = append(batches, p...)
	}
	chain, err := f.ring(3, []int{4}, 1000, mem.Wait{Point: other, Kind: mem.Data})
	require.NoError(t, err)
	user.End(gate, nil)
	user.End(other, nil)
	require.NoError(t, chain[0].Wait(ctx))
	for _, p := range batches {
		require.NoError(t, p.Wait(ctx))
	}
	require.Less(t, f.m.Stats().Unlocked, uint64(100), "it does not try over and over")
}

// TestBatchesThatStarveEndMeanwhile: a driver may stage, carry out and end a batch as soon
// as there is staging for it, before the pump has told it.
func TestBatchesThatStarveEndMeanwhile(t *testing.T) {
	f := newFabric(t, mover.Options{Budget: 64 << 10}, "host", "bus", "bus")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 300 {
				out, err := f.ring(1, []int{2}, 5000)
				if err != nil {
					t.Error(err)
					return
				}
				if err := out[0].Wait(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestABatchThatStarvesHoldsUpNoOtherFamily: staging that one driver's batches wait for,
// gated or not, is not what another driver's rings need.
// TestABatchThatHasHelpedItselfStarvesNoMore: a driver that asks again by itself gets
// staging once nobody else waits for it, and the pump, which is behind, does not start
// the batch a second time.
func TestABatchThatHasHelpedItselfStarvesNoMore(t *testing.T) {
	f := newFabric(t, mover.Options{Budget: 64 << 10}, "host", "bus", "bus")
	behind, held := make(chan struct{}), make(chan struct{})
	f.family.Eager, f.family.Hold = true, held
	f.family.Resumed = func() { // the pump's
		select {
		case <-held:
			<-behind
		default:
		}
	}
	var all []mem.Point
	for f.m.Starved() < 2 {
		p, err := f.ring(1, []int{2}, 16<<10)
		require.NoError(t, err)
		all = append(all, p...)
		for int(f.m.Stats().Batches)+f.m.Starved() < len(all) {
			runtime.Gosched()
		}
	}
	close(held)
	for _, p := range all {
		require.NoError(t, p.Wait(ctx))
	}
	close(behind)
}

func TestABatchThatStarvesHoldsUpNoOtherFamily(t *testing.T) {
	for _, native := range []bool{false, true} {
		f := newFabric(t, mover.Options{Budget: 512 << 10}, "host", "bus", "bus", "bus2", "bus2")
		f.family.Hold = make(chan struct{})
		f.family.Native, f.other.Native = native, native
		user := mem.NewTimeline("user", false, nil)
		gate := user.Next()
		release := sync.OnceFunc(func() {
			user.End(gate, nil)
			close(f.family.Hold)
		})
		t.Cleanup(release) // a test that fails must not hang
		var held []mem.Point
		for i := range 16 { // more than there is staging for, all under way or wanting it
			waits := []mem.Wait{{Point: gate, Kind: mem.Data}}
			if i%2 == 0 {
				waits = nil
			}
			out, err := f.ring(1, []int{2}, blockSize, waits...)
			require.NoError(t, err)
			held = append(held, out...)
		}
		require.Eventually(t, func() bool { return f.m.Stats().InFlight > 0 }, 10*time.Second, time.Millisecond)
		for range 5 {
			out, err := f.ring(3, []int{4}, blockSize)
			require.NoError(t, err)
			patient, cancel := context.WithTimeout(ctx, 20*time.Second)
			require.NoError(t, out[0].Wait(patient), "the other family's ring waits for staging that is not its own")
			cancel()
		}
		release()
		for _, p := range held {
			require.NoError(t, p.Wait(ctx))
		}
	}
}

// TestEightDevicesPinNoMoreThanTheBudget, be they one driver's or eight, while all of their
// 56 ordered pairs have a ring under way: counted where the memory comes from. All bytes
// arrive, and nothing stays pinned at the end.
func TestEightDevicesPinNoMoreThanTheBudget(t *testing.T) {
	const n, budget = 8, 1 << 20
	for _, kind := range []string{"bus", "lone"} {
		t.Run(kind, func(t *testing.T) {
			var pinned *devicetest.Gauge
			t.Cleanup(func() { require.Zero(t, pinned.Now()) })
			kinds := []string{"host"}
			for range n {
				kinds = append(kinds, kind)
			}
			f := newFabric(t, mover.Options{Budget: budget, Lanes: 2}, kinds...)
			pinned = &f.pinned
			const size = blockSize / (n + 1)
			want := make([][]byte, n+1)
			for i := 1; i <= n; i++ {
				want[i] = pattern(byte(i))
				f.write(i, want[i])
			}
			user := mem.NewTimeline("user", false, nil)
			gate := user.Next()
			var points []mem.Point
			for i := 1; i <= n; i++ {
				for j := 1; j <= n; j++ { // the start of what j has goes to place j of i
					if i == j {
						continue
					}
					x := mover.Transfer{Way: mem.Ring, From: f.ends[j], To: []mover.End{f.ends[i]}, Size: size,
						Waits: []mem.Wait{{Point: gate}}, Points: make([]mem.Point, 1)}
					x.To[0].Off = uint64(j * size)
					copy(want[i][j*size:(j+1)*size], pattern(byte(j)))
					require.NoError(t, f.m.Move(&x))
					points = append(points, x.Points[0])
				}
			}
			user.End(gate, nil)
			for _, p := range points {
				require.NoError(t, p.Wait(ctx))
			}
			for i := 1; i <= n; i++ {
				require.True(t, bytes.Equal(want[i], f.read(i)), "device %d", i)
			}
			require.Positive(t, f.pinned.Most())
			require.LessOrEqual(t, f.pinned.Most(), int64(budget))
			require.Zero(t, f.m.Stats().Unlocked)
		})
	}
}
