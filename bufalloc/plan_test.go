package bufalloc

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

// run is allocations and frees by number, as a program makes them.
type run []struct {
	size uint64 // 0 frees
	of   int    // of a free: which allocation
}

// drawRun draws a run of a few sizes, which come again, as buffers of layers do.
func drawRun(t *rapid.T, calls int) (r run) {
	sizes := rapid.SliceOfN(rapid.Uint64Range(1, 5000), 1, 12).Draw(t, "sizes")
	var live []int
	for n := 0; n < calls; {
		if len(live) > 0 && rapid.IntRange(0, 9).Draw(t, "free") < 4 {
			k := rapid.IntRange(0, len(live)-1).Draw(t, "which")
			r = append(r, run{{of: live[k]}}...)
			live = slices.Delete(live, k, k+1)
			continue
		}
		r = append(r, run{{size: rapid.SampledFrom(sizes).Draw(t, "size")}}...)
		live = append(live, n)
		n++
	}
	return r
}

// changed leaves out, adds and resizes some calls.
func (r run) changed(t *rapid.T) (out run) {
	var number []int // by allocation of r: that of out, or -1
	n := 0
	for _, op := range r {
		what := rapid.IntRange(0, 19).Draw(t, "change")
		switch {
		case op.size == 0:
			if k := number[op.of]; k >= 0 {
				out = append(out, run{{of: k}}...)
			}
			continue
		case what == 0:
			number = append(number, -1)
			continue
		case what == 1:
			out, n = append(out, run{{size: rapid.Uint64Range(1, 9000).Draw(t, "new")}}...), n+1
		case what == 2:
			op.size += op.size / 12
		}
		number = append(number, n)
		out, n = append(out, op), n+1
	}
	return out
}

// plan packs a run by first fit in an endless region.
func (r run) plan(t require.TestingT) *Plan {
	region, err := NewRegion(0, 1<<40, Options{Strategy: Tight})
	require.NoError(t, err)
	var items []Planned
	var chunks []Chunk
	for i, op := range r {
		if op.size == 0 {
			items[op.of].Upper = uint64(i)
			require.NoError(t, region.Free(chunks[op.of]))
			continue
		}
		c, err := region.Alloc(op.size, 1)
		require.NoError(t, err)
		addr, err := region.Addr(c)
		require.NoError(t, err)
		items, chunks = append(items, Planned{uint64(i), math.MaxUint64, op.size, addr}), append(chunks, c)
	}
	p, err := NewPlan(items)
	require.NoError(t, err)
	return p
}

// Whatever a run does, a region with a plan gives chunks that lie in it and on no other,
// and refuses nothing that fits.
func TestARegionWithAPlanAgainstAListOfWhatIsLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recorded := drawRun(t, rapid.IntRange(1, 150).Draw(t, "calls"))
		p := recorded.plan(t)
		later := recorded
		switch rapid.IntRange(0, 2).Draw(t, "later") {
		case 1:
			later = recorded.changed(t)
		case 2:
			later = append(drawRun(t, 100), recorded...)
			later = slices.DeleteFunc(later, func(op struct {
				size uint64
				of   int
			}) bool {
				return op.size == 0
			})
		}
		base := rapid.SampledFrom([]uint64{0, 1 << 20}).Draw(t, "base")
		size := uint64(float64(p.Height()) * rapid.Float64Range(0.3, 1.2).Draw(t, "room"))
		r, err := NewRegion(base, max(size, 1), Options{Plan: p})
		require.NoError(t, err)
		model := &naive{bounds: r.Bounds()}
		var chunks []Chunk
		for _, op := range later {
			if op.size == 0 {
				if c := chunks[op.of]; !c.IsZero() {
					x, err := r.Range(c)
					require.NoError(t, err)
					require.NoError(t, model.drop(x))
					require.NoError(t, r.Free(c))
				}
				continue
			}
			align := uint64(1) << rapid.SampledFrom([]int{0, 0, 0, 8}).Draw(t, "log2 align")
			c, err := r.Alloc(op.size, align)
			chunks = append(chunks, c)
			if err != nil {
				require.ErrorIs(t, err, mem.ErrNoMemory)
				require.False(t, model.fits(op.size, align), "%d bytes aligned to %d fit", op.size, align)
				continue
			}
			x, err := r.Range(c)
			require.NoError(t, err)
			require.Zero(t, x.Start&(align-1))
			require.NoError(t, model.add(x))
			if s := r.PlanStats(); s.Followed {
				require.Equal(t, r.Stats().Allocs, s.Planned+s.Taken+s.Resized+s.Added+s.Left)
			}
			require.NoError(t, r.Check())
		}
	})
}

// play makes the calls of a run, and reports whether all found room.
func (r run) play(t require.TestingT, region *Region) bool {
	var chunks []Chunk
	for _, op := range r {
		if op.size == 0 {
			require.NoError(t, region.Free(chunks[op.of]))
			continue
		}
		c, err := region.Alloc(op.size, 1)
		if err != nil {
			return false
		}
		chunks = append(chunks, c)
	}
	return true
}

// The same run again fits the plan's height and every larger region, and does so after Reset.
func TestTheRecordedRunFitsItsPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recorded := drawRun(t, rapid.IntRange(1, 200).Draw(t, "calls"))
		p := recorded.plan(t)
		size := p.Height() + rapid.Uint64Range(0, p.Height()/2).Draw(t, "more")
		r, err := NewRegion(0, size, Options{Plan: p})
		require.NoError(t, err)
		for range 2 {
			require.True(t, recorded.play(t, r), "a region of %d bytes, the plan needs %d", size, p.Height())
			if s := r.PlanStats(); s.Followed {
				require.Equal(t, r.Stats().Allocs, s.Planned)
			}
			r.Reset()
		}
	})
}

