package metamorphic_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/history"
)

// TestEveryCallOfADriverMayFail replays histories with maps, shared virtual memory,
// rectangles and content sizes, and has the n-th call of one kind that their drivers get
// fail, for every kind and every n: it is refused, or accepted and fails before or after
// its work. No byte is wrong, nothing hangs, Check is clean after every operation, and
// every byte that must be readable is (C9, C11). In CI there are fewer n of calls that are
// frequent; with GODWIT_SOAK=1 seeds are new until so many commands (GODWIT_SOAK_COMMANDS,
// 100,000) were accepted, and no n is left out.
func TestEveryCallOfADriverMayFail(t *testing.T) {
	soak := os.Getenv("GODWIT_SOAK") != ""
	goal, seed, most := 0, uint64(1), 5
	if soak {
		goal, seed, most = 100_000, rand.Uint64(), 1<<30
		if n, err := strconv.Atoi(os.Getenv("GODWIT_SOAK_COMMANDS")); err == nil {
			goal = n
		}
	}
	houses := []string{"bBst", "cw", "Bcb"}
	var total history.Result
	runs := 0
	for i := 0; i < len(houses) || total.Commands < goal; i++ {
		house, ooo := houses[i%len(houses)], i/len(houses)%2 > 0
		cfg := history.Config{Name: fmt.Sprintf("every/%s/outOfOrder=%t", house, ooo), Open: open(house, 256<<10, bufalloc.Fit), OutOfOrder: ooo}
		h := history.GenerateRich(seed+uint64(1000*i), 70)
		res, n, cfg, err := history.Every(h, cfg, most)
		total.Add(res)
		if runs += n; err != nil {
			fail(t, h, cfg, err)
			break
		}
	}
	said := total.Failures(fmt.Sprintf("every call: first seed %d: %d runs, %d of contexts that did not open", seed, runs, total.Unopened))
	t.Log(said)
	if soak {
		fmt.Println(said)
	}
	require.Positive(t, total.Unopened)
	for _, call := range history.Calls() {
		if call != history.CallLend { // of devices that use pointers in place: tests/opencl
			require.Positive(t, total.Calls[call], "no run makes a call of the kind %q", call)
		}
	}
}
