//go:build cgo

package opencl_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/internal/history"
	"godwit/internal/nvlink/nvlinktest"
	"godwit/mem"
)

// Windows implements devices.Windowed.
func (d *faultyOpenCL) Windows(ctx context.Context, other devices.Device) error {
	return d.Device.Windows(ctx, history.Faultless(other))
}

// Connect implements devices.Windowed.
func (d *faultyOpenCL) Connect(ctx context.Context, other devices.Device) error {
	return d.Device.Connect(ctx, history.Faultless(other))
}

// Connected implements devices.Windowed.
func (d *faultyOpenCL) Connected(other devices.Device) error {
	return d.Device.Connected(history.Faultless(other))
}

// linkKind is how bytes get over the links of a house.
type linkKind int

const (
	direct linkKind = iota // blocks lie in windows
	byRing                 // blocks are in slabs that were there before, and go by window
	chunks                 // as byRing, in small chunks
	linkKinds
)

func (k linkKind) String() string { return [...]string{"direct", "ring", "chunks"}[k] }

// linkedHouse is all OpenCL devices of a platform, with links between them.
func linkedHouse(platform string, kind linkKind) func(*history.Faults) ([]devices.Device, error) {
	return func(f *history.Faults) (devs []devices.Device, err error) {
		const slab = 16 << 20
		found, err := devices.Open(context.Background(), "opencl", devices.Config{
			Memory: 64 << 20, // so that there is little to measure
			Params: map[string]string{"platform": platform, "bus": "on", "carve": "on", "nvlink": "on", "slab": fmt.Sprint(slab)},
		})
		for _, d := range found {
			var b [1]mem.Block
			if _, err := d.Memory().AllocAll([]mem.Request{{Size: 1 << 20}}, b[:], nil); err != nil {
				return nil, err
			}
			if err := d.Memory().FreeAfter(b[0], nil); err != nil {
				return nil, err
			}
			if kind == direct {
				d.Memory().Trim(0)
			}
			devs = append(devs, faulty(f, d))
		}
		return devs, err
	}
}

// bytesOf is the size of all buffers of a history but for shared virtual memory.
func bytesOf(h *history.History) (sum uint64) {
	for _, r := range h.Roots {
		if !strings.HasPrefix(string(r.Kind), "svm") {
			sum += uint64(r.Size)
		}
	}
	return sum
}

// TestHistoriesAgreeOverLinks replays histories over devices with links: with NVIDIA's where
// there are two (GODWIT_TEST_PLATFORM=NVIDIA), else with PoCL's, whose OpenCL imports memory of a
// fake of CUDA's library, in a process of their own.
func TestHistoriesAgreeOverLinks(t *testing.T) {
	need(t)
	platform := os.Getenv("GODWIT_TEST_PLATFORM")
	if platform == "" {
		fake := nvlinktest.Again(t)
		if fake == nil {
			return
		}
		defer func() { require.Empty(t, fake.Violations(), "windows end after their copies") }()
	}
	goal, first := history.Long(t, 3000)
	ops := 250
	if os.Getenv("GODWIT_SOAK") != "" {
		ops = 4000 // to open links takes longer than many commands
	}
	var total history.Result
	runs := 0
	for ; total.Commands < goal && !t.Failed(); runs++ {
		kind := linkKind(runs % int(linkKinds))
		if only, err := strconv.Atoi(os.Getenv("GODWIT_TEST_LINKS")); err == nil {
			kind = linkKind(only)
		}
		cfg := history.Config{
			Name: fmt.Sprintf("links/%v/outOfOrder=%t", kind, runs/int(linkKinds)%2 != 0),
			Open: linkedHouse(platform, kind), OutOfOrder: runs/int(linkKinds)%2 != 0, Links: true, Unchecked: ops > 250,
		}
		if kind == chunks {
			cfg.Chunk = 4096
		}
		if runs%5 == 3 { // more data than memory
			cfg.Policy, cfg.Cap = []string{"lru", "cost"}[runs/5%2], 8<<10
			cfg.Name += "/8KiB/" + cfg.Policy
		}
		align := history.Align
		if platform != "" {
			align = 512 // as GPUs want it
		}
		h := history.GenerateAligned(first+uint64(runs), ops, align)
		for next := uint64(1); cfg.Cap != 0 && bytesOf(h) < cfg.Cap*5/4; next++ {
			h = history.GenerateAligned(first+uint64(runs)+next<<32, ops, align)
		}
		if runs%5 == 4 && platform == "" {
			h, cfg.Every = history.GenerateFailing(first+uint64(runs), 120), 20
		}
		res, err := history.Run(h, cfg)
		if err != nil {
			t.Error(history.Report(h, cfg, err))
		}
		total.Add(res)
	}
	t.Logf("over links: first seed %d: %d histories, %d commands, %d failed, %d blocks evicted, %d bytes moved, %d bytes read and compared",
		first, runs, total.Commands, total.Failed, total.Evictions, total.BytesMoved, total.BytesRead)
	require.Positive(t, total.BytesMoved)
	if runs > 3 { // one of them had a cap
		require.Positive(t, total.Evictions)
	}
}
