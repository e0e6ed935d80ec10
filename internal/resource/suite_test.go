package resource_test

import (
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/bufalloc"
	"godwit/internal/resource"
	"godwit/internal/storage"
	"godwit/mem"
	"godwit/mem/trace"
)

const capacity = 1 << 20

// newFlat is the memory below every stack under test.
func newFlat(capacity uint64) *storage.Blocks {
	return storage.NewBlocks("flat", 1, must(storage.NewRegion(1<<20, capacity, bufalloc.Options{})))
}

// must unwraps a constructor.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// stacks are the resources that pass the suite: every layer alone, and the
// documented stack.
func stacks() map[string]func(up mem.Resource) mem.Resource {
	return map[string]func(up mem.Resource) mem.Resource{
		"device":     func(up mem.Resource) mem.Resource { return up },
		"trace":      func(up mem.Resource) mem.Resource { return resource.NewTrace(up, trace.NewAllocWriter(io.Discard)) },
		"track":      func(up mem.Resource) mem.Resource { return resource.NewTrack(up, 4) },
		"statistics": func(up mem.Resource) mem.Resource { return resource.NewStatistics(up) },
		"retry":      func(up mem.Resource) mem.Resource { return resource.NewRetry(up) },
		"limit":      func(up mem.Resource) mem.Resource { return must(resource.NewLimit(up, capacity/2)) },
		"fixed":      func(up mem.Resource) mem.Resource { return must(resource.NewFixed(up, 4096, 8)) },
		"bins":       func(up mem.Resource) mem.Resource { return must(resource.NewBins(up, 1<<16, 256, 1024, 16384)) },
		"pool": func(up mem.Resource) mem.Resource {
			return must(resource.NewPool(up, resource.PoolOptions{Slab: 1 << 17}))
		},
		"fail":       func(up mem.Resource) mem.Resource { return resource.NewFail(up) },
		"documented": documented,
	}
}

// documented is the stack of the package comment.
func documented(up mem.Resource) mem.Resource {
	up = resource.NewFail(up)
	up = must(resource.NewPool(up, resource.PoolOptions{Slab: 1 << 17}))
	up = must(resource.NewBins(up, 1<<14, 256, 1024))
	up = must(resource.NewLimit(up, capacity*3/4))
	up = resource.NewRetry(up)
	up = resource.NewStatistics(up)
	up = resource.NewTrack(up, 2)
	return resource.NewTrace(up, trace.NewAllocWriter(io.Discard))
}

// model holds what a caller of a resource may rely on.
type model struct {
	t       *rapid.T
	r       mem.Resource
	line    *mem.Timeline
	open    []mem.Point // issued, not ended
	live    []held      // after: what they are in use until
	pending []held
	exact   bool // Fits finds what AllocAll does
}

type held struct {
	b     mem.Block
	after []mem.Point
}

func (m *model) alloc() {
	n := rapid.IntRange(1, 4).Draw(m.t, "n")
	reqs, out := make([]mem.Request, n), make([]mem.Block, n)
	for i := range reqs {
		reqs[i].Size = rapid.Uint64Range(1, 40000).Draw(m.t, "size")
		reqs[i].Align = 1 << rapid.IntRange(0, 9).Draw(m.t, "align")
	}
	var reuse *mem.Reuse
	if rapid.Bool().Draw(m.t, "reuse") {
		reuse = &mem.Reuse{Busy: []mem.Busy{{Index: 77}}, May: func(p mem.Point) bool { return p.Seq%5 != 0 }}
	}
	fits := m.r.Fits(reqs, nil, reuse)
	o, err := m.r.AllocAll(reqs, out, reuse)
	require.NoError(m.t, err)
	if o == mem.Ready && m.exact {
		require.True(m.t, fits, "what was given did not fit")
	}
	if o != mem.Ready {
		require.LessOrEqual(m.t, reuse.Len(), 1, "a refusal left points behind")
		if o == mem.NeedsWait {
			require.NotEmpty(m.t, m.r.Pending(nil), "needs wait, but there is nothing to wait for")
		}
		return
	}
	for i, b := range out {
		require.False(m.t, b.IsZero())
		require.Equal(m.t, reqs[i].Size, b.Size)
		require.Zero(m.t, b.Addr%reqs[i].Align, "alignment")
		h := held{b: b}
		if reuse != nil {
			require.Equal(m.t, 77, reuse.Busy[0].Index, "what the caller had listed")
			for _, e := range reuse.Busy[1:] {
				require.True(m.t, e.Index < n && e.Point.Seq%5 != 0, "%v: none that may be waited for", e)
				if e.Index == i {
					h.after = append(h.after, e.Point)
				}
			}
		}
		m.disjoint(h)
		m.live = append(m.live, h)
	}
}

// disjoint tests that h shares no byte with a block that is live, nor with one that
// may still be in use by a command, unless it waits for that.
func (m *model) disjoint(h held) {
	r := mem.Range{Start: h.b.Addr, End: h.b.Addr + h.b.Size}
	for _, o := range m.live {
		require.False(m.t, r.Overlaps(mem.Range{Start: o.b.Addr, End: o.b.Addr + o.b.Size}), "%v overlaps live %v", h.b, o.b)
	}
	m.pending = slices.DeleteFunc(m.pending, func(h held) bool {
		return !slices.ContainsFunc(h.after, func(p mem.Point) bool { return !p.Reached() })
	})
	for _, o := range m.pending {
		if !r.Overlaps(mem.Range{Start: o.b.Addr, End: o.b.Addr + o.b.Size}) {
			continue
		}
		for _, p := range o.after {
			require.True(m.t, p.Reached() || slices.Contains(h.after, p), "%v overlaps pending %v and does not wait for %v", h.b, o.b, p)
		}
	}
}

