//go:build cgo

// Package opencl_test runs what crosses packages on real OpenCL devices, beside
// simulated ones in one context. Without OpenCL it skips and says so.
package opencl_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/opencl"
	"godwit/devices/tce"
	"godwit/internal/history"
)

func TestMain(m *testing.M) {
	if os.Getenv("POCL_DEVICES") == "" {
		_ = os.Setenv("POCL_DEVICES", "pthread pthread") // two devices out of PoCL's one
	}
	if os.Getenv(straying) != "" {
		stray()
	}
	goleak.VerifyTestMain(m)
}

func need(t *testing.T) {
	t.Helper()
	if _, err := opencl.Select(opencl.Selection{}); errors.Is(err, opencl.ErrMissing) {
		t.Skipf("no OpenCL here: %v", err)
	}
}

// keep holds the platform's context and the program of the histories until the function
// that it returns is called, so that a soak's histories neither make nor compile them
// again: that is most of what a history on PoCL costs. In CI each history makes its own.
func keep(t *testing.T) (give func()) {
	t.Helper()
	if os.Getenv("GODWIT_SOAK") == "" {
		return func() {}
	}
	devs, err := devices.Open(t.Context(), "opencl", devices.Config{Params: map[string]string{"count": "2"}})
	require.NoError(t, err)
	built, err := devs[0].Build(t.Context(), history.Program)
	require.NoError(t, err)
	return func() {
		require.NoError(t, built.Close())
		for _, d := range devs {
			require.NoError(t, d.Close())
		}
	}
}

// house is two OpenCL devices, whole or carved, and a simulated one of each kind
// where mixed.
func house(carve string, mixed bool) func() ([]devices.Device, error) {
	return func() ([]devices.Device, error) { return houseOf(kind{carve: carve, mixed: mixed})(nil) }
}

// kind is a kind of house.
type kind struct {
	carve  string      // of the OpenCL devices: "on" or "off"
	bus    string      // likewise: "on" says that they are behind a bus
	mixed  bool        // with simulated devices
	tce    tce.Options // of one of them
	shares bool        // the other one, a cpu, shares the host's memory
}

// houseOf is house of any kind.
func houseOf(k kind) func(*history.Faults) ([]devices.Device, error) {
	return func(f *history.Faults) (devs []devices.Device, err error) {
		found, err := devices.Open(context.Background(), "opencl", devices.Config{
			Params: map[string]string{"carve": k.carve, "bus": cmp.Or(k.bus, "off"), "slab": "1048576", "count": "2"},
		})
		for _, d := range found {
			devs = append(devs, f.Wrap(d, true))
		}
		if err != nil || !k.mixed {
			return devs, err
		}
		c, err := cpu.New(cpu.Options{Name: "c", Memory: 1 << 20, Strategy: bufalloc.Fit, Workers: 2, SharesHost: k.shares})
		if err == nil {
			devs = append(devs, f.Wrap(c, false))
			o := k.tce
			o.Name, o.Memory = "t", 1<<20
			var s *tce.Device
			if s, err = tce.New(o); err == nil {
				return append(devs, f.Wrap(s, false)), nil
			}
		}
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
		return nil, err
	}
}

// policies are those that evict is drawn one of.
var policies = []string{"lru", "cost", "belady"}

// draw draws a history, and, where it evicts, how much less than all of its buffers each device of
// cfg holds.
func draw(cfg *history.Config, dice *rand.Rand, d history.Draw) *history.History {
	h := history.Generate(d)
	if d.Evicts {
		cfg.Policy, cfg.Cap = policies[dice.IntN(len(policies))], h.Short(dice)
		cfg.Name += fmt.Sprintf("/%d of %d bytes/%s", cfg.Cap, h.Bytes(), cfg.Policy)
	}
	return h
}

// released requires that every cl object that was made is released.
func released(t *testing.T) {
	created, released := opencl.Objects()
	require.Equal(t, created, released, "every cl object made is released")
	require.Positive(t, created.Buffers)
}

