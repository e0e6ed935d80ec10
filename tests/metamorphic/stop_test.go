package metamorphic_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/history"
)

// TestAContextThatIsClosedAtOnceHasNothingLeft stops histories after some operations, with
// what they have under way, and closes every other queue beside the context: every command
// ends, well or with why it was stopped, and nothing hangs. history.Long says how many.
func TestAContextThatIsClosedAtOnceHasNothingLeft(t *testing.T) {
	all := configs()
	goal, seed := history.Long(t, 2000)
	var total history.Result
	i := 0
	for ; total.Commands < goal; i++ {
		at := seed + uint64(i)
		draw := rand.New(rand.NewPCG(at, 2)) // a seed is a history and its devices
		h, cfg := history.Generate(at, 20+draw.IntN(100)), all[draw.IntN(len(all))]
		after := 1 + draw.IntN(len(h.Ops))
		res, err := history.Stop(h, cfg, after)
		require.NoError(t, err, "seed %d, %d operations of %d on %s", h.Seed, after, len(h.Ops), cfg.Name)
		total.Add(res)
	}
	t.Logf("seed %d: %d histories, %d commands accepted, %d failed since they were stopped", seed, i, total.Commands, total.Failed)
	require.Positive(t, total.Failed)
	require.Greater(t, total.Commands, total.Failed)
}
