package runtime_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/tce"
	"godwit/eviction"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

const (
	manyBlocks = 200 // of a device, so many that their order is kept
	blockSize  = 128
)

// wander has commands use buffers, some far more often than others, on a device that holds
// half of them, and calls each before command n with the buffer that it is going to use.
func wander(t *testing.T, policy eviction.Policy, each func(n int, b mem.BufferID)) *house {
	d := must(tce.New(tce.Options{Memory: manyBlocks * blockSize}))
	h := build(t, runtime.Options{Devices: []devices.Device{d}, Policy: policy}, runtime.QueueOptions{})
	var all []*runtime.Buffer
	for range 2 * manyBlocks {
		all = append(all, h.buffer(blockSize, make([]byte, blockSize)))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 4000 {
		i := min(r.IntN(len(all)), r.IntN(len(all)))
		each(n, all[i].ID())
		if r.IntN(3) == 0 {
			h.ended(h.ok(h.q[0].EnqueueFill(soon(t), all[i], []byte{1}, 0, blockSize)))
		} else {
			h.ended(h.ok(h.q[0].EnqueueMigrate(soon(t), all[i:i+1], 0)))
		}
	}
	require.NoError(t, h.c.Check())
	for _, b := range all {
		require.NoError(t, b.Release())
	}
	return h
}

func TestTheOrderOfManyBlocksIsThatOfTheirLastUse(t *testing.T) {
	used := make(map[mem.BufferID]int) // of those on the device: the last command
	var want, got []mem.BufferID
	h := wander(t, eviction.LRU{}, func(n int, b mem.BufferID) {
		if _, there := used[b]; !there && len(used) == manyBlocks {
			oldest, at := mem.BufferID(0), n
			for id, last := range used {
				if last < at {
					oldest, at = id, last
				}
			}
			delete(used, oldest)
			want = append(want, oldest)
		}
		used[b] = n
	})
	for _, e := range h.evictions() {
		got = append(got, e.Buffer)
	}
	require.Greater(t, len(want), 500)
	require.Equal(t, want, got)
}

// asked counts how often it is asked for a score.
type asked struct {
	eviction.LRU
	times *int
}

func (a asked) ScoreAt(base, now uint64, c *eviction.Candidate) float64 {
	*a.times++
	return a.LRU.ScoreAt(base, now, c)
}

func (a asked) Settled() eviction.Policy { return a }

func TestAnOrderThatOnlyUseChangesIsMadeOnce(t *testing.T) {
	times := 0
	h := wander(t, asked{times: &times}, func(int, mem.BufferID) {})
	n := int(h.c.Stats().Evictions)
	require.Greater(t, n, 500)
	t.Logf("%d evictions, %d scores", n, times)
	require.Less(t, times, manyBlocks+4*n)
}

// byValue is a ranker that cannot be compared with itself.
type byValue struct {
	eviction.LRU
	of map[string]int
}

func (v byValue) Epoch() uint64 { return uint64(v.of["epoch"]) }

// inAField is one of which the type can be compared, and the value cannot.
type inAField struct {
	eviction.LRU
	of any
}

func (v inAField) Epoch() uint64 { return uint64(len(v.of.([]int))) }

func TestAPolicyNeedNotBeComparable(t *testing.T) {
	evictions := func(p eviction.Policy) []trace.EvictionRecord {
		return wander(t, p, func(int, mem.BufferID) {}).evictions()
	}
	want := len(evictions(eviction.LRU{}))
	require.Len(t, evictions(byValue{of: map[string]int{"epoch": 1}}), want)
	require.Len(t, evictions(inAField{of: []int{1}}), want)
}

// unranked is a policy whose scores must not be kept.
type unranked struct{ eviction.Observer }

func TestToKeepTheOrderOfBlocksCostsNothing(t *testing.T) {
	moved := func(p eviction.Policy) uint64 {
		h := wander(t, p, func(int, mem.BufferID) {})
		st := h.c.Stats()
		require.Greater(t, st.Evictions, uint64(500))
		return st.BytesMoved
	}
	exact, kept := moved(unranked{eviction.NewCost()}), moved(eviction.NewCost())
	t.Logf("%d bytes moved where all blocks are looked at each time, %d where their order is kept", exact, kept)
	require.LessOrEqual(t, float64(kept), 1.01*float64(exact))
}