// TestHistoriesAgreeWithOneFlatMemoryOnRealDevices is the test of that name of simulated
// devices with two of PoCL's.
func TestHistoriesAgreeWithOneFlatMemoryOnRealDevices(t *testing.T) {
	need(t)
	var all []history.Config
	for _, carve := range []string{"off", "on"} {
		for _, ooo := range []bool{false, true} {
			for i, with := range []string{"nothing", "cpu,tce", "cpu shares,tce", "nothing"} {
				bus := []string{"off", "on"}[i/2]
				all = append(all, history.Config{
					Name: fmt.Sprintf("carve=%s/bus=%s/with=%s/outOfOrder=%t/whole=%t", carve, bus, with, ooo, len(all)%5 == 4), Whole: len(all)%5 == 4,
					Open: houseOf(kind{carve: carve, bus: bus, mixed: with != "nothing", shares: with == "cpu shares,tce"}), OutOfOrder: ooo,
				})
			}
		}
	}
	give := keep(t)
	total := history.Test(t, 10_000, func(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
		cfg := all[seed%uint64(len(all))]
		cfg.Graphs = seed/2%2 == 1
		return draw(&cfg, dice, history.Draw{Seed: seed, Ops: 250, Failing: seed%3 == 0, Evicts: seed%5 < 3}), cfg
	})
	give()
	require.Positive(t, total.BytesMoved, "bytes must move between OpenCL devices, though PoCL's share RAM")
	require.Positive(t, total.Regrown, "no block was exchanged")
	require.Positive(t, total.Ops["replay, prepared"])
	for _, policy := range policies {
		require.Positive(t, total.Evicted[policy], policy)
	}
	released(t)
}

// TestAContextThatIsClosedAtOnceHasNothingLeftOnRealDevices is the test of that name of
// simulated devices with two of PoCL's.
func TestAContextThatIsClosedAtOnceHasNothingLeftOnRealDevices(t *testing.T) {
	need(t)
	give := keep(t)
	total := history.Test(t, 250, func(i uint64, _ *rand.Rand) (*history.History, history.Config) {
		return history.Generate(history.Draw{Seed: i, Ops: 80}), history.Config{
			Name: fmt.Sprintf("stopped/%d", i%8), OutOfOrder: i%2 > 0, StopAfter: 1 + int(i*7%80), Graphs: i/8%2 > 0,
			Open: houseOf(kind{carve: "off", bus: []string{"off", "on"}[i/2%2], mixed: i/4%2 > 0, tce: tce.Options{DMAWord: 8}}),
		}
	})
	give()
	require.Positive(t, total.Failed)
	released(t)
}

// TestFailuresLoseExactlyWhatTheyMustOnRealDevices is the test of that name of
// simulated devices with two of PoCL's (C9, C11).
func TestFailuresLoseExactlyWhatTheyMustOnRealDevices(t *testing.T) {
	need(t)
	give := keep(t)
	total := history.Test(t, 2000, func(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
		mixed, bus := seed%3 > 0, []string{"off", "on"}[seed/4%2]
		cfg := history.Config{
			Name: fmt.Sprintf("faults/bus=%s/mixed=%t/outOfOrder=%t", bus, mixed, seed%2 > 0), OutOfOrder: seed%2 > 0, Every: []int{8, 20}[seed/2%2], Graphs: seed/8%2 > 0,
			Open: houseOf(kind{carve: "off", bus: bus, mixed: mixed, tce: tce.Options{DMAWord: 8}, shares: seed%4 == 1}),
		}
		return draw(&cfg, dice, history.Draw{Seed: seed, Ops: 120, Failing: true, Evicts: seed%5 < 3}), cfg
	})
	give()
	require.Positive(t, total.Struck)
	require.Greater(t, 2*total.Readable, total.Asked, "of the bytes asked for at the end")
}

// TestEveryCallOfADriverMayFailOnRealDevices is the test of that name of simulated
// devices with two of PoCL's, behind a bus and not; with GODWIT_SOAK=1 no n is left out.
func TestEveryCallOfADriverMayFailOnRealDevices(t *testing.T) {
	need(t)
	most := 2
	if os.Getenv("GODWIT_SOAK") != "" {
		most = 1 << 30
	}
	give := keep(t)
	total := history.Test(t, 1, func(i uint64, _ *rand.Rand) (*history.History, history.Config) {
		bus := []string{"off", "on"}[i%2]
		return history.Generate(history.Draw{Seed: 1000 * i, Ops: 60, Rich: true}), history.Config{
			Name: fmt.Sprintf("every/bus=%s/outOfOrder=%t", bus, i/2%2 > 0), OutOfOrder: i/2%2 > 0, EachCall: most,
			Open: houseOf(kind{carve: "off", bus: bus, mixed: i%4 == 3, tce: tce.Options{DMAWord: 8}}),
		}
	})
	require.Positive(t, total.Calls["lend"])
	require.Positive(t, total.Calls["batch"])
	give()
	released(t)
}
