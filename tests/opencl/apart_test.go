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
	commands, seed := history.Long(t, 2000)
	give := keep(t)
	total, err := history.RunCrowds(commands, seed, func(dice *rand.Rand) history.Config {
		flip := func() bool { return dice.IntN(2) > 0 }
		k := kind{carve: []string{"off", "on"}[dice.IntN(2)], bus: []string{"off", "on"}[dice.IntN(2)], mixed: flip()}
		cfg := history.Config{OutOfOrder: flip(), Cap: 16 << 10, Policy: []string{"lru", "cost"}[dice.IntN(2)], Every: []int{0, 40}[dice.IntN(2)], Open: houseOf(k)}
		cfg.Name = fmt.Sprintf("carve=%s/bus=%s/mixed=%t/outOfOrder=%t/every=%d/%s", k.carve, k.bus, k.mixed, cfg.OutOfOrder, cfg.Every, cfg.Policy)
		return cfg
	})
	t.Log(total.String())
	require.NoError(t, err)
	give()
	require.GreaterOrEqual(t, 10*total.Lent, 3*total.Roots)
	require.Positive(t, total.Evictions)
}
