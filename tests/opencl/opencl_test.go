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
	"godwit/mem"
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
			devs = append(devs, faulty(f, d))
		}
		if err != nil || !k.mixed {
			return devs, err
		}
		c, err := cpu.New(cpu.Options{Name: "c", Memory: 1 << 20, Strategy: bufalloc.Fit, Workers: 2, SharesHost: k.shares})
		if err == nil {
			devs = append(devs, f.CPU(c))
			o := k.tce
			o.Name, o.Memory = "t", 1<<20
			var s *tce.Device
			if s, err = tce.New(o); err == nil {
				return append(devs, f.TCE(s)), nil
			}
		}
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
		return nil, err
	}
}

// faultyOpenCL is an OpenCL device with faults.
type faultyOpenCL struct {
	*opencl.Device
	f *history.Faults
}

func faulty(f *history.Faults, d devices.Device) devices.Device {
	if f == nil {
		return d
	}
	return history.Wrap(f, d.(*opencl.Device), func(d *opencl.Device) history.Faulty { return &faultyOpenCL{Device: d, f: f} })
}

func (d *faultyOpenCL) Faultless() devices.Device { return d.Device }

// Link implements devices.Device.
func (d *faultyOpenCL) Link(from, to devices.Device) mem.Link {
	return d.Device.Link(history.Faultless(from), history.Faultless(to))
}

// NewQueue implements devices.Device.
func (d *faultyOpenCL) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return d.f.NewQueue(d.Device, o, true)
}

// Build implements devices.Device.
func (d *faultyOpenCL) Build(ctx context.Context, p *devices.Program) (devices.Module, error) {
	return d.f.Build(ctx, d.Device, p)
}

// PinnedMemory implements devices.PageLocker.
func (d *faultyOpenCL) PinnedMemory(node int) (devices.PinnedMemory, error) {
	return d.f.Pinned(d.Device, node)
}

// Close implements devices.Device.
func (d *faultyOpenCL) Close() error { return d.f.Close(d.Device) }

// policies are those that cfg is drawn one of where it has any.
var policies = []string{"lru", "cost", "belady"}

// draw draws a history. Where cfg is to evict, that has several buffers, and each device
// holds less than all of them, down to the largest working set of one command.
func draw(cfg *history.Config, evicts bool, seed uint64, n int, generate func(uint64, int) *history.History) *history.History {
	h := generate(seed, n)
	if !evicts {
		return h
	}
	for next := uint64(1); h.WorkingSet() == h.Bytes(); next++ {
		h = generate(seed+next<<32, n)
	}
	dice := rand.New(rand.NewPCG(seed, 3))
	cfg.Policy, cfg.Cap = policies[dice.IntN(len(policies))], h.WorkingSet()
	if dice.IntN(3) > 0 {
		cfg.Cap += dice.Uint64N(h.Bytes() - h.WorkingSet())
	}
	cfg.Name += fmt.Sprintf("/%d of %d bytes/%s", cfg.Cap, h.Bytes(), cfg.Policy)
	return h
}

// TestHistoriesAgreeWithOneFlatMemoryOnRealDevices is the test of that name of simulated
// devices with two of PoCL's.
func TestHistoriesAgreeWithOneFlatMemoryOnRealDevices(t *testing.T) {
	need(t)
	goal, first := history.Long(t, 10_000)
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
	var total history.Result
	runs := 0
	for ; total.Commands < goal && !t.Failed(); runs++ {
		seed, cfg := first+uint64(runs), all[runs%len(all)]
		generate := history.Generate
		if runs%3 == 0 {
			generate = history.GenerateFailing
		}
		h := draw(&cfg, runs%5 < 3, seed, 250, generate)
		res, err := history.Run(h, cfg)
		if err != nil {
			t.Error(history.Report(h, cfg, err))
		}
		total.Add(res)
	}
	t.Logf("metamorphic on OpenCL: first seed %d: %d histories over %d configurations, %d commands, %d failed, %d blocks evicted (%v), %d bytes copied into new blocks, %d bytes moved, %d bytes read and compared\n%s",
		first, runs, len(all), total.Commands, total.Failed, total.Evictions, total.Evicted, total.Regrown, total.BytesMoved, total.BytesRead, total.Counts())
	require.Positive(t, total.BytesMoved, "bytes must move between OpenCL devices, though PoCL's share RAM")
	require.Positive(t, total.Regrown, "no block was exchanged")
	for _, policy := range policies {
		require.Positive(t, total.Evicted[policy], policy)
	}
	give()
	created, released := opencl.Objects()
	require.Equal(t, created, released, "every cl object made is released")
	require.Positive(t, created.Buffers)
}

