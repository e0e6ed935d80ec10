package metamorphic_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/virtual"
	"godwit/internal/history"
	"godwit/study/machine"
)

// inVirtualTime is a configuration in virtual time: so many devices of a machine, with what
// happens at one instant in an order of the seed's.
func inVirtualTime(name string, n int, o virtual.Options, more history.Config) history.Config {
	more.Name = fmt.Sprintf("%s/%d/seed=%d/exact=%t/%s", name, n, o.Seed, o.Exact, more.Name)
	return history.InVirtualTime(func() (virtual.Machine, error) { return machine.Named(name, machine.Options{Devices: n}) }, o, more)
}

// virtualConfigs are devices in virtual time whose host threads take turns, 1 to 64 of them, with
// rings and without, short of memory or not, that keep bytes or who wrote them.
func virtualConfigs() []history.Config {
	var all []history.Config
	for i, name := range []string{"h200-pcie", "h200-nvlink"} {
		for k, n := range []int{1, 2, 3, 8, 64} {
			for _, noPeer := range []bool{false, true} {
				for _, limit := range []uint64{0, 8 << 10} {
					more := history.Config{Name: fmt.Sprintf("noPeer=%t/cap=%d", noPeer, limit), NoPeer: noPeer, OutOfOrder: (i+k)%2 == 0, Cap: limit}
					if limit > 0 {
						more.Policy = []string{"lru", "cost"}[k%2]
					}
					seed := uint64(len(all))
					all = append(all, inVirtualTime(name, n, virtual.Options{Seed: seed, Exact: k%2 == 1, Stamps: (seed/4+seed)%2 == 1}, more))
				}
			}
		}
	}
	return all
}

// TestHistoriesInVirtualTimeAgreeWithOneFlatMemory replays histories on devices in virtual time, some of
// them as graphs.
func TestHistoriesInVirtualTimeAgreeWithOneFlatMemory(t *testing.T) {
	all := virtualConfigs()
	total := history.Test(t, 3000, func(seed uint64, _ *rand.Rand) (*history.History, history.Config) {
		cfg := all[seed%uint64(len(all))]
		cfg.Graphs = seed/2%2 == 0
		return history.Generate(history.Draw{Seed: seed, Ops: 100}), cfg
	})
	require.Greater(t, total.Histories, 10)
	require.Positive(t, total.Ops["replay, prepared"])
}
