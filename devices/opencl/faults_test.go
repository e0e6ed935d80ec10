//go:build cgo

package opencl

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jgillich/go-opencl/cl"
	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// inject makes the nth call report a status, for this test alone.
func inject(t *testing.T, at ocl.Fault, nth int, status mem.Status) {
	ocl.Inject(at, nth, int32(status))
	t.Cleanup(func() { ocl.Inject(at, 0, 0) })
}

func TestARefusedEnqueueHasChangedNothing(t *testing.T) {
	nativeModes(t, func(t *testing.T, params map[string]string) {
		d := open(t, 1, params)[0]
		q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
		b := alloc(t, d, 4096)
		data, got := pattern(4096, 1), make([]byte, 4096)
		finishPoint(t, q, run(t, q, write(d, b, 0, data)))
		last := q.Timeline().Last()
		inject(t, ocl.FaultEnqueue, 1, mem.OutOfResources)
		_, err := q.Submit(write(d, b, 0, make([]byte, 4096)), nil)
		require.ErrorIs(t, err, mem.ErrNoResources)
		require.Equal(t, mem.OutOfResources, mem.StatusOf(err))
		require.Equal(t, last, q.Timeline().Last(), "nothing was accepted")
		finishPoint(t, q, run(t, q, read(d, b, 0, got)))
		require.Equal(t, data, got)
	})
}

// TestARectangleThatOpenCLRefusesIsCopiedByRows: one that keeps OpenCL's rules is not refused,
// whatever the library below says of it as a whole.
func TestARectangleThatOpenCLRefusesIsCopiedByRows(t *testing.T) {
	const fromSize, toSize = 3200, 2560
	rect := devices.Rect{Region: [3]uint64{50, 10, 3}, SrcRow: 78, SrcSlice: 858, DstRow: 78, DstSlice: 858}
	nativeModes(t, func(t *testing.T, params map[string]string) {
		d := open(t, 1, params)[0]
		for _, refused := range []mem.Status{mem.InvalidValue, mem.MemCopyOverlap} {
			for _, ooo := range []bool{false, true} {
				q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: ooo})
				src, dst := alloc(t, d, fromSize), alloc(t, d, toSize)
				data, before, got := pattern(fromSize, 1), pattern(toSize, 2), make([]byte, toSize)
				want := slices.Clone(before)
				engine.CopyRect(want[50:], data[19:], &rect)
				for name, ends := range map[string][2]devices.Loc{
					"within": {{Device: d, Block: dst, Off: 50}, {Device: d, Block: src, Off: 19}},
					"in":     {{Device: d, Block: dst, Off: 50}, {Bytes: data, Off: 19}},
					"out":    {{Bytes: got, Off: 50}, {Device: d, Block: src, Off: 19}},
				} {
					if name == "within" && d.store.carve.Load() && d.host.quirks.subRectsCrash {
						continue // it goes by rows anyway
					}
					copy(got, before)
					p := run(t, q, write(d, src, 0, data))
					p = run(t, q, write(d, dst, 0, before), mem.Wait{Point: p})
					if name == "out" {
						finishPoint(t, q, p)
					}
					inject(t, ocl.FaultEnqueue, 1, refused)
					p = run(t, q, &devices.Command{Op: devices.OpCopyRect, Rect: rect, Dst: ends[0], Src: ends[1]}, mem.Wait{Point: p})
					ocl.Inject(ocl.FaultEnqueue, 0, 0)
					if name != "out" {
						p = run(t, q, read(d, dst, 0, got), mem.Wait{Point: p})
					}
					finishPoint(t, q, p)
					require.Equal(t, want, got, "%s, refused with %v, out of order %t", name, refused, ooo)
				}
			}
		}
	})
}

