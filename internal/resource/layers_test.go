package resource_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/resource"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/alloc/formats"
)

func alloc(t *testing.T, r mem.Resource, want mem.Outcome, size uint64) mem.Block {
	t.Helper()
	var out [1]mem.Block
	o, err := r.AllocAll([]mem.Request{{Size: size, Tag: size}}, out[:], nil)
	require.NoError(t, err)
	require.Equal(t, want, o)
	return out[0]
}

func TestALimitCountsPendingFreesUntilTheirPoint(t *testing.T) {
	l := must(resource.NewLimit(newFlat(capacity), 1000))
	a := alloc(t, l, mem.Ready, 600)
	alloc(t, l, mem.OverBudget, 500)
	line := mem.NewTimeline("q", true, nil)
	p := line.Next()
	require.NoError(t, l.FreeAfter(a, []mem.Point{p}))
	require.EqualValues(t, 600, l.Held())
	alloc(t, l, mem.NeedsWait, 500)
	require.Equal(t, []mem.Point{p}, l.Pending(nil))
	alloc(t, l, mem.OverBudget, 1001)
	line.End(p, nil)
	alloc(t, l, mem.Ready, 1000)
	require.EqualValues(t, 1000, l.Held())
}

// What is free below a ceiling is no more than the ceiling leaves, however large the
// slabs under it are.
func TestACertificateCountsWhatIsFreeBelowTheCeiling(t *testing.T) {
	l := must(resource.NewLimit(must(resource.NewPool(newFlat(capacity), resource.PoolOptions{Slab: 4096})), 1000))
	alloc(t, l, mem.Ready, 600)
	alloc(t, l, mem.OverBudget, 500)
	e := resource.Certify("d", l, 500, mem.OverBudget)
	require.EqualValues(t, 400, e.Free)
	require.EqualValues(t, 1000, e.Capacity)
	require.LessOrEqual(t, e.LargestHole, e.Free)
}

func TestRetryTrimsWhatIsCachedBelowAndThenServes(t *testing.T) {
	pool := must(resource.NewPool(newFlat(1<<16), resource.PoolOptions{Slab: 1 << 14}))
	r := resource.NewRetry(pool)
	var held []mem.Block
	for range 4 {
		held = append(held, alloc(t, r, mem.Ready, 1<<14))
	}
	for _, b := range held {
		require.NoError(t, r.FreeAfter(b, nil))
	}
	require.EqualValues(t, 1<<16, r.Stats().Cached)
	alloc(t, pool, mem.Exhausted, 1<<15)
	alloc(t, r, mem.Ready, 1<<15)
	tried, rescued := r.Retries()
	require.EqualValues(t, 1, tried)
	require.EqualValues(t, 1, rescued)
}

func TestALimitsRoomIsGivenAgainInStreamOrder(t *testing.T) {
	r := must(resource.NewLimit(newFlat(4000), 1000))
	line := mem.NewTimeline("q", true, nil)
	a, b := alloc(t, r, mem.Ready, 400), alloc(t, r, mem.Ready, 400)
	p, q := line.Next(), line.Next()
	require.NoError(t, r.FreeAfter(a, []mem.Point{p}))
	require.NoError(t, r.FreeAfter(b, []mem.Point{q}))
	alloc(t, r, mem.NeedsWait, 300)
	var out [1]mem.Block
	reuse := &mem.Reuse{}
	o, err := r.AllocAll([]mem.Request{{Size: 300}}, out[:], reuse)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, o)
	require.Equal(t, []mem.Busy{{Index: 0, Point: p}}, reuse.Busy, "200 are free, 100 come of the oldest free")
	require.EqualValues(t, 1000, r.Held())
	require.NoError(t, r.Check())
	reuse = &mem.Reuse{May: func(x mem.Point) bool { return x != p }}
	o, err = r.AllocAll([]mem.Request{{Size: 401}}, out[:], reuse)
	require.NoError(t, err)
	require.Equal(t, mem.NeedsWait, o, "what is left of the first may not be waited for")
	line.End(p, nil)
	line.End(q, nil)
	require.EqualValues(t, 300, r.Held())
	require.NoError(t, r.Check())
}

