//go:build cgo

package opencl

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

func TestBytesComeBackAsWritten(t *testing.T) {
	modes(t, func(t *testing.T, params map[string]string) {
		d := open(t, 1, params)[0]
		for _, ooo := range []bool{false, true} {
			q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: ooo})
			b := alloc(t, d, 1<<20)
			data := pattern(1<<20, 3)
			w := run(t, q, write(d, b, 0, data))
			got := make([]byte, 1<<19)
			r := run(t, q, read(d, b, 1<<19, got), mem.Wait{Point: w, Kind: mem.Data})
			finishPoint(t, q, r)
			require.Equal(t, data[1<<19:], got)
		}
	})
}

func TestKernelsAndTheirArguments(t *testing.T) {
	modes(t, func(t *testing.T, params map[string]string) {
		d := open(t, 1, params)[0]
		q := openQueue(t, d, devices.QueueOptions{Name: "q"})
		m, err := d.Build(context.Background(), &devices.Program{Name: "p", Source: source})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		require.Equal(t, []string{"add", "sum"}, m.Kernels())
		k, err := m.Kernel("add")
		require.NoError(t, err)
		require.Equal(t, []devices.ArgInfo{
			{Name: "out", Kind: devices.ArgBuffer, Access: mem.ReadWrite, Type: "int"},
			{Name: "in", Kind: devices.ArgBuffer, Access: mem.Read, Type: "int"},
			{Name: "n", Kind: devices.ArgValue, Size: 4, Type: "int"},
		}, k.Args())
		in, out := alloc(t, d, 4096), alloc(t, d, 4096)
		data := make([]byte, 4096)
		for i := range 1024 {
			data[4*i], data[4*i+1] = byte(i), byte(i>>8)
		}
		run(t, q, write(d, in, 0, data))
		// The second half of in, from an aligned offset.
		launch := &devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{512}, Args: []devices.Arg{
			{Kind: devices.ArgBuffer, Block: out, Size: 4096},
			{Kind: devices.ArgBuffer, Block: in, Off: 2048, Size: 2048},
			{Kind: devices.ArgValue, Value: []byte{5, 0, 0, 0}},
		}}
		run(t, q, launch)
		got := make([]byte, 2048)
		finishPoint(t, q, run(t, q, read(d, out, 0, got)))
		for i := range 512 {
			require.Equal(t, 512+i+5, int(got[4*i])|int(got[4*i+1])<<8)
		}
		sum, err := m.Kernel("sum")
		require.NoError(t, err)
		run(t, q, &devices.Command{Op: devices.OpLaunch, Kernel: sum, Dims: 1, Global: [3]uint64{64}, Local: [3]uint64{16}, Args: []devices.Arg{
			{Kind: devices.ArgBuffer, Block: out, Size: 4096}, {Kind: devices.ArgLocal, Size: 64}, {Kind: devices.ArgValue, Value: make([]byte, 16)},
		}})
		finishPoint(t, q, run(t, q, read(d, out, 0, got[:16])))
		require.Equal(t, []byte{120, 0, 0, 0, 120 + 0, 1, 0, 0}, got[:8])
	})
}

func TestBytesMoveBetweenDevices(t *testing.T) {
	modes(t, func(t *testing.T, params map[string]string) {
		devs := open(t, 2, params)
		a, b := devs[0], devs[1]
		if l := b.Link(a, b); !l.Direct.There {
			t.Skip("the devices copy nothing from each other: the mover does")
		}
		q := openQueue(t, b, devices.QueueOptions{Name: "b", OutOfOrder: true})
		qa := openQueue(t, a, devices.QueueOptions{Name: "a"})
		for _, n := range []int{1, 4096, 1 << 20, 5<<20 + 17} {
			src, dst := alloc(t, a, uint64(n)), alloc(t, b, uint64(n))
			data, got := pattern(n, 9), make([]byte, n)
			w := run(t, qa, write(a, src, 0, data))
			c := run(t, q, &devices.Command{Op: devices.OpCopy, Size: uint64(n),
				Dst: devices.Loc{Device: b, Block: dst}, Src: devices.Loc{Device: a, Block: src}}, mem.Wait{Point: w, Kind: mem.Data})
			finishPoint(t, q, run(t, q, read(b, dst, 0, got), mem.Wait{Point: c, Kind: mem.Data}))
			require.Equal(t, data, got)
		}
	})
}