// layers is a run of n different sizes, freed in the order of their allocation after 5 more.
func layers(n int) (r run) {
	for i := range n {
		r = append(r, run{{size: uint64(1000 + i*37%1001)}}...)
		if i >= 5 {
			r = append(r, run{{of: i - 5}}...)
		}
	}
	return r
}

// tight is a region in which Fit alone does not serve the run.
func tight(t *testing.T, recorded run) *Region {
	p := recorded.plan(t)
	for size := p.Height(); size > p.Height()/2; size-- {
		if r := newRegion(t, 0, size, Options{Plan: p}); r.PlanStats().Followed {
			return r
		}
	}
	t.Fatal("Fit alone serves the run everywhere")
	return nil
}

// A run that leaves out or adds calls is found again: nearby by its distance from the
// plan, far away by its last sizes.
func TestARunIsFoundAgainInItsPlan(t *testing.T) {
	recorded := layers(900)
	for _, c := range []struct {
		name        string
		calls       func(call func(i int), stray func())
		found       uint64
		lost, wrong int // calls taken for none of the plan's, and for others than they are
	}{
		{"as planned", func(call func(int), _ func()) { through(call, 0, 900) }, 0, 0, 0},
		{"one left out", func(call func(int), _ func()) { through(call, 0, 100); through(call, 101, 900) }, 0, 0, 0},
		{"one added", func(call func(int), stray func()) { through(call, 0, 100); stray(); through(call, 100, 900) }, 0, 0, 0},
		{"30 left out", func(call func(int), _ func()) { through(call, 0, 100); through(call, 130, 900) }, 1, believed, believed},
		{"20 added", func(call func(int), stray func()) {
			through(call, 0, 100)
			for range 20 {
				stray()
			}
			through(call, 100, 900)
		}, 0, 0, 0},
		{"300 left out", func(call func(int), _ func()) { through(call, 0, 100); through(call, 400, 900) }, 1, believed, believed},
		{"from the middle on", func(call func(int), _ func()) { through(call, 450, 900) }, 1, believed, believed},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &follower{plan: recorded.plan(t), granule: 1}
			f.position = position{sure: settled, recent: math.MaxUint64}
			wrong, lost := 0, 0
			c.calls(func(i int) {
				j, _ := f.step(f.plan.items[i].size)
				if j == i {
					f.recent |= 1
				}
				if j != i && j >= 0 {
					wrong++
				}
				if j < 0 {
					lost++
				}
			}, func() {
				j, _ := f.step(77)
				require.Negative(t, j)
			})
			require.LessOrEqual(t, f.s.Found, c.found)
			require.LessOrEqual(t, lost, c.lost)
			require.LessOrEqual(t, wrong, c.wrong)
			require.Equal(t, 900, f.at, "the run is at the plan's end")
		})
	}
}

func through(call func(i int), from, to int) {
	for i := from; i < to; i++ {
		call(i)
	}
}

// A call that is refused is no call: made again, it is what it was.
func TestARefusedCallIsNone(t *testing.T) {
	recorded := layers(300)
	r := tight(t, recorded)
	blocker := alloc(t, r, r.Size()-2500, 1) // not in the plan
	refused := 0
	for _, size := range recorded.sizes()[:50] {
		if _, err := r.Alloc(size, 1); err == nil {
			continue
		}
		require.Zero(t, refused, "the blocker is gone")
		for range 3 {
			before := r.follow.position
			_, err := r.Alloc(size, 1)
			require.ErrorIs(t, err, mem.ErrNoMemory)
			require.Equal(t, before, r.follow.position)
			refused++
		}
		require.NoError(t, r.Free(blocker))
		alloc(t, r, size, 1)
		break
	}
	require.Positive(t, refused)
	require.Equal(t, uint64(1), r.PlanStats().Added, "the blocker alone")
}

func (r run) sizes() (out []uint64) {
	for _, op := range r {
		if op.size > 0 {
			out = append(out, op.size)
		}
	}
	return out
}

func TestPlansThatAreNone(t *testing.T) {
	for _, c := range []struct {
		x    Planned
		want error
	}{
		{Planned{0, 1, 0, 0}, mem.ErrInvalidSize},
		{Planned{0, 1, 1 << 63, 0}, mem.ErrInvalidSize},
		{Planned{0, 1, 1, 1 << 62}, mem.ErrInvalidSize},
		{Planned{5, 5, 1, 0}, mem.ErrInvalidValue},
	} {
		_, err := NewPlan([]Planned{c.x})
		require.ErrorIs(t, err, c.want, "%+v", c.x)
	}
	p, err := NewPlan(nil)
	require.NoError(t, err)
	_, err = NewRegion(0, 100, Options{Plan: p})
	require.NoError(t, err)
	_, err = NewRegion(0, 100, Options{Plan: p, Strategy: BestFit})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
}

// Once a run has been through, another allocates nothing, as planned or not.
func TestFollowingAPlanAllocatesNothing(t *testing.T) {
	recorded := layers(400)
	r := tight(t, recorded)
	sizes := recorded.sizes()
	chunks := make([]Chunk, 0, 8)
	again := func() {
		r.Rewind()
		for i, size := range sizes {
			if i%7 == 3 {
				size += size / 16
			}
			if c, err := r.Alloc(size, 1); err == nil {
				chunks = append(chunks, c)
			} else {
				r.Reset()
				chunks = chunks[:0]
			}
			if len(chunks) > 4 {
				require.NoError(t, r.Free(chunks[0]))
				chunks = chunks[:copy(chunks, chunks[1:])]
			}
		}
		r.Reset()
		chunks = chunks[:0]
	}
	again()
	require.LessOrEqual(t, testing.AllocsPerRun(20, again), 1.0)
	again()
}
