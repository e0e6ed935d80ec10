//go:build cgo

package opencl_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/history"
)

// TestGoroutinesThatComeAndGoBesideOthersOnRealDevices is the test of that name of simulated
// devices with two of PoCL's that are short of memory, some behind a bus, some carved.
func TestGoroutinesThatComeAndGoBesideOthersOnRealDevices(t *testing.T) {
	need(t)
	give := keep(t)
	total := history.Test(t, 2000, func(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
		flip := func() bool { return dice.IntN(2) > 0 }
		k := kind{carve: []string{"off", "on"}[dice.IntN(2)], bus: []string{"off", "on"}[dice.IntN(2)], mixed: flip()}
		cfg := history.Config{OutOfOrder: flip(), Cap: 16 << 10, Policy: []string{"lru", "cost"}[dice.IntN(2)], Every: []int{0, 40}[dice.IntN(2)], Open: houseOf(k)}
		cfg.Name = fmt.Sprintf("carve=%s/bus=%s/mixed=%t/outOfOrder=%t/every=%d/%s", k.carve, k.bus, k.mixed, cfg.OutOfOrder, cfg.Every, cfg.Policy)
		return history.Generate(history.Draw{Seed: seed, Goroutines: 4 + dice.IntN(5), Ops: 30 + dice.IntN(80), Failing: dice.IntN(3) == 0}), cfg
	})
	give()
	require.GreaterOrEqual(t, 10*total.Lent, 3*total.Roots)
	require.Positive(t, total.Evictions)
}
