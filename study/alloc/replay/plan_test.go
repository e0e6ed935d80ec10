package replay

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/bufalloc/pack"
	"godwit/study/alloc/formats"
)

// packed is a trace as a stream, and its plan.
func packed(t testing.TB, file string, o pack.Options) (*Stream, *bufalloc.Plan) {
	all, err := formats.OpenAllocs(t.Context(), filepath.Join("../../../testdata/traces", file))
	require.NoError(t, err)
	st, err := FromTrace(all[0], 256)
	require.NoError(t, err)
	items, err := all[0].Items(256)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := pack.Minimize(ctx, items, o)
	require.NoError(t, err)
	plan, err := pack.PlanOf(items, res.Offsets)
	require.NoError(t, err)
	return st, plan
}

// overheadOf is a region that works over the peak; in a soak the smallest.
func overheadOf(t testing.TB, st *Stream, s Subject) float64 {
	if os.Getenv("GODWIT_SOAK") == "" {
		size, err := UpperRegion(t.Context(), st, s)
		require.NoError(t, err)
		return float64(size) / float64(st.PeakLive)
	}
	m, err := MinRegion(t.Context(), st, s)
	require.NoError(t, err)
	return float64(m.Region) / float64(st.PeakLive)
}

// The same run again needs what the packer needed, and a changed one not more than Fit;
// GODWIT_SOAK=1 -v prints docs/allocator.md's figures, of all traces, with a minute of packing.
func TestSecondRunsByPlan(t *testing.T) {
	soak := os.Getenv("GODWIT_SOAK") != ""
	files, o, kinds, seeds := []string{"gpt2-train.csv.gz"}, pack.Options{Nodes: 30_000}, []Perturbation{Changed}, uint64(1)
	if soak {
		files, o, kinds, seeds = pytorch, pack.Options{}, append(kinds, Perturbations()...), 5
	}
	for _, file := range files {
		st, plan := packed(t, file, o)
		require.LessOrEqual(t, float64(plan.Height()), 1.005*float64(st.PeakLive))
		run, err := Replay(t.Context(), st, Follow(plan), plan.Height())
		require.NoError(t, err)
		require.Zero(t, run.Failures)
		require.Zero(t, run.Plan.Taken+run.Plan.Resized+run.Plan.Added+run.Plan.Left)
		if soak {
			t.Logf("%s, the same run: %.4f, Fit %.4f", st.Name, overheadOf(t, st, Follow(plan)), overheadOf(t, st, Of(bufalloc.Fit)))
		}
		for _, kind := range kinds {
			var mine, fits, ratios logs
			for seed := range seeds {
				x := perturbed(t, st, kind, 2*seed+1)
				m, f := overheadOf(t, x, Follow(plan)), overheadOf(t, x, Of(bufalloc.Fit))
				mine.add(m)
				fits.add(f)
				ratios.add(m / f)
			}
			t.Logf("%s, %s: %.4f (worst %.4f), Fit %.4f; over Fit's %.4f, at worst %.4f", st.Name, kind, mine.mean(), mine.most, fits.mean(), ratios.mean(), ratios.most)
			if kind == Changed {
				require.LessOrEqual(t, ratios.most, 1.01)
			}
		}
	}
}