// Whoever asks a memory how much it has is told of the ceiling: a policy that learns from
// the time on at which a memory is half full, for one.
func TestACeilingIsTheCapacity(t *testing.T) {
	for up, want := range map[uint64]uint64{4000: 1000, 900: 900} {
		r := must(resource.NewLimit(newFlat(up), 1000))
		require.Equal(t, want, r.Stats().Capacity)
		require.Equal(t, want, r.Stats().LargestFree)
	}
	r := must(resource.NewLimit(unbounded{newFlat(capacity)}, 1000))
	alloc(t, r, mem.Ready, 400)
	require.Equal(t, uint64(1000), r.Stats().Capacity)
	require.Equal(t, uint64(600), r.Stats().LargestFree)
}

// unbounded does not know how much it has.
type unbounded struct{ mem.Resource }

func (unbounded) Stats() mem.ResourceStats { return mem.ResourceStats{} }

func TestStatisticsHavePyTorchsMeanings(t *testing.T) {
	s := resource.NewStatistics(must(resource.NewPool(newFlat(capacity), resource.PoolOptions{Slab: 10 << 10})))
	line := mem.NewTimeline("q", true, nil)
	a, b := alloc(t, s, mem.Ready, 4096), alloc(t, s, mem.Ready, 1024)
	f := s.Figures()
	require.EqualValues(t, 5120, f.Allocated.Current)
	require.EqualValues(t, 5120, f.Active.Current)
	require.EqualValues(t, 10<<10, f.Reserved.Current)
	require.EqualValues(t, 5120, f.InactiveSplit.Current)
	p := line.Next()
	require.NoError(t, s.FreeAfter(a, []mem.Point{p}))
	f = s.Figures()
	require.EqualValues(t, 1024, f.Allocated.Current)
	require.EqualValues(t, 5120, f.Active.Current, "still in use until its point")
	line.End(p, nil)
	f = s.Figures()
	require.EqualValues(t, 1024, f.Active.Current)
	require.EqualValues(t, 9216, f.InactiveSplit.Current)
	require.EqualValues(t, 5120, f.Allocated.Peak)
	s.ResetPeak()
	require.EqualValues(t, 1024, s.Figures().Allocated.Peak, "the peak starts again at what is current")
	require.NoError(t, s.FreeAfter(b, nil))
	f = s.Figures()
	require.EqualValues(t, 5120, f.Allocated.Accumulated)
	require.EqualValues(t, 5120, f.Allocated.Released)
	require.EqualValues(t, 2, f.Allocations.Accumulated)
	require.Zero(t, f.InactiveSplit.Current, "a slab with nothing in it is cached, not split")
	alloc(t, s, mem.Exhausted, capacity+1)
	require.EqualValues(t, 1, s.Figures().OutOfMemory)
	s.ResetAccumulated()
	f = s.Figures()
	require.Zero(t, f.Allocated.Accumulated+f.Allocated.Released+f.OutOfMemory)
}

func TestTrackNamesTheHoldersLargestFirst(t *testing.T) {
	tr := resource.NewTrack(newFlat(capacity), 8)
	small, big := alloc(t, tr, mem.Ready, 100), alloc(t, tr, mem.Ready, 9000)
	require.NoError(t, tr.Name(big, "weights"))
	hs := tr.Holdings()
	require.Len(t, hs, 2)
	require.Equal(t, big, hs[0].Block)
	require.Equal(t, "weights", hs[0].Name)
	require.EqualValues(t, 9000, hs[0].Tag)
	require.Contains(t, hs[0].Stack(), "TestTrackNamesTheHoldersLargestFirst")
	require.NoError(t, tr.FreeAfter(small, nil))
	require.Error(t, tr.Name(small, "gone"))
	require.Len(t, tr.Holdings(), 1)
}

func TestTrackNamesTheOldestFirstOfEqualHolders(t *testing.T) {
	tr := resource.NewTrack(newFlat(capacity), 0)
	var want, got []mem.Block
	for range 20 { // more than a map lists in order by chance
		want = append(want, alloc(t, tr, mem.Ready, 64))
	}
	for _, h := range tr.Holdings() {
		got = append(got, h.Block)
	}
	require.Equal(t, want, got)
}

