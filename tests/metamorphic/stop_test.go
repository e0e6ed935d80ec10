package metamorphic_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/tests/internal/history"
)

// TestAContextThatIsClosedAtOnceHasNothingLeft stops histories after some operations, with
// what they have under way: every command ends, well or with why it was stopped, and
// nothing hangs. With GODWIT_SOAK=1 seeds are new, and there are more.
func TestAContextThatIsClosedAtOnceHasNothingLeft(t *testing.T) {
	all := configs()
	runs, seed := 60, uint64(1)
	if os.Getenv("GODWIT_SOAK") != "" {
		runs, seed = 20_000, rand.Uint64()
	}
	draw := rand.New(rand.NewPCG(seed, 1))
	var total history.Result
	for i := range runs {
		h, cfg := history.Generate(seed+uint64(i), 20+draw.IntN(100)), all[draw.IntN(len(all))]
		after := 1 + draw.IntN(len(h.Ops))
		res, err := history.Stop(h, cfg, after)
		require.NoError(t, err, "seed %d, %d operations of %d on %s", h.Seed, after, len(h.Ops), cfg.Name)
		total.Add(res)
	}
	t.Logf("seed %d: %d histories, %d commands accepted, %d failed since they were stopped", seed, runs, total.Commands, total.Failed)
	require.Positive(t, total.Failed)
	require.Greater(t, total.Commands, total.Failed)
}