func (m *model) free() {
	if len(m.live) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.live)-1).Draw(m.t, "which")
	h := m.live[i]
	m.live = slices.Delete(m.live, i, i+1)
	after := slices.Clone(h.after) // who frees a block frees it after these too
	for range rapid.IntRange(0, 2).Draw(m.t, "points") {
		p := m.line.Next()
		m.open = append(m.open, p)
		after = append(after, p)
	}
	require.NoError(m.t, m.r.FreeAfter(h.b, after))
	require.Error(m.t, m.r.FreeAfter(h.b, nil), "a block can be freed only once")
	m.pending = append(m.pending, held{h.b, slices.Clone(after)})
	clear(after) // the slice is ours again
}

func (m *model) pass() {
	if len(m.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.open)-1).Draw(m.t, "point")
	m.line.End(m.open[i], nil)
	m.open = slices.Delete(m.open, i, i+1)
}

func (m *model) close() {
	for _, p := range m.open {
		m.line.End(p, nil)
	}
	for _, h := range m.live {
		require.NoError(m.t, m.r.FreeAfter(h.b, nil))
	}
	m.r.Trim(0)
	require.NoError(m.t, m.r.Check())
}

func TestEveryLayerKeepsTheRulesOfAResource(t *testing.T) {
	for name, build := range stacks() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				dev := newFlat(capacity)
				m := &model{t: t, r: build(dev), line: mem.NewTimeline("q", false, nil), exact: name != "pool" && name != "documented" && name != "bins" && name != "fixed" && name != "device"}
				t.Repeat(map[string]func(*rapid.T){
					"alloc": func(*rapid.T) { m.alloc() },
					"free":  func(*rapid.T) { m.free() },
					"pass":  func(*rapid.T) { m.pass() },
					"trim":  func(t *rapid.T) { m.r.Trim(rapid.Uint64Range(0, capacity).Draw(t, "keep")) },
					"":      func(t *rapid.T) { require.NoError(t, m.r.Check()) },
				})
				m.close()
				st := dev.Stats()
				require.Zero(t, st.Live+st.Pending, "bytes leaked below the stack")
			})
		})
	}
}

func TestAnInjectedFailureAtAnyCallLosesNothing(t *testing.T) {
	for _, how := range []mem.Outcome{mem.Exhausted, mem.NeedsWait, mem.OverBudget} {
		for n := uint64(1); n <= 40; n++ {
			dev := newFlat(capacity)
			r := documented(dev)
			f, ok := resource.Find[*resource.Fail](r)
			require.True(t, ok)
			f.At(n, how, nil)
			var live []mem.Block
			for i := range uint64(60) {
				var out [2]mem.Block
				o, err := r.AllocAll([]mem.Request{{Size: 100 + i*i*7, Align: 256}, {Size: 300}}, out[:], nil)
				require.NoError(t, err)
				if o == mem.Ready {
					live = append(live, out[:]...)
				}
				require.NoError(t, r.Check(), "after call %d with failure %d", i, n)
				if i%3 == 0 && len(live) > 0 {
					require.NoError(t, r.FreeAfter(live[0], nil))
					live = live[1:]
				}
			}
			for _, b := range live {
				require.NoError(t, r.FreeAfter(b, nil))
			}
			r.Trim(0)
			require.NoError(t, r.Check())
			require.Zero(t, dev.Stats().Live)
		}
	}
}

func TestAnInjectedFaultIsReportedWithItsCause(t *testing.T) {
	r := documented(newFlat(capacity))
	f, _ := resource.Find[*resource.Fail](r)
	f.At(1, mem.Exhausted, mem.ErrDeviceLost)
	var out [1]mem.Block
	_, err := r.AllocAll([]mem.Request{{Size: 100}}, out[:], nil)
	require.ErrorIs(t, err, mem.ErrDeviceLost)
	require.NoError(t, r.Check())
	require.Zero(t, r.Stats().Live)
}

func TestBadRequestsAreErrorsThatNameTheRule(t *testing.T) {
	for name, build := range stacks() {
		if name == "device" || name == "fail" || name == "trace" || name == "track" || name == "retry" || name == "statistics" {
			continue // they leave the rules to the layer or device below
		}
		r := build(newFlat(capacity))
		var out [2]mem.Block
		_, err := r.AllocAll([]mem.Request{{Size: 8}, {Size: 0}}, out[:], nil)
		require.ErrorIs(t, err, mem.ErrInvalidSize, name)
		require.ErrorContains(t, err, "request 2 of 2", name)
		_, err = r.AllocAll([]mem.Request{{Size: 8}, {Size: ^uint64(0)}}, out[:], nil)
		require.ErrorIs(t, err, mem.ErrInvalidSize, name)
		require.Error(t, r.FreeAfter(mem.Block{Addr: 64, Size: 8, Ref: 99}, nil), name)
		require.NoError(t, r.Check(), name)
	}
}

func TestDescribePrintsTheStackFromTheCallerDown(t *testing.T) {
	require.Equal(t, "trace > track > statistics > retry > limit 768 KiB > bins 256 B,1 KiB > pool 128 KiB slabs > fail > device",
		resource.Describe(documented(newFlat(capacity))))
}
