package metamorphic_test

import (
	"fmt"
	"os"
	"slices"
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
	total := everyCall(t, 5, false)
	require.Positive(t, total.Unopened)
	for _, call := range history.Calls() {
		if call != history.CallLend { // of devices that use pointers in place: tests/opencl
			require.Positive(t, total.Calls[call], "no run makes a call of the kind %q", call)
		}
	}
}

// TestEveryCallMayFailWhileBlocksLeave is that with devices whose memory is short, so that the calls that fail are those of
// write-backs, of frees of victims, and of allocations for what has no room (C10), too.
func TestEveryCallMayFailWhileBlocksLeave(t *testing.T) {
	total := everyCall(t, 1, true)
	require.Positive(t, total.Evictions)
	require.Positive(t, total.WrittenBack)
	require.Positive(t, total.Refused, "memory is never short")
}

// crowd draws a history of at least four buffers, and says what memory is too little for
// all of them, and enough for the two largest.
func crowd(seed uint64) (h *history.History, memory uint64) {
	for ; ; seed++ {
		h = history.GenerateRich(seed, 70)
		var sizes []uint64
		var all uint64
		for _, r := range h.Roots {
			sizes = append(sizes, uint64(r.Size))
			all += uint64(r.Size)
		}
		slices.Sort(sizes)
		if n := len(sizes); n >= 4 {
			if memory = max(sizes[n-1]+sizes[n-2], all*6/10); memory < all*8/10 {
				return h, memory &^ 127
			}
		}
	}
}

// everyCall strikes calls, in CI at most so many of a kind, on devices that have memory
// enough, or are short of it and evict.
func everyCall(t *testing.T, most int, short bool) (total history.Result) {
	soak := os.Getenv("GODWIT_SOAK") != ""
	goal, seed := history.Long(t, 0)
	if short {
		seed += 99
	}
	if soak {
		most = 1 << 30
	}
	houses := []string{"bBst", "cw", "Bcb"}
	runs := 0
	for i := 0; i < len(houses) || total.Commands < goal; i++ {
		house, ooo := houses[i%len(houses)], i/len(houses)%2 > 0
		cfg := history.Config{Name: fmt.Sprintf("every/%s/outOfOrder=%t", house, ooo), OutOfOrder: ooo}
		h, memory := history.GenerateRich(seed+uint64(1000*i), 70), uint64(256<<10)
		if short {
			h, memory = crowd(seed + uint64(2000*i))
			cfg.Policy = []string{"cost", "lru"}[i%2]
			cfg.Name += fmt.Sprintf("/%d bytes/%s", memory, cfg.Policy)
		}
		cfg.Open = open(house, memory, bufalloc.Fit)
		res, n, cfg, err := history.Every(h, cfg, most)
		total.Add(res)
		if runs += n; err != nil {
			fail(t, h, cfg, err)
			break
		}
	}
	said := total.Failures(fmt.Sprintf("every call: first seed %d: %d runs, %d of contexts that did not open, %d blocks evicted, %d bytes written back",
		seed, runs, total.Unopened, total.Evictions, total.WrittenBack))
	t.Log(said)
	if soak {
		fmt.Println(said)
	}
	return total
}
