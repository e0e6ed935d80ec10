//go:build cgo

package opencl

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/internal/nvlink"
	"godwit/internal/nvlink/nvlinktest"
	"godwit/mem"
)

// inWindows is nvlinktest.Again, where there is OpenCL.
func inWindows(t *testing.T) *nvlinktest.Fake {
	t.Helper()
	if os.Getenv("GODWIT_TEST_PLATFORM") != "" {
		t.Skip("the fake's devices are PoCL's")
	}
	if _, err := Select(Selection{Count: 2}); err != nil {
		t.Skipf("two OpenCL devices are needed: %v", err)
	}
	return nvlinktest.Again(t)
}

// windowed opens two devices with links, connected, and a queue on each.
func windowed(t *testing.T) (devs []*Device, qs []*Queue) {
	devs = open(t, 2, map[string]string{"bus": "on", "slab": "4194304"})
	ctx := t.Context()
	require.NoError(t, devs[0].Windows(ctx, devs[1]))
	require.Error(t, devs[0].Connected(devs[1]))
	require.NoError(t, devs[1].Connect(ctx, devs[0]))
	require.NoError(t, devs[0].Connected(devs[1]))
	for _, d := range devs {
		qs = append(qs, openQueue(t, d, devices.QueueOptions{Name: d.name, OutOfOrder: true}))
	}
	return devs, qs
}

// hopOf is a copy of all of size bytes between blocks of two devices.
func hopOf(from, to *Device, src, dst mem.Block, size uint64) *devices.Command {
	return &devices.Command{Op: devices.OpCopy, Size: size, Src: devices.Loc{Device: from, Block: src}, Dst: devices.Loc{Device: to, Block: dst}}
}

func TestWindowsCarryWhatOpenCLComputes(t *testing.T) {
	fake := inWindows(t)
	if fake == nil {
		return
	}
	devs, qs := windowed(t)
	const size = 1 << 20
	a, b := alloc(t, devs[0], size), alloc(t, devs[1], size)
	require.True(t, devs[0].InWindow(a))
	require.True(t, devs[1].InWindow(b))
	got := make([]byte, size)
	for i := range 50 {
		want := pattern(size, byte(i))
		x, y := i%2, 1-i%2
		blocks := []mem.Block{a, b}
		w := run(t, qs[x], write(devs[x], blocks[x], 0, want))
		hop := run(t, qs[y], hopOf(devs[x], devs[y], blocks[x], blocks[y], size), mem.Wait{Point: w, Kind: mem.Data})
		r := run(t, qs[y], read(devs[y], blocks[y], 0, got), mem.Wait{Point: hop, Kind: mem.Data})
		finishPoint(t, qs[y], r)
		require.Equal(t, want, got, "round %d", i)
	}
	require.Empty(t, fake.Violations())
	large := alloc(t, devs[0], 8<<20) // a slab of its own
	require.True(t, devs[0].InWindow(large))
	require.NoError(t, devs[0].Memory().Check())
}

// A slab that was made before there were windows takes small blocks; large ones get windows, for as long as those can
// be made.
func TestLargeBlocksGetWindowsThoughAnOldSlabHasRoom(t *testing.T) {
	fake := inWindows(t)
	if fake == nil {
		return
	}
	devs := open(t, 2, map[string]string{"carve": "on", "nvlink": "on", "slab": "16777216"})
	old := alloc(t, devs[0], leastInWindow)
	require.False(t, devs[0].InWindow(old))
	require.NoError(t, devs[0].Windows(context.Background(), devs[1]))
	require.False(t, devs[0].InWindow(alloc(t, devs[0], leastInWindow-1)))
	first := alloc(t, devs[0], leastInWindow)
	require.True(t, devs[0].InWindow(first))
	reserved := devs[0].Memory().Stats().Reserved
	require.True(t, devs[0].InWindow(alloc(t, devs[0], 1<<20)), "in the same slab")
	require.Equal(t, reserved, devs[0].Memory().Stats().Reserved)
	require.True(t, devs[0].InWindow(alloc(t, devs[0], 10<<20)))
	fake.RunOut(1, 1000)
	var b [1]mem.Block
	out, err := devs[0].Memory().AllocAll([]mem.Request{{Size: 10 << 20}}, b[:], nil)
	require.NoError(t, err)
	require.Equal(t, mem.Exhausted, out, "no room for a window is no room")
	fake.Fail(1, 1)
	require.False(t, devs[0].InWindow(alloc(t, devs[0], 10<<20)), "what fails for another reason is the end of windows")
	require.ErrorContains(t, devs[0].Connected(devs[1]), "is used no more")
	require.NoError(t, devs[0].Memory().Check())
}