func TestAPoolTrimsNoFurtherThanItIsTold(t *testing.T) {
	up := newFlat(capacity)
	p, err := resource.NewPool(up, resource.PoolOptions{Slab: 4096})
	require.NoError(t, err)
	var blocks []mem.Block
	for range 3 {
		blocks = append(blocks, alloc(t, p, mem.Ready, 4096))
	}
	for _, b := range blocks {
		require.NoError(t, p.FreeAfter(b, nil))
	}
	for _, x := range []struct{ keep, freed, left uint64 }{
		{3 * 4096, 0, 3 * 4096}, {3*4096 - 1, 4096, 2 * 4096}, {4096, 4096, 4096}, {4096, 0, 4096}, {0, 4096, 0}, {0, 0, 0},
	} {
		require.Equal(t, x.freed, p.Trim(x.keep), "%+v", x)
		require.Equal(t, x.left, up.Stats().Live, "%+v", x)
	}
}

func TestAPoolSaysWhyItGotNoSlab(t *testing.T) {
	up := resource.NewFail(newFlat(capacity))
	p := must(resource.NewPool(up, resource.PoolOptions{Slab: 4096}))
	a := alloc(t, p, mem.Ready, 100)
	line := mem.NewTimeline("q", true, nil)
	require.NoError(t, p.FreeAfter(a, []mem.Point{line.Next()}))
	for refused, want := range map[mem.Outcome]mem.Outcome{
		mem.NeedsWait: mem.NeedsWait, mem.OverBudget: mem.OverBudget, mem.Late: mem.Late, mem.Exhausted: mem.NeedsWait, // for the block that waits
	} {
		up.At(1, refused, nil)
		alloc(t, p, want, 8192)
	}
	up.At(1, mem.Exhausted, mem.ErrDeviceLost)
	_, err := p.AllocAll([]mem.Request{{Size: 8192}}, make([]mem.Block, 1), nil)
	require.ErrorIs(t, err, mem.ErrDeviceLost)
	line.End(mem.Point{Line: line, Seq: 1}, nil)
}

func TestATraceOfAStackCanBeRead(t *testing.T) {
	var buf bytes.Buffer
	w := trace.NewAllocWriter(&buf)
	r := resource.NewTrace(newFlat(capacity), w)
	a := alloc(t, r, mem.Ready, 100)
	alloc(t, r, mem.Ready, 200)
	require.NoError(t, r.FreeAfter(a, nil))
	require.NoError(t, w.Flush())
	got, err := formats.ReadAllocs(t.Context(), &buf, "stack.csv")
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, 2, got[0].Chunks)
	require.Len(t, got[0].Events, 3)
	peak, _ := got[0].PeakLive()
	require.EqualValues(t, 300, peak)
}

func TestBadSettingsAreErrors(t *testing.T) {
	up := newFlat(capacity)
	for name, err := range map[string]error{
		"limit 0":         second(resource.NewLimit(up, 0)),
		"no bins":         second(resource.NewBins(up, 4096)),
		"bin of 0":        second(resource.NewBins(up, 4096, 0, 8)),
		"slab too small":  second(resource.NewBins(up, 64, 128)),
		"fixed of 0":      second(resource.NewFixed(up, 0, 4)),
		"fixed overflows": second(resource.NewFixed(up, 1<<60, 1<<10)),
		"odd alignment":   second(resource.NewPool(up, resource.PoolOptions{Align: 48})),
	} {
		require.ErrorIs(t, err, mem.ErrInvalidValue, name)
	}
}

func second[T any](_ T, err error) error { return err }

func TestManyGoroutinesShareTheDocumentedStack(t *testing.T) {
	dev := newFlat(capacity)
	r := documented(dev)
	line := mem.NewTimeline("q", false, nil)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var out [2]mem.Block
			for i := range uint64(500) {
				o, err := r.AllocAll([]mem.Request{{Size: 1 + (i*uint64(g+3)*131)%9000}, {Size: 64}}, out[:], nil)
				if err != nil {
					t.Errorf("goroutine %d: %v", g, err)
					return
				}
				if o != mem.Ready {
					continue
				}
				p := line.Next()
				if err := r.FreeAfter(out[0], []mem.Point{p}); err != nil {
					t.Error(err)
				}
				line.End(p, nil)
				if err := r.FreeAfter(out[1], nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r.Trim(0)
	require.NoError(t, r.Check())
	require.Zero(t, dev.Stats().Live+dev.Stats().Pending)
}
