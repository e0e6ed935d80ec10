package replay

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/study/alloc/formats"
)

const mib = 1 << 20

// caches is a script: each step asks for bytes (on a stream), or frees what a step before
// was given; reserved is what the allocator holds after it, by its documented rules.
type cacheStep struct {
	alloc    uint64
	stream   uint32
	free     int // the step whose block is freed; -1: none
	reserved uint64
	refused  bool
}

func asks(bytes, reserved uint64) cacheStep {
	return cacheStep{alloc: bytes, free: -1, reserved: reserved}
}

func asksOn(stream uint32, bytes, reserved uint64) cacheStep {
	x := asks(bytes, reserved)
	x.stream = stream
	return x
}

func frees(step int, reserved uint64) cacheStep {
	x := asks(0, reserved)
	x.free = step
	return x
}

func TestTheModelOfPyTorchsAllocatorIsExact(t *testing.T) {
	refused := asks(21*mib, 20*mib)
	refused.refused = true
	for _, c := range []struct {
		name       string
		expandable bool
		device     uint64
		steps      []cacheStep
	}{
		{"small requests share segments of 2 MiB", false, 1 << 40, []cacheStep{
			asks(1, 2*mib), asks(mib, 2*mib), asks(mib-512, 2*mib), asks(1, 4*mib)}},
		{"up to 10 MiB of 20 MiB", false, 1 << 40, []cacheStep{
			asks(mib+1, 20*mib), asks(9*mib, 20*mib), asks(10*mib-512, 20*mib), asks(8*mib, 40*mib)}},
		{"from 10 MiB on rounded up to 2 MiB", false, 1 << 40, []cacheStep{
			asks(10*mib, 10*mib), asks(11*mib, 22*mib), asks(30*mib+1, 54*mib)}},
		{"what is left of a large block is split off above 1 MiB only", false, 1 << 40, []cacheStep{
			asks(11*mib, 12*mib), // 12 MiB, whole: 1 MiB is left
			frees(0, 12*mib),
			asks(10*mib, 12*mib),  // 2 MiB are split off
			asks(mib+512, 12*mib), // and hold this
			asks(2*mib, 32*mib),
		}},
		{"the smallest that fits", false, 1 << 40, []cacheStep{
			asks(30*mib, 30*mib), asks(20*mib, 50*mib), frees(0, 50*mib), frees(1, 50*mib),
			asks(18*mib, 50*mib), asks(30*mib, 50*mib)}},
		{"neighbours join", false, 1 << 40, []cacheStep{
			asks(6*mib, 20*mib), asks(6*mib, 20*mib), asks(8*mib, 20*mib),
			frees(0, 20*mib), frees(2, 20*mib), asks(9*mib, 40*mib),
			frees(1, 40*mib), asks(20*mib, 40*mib)}},
		{"streams have blocks of their own", false, 1 << 40, []cacheStep{
			asks(20*mib, 20*mib), frees(0, 20*mib), asksOn(1, 20*mib, 40*mib), asksOn(0, 20*mib, 40*mib)}},
		{"small and large have, too", false, 1 << 40, []cacheStep{
			asks(20*mib, 20*mib), frees(0, 20*mib), asks(512, 22*mib)}},
		{"free segments go back before a request is refused", false, 32 * mib, []cacheStep{
			asks(10*mib, 10*mib), asks(20*mib, 30*mib), frees(1, 30*mib), asks(22*mib, 32*mib)}},
		{"segments in use do not", false, 40 * mib, []cacheStep{
			asks(2*mib, 20*mib), refused, frees(0, 20*mib), asks(40*mib, 40*mib)}},
		{"an expandable segment grows at its end by 20 MiB", true, 1 << 50, []cacheStep{
			asks(mib+512, 20*mib), asks(25*mib, 40*mib), asks(13*mib, 40*mib), asks(40*mib, 80*mib)}},
		{"and by 2 MiB for small requests", true, 1 << 50, []cacheStep{
			asks(mib, 2*mib), asks(mib, 2*mib), asks(512, 4*mib)}},
		{"whole pieces of it go back", true, 60 * mib, []cacheStep{
			asks(20*mib, 20*mib), asks(20*mib, 40*mib), asks(20*mib, 60*mib), frees(1, 60*mib),
			frees(0, 60*mib), asksOn(1, 40*mib, 60*mib)}},
		{"and their addresses are used again", true, 60 * mib, []cacheStep{
			asks(20*mib, 20*mib), asks(20*mib, 40*mib), frees(0, 40*mib), asksOn(1, 40*mib, 60*mib),
			frees(3, 60*mib), asks(30*mib, 60*mib)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newPyModel(c.device, c.expandable)
			given := make([]*pyPiece, len(c.steps))
			for i, s := range c.steps {
				switch {
				case s.free >= 0:
					m.release(given[s.free])
				default:
					given[i] = m.alloc(s.alloc, s.stream)
					require.Equal(t, s.refused, given[i] == nil, "step %d", i)
				}
				require.Equal(t, s.reserved, m.reserved, "step %d", i)
			}
		})
	}
}

