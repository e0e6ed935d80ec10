package replay

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/mem"
)

// Fit's rules were chosen on the committed traces and on W1 and W2 at seed 1.
// Here it meets streams of the same kinds that it was not chosen on: other
// seeds, the traces backwards, cut in halves, two at once, and with other sizes.

// perturbed is Perturb, where it must work.
func perturbed(t testing.TB, st *Stream, p Perturbation, seed uint64) *Stream {
	t.Helper()
	out, err := Perturb(st, p, seed)
	require.NoError(t, err)
	return out
}

// together runs two streams in one region, evenly mixed.
func together(t testing.TB, a, b *Stream) *Stream {
	ops := make([]Op, 0, len(a.Ops)+len(b.Ops))
	for i, j := 0, 0; i < len(a.Ops) || j < len(b.Ops); {
		if j == len(b.Ops) || i < len(a.Ops) && i*len(b.Ops) <= j*len(a.Ops) {
			ops = append(ops, a.Ops[i])
			i++
		} else {
			op := b.Ops[j]
			op.Slot += uint32(a.Slots)
			ops = append(ops, op)
			j++
		}
	}
	st, err := NewStream(a.Name+" with "+b.Name, a.Align, ops)
	require.NoError(t, err)
	return st
}

var (
	pytorch    = []string{"resnet50-train.csv.gz", "gpt2-train.csv.gz", "llama-generate.csv.gz"}
	minimalloc = []string{"minimalloc/A.1048576.csv", "minimalloc/B.1048576.csv", "minimalloc/C.1048576.csv",
		"minimalloc/D.1048576.csv", "minimalloc/E.1048576.csv"}
)

// set is streams of one kind: those Fit was chosen on, and others.
type set struct {
	name          string
	chosen, other []*Stream
}

func traceSet(t testing.TB, name string, files []string, align uint64) set {
	s := set{name: name}
	for _, f := range files {
		s.chosen = append(s.chosen, open(t, f, align))
	}
	for i, st := range s.chosen {
		seed := uint64(100 + i)
		for _, p := range Perturbations() {
			s.other = append(s.other, perturbed(t, st, p, seed))
		}
		s.other = append(s.other, together(t, st, s.chosen[(i+1)%len(s.chosen)]))
	}
	return s
}

func seedSet(t testing.TB, name string, seeds uint64, make func(seed uint64) (*Stream, error)) set {
	s := set{name: name}
	for seed := range seeds {
		st, err := make(seed + 1)
		require.NoError(t, err)
		st.Name = fmt.Sprintf("%s, seed %d", name, seed+1)
		if seed == 0 {
			s.chosen = []*Stream{st}
		} else {
			s.other = append(s.other, st)
		}
	}
	return s
}

// meanOverhead is the geometric mean and the greatest of the overheads.
func meanOverhead(t testing.TB, streams []*Stream, s bufalloc.Strategy) (mean, most float64) {
	results, err := Measure(t.Context(), streams, Strategies(s), Options{})
	require.NoError(t, err)
	for _, r := range results {
		t.Logf("%-44s %-8v %.4f (a larger one fails: %.4f)", r.Trace, s, r.Overhead, float64(r.FailingAbove)/float64(r.PeakLive))
		mean += math.Log(float64(r.Overhead))
		most = max(most, float64(r.Overhead))
	}
	return math.Exp(mean / float64(len(results))), most
}

// TestFitOnStreamsItWasNotChosenOn compares Fit with best fit and good fit,
// and logs the table of docs/allocator.md: all of it with GODWIT_SOAK=1 (ten
// minutes), else the small sets.
func TestFitOnStreamsItWasNotChosenOn(t *testing.T) {
	sets := []set{traceSet(t, "MiniMalloc A-E", minimalloc, 1)}
	if os.Getenv("GODWIT_SOAK") != "" {
		w1 := func(n int) func(uint64) (*Stream, error) {
			return func(seed uint64) (*Stream, error) { return W1(n, 200_000, 2*n, seed) }
		}
		sets = append(sets, traceSet(t, "PyTorch", pytorch, 256),
			seedSet(t, "W1 1e3", 9, w1(1e3)), seedSet(t, "W1 1e4", 4, w1(1e4)), seedSet(t, "W1 1e5", 3, w1(1e5)),
			seedSet(t, "W2 mix", 9, func(seed uint64) (*Stream, error) { return W2(W2Mix, 36_363, seed) }))
	}
	var b strings.Builder
	for _, s := range sets {
		var others [3]float64
		for i, strategy := range []bufalloc.Strategy{bufalloc.Fit, bufalloc.BestFit, bufalloc.GoodFit} {
			mean, most := meanOverhead(t, s.chosen, strategy)
			other, otherMost := meanOverhead(t, s.other, strategy)
			others[i] = other
			fmt.Fprintf(&b, "\n| %s | %v | %.4f (%.3f) | %.4f (%.3f) |", s.name, strategy, mean, most, other, otherMost)
		}
		// What a search tells apart; on PyTorch's perturbed traces Fit and best fit are
		// level, and a few of them decide which is ahead.
		grid := 1.001
		if s.name == "PyTorch" {
			grid = 1.01
		}
		assert.LessOrEqual(t, others[0], others[1]*grid, "%s: Fit is no worse than best fit", s.name)
		assert.LessOrEqual(t, others[0], others[2]*grid, "%s: Fit is no worse than good fit", s.name)
	}
	t.Log(b.String())
}

// The variants keep what they should.
func TestVariantsOfStreams(t *testing.T) {
	st := open(t, minimalloc[0], 1)
	back := perturbed(t, st, reversed, 1)
	assert.Equal(t, st.PeakLive, back.PeakLive)
	assert.Equal(t, st.Ops, perturbed(t, back, reversed, 1).Ops, "all is freed, so that twice backwards is forwards")
	sizes := make(map[uint64]uint64)
	for i, op := range perturbed(t, st, alike, 5).Ops {
		old := st.Ops[i].Size
		assert.InDelta(t, old, op.Size, float64(old)/10+1)
		if was, ok := sizes[old]; ok {
			assert.Equal(t, was, op.Size)
		}
		sizes[old] = op.Size
	}
	for seed := range uint64(5) {
		late, early := perturbed(t, st, lateStart, seed), perturbed(t, st, earlyEnd, seed)
		assert.Equal(t, st.Ops[len(st.Ops)-len(st.Ops)/2:], late.Ops[len(late.Ops)-len(st.Ops)/2:])
		assert.Equal(t, early.Ops, st.Ops[:len(early.Ops)])
		again := perturbed(t, st, Reordered, seed)
		assert.ElementsMatch(t, st.Ops, again.Ops)
		assert.NotEqual(t, st.Ops, again.Ops)
	}
	both := together(t, st, back)
	assert.Len(t, both.Ops, len(st.Ops)+len(back.Ops))
	assert.Greater(t, both.PeakLive, st.PeakLive)
	_, err := ParsePerturbation("x")
	require.ErrorIs(t, err, mem.ErrInvalidValue)
}
