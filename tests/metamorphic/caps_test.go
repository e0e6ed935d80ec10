package metamorphic_test

import (
	"fmt"
	"math/rand/v2"
	"os"
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
// is wrong, nothing hangs, and Check is clean after every step. How many there
// are history.Long says; out of a soak GODWIT_SEED=N runs that one alone.
func TestHistoriesAgreeUnderCaps(t *testing.T) {
	goal, seed := history.Long(t, 3000)
	if os.Getenv("GODWIT_SEED") != "" && os.Getenv("GODWIT_SOAK") == "" {
		goal = 1
	}
	var total history.Result
	runs := 0
	for ; total.Commands < goal; runs++ {
		h, cfg := capped(seed + uint64(runs))
		res, err := history.Run(h, cfg)
		total.Add(res)
		if err != nil {
			t.Logf("found after %d commands", total.Commands)
			fail(t, h, cfg, err)
			break
		}
	}
	said := total.Failures(fmt.Sprintf("caps: first seed %d, %d histories, %d blocks evicted (%v), %d bytes written back, %d bytes read and compared",
		seed, runs, total.Evictions, total.Evicted, total.WrittenBack, total.BytesRead))
	t.Log(said)
	if os.Getenv("GODWIT_SOAK") != "" {
		fmt.Println(said)
	}
	if goal == 1 {
		return
	}
	for _, policy := range []string{"lru", "cost", "belady"} {
		require.Positive(t, total.Evicted[policy], policy)
	}
	require.Positive(t, total.WrittenBack)
	require.Positive(t, total.Failed)
}

// capped draws a history of at least two buffers, and the devices that it runs on.
func capped(seed uint64) (*history.History, history.Config) {
	dice := rand.New(rand.NewPCG(seed, 3))
	generate := history.GenerateFailing
	faults := dice.IntN(3)
	if faults == 0 {
		generate = history.Generate
	}
	length := 30 + dice.IntN(150)
	h := generate(seed, length)
	for next := uint64(1); h.WorkingSet() == h.Bytes(); next++ {
		h = generate(seed+next<<32, length)
	}
	least, most := h.WorkingSet(), h.Bytes()
	memory := least
	if dice.IntN(3) > 0 {
		memory += dice.Uint64N(most - least)
	}
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
	switch faults {
	case 1:
		cfg.Every = 6 + dice.IntN(40)
	case 2:
		calls := []history.Call{history.CallFree, history.CallCopy, history.CallBatch, history.CallAlloc, history.CallStaging, history.CallCommand}
		cfg.Strike = &history.Strike{Call: calls[dice.IntN(len(calls))], N: 1 + dice.IntN(40), Fault: history.Refused + history.Fault(dice.IntN(3))}
	}
	cfg.Name = fmt.Sprintf("caps/%s/%d of %d bytes/%s/every=%d/strike=%v", cfg.Name, memory, most, cfg.Policy, cfg.Every, cfg.Strike)
	return h, cfg
}
