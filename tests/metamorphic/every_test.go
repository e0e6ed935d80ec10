package metamorphic_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/internal/history"
)

// TestEveryCallOfADriverMayFail replays histories with maps, shared virtual memory,
// rectangles and content sizes, and has the n-th call of one kind that their drivers get
// fail, for every kind and every n: it is refused, or accepted and fails before or after
// its work. No byte is wrong, nothing hangs, Check is clean after every operation, and
// every byte that must be readable is (C9, C11). In CI there are fewer n of calls that are
// frequent; with GODWIT_SOAK=1 no n is left out.
func TestEveryCallOfADriverMayFail(t *testing.T) {
	total := everyCall(t, 5, 30_000, false, false)
	require.Positive(t, total.Unopened)
	for call, n := range total.Calls {
		if call != "lend" { // of devices that use pointers in place: tests/opencl
			require.Positive(t, n, "no run makes a call of the kind %q", call)
		}
	}
}

// TestEveryCallMayFailWhileBlocksLeave is that with devices whose memory is short, so that the calls that fail are those of
// write-backs, of frees of victims, and of allocations for what has no room (C10), too.
func TestEveryCallMayFailWhileBlocksLeave(t *testing.T) {
	total := everyCall(t, 1, 5000, true, false)
	require.Positive(t, total.Evictions)
	require.Positive(t, total.WrittenBack)
	require.Positive(t, total.Refused, "memory is never short")
}

// TestEveryCallMayFailWhileGraphsAreReplayed is that with graphs.
func TestEveryCallMayFailWhileGraphsAreReplayed(t *testing.T) {
	total := everyCall(t, 2, 8000, false, true)
	require.Positive(t, total.Ops["replay, prepared"])
	require.Positive(t, total.Struck)
}

// everyCall strikes calls, in CI at most so many of a kind, on devices that have memory
// enough, or are short of it and evict.
func everyCall(t *testing.T, most, commands int, short, graphs bool) history.Result {
	if os.Getenv("GODWIT_SOAK") != "" {
		most = 1 << 30
	}
	houses := []string{"bBst", "cw", "Bcb"}
	return history.Test(t, commands, func(seed uint64, _ *rand.Rand) (*history.History, history.Config) {
		house, ooo := houses[seed%3], seed/3%2 > 0
		cfg := history.Config{Name: fmt.Sprintf("every/%s/outOfOrder=%t", house, ooo), OutOfOrder: ooo, EachCall: most, Graphs: graphs}
		h, memory := history.Generate(history.Draw{Seed: 1000 * seed, Ops: 70, Rich: true, Evicts: short}), uint64(256<<10)
		if short {
			memory, cfg.Policy = h.WorkingSet(), []string{"cost", "lru"}[seed%2]
			cfg.Name += fmt.Sprintf("/%d bytes/%s", memory, cfg.Policy)
		}
		cfg.Open = open(house, memory, bufalloc.Fit)
		return h, cfg
	})
}