// TestAContextThatIsClosedAtOnceHasNothingLeftOnRealDevices is the test of that name of
// simulated devices with two of PoCL's.
func TestAContextThatIsClosedAtOnceHasNothingLeftOnRealDevices(t *testing.T) {
	need(t)
	goal, first := history.Long(t, 250)
	give := keep(t)
	var total history.Result
	i := 0
	for ; total.Commands < goal; i++ {
		cfg := history.Config{
			Name: fmt.Sprintf("stopped/%d", i%8), OutOfOrder: i%2 > 0,
			Open: houseOf(kind{carve: "off", bus: []string{"off", "on"}[i/2%2], mixed: i/4%2 > 0, tce: tce.Options{DMAWord: 8}}),
		}
		h := history.Generate(first+uint64(i), 80)
		res, err := history.Stop(h, cfg, 1+int(h.Seed*7%80))
		require.NoError(t, err, "seed %d on %s", h.Seed, cfg.Name)
		total.Add(res)
	}
	give()
	t.Logf("first seed %d: %d histories, %d commands accepted, %d failed since they were stopped", first, i, total.Commands, total.Failed)
	require.Positive(t, total.Failed)
	created, released := opencl.Objects()
	require.Equal(t, created, released, "every cl object made is released")
}

// TestFailuresLoseExactlyWhatTheyMustOnRealDevices is the test of that name of
// simulated devices with two of PoCL's (C9, C11).
func TestFailuresLoseExactlyWhatTheyMustOnRealDevices(t *testing.T) {
	need(t)
	goal, first := history.Long(t, 2000)
	give := keep(t)
	var total history.Result
	runs := 0
	for ; total.Commands < goal && !t.Failed(); runs++ {
		seed, mixed := first+uint64(runs), runs%3 > 0
		bus := []string{"off", "on"}[runs/4%2]
		cfg := history.Config{
			Name: fmt.Sprintf("faults/bus=%s/mixed=%t/outOfOrder=%t", bus, mixed, runs%2 > 0), OutOfOrder: runs%2 > 0, Every: []int{8, 20}[runs/2%2],
			Open: houseOf(kind{carve: "off", bus: bus, mixed: mixed, tce: tce.Options{DMAWord: 8}, shares: runs%4 == 1}),
		}
		h := draw(&cfg, runs%5 < 3, seed, 120, history.GenerateFailing)
		res, err := history.Run(h, cfg)
		if err != nil {
			t.Error(history.Report(h, cfg, err))
		}
		total.Add(res)
	}
	give()
	said := total.Failures(fmt.Sprintf("on OpenCL, first seed %d, %d histories, %d blocks evicted (%v), %d bytes written back", first, runs, total.Evictions, total.Evicted, total.WrittenBack))
	t.Log(said)
	if os.Getenv("GODWIT_SOAK") != "" {
		fmt.Println(said)
	}
	require.Positive(t, total.Struck)
	require.Greater(t, 2*total.Readable, total.Asked, "of the bytes asked for at the end")
}

// TestEveryCallOfADriverMayFailOnRealDevices is the test of that name of simulated
// devices with two of PoCL's, behind a bus and not; with GODWIT_SOAK=1 no n is left out.
func TestEveryCallOfADriverMayFailOnRealDevices(t *testing.T) {
	need(t)
	goal, seed := history.Long(t, 0)
	most := 2
	if os.Getenv("GODWIT_SOAK") != "" {
		most = 1 << 30
	}
	give := keep(t)
	var total history.Result
	runs := 0
	for i := 0; i < 1 || total.Commands < goal; i++ {
		bus := []string{"on", "off"}[i%2]
		cfg := history.Config{
			Name: fmt.Sprintf("every/bus=%s/outOfOrder=%t", bus, i/2%2 > 0), OutOfOrder: i/2%2 > 0,
			Open: houseOf(kind{carve: "off", bus: bus, mixed: i%4 == 2, tce: tce.Options{DMAWord: 8}}),
		}
		h := history.GenerateRich(seed+uint64(1000*i), 60)
		res, n, cfg, err := history.Every(h, cfg, most)
		total.Add(res)
		if runs += n; err != nil {
			t.Error(history.Report(h, cfg, err))
			break
		}
	}
	said := total.Failures(fmt.Sprintf("every call on OpenCL: first seed %d: %d runs, %d of contexts that did not open", seed, runs, total.Unopened))
	t.Log(said)
	if os.Getenv("GODWIT_SOAK") != "" {
		fmt.Println(said)
	}
	require.Positive(t, total.Calls[history.CallLend])
	require.Positive(t, total.Calls[history.CallBatch])
	give()
	created, released := opencl.Objects()
	require.Equal(t, created, released, "every cl object made is released")
}
