package mover_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/mover"
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
