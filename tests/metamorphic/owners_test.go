package metamorphic_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/history"
)

// TestRequestsAndTenantsLoseExactlyWhatTheyMust replays histories whose commands belong to requests, aborted at random, and whose buffers to
// tenants with caps, floors and priorities: on devices short of memory and not, in virtual time too, some as graphs, some with faults, some on queues of different priorities, whose copies give way. What is called
// off is of an aborted request, poisons what it would have written and no more (C15), and nobody else needed it; an aborted
// request's commands are refused; nobody takes a tenant below its floor, or has it above its cap; no other command fails (C9), and no byte is wrong.
func TestRequestsAndTenantsLoseExactlyWhatTheyMust(t *testing.T) {
	total := history.Test(t, 4000, owned)
	require.Positive(t, total.CalledOff)
	require.Positive(t, total.Ops["refused: of an aborted request"])
	require.Positive(t, total.Lost)
	require.Positive(t, total.Evictions)
	require.Less(t, total.Excused, total.Failed/2)
}

// TestOwnersThatFoundSomething replays seeds of soaks: a graph asked what leaves by wants of before, of a root that was released; what could not be
// freed for a replay was told to nobody where that went on command by command.
func TestOwnersThatFoundSomething(t *testing.T) {
	for _, seed := range []uint64{5056785880932275092, 9375} {
		h, cfg := owned(seed, rand.New(rand.NewPCG(seed, 2)))
		_, err := history.Run(h, cfg)
		require.NoError(t, err, "seed %d on %s", seed, cfg.Name)
	}
}

// owned draws a history with owners, and what it runs on.
func owned(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
	h, cfg := capped(seed, dice)
	switch all, faulty := configs(), faultyConfigs(); dice.IntN(3) {
	case 0:
		h = history.Generate(history.Draw{Seed: seed, Ops: 30 + dice.IntN(150)})
		cfg = all[dice.IntN(len(all))]
	case 1:
		h = history.Generate(history.Draw{Seed: seed, Ops: 30 + dice.IntN(150), Failing: dice.IntN(2) == 0})
		cfg = faulty[dice.IntN(len(faulty))]
	}
	cfg.Graphs = dice.IntN(4) == 0
	cfg.Name += "/owners"
	h.Own(dice)
	if cfg.Priorities = dice.IntN(2) == 0; cfg.Priorities {
		cfg.Name, cfg.Chunk = cfg.Name+"/priorities", 512 // a piece has half of it
	}
	return h, cfg
}
