package metamorphic_test

import (
	"fmt"
	"os"
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

// TestHistoriesInVirtualTimeAgreeWithOneFlatMemory replays histories on devices in virtual
// time: 1 to 64 of them, with rings and without, short of memory or not, that keep bytes or
// who wrote them (with GODWIT_SOAK=1 both).
func TestHistoriesInVirtualTimeAgreeWithOneFlatMemory(t *testing.T) {
	commands, seed := 0, uint64(1)
	for _, name := range []string{"h200-pcie", "h200-nvlink"} {
		for i, n := range []int{1, 2, 3, 8, 64} {
			for _, more := range []history.Config{{}, {Name: "ooo", OutOfOrder: true}, {Name: "short", Cap: 8 << 10, Policy: "cost"}, {Name: "noPeer", NoPeer: true, OutOfOrder: true}} {
				for _, stamps := range []bool{false, true} {
					if os.Getenv("GODWIT_SOAK") == "" && stamps != ((seed+uint64(i))%2 == 0) {
						continue
					}
					o := virtual.Options{Seed: seed, Exact: i%2 == 1, Stamps: stamps}
					h, cfg := history.Generate(seed, 100), inVirtualTime(name, n, o, more)
					res, err := history.Run(h, cfg)
					if err != nil {
						fail(t, h, cfg, err)
					}
					commands += res.Commands
				}
				seed++
			}
		}
	}
	t.Logf("%d commands in virtual time", commands)
	require.Greater(t, commands, 2000)
}
