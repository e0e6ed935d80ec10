package metamorphic_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/devices/virtual"
	"godwit/internal/history"
)

// TestHistoriesAgreeUnderCaps replays histories on 1 to 8 devices of which each may hold
// less than all buffers together, down to the largest working set of one command, with
// every policy. User events are set late, maps stay open and are undone, and in two of
// three histories calls fail: some at random, or one, of write-backs and frees too. No byte
// is wrong, nothing hangs, and Check is clean after every step.
func TestHistoriesAgreeUnderCaps(t *testing.T) {
	total := history.Test(t, 3000, capped)
	for _, policy := range []string{"lru", "cost", "belady"} {
		require.Positive(t, total.Evicted[policy], policy)
	}
	require.Positive(t, total.WrittenBack)
	require.Positive(t, total.Failed)
}

// capped draws a history of at least two buffers, and the devices that it runs on.
func capped(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
	faults := dice.IntN(3)
	h := history.Generate(history.Draw{Seed: seed, Ops: 30 + dice.IntN(150), Failing: faults > 0, Evicts: true})
	memory := h.Short(dice)
	cfg := history.Config{
		Policy: []string{"lru", "cost", "belady"}[dice.IntN(3)], Cap: memory, Whole: dice.IntN(4) == 0,
		NoPeer: dice.IntN(3) == 0, OutOfOrder: dice.IntN(2) == 0, Waits: dice.IntN(4) == 0,
	}
	n := 1 + min(dice.IntN(8), dice.IntN(8))
	if dice.IntN(6) == 0 {
		faults = 0 // the model of machines has none
		cfg = inVirtualTime([]string{"h200-pcie", "h200-nvlink"}[dice.IntN(2)], n, virtual.Options{Seed: seed, Stamps: dice.IntN(2) == 0}, cfg)
	} else {
		kinds := make([]byte, n)
		for i := range kinds {
			kinds[i] = "cstwbBlL"[dice.IntN(8)]
		}
		cfg.Name = string(kinds)
		cfg.Links = !cfg.NoPeer && strings.Count(cfg.Name, "l")+strings.Count(cfg.Name, "L") > 1
		size := uint64(256 << 10)
		if dice.IntN(2) == 0 { // the device's own, in place of the context's cap
			size, cfg.Cap = memory, 0
		}
		cfg.Open = open(string(kinds), size, bufalloc.Strategies()[dice.IntN(len(bufalloc.Strategies()))])
	}
	if faults == 1 {
		cfg.Every = 6 + dice.IntN(40)
	}
	cfg.StrikeOne = faults == 2
	cfg.Name = fmt.Sprintf("caps/%s/%d of %d bytes/%s/every=%d/one=%t", cfg.Name, memory, h.Bytes(), cfg.Policy, cfg.Every, cfg.StrikeOne)
	return h, cfg
}
