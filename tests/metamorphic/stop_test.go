package metamorphic_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/tests/internal/history"
)

// TestAContextThatIsClosedAtOnceHasNothingLeft stops histories after some operations, with
// what they have under way: every command ends, well or with why it was stopped, and
// nothing hangs. How many there are
// history.Long says.
func TestAContextThatIsClosedAtOnceHasNothingLeft(t *testing.T) {
	all := configs()
	goal, seed := history.Long(t, 2000)
	draw := rand.New(rand.NewPCG(seed, 1))
	var total history.Result
	i := 0
	for ; total.Commands < goal; i++ {
		h, cfg := history.Generate(seed+uint64(i), 20+draw.IntN(100)), all[draw.IntN(len(all))]
		after := 1 + draw.IntN(len(h.Ops))
		res, err := history.Stop(h, cfg, after)
		require.NoError(t, err, "seed %d, %d operations of %d on %s", h.Seed, after, len(h.Ops), cfg.Name)
		total.Add(res)
	}
	t.Logf("seed %d: %d histories, %d commands accepted, %d failed since they were stopped", seed, i, total.Commands, total.Failed)
	require.Positive(t, total.Failed)
	require.Greater(t, total.Commands, total.Failed)
}