func TestRunningOutOfMemoryIsAnOutcomeAndPasses(t *testing.T) {
	d := open(t, 1, map[string]string{"carve": "off"})[0]
	var b [1]mem.Block
	inject(t, ocl.FaultCreate, 1, mem.MemObjectAllocationFailure)
	out, err := d.Memory().AllocAll([]mem.Request{{Size: 4096}}, b[:], nil)
	require.NoError(t, err)
	require.Equal(t, mem.Exhausted, out)
	require.NoError(t, d.Memory().Check())
	alloc(t, d, 4096)
}

func TestAFullDeviceWorksAgainAfterARelease(t *testing.T) {
	for _, carve := range []string{"on", "off"} {
		d := openSmall(t, map[string]string{"carve": carve, "count": "1"})
		var blocks []mem.Block
		for {
			var b [1]mem.Block
			out, err := d.Memory().AllocAll([]mem.Request{{Size: 3 << 20}}, b[:], nil)
			require.NoError(t, err)
			if out != mem.Ready {
				require.Equal(t, mem.Exhausted, out)
				break
			}
			blocks = append(blocks, b[0])
		}
		require.Greater(t, len(blocks), 10)
		require.NoError(t, d.Memory().FreeAfter(blocks[0], nil))
		var b [1]mem.Block
		out, err := d.Memory().AllocAll([]mem.Request{{Size: 3 << 20}}, b[:], nil)
		require.NoError(t, err)
		require.Equal(t, mem.Ready, out)
		blocks[0] = b[0]
		require.NoError(t, d.Memory().Check())
		for _, b := range blocks {
			require.NoError(t, d.Memory().FreeAfter(b, nil))
		}
		require.NoError(t, d.Close())
	}
}

func TestACommandThatFailsOnTheDevice(t *testing.T) {
	for _, events := range []string{"callback", "watch"} {
		t.Run(events, func(t *testing.T) {
			d := open(t, 1, map[string]string{"events": events, "direct": "off"})[0]
			var told []mem.Point
			q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true, OnFail: func(p mem.Point, _ error) { told = append(told, p) }})
			b := alloc(t, d, 4096)
			gate := mem.NewTimeline("user", false, nil)
			opening := gate.Next()
			// The first end that is seen gets the fault, in whatever order OpenCL tells them: nothing else ends before bad.
			later := mem.NewTimeline("later", false, nil)
			then := later.Next()
			bad := run(t, q, write(d, alloc(t, d, 64), 0, pattern(64, 1)), mem.Wait{Point: opening})
			byData := run(t, q, &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: bad, Kind: mem.Data}, mem.Wait{Point: then})
			// A fill: a write may be held back (takesBytesAtEnqueue), and then OpenCL is asked how bad really ended.
			fill := &devices.Command{Op: devices.OpFill, Size: 4096, Dst: devices.Loc{Device: d, Block: b}, Pattern: pattern(16, 2)}
			byOrder := run(t, q, fill, mem.Wait{Point: bad, Kind: mem.Order}, mem.Wait{Point: then})
			inject(t, ocl.FaultEnd, 1, mem.OutOfResources)
			gate.End(opening, nil) // from here on Point.Wait: a poll would see how it really ended
			ctx := context.Background()
			err := bad.Wait(ctx)
			require.ErrorIs(t, err, mem.ErrNoResources)
			later.End(then, nil)
			require.ErrorIs(t, byData.Wait(ctx), mem.ErrDependency)
			require.ErrorIs(t, byData.Wait(ctx), mem.ErrNoResources)
			require.NoError(t, byOrder.Wait(ctx))
			got := make([]byte, 4096)
			finishPoint(t, q, run(t, q, read(d, b, 0, got)))
			require.Equal(t, bytes.Repeat(pattern(16, 2), 256), got)
			require.Equal(t, []mem.Point{bad, byData}, told)
		})
	}
}