// TestACopyOverALinkHasTimes holds the times of a hop in their order, also of one that was held until a point of
// another driver had ended.
func TestACopyOverALinkHasTimes(t *testing.T) {
	if inWindows(t) == nil {
		return
	}
	devs, _ := windowed(t)
	q := openQueue(t, devs[1], devices.QueueOptions{Name: "timed", Profiling: true})
	const size = 1 << 20
	a, b := alloc(t, devs[0], size), alloc(t, devs[1], size)
	line := mem.NewTimeline("user", false, nil)
	gate := line.Next()
	free := run(t, q, hopOf(devs[0], devs[1], a, b, size))
	held := run(t, q, hopOf(devs[0], devs[1], a, b, size), mem.Wait{Point: gate, Kind: mem.Data})
	line.End(gate, nil)
	for _, p := range []mem.Point{free, held} {
		require.NoError(t, q.Wait(t.Context(), p, devices.Park))
		times, ok := q.Times(p, devices.DeviceClock)
		require.True(t, ok)
		require.Positive(t, times.Queued)
		require.LessOrEqual(t, times.Queued, times.Submitted)
		require.LessOrEqual(t, times.Submitted, times.Started)
		require.Less(t, times.Started, times.Ended)
	}
}

// A device that is opened again and again beside one that stays open leaves nothing behind there: no windows, no cl
// objects, and nothing that keeps it.
func TestADeviceOpenedAgainLeavesNothingBehind(t *testing.T) {
	fake := inWindows(t)
	if fake == nil {
		return
	}
	stays := open(t, 1, windowParams(0))[0]
	q := openQueue(t, stays, devices.QueueOptions{Name: "stays", OutOfOrder: true})
	first := openSmall(t, windowParams(1))
	require.NoError(t, stays.Windows(t.Context(), first))
	require.NoError(t, first.Close())
	b := alloc(t, stays, 1<<20)
	require.True(t, stays.InWindow(b))
	var held Counts
	live := fake.Live()
	for i := range 6 {
		gone := useAgain(t, stays, q, b)
		require.Equal(t, int64(1), fake.Live().Memories, "that of stays")
		created, released := Objects()
		now := less(created, released)
		now.Events = 0 // some are released later
		if i == 0 {
			held, live = now, fake.Live()
		}
		require.Equal(t, held, now)
		require.Equal(t, live, fake.Live())
		require.Eventually(t, func() bool {
			runtime.GC()
			return gone.Value() == nil
		}, 5*time.Second, 10*time.Millisecond, "opening %d", i)
	}
	require.NoError(t, stays.Memory().Check())
	require.Empty(t, fake.Violations())
}

// useAgain opens the second device, has copies go to and fro between it and a block of another's, closes it, and
// returns what is left of it.
func useAgain(t *testing.T, stays *Device, q *Queue, b mem.Block) weak.Pointer[Device] {
	t.Helper()
	const size = 1 << 20
	peer := openSmall(t, windowParams(1))
	require.NoError(t, stays.Windows(t.Context(), peer))
	require.NoError(t, stays.Connect(t.Context(), peer))
	pq, err := peer.NewQueue(devices.QueueOptions{Name: "peer", OutOfOrder: true})
	require.NoError(t, err)
	var c [1]mem.Block
	out, err := peer.Memory().AllocAll([]mem.Request{{Size: size}}, c[:], nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, out)
	want, got := pattern(size, 5), make([]byte, size)
	p := run(t, pq.(*Queue), write(peer, c[0], 0, want))
	p = run(t, q, hopOf(peer, stays, c[0], b, size), mem.Wait{Point: p, Kind: mem.Data})
	p = run(t, pq.(*Queue), hopOf(stays, peer, b, c[0], size), mem.Wait{Point: p, Kind: mem.Data})
	p = run(t, q, read(stays, b, 0, got), mem.Wait{Point: p, Kind: mem.Data})
	finishPoint(t, q, p)
	require.Equal(t, want, got)
	require.NoError(t, pq.Close())
	require.NoError(t, peer.Memory().FreeAfter(c[0], nil))
	require.NoError(t, peer.Close())
	return weak.Make(peer)
}

func TestAHopWaitsForWhatItWasGivenAndFailsWithIt(t *testing.T) {
	fake := inWindows(t)
	if fake == nil {
		return
	}
	devs, qs := windowed(t)
	const size = 4096
	a, b := alloc(t, devs[0], size), alloc(t, devs[1], size)
	line := mem.NewTimeline("user", false, nil)
	hop := hopOf(devs[0], devs[1], a, b, size)

	gate := line.Next()
	p := run(t, qs[1], hop, mem.Wait{Point: gate, Kind: mem.Order})
	after := run(t, qs[0], &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: p, Kind: mem.Data})
	time.Sleep(5 * time.Millisecond)
	require.False(t, p.Reached())
	line.End(gate, context.Canceled)
	finishPoint(t, qs[1], p) // an Order wait delays only
	finishPoint(t, qs[0], after)

	gate = line.Next()
	p = run(t, qs[1], hop, mem.Wait{Point: gate, Kind: mem.Data})
	line.End(gate, context.Canceled)
	require.ErrorIs(t, qs[1].Wait(t.Context(), p, devices.Park), mem.ErrDependency)

	plain := openQueue(t, devs[1], devices.QueueOptions{Name: "in order"})
	first := run(t, plain, hop)
	second := run(t, plain, write(devs[1], b, 0, pattern(size, 9)))
	finishPoint(t, plain, second)
	require.True(t, first.Reached(), "a queue in order ends them so")

	fake.Fail(1, 1)
	p = run(t, qs[1], hop)
	require.ErrorContains(t, qs[1].Wait(t.Context(), p, devices.BlockThread), "copy to device")
	_, err := qs[1].Submit(hop, nil)
	require.ErrorContains(t, err, "is used no more")
}

