package metamorphic_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/history"
)

// TestAContextThatIsClosedAtOnceHasNothingLeft stops histories after some operations, with
// what they have under way, and closes every other queue beside the context: every command
// ends, well or with why it was stopped, and nothing hangs.
func TestAContextThatIsClosedAtOnceHasNothingLeft(t *testing.T) {
	all := configs()
	total := history.Test(t, 2000, func(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
		ops := 20 + dice.IntN(100)
		cfg := all[dice.IntN(len(all))]
		cfg.StopAfter, cfg.Graphs = 1+dice.IntN(ops), seed%2 == 0
		return history.Generate(history.Draw{Seed: seed, Ops: ops}), cfg
	})
	require.Positive(t, total.Failed)
	require.Greater(t, total.Commands, total.Failed)
}