func TestAWaitOnSomethingForeignHoldsOnlyWhatWaits(t *testing.T) {
	d := open(t, 1, nil)[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
	user := mem.NewTimeline("user", false, nil)
	gate := user.Next()
	b := alloc(t, d, 4096)
	data := pattern(4096, 1)
	gated := run(t, q, write(d, b, 0, data), mem.Wait{Point: gate, Kind: mem.Data})
	behind := run(t, q, &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: gated})
	other := run(t, q, &devices.Command{Op: devices.OpMarker})
	finishPoint(t, q, other)
	require.False(t, gated.Reached())
	require.False(t, behind.Reached())
	user.End(gate, nil)
	finishPoint(t, q, behind)
	require.True(t, gated.Reached())
}

// OpenCL's markers wait for all commands of their queue where they are given nothing to
// wait for; ours for nothing.
func TestAMarkerWithoutWaitsWaitsForNothing(t *testing.T) {
	d := open(t, 1, nil)[0]
	for _, profiling := range []bool{false, true} {
		q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true, Profiling: profiling})
		gate, err := clContext(d).CreateUserEvent()
		require.NoError(t, err)
		gateEvent := *(*ocl.Event)(unsafe.Pointer(gate))
		behind := ocl.Command{Queue: q.cl, Op: ocl.Marker}
		require.Zero(t, behind.Submit(nil, ocl.SetArgs{}, []ocl.Event{gateEvent}, nil, ocl.Tag{}))
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		p := run(t, q, &devices.Command{Op: devices.OpMarker})
		errWait := q.Wait(ctx, p, devices.Park)
		times, timed := q.Times(p, devices.DeviceClock)
		cancel()
		require.NoError(t, gate.SetUserEventStatus(0)) // else the queue could not be closed
		require.Zero(t, behind.Event.End())
		gate.Release()
		ocl.ReleaseEvents([]ocl.Event{behind.Event})
		require.NoError(t, errWait)
		require.Equal(t, profiling, timed)
		require.True(t, times.Queued <= times.Submitted && times.Submitted <= times.Started && times.Started <= times.Ended, "%+v", times)
	}
}

func TestFailuresTravelAlongDataWaitsOnly(t *testing.T) {
	for _, ooo := range []bool{false, true} {
		d := open(t, 1, nil)[0]
		q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: ooo})
		cause := errors.New("the test says so")
		started := make(chan struct{})
		bad := run(t, q, &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error { <-started; return cause }})
		byData := run(t, q, &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: bad, Kind: mem.Data})
		byOrder := run(t, q, &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: bad, Kind: mem.Order})
		chain := run(t, q, &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: byData, Kind: mem.Data}, mem.Wait{Point: byOrder, Kind: mem.Data})
		close(started)
		ctx := context.Background()
		require.ErrorIs(t, q.Wait(ctx, bad, devices.Park), cause)
		require.ErrorIs(t, q.Wait(ctx, byData, devices.Park), mem.ErrDependency)
		require.ErrorIs(t, q.Wait(ctx, byData, devices.Park), cause)
		require.NoError(t, q.Wait(ctx, byOrder, devices.Park))
		require.ErrorIs(t, q.Wait(ctx, chain, devices.Park), cause)
		late := run(t, q, &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: chain, Kind: mem.Data})
		require.ErrorIs(t, q.Wait(ctx, late, devices.Park), cause)
	}
}

func TestAProgramThatDoesNotBuildSaysWhy(t *testing.T) {
	d := open(t, 1, nil)[0]
	_, err := d.Build(context.Background(), &devices.Program{Name: "bad", Source: "kernel void f(global int *x) { x[0] = nonsense; }"})
	require.ErrorIs(t, err, mem.ErrBuild)
	require.Contains(t, err.Error(), "nonsense")
	_, err = d.Build(context.Background(), &devices.Program{Name: "none"})
	require.ErrorIs(t, err, mem.ErrBuild)
}

func TestSelectNamesWhatThereIs(t *testing.T) {
	d := open(t, 1, nil)[0]
	_, err := Select(Selection{Device: "no such device"})
	require.ErrorIs(t, err, mem.ErrDeviceNotFound)
	require.Contains(t, err.Error(), d.info.Name)
	_, err = devices.Open(context.Background(), "opencl", devices.Config{Params: map[string]string{"colour": "red"}})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = devices.Open(context.Background(), "opencl", devices.Config{Params: map[string]string{"count": "99"}})
	require.ErrorIs(t, err, mem.ErrDeviceNotFound)
	found, err := Select(Selection{Platform: strings.ToUpper(d.info.Platform[:8]), Count: 1})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.True(t, named("1", 1, "GPU 2"))
	require.False(t, named("2", 1, "GPU 2"), "a number is an index, even where the name holds it")
	require.True(t, named("gpu 2", 1, "GPU 2"))
}