// Blocks never share a byte, and what is reserved is what lies in blocks and pieces.
func TestTheModelsBlocksAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newPyModel(rapid.SampledFrom([]uint64{64 * mib, 300 * mib}).Draw(t, "device"), rapid.Bool().Draw(t, "expandable"))
		var live []*pyPiece
		for range rapid.IntRange(1, 120).Draw(t, "operations") {
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				k := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				m.release(live[k])
				live = append(live[:k], live[k+1:]...)
			} else if b := m.alloc(rapid.SampledFrom([]uint64{1, 5000, mib, mib + 1, 5 * mib, 12 * mib, 33 * mib}).Draw(t, "bytes"), uint32(rapid.IntRange(0, 1).Draw(t, "stream"))); b != nil {
				live = append(live, b)
			}
			sum := uint64(0)
			all := append([]*pyPiece{}, live...)
			m.free.Ascend(func(b *pyPiece) bool {
				require.True(t, b.free())
				require.False(t, b.prev.free() || b.next.free(), "free neighbours are one")
				all = append(all, b)
				return true
			})
			for i, a := range all {
				sum += a.size
				for _, b := range all[:i] {
					require.True(t, a.end() <= b.addr || b.end() <= a.addr, "%+v and %+v", a, b)
				}
			}
			require.Equal(t, m.reserved, sum)
			require.LessOrEqual(t, m.reserved, m.capacity)
		}
	})
}

// Six programs of other kinds than the traces in testdata, recorded with PyTorch 2.11 on an
// H100 (data and seeds random; under this repository's licence), and what
// torch.cuda.max_memory_reserved said at their ends.
func TestTheModelReservesWhatPyTorchReserved(t *testing.T) {
	for name, want := range map[string]uint64{
		"mlp":        603979776, // a perceptron, trained
		"conv":       641728512, // a convnet, trained
		"generate":   385875968, // a decoder whose caches grow by concatenation
		"batches":    734003200, // batches of many sizes
		"streams":    226492416, // three streams, with record_stream
		"expandable": 385875968, // batches, with expandable segments
	} {
		t.Run(name, func(t *testing.T) {
			all, err := formats.OpenAllocs(t.Context(), filepath.Join("testdata", "snapshots", name+".pickle.gz"))
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.Equal(t, want, all[0].Held, "what the snapshot's segments say")
			st, err := FromTrace(all[0], 1)
			require.NoError(t, err)
			res, err := Reserved(t.Context(), st, PyTorch(name == "expandable"))
			require.NoError(t, err)
			require.Zero(t, res.Failures)
			require.Equal(t, want, res.Region)
			t.Logf("reserved %d, the model %d; over allocated %.4f", want, res.Region, res.Overhead)
		})
	}
}

// What other streams use is not free when that is asked for, but when they have done so.
func TestABlockIsFreeWhenOtherStreamsAreDoneWithIt(t *testing.T) {
	const snapshot = `{"segments":[],"device_traces":[[
{"action":"alloc","addr":1,"size":20971520,"stream":7,"time_us":0},
{"action":"free_requested","addr":1,"size":20971520,"stream":7,"time_us":1},
{"action":"alloc","addr":2,"size":20971520,"stream":7,"time_us":2},
{"action":"free_completed","addr":1,"size":20971520,"stream":7,"time_us":3},
{"action":"alloc","addr":1,"size":20971520,"stream":7,"time_us":4},
{"action":"alloc","addr":3,"size":512,"stream":8,"time_us":5},
{"action":"alloc","addr":4,"size":512,"stream":7,"time_us":6},
{"action":"alloc","addr":5,"size":512,"stream":8,"time_us":7}]]}`
	all, err := formats.ReadAllocs(t.Context(), strings.NewReader(snapshot), "by hand")
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 0, 0, 1, 0, 1}, all[0].Streams)
	st, err := FromTrace(all[0], 1)
	require.NoError(t, err)
	res, err := Reserved(t.Context(), st, PyTorch(false))
	require.NoError(t, err)
	require.Equal(t, uint64(2*20*mib+2*2*mib), res.Region)
}

// The largest stream that there may be: no block has more addresses than were mapped, and a device that has enough refuses nothing.
func TestTheModelServesTheLargestStream(t *testing.T) {
	const large = maxPeak / 2
	st, err := NewStream("large", 512, []Op{{Size: large, Slot: 0}, {Size: 512, Slot: 1}, {Slot: 0}, {Size: large, Slot: 0}})
	require.NoError(t, err)
	for _, expandable := range []bool{false, true} {
		res, err := Reserved(t.Context(), st, PyTorch(expandable))
		require.NoError(t, err)
		require.Zero(t, res.Failures, "%v", expandable)
		require.GreaterOrEqual(t, res.Region, st.PeakLive, "%v", expandable)
		m := newPyModel(1<<62, expandable)
		b := m.alloc(large, 0)
		require.EqualValues(t, large, b.size, "%v", expandable)
		require.LessOrEqual(t, b.end(), b.addr+m.reserved, "%v", expandable)
		if b.next != nil {
			require.LessOrEqual(t, b.next.size, uint64(pyRange), "%v", expandable)
		}
	}
	m := newPyModel(1<<62, true)
	require.Nil(t, m.alloc(pyRange+512, 0), "it has fewer addresses")
	require.NotNil(t, m.alloc(pyRange-2*pyLargePiece, 0))
	require.NotNil(t, m.alloc(pyLarge, 0))
	require.NotNil(t, m.alloc(pyLarge, 0), "of the same piece")
	require.Nil(t, m.alloc(pyLarge, 0), "all are in use")
}