func TestALostContextRetiresTheLinkAndNotTheDevices(t *testing.T) {
	fake := inWindows(t)
	if fake == nil {
		return
	}
	devs, qs := windowed(t)
	const size = 4096
	a, b := alloc(t, devs[0], size), alloc(t, devs[1], size)
	fake.Lose(0)
	fake.Lose(1)
	p, err := qs[1].Submit(hopOf(devs[0], devs[1], a, b, size), nil)
	if err == nil {
		err = qs[1].Wait(t.Context(), p, devices.Park)
	}
	require.Error(t, err)
	require.Error(t, devs[1].Connected(devs[0]))
	require.NoError(t, devs[1].usable())
	c := alloc(t, devs[1], 4<<20)
	require.False(t, devs[1].InWindow(c), "no windows are made any more")
	got, want := make([]byte, size), pattern(size, 3)
	finishPoint(t, qs[1], run(t, qs[1], write(devs[1], b, 0, want)))
	finishPoint(t, qs[1], run(t, qs[1], read(devs[1], b, 0, got)))
	require.Equal(t, want, got, "what lies in windows is memory as any")
}

func TestWithoutWindowsADeviceSaysWhatIsMissing(t *testing.T) {
	nvlink := "on"
	if os.Getenv("GODWIT_TEST_PLATFORM") != "" {
		nvlink = "off" // it may have some
	}
	devs := open(t, 2, map[string]string{"bus": "on", "nvlink": nvlink})
	err := devs[0].Windows(t.Context(), devs[1])
	require.Error(t, err)
	why := []string{"imports no memory", "driver", noWindows}
	require.True(t, slices.ContainsFunc(why, func(s string) bool { return strings.Contains(err.Error(), s) }), "%v", err)
	require.False(t, devs[0].InWindow(alloc(t, devs[0], 1<<20)))
	require.Error(t, devs[0].Connect(t.Context(), devs[1]))
	require.Error(t, devs[0].Windows(t.Context(), devs[0]))
}

func TestPairsSayWhatJoinsDevicesAndWhatIsMissing(t *testing.T) {
	if inWindows(t) == nil {
		return
	}
	pairs, err := Pairs(t.Context())
	require.NoError(t, err)
	require.Equal(t, Pair{From: 0, To: 1}, pairs[0])
	if last := pairs[len(pairs)-1]; last.From > 1 { // the fake has two GPUs
		require.ErrorIs(t, last.Missing, nvlink.ErrNoGPU)
	}
	t.Setenv("GODWIT_FAKE_NO_PEER", "1")
	pairs, err = Pairs(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, pairs[0].Missing, nvlink.ErrNoPeer)
	t.Setenv("GODWIT_CUDA_LIBRARY", "/no/such/library.so")
	pairs, err = Pairs(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, pairs[0].Missing, "cannot be opened")
	t.Setenv("GODWIT_NVLINK", "off")
	pairs, err = Pairs(t.Context())
	require.NoError(t, err)
	require.Empty(t, pairs, "PoCL's devices are no GPUs")
}

// TestConformanceInWindows runs the conformance suite over two devices with a link: with all blocks in windows, and
// with a link that there is none of before a test asks for it, so that the blocks made until then go by window.
// The windows are the fake's, or those of the GPUs of a platform that GODWIT_TEST_PLATFORM names.
func TestConformanceInWindows(t *testing.T) {
	if os.Getenv("GODWIT_TEST_PLATFORM") == "" {
		fake := inWindows(t)
		if fake == nil {
			return
		}
		fake.Slow(time.Millisecond)
		defer func() { require.Empty(t, fake.Violations()) }()
	}
	for _, direct := range []bool{true, false} {
		name := map[bool]string{true: "direct", false: "by window"}[direct]
		t.Run(name, func(t *testing.T) {
			keep(t, windowParams(0))
			devicetest.Run(t, besideEachOther(direct))
		})
	}
}

// besideEachOther opens the platform's first and second device in turns, with the other one beside it to which it
// has a link, at once or when it is asked for.
func besideEachOther(linked bool) func(testing.TB) devices.Device {
	next := 0
	return func(t testing.TB) devices.Device {
		d := openSmall(t, windowParams(next))
		next++
		if linked {
			beside := openSmall(t, windowParams(next))
			t.Cleanup(func() { require.NoError(t, beside.Close()) })
			require.NoError(t, d.Windows(t.Context(), beside))
		}
		return d
	}
}

// windowParams are those of one of the first two devices.
func windowParams(i int) map[string]string {
	return map[string]string{"bus": "on", "nvlink": "on", "slab": "8388608", "device": strconv.Itoa(i % 2), "count": "1"}
}
