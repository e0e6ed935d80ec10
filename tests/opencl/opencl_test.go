//go:build cgo

// Package opencl_test runs what crosses packages on real OpenCL devices, beside
// simulated ones in one context. Without OpenCL it skips and says so.
package opencl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/opencl"
	"godwit/devices/tce"
	"godwit/tests/metamorphic"
)

func TestMain(m *testing.M) {
	if os.Getenv("POCL_DEVICES") == "" {
		_ = os.Setenv("POCL_DEVICES", "pthread pthread") // two devices out of PoCL's one
	}
	goleak.VerifyTestMain(m)
}

func need(t *testing.T) {
	t.Helper()
	if _, err := opencl.Select(opencl.Selection{}); errors.Is(err, opencl.ErrMissing) {
		t.Skipf("no OpenCL here: %v", err)
	}
}

// house is two OpenCL devices, whole or carved, and a simulated one of each kind
// where mixed.
func house(carve string, mixed bool) func() ([]devices.Device, error) {
	return func() (devs []devices.Device, err error) {
		devs, err = devices.Open(context.Background(), "opencl", devices.Config{
			Params: map[string]string{"carve": carve, "slab": "1048576", "count": "2"},
		})
		if err != nil || !mixed {
			return devs, err
		}
		c, err := cpu.New(cpu.Options{Name: "c", Memory: 1 << 20, Strategy: bufalloc.Fit, Workers: 2})
		if err == nil {
			devs = append(devs, c)
			var s *tce.Device
			if s, err = tce.New(tce.Options{Name: "t", Memory: 1 << 20}); err == nil {
				return append(devs, s), nil
			}
		}
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
		return nil, err
	}
}

func TestHistoriesAgreeWithOneFlatMemoryOnRealDevices(t *testing.T) {
	need(t)
	goal := 10_000
	if os.Getenv("GODWIT_SOAK") != "" {
		goal = 100_000
	}
	var all []metamorphic.Config
	for _, carve := range []string{"off", "on"} {
		for _, mixed := range []bool{true, false} {
			for _, ooo := range []bool{false, true} {
				all = append(all, metamorphic.Config{
					Name: fmt.Sprintf("carve=%s/mixed=%t/outOfOrder=%t", carve, mixed, ooo),
					Open: house(carve, mixed), OutOfOrder: ooo,
				}, metamorphic.Config{
					Name: fmt.Sprintf("carve=%s/mixed=%t/outOfOrder=%t/svm", carve, mixed, ooo),
					Open: house(carve, mixed), OutOfOrder: ooo, SVM: true,
				})
			}
		}
	}
	commands, moved := 0, uint64(0)
	for seed := uint64(1); commands < goal && !t.Failed(); seed++ {
		h, cfg := metamorphic.Generate(seed, 250), all[seed%uint64(len(all))]
		if seed%3 == 0 {
			h = metamorphic.GenerateFailing(seed, 250)
		}
		res, err := metamorphic.Run(h, cfg)
		if err != nil {
			t.Error(metamorphic.Report(h, cfg, err))
		}
		commands += res.Commands
		moved += uint64(res.BytesMoved)
	}
	t.Logf("metamorphic on OpenCL: %d commands over %d configurations, %d bytes moved", commands, len(all), moved)
	require.Positive(t, moved, "bytes must move between OpenCL devices, though PoCL's share RAM")
	created, released := opencl.Objects()
	require.Equal(t, created, released, "every cl object made is released")
	require.Positive(t, created.Buffers)
}
