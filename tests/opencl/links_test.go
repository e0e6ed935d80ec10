//go:build cgo

package opencl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/internal/history"
	"godwit/internal/nvlink/nvlinktest"
	"godwit/mem"
	"godwit/runtime"
)

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
			devs = append(devs, f.Wrap(d, true))
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
	align := history.Align
	if platform != "" {
		align = 512 // as GPUs want it
	}
	ops := 250
	if os.Getenv("GODWIT_SOAK") != "" {
		ops = 4000 // to open links takes longer than many commands
	}
	total := history.Test(t, 3000, func(seed uint64, _ *rand.Rand) (*history.History, history.Config) {
		kind := linkKind(seed % uint64(linkKinds))
		if only, err := strconv.Atoi(os.Getenv("GODWIT_TEST_LINKS")); err == nil {
			kind = linkKind(only)
		}
		cfg := history.Config{
			Name: fmt.Sprintf("links/%v/outOfOrder=%t", kind, seed/uint64(linkKinds)%2 != 0),
			Open: linkedHouse(platform, kind), OutOfOrder: seed/uint64(linkKinds)%2 != 0, Links: true, Unchecked: ops > 250,
		}
		if kind == chunks {
			cfg.Chunk = 4096
		}
		d := history.Draw{Seed: seed, Ops: ops, Align: align}
		if seed%5 == 3 { // more data than memory
			cfg.Policy, cfg.Cap = []string{"lru", "cost"}[seed/5%2], 64*uint64(align)
			cfg.Name += "/capped/" + cfg.Policy
		}
		if seed%5 == 4 && platform == "" {
			d.Ops, d.Align, d.Failing, cfg.Every = 120, 0, true, 20
		}
		h := history.Generate(d)
		for cfg.Cap != 0 && bytesOf(h) < cfg.Cap*5/4 {
			d.Seed += 1 << 32
			h = history.Generate(d)
		}
		return h, cfg
	})
	require.Positive(t, total.BytesMoved)
	require.Positive(t, total.Evictions)
}

// counted is a device's memory that counts large blocks outside windows.
type counted struct {
	mem.Resource
	of      devices.Windowed
	outside *int
}

// AllocAll implements mem.Resource.
func (c *counted) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	outcome, err := c.Resource.AllocAll(reqs, out, reuse)
	for _, b := range out {
		if outcome == mem.Ready && b.Size >= 64<<10 && !c.of.InWindow(b) {
			*c.outside++
		}
	}
	return outcome, err
}

// shortHouse opens devices whose slabs are small, and counts their large blocks outside windows.
func shortHouse(outside *int) (open func(*history.Faults) ([]devices.Device, error), options func([]devices.Device, *runtime.Options)) {
	open = func(*history.Faults) ([]devices.Device, error) {
		return devices.Open(context.Background(), "opencl", devices.Config{
			Memory: 16 << 20, Params: map[string]string{"bus": "on", "carve": "on", "nvlink": "on", "slab": fmt.Sprint(64 << 10)},
		})
	}
	return open, countOutside(outside)
}

// countOutside counts large blocks outside windows.
func countOutside(outside *int) func([]devices.Device, *runtime.Options) {
	return func(devs []devices.Device, o *runtime.Options) {
		o.Resource = func(id mem.MemoryID, up mem.Resource) mem.Resource {
			if id == mem.Host {
				return up
			}
			return &counted{up, devs[id-1].(devices.Windowed), outside}
		}
	}
}

// TestLargeBlocksLieInWindowsThoughMemoryIsShort replays histories whose windows have 70 and 90 % of the memory that they
// take, which the GPU says only by refusing some, and which come back late.
func TestLargeBlocksLieInWindowsThoughMemoryIsShort(t *testing.T) {
	need(t)
	fake := nvlinktest.Again(t)
	if fake == nil {
		return
	}
	outside := 0
	cfg := history.Config{Name: "short", Links: true, Unchecked: true}
	cfg.Open, cfg.Context = shortHouse(&outside)
	n, peak := 0, int64(0)
	total := history.Test(t, 1000, func(uint64, *rand.Rand) (*history.History, history.Config) {
		percent, seed := []int64{100, 90, 70}[n%3], uint64(n/3) // three runs of each
		if peak = min(peak, fake.Peak()); percent == 100 {
			peak = 1 << 40
		}
		n++
		fake.Capacity(peak * percent / 100)
		fake.Late(time.Duration(100-percent) * 100 * time.Microsecond) // so that what windows had is there some time after these have ended
		cfg.Policy = []string{"lru", "cost"}[seed%2]
		return history.Generate(history.Draw{Seed: seed, Ops: 250, Align: 16 << 10}), cfg
	})
	require.Zero(t, outside)
	require.Zero(t, total.Failed)
	require.Positive(t, total.Evictions)
	require.Empty(t, fake.Violations())
}

// TestBytesOfWindowsThatComeBackLateAreWaitedFor where nothing could leave in their place.
func TestBytesOfWindowsThatComeBackLateAreWaitedFor(t *testing.T) {
	need(t)
	fake := nvlinktest.Again(t)
	if fake == nil {
		return
	}
	outside := 0
	open, _ := shortHouse(&outside)
	devs, err := open(nil)
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err)
	q, err := c.NewQueue(devs[0], runtime.QueueOptions{})
	require.NoError(t, err)
	fake.Capacity(1 << 20)
	fake.Late(10 * time.Millisecond)
	for i := range uint64(8) {
		b, err := c.CreateBuffer((600+100*(i%3))<<10, 0, nil)
		require.NoError(t, err)
		_, err = q.EnqueueFill(t.Context(), b, []byte{1}, 0, b.Size())
		require.NoError(t, err)
		require.NoError(t, q.Finish(t.Context()))
		require.NoError(t, b.Release())
	}
	require.NoError(t, c.Check())
	require.NoError(t, c.Close(t.Context()))
	require.Empty(t, fake.Violations())
}