func TestALostDeviceSaysSoAndCanBeClosed(t *testing.T) {
	d := open(t, 1, nil)[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	fill := &devices.Command{Op: devices.OpFill, Size: 4, Pattern: []byte{1}, Dst: devices.Loc{Device: d, Block: alloc(t, d, 4)}}
	inject(t, ocl.FaultEnqueue, 1, mem.DeviceNotAvailable)
	_, err := q.Submit(fill, nil)
	require.ErrorIs(t, err, mem.ErrDeviceLost)
	_, err = q.Submit(&devices.Command{Op: devices.OpMarker}, nil)
	require.ErrorIs(t, err, mem.ErrDeviceLost)
	require.Contains(t, err.Error(), d.name)
	_, err = d.NewQueue(devices.QueueOptions{})
	require.ErrorIs(t, err, mem.ErrDeviceLost)
	_, err = d.Build(context.Background(), &devices.Program{Source: source})
	require.ErrorIs(t, err, mem.ErrDeviceLost)
	var b [1]mem.Block
	out, err := d.Memory().AllocAll([]mem.Request{{Size: 1}}, b[:], nil)
	require.NoError(t, err)
	require.Equal(t, mem.Exhausted, out)
}

func TestWrongArgumentsAreToldBeforeTheLaunch(t *testing.T) {
	d := open(t, 1, nil)[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	m, err := d.Build(context.Background(), &devices.Program{Name: "p", Source: source})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	k, err := m.Kernel("add")
	require.NoError(t, err)
	_, err = m.Kernel("nothing")
	require.ErrorIs(t, err, mem.ErrKernelName)
	b := alloc(t, d, 4096)
	whole := devices.Arg{Kind: devices.ArgBuffer, Block: b, Size: 4096}
	for _, c := range []struct {
		args []devices.Arg
		want error
	}{
		{[]devices.Arg{whole, whole}, mem.ErrKernelArgs},
		{[]devices.Arg{whole, whole, {Kind: devices.ArgValue, Value: make([]byte, 8)}}, mem.ErrArgSize},
		{[]devices.Arg{whole, whole, whole}, mem.ErrArgValue},
		{[]devices.Arg{whole, {Kind: devices.ArgBuffer, Block: b, Off: 4, Size: 4}, {Kind: devices.ArgValue, Value: make([]byte, 4)}}, mem.ErrMisaligned},
	} {
		_, err := q.Submit(&devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{64}, Args: c.args}, nil)
		require.ErrorIs(t, err, c.want)
	}
	require.True(t, q.Timeline().Last().IsZero(), "nothing was accepted")
}

// TestWithoutALoader runs this test again in a process whose loader is hidden.
func TestWithoutALoader(t *testing.T) {
	const hidden = "GODWIT_TEST_HIDDEN"
	if os.Getenv(hidden) != "" {
		_, err := devices.Open(context.Background(), "opencl", devices.Config{})
		require.ErrorIs(t, err, ErrMissing)
		require.Equal(t, mem.DeviceNotFound, mem.StatusOf(err))
		require.Contains(t, err.Error(), "GODWIT_OPENCL_LIBRARY")
		_, err = cl.GetPlatforms()
		require.Error(t, err, "go-opencl's own calls fail too, and do not crash")
		created, released := Objects()
		require.Equal(t, created, released)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithoutALoader$", "-test.v")
	cmd.Env = append(os.Environ(), hidden+"=1", "GODWIT_OPENCL_LIBRARY=/nonexistent/libOpenCL.so")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "PASS: TestWithoutALoader")
}

func TestTheProgramDoesNotNeedTheLoaderToStart(t *testing.T) {
	f, err := elf.Open(os.Args[0])
	if err != nil {
		t.Skipf("not an ELF program: %v", err)
	}
	defer func() { require.NoError(t, f.Close()) }()
	libs, err := f.ImportedLibraries()
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(libs, func(l string) bool { return strings.Contains(l, "OpenCL") }), "%v", libs)
	exported, err := f.DynamicSymbols()
	if !errors.Is(err, elf.ErrNoSymbols) {
		require.NoError(t, err)
	}
	for _, s := range exported {
		require.False(t, strings.HasPrefix(s.Name, "clCreate"), "%s must be hidden", s.Name)
	}
}
