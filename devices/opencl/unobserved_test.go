//go:build cgo

package opencl

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

const advanceSource = `
kernel void advance(global uint *a, uint add) { a[get_global_id(0)] = a[get_global_id(0)] * 3 + add; }
kernel void spin(global uint *a, uint n) { uint x = a[0]; for (uint i = 0; i < n; i++) x = x * 1664525 + 1013904223; a[0] = x; }
kernel void blend(global uint *a, global const uint *b) { a[get_global_id(0)] += b[get_global_id(0)]; }
`

const words64 = 64

// unobserved runs a test on a device whose launches may go without events, with events called
// back of and watched.
func unobserved(t *testing.T, test func(t *testing.T, d *Device, m devices.Module)) {
	for _, events := range []string{"callback", "watch"} {
		t.Run(events, func(t *testing.T) {
			d := open(t, 1, map[string]string{"quiet": "on", "events": events})[0]
			m, err := d.Build(context.Background(), &devices.Program{Name: "quiet", Source: advanceSource})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, m.Close()) })
			test(t, d, m)
		})
	}
}

func kernelNamed(t testing.TB, m devices.Module, name string) devices.Kernel {
	t.Helper()
	k, err := m.Kernel(name)
	require.NoError(t, err)
	return k
}

func word(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// step is a[i] = 3a[i] + add, of a whole block.
func step(t testing.TB, m devices.Module, a mem.Block, add uint32) *devices.Command {
	return &devices.Command{Op: devices.OpLaunch, Kernel: kernelNamed(t, m, "advance"), Dims: 1, Unobserved: true,
		Global: [3]uint64{words64}, Args: []devices.Arg{{Kind: devices.ArgBuffer, Block: a, Size: 4 * words64}, {Value: word(add)}}}
}

// zeroed is a block of zeros.
func zeroed(t testing.TB, d *Device, q *Queue) mem.Block {
	t.Helper()
	b := alloc(t, d, 4*words64)
	finishPoint(t, q, run(t, q, &devices.Command{Op: devices.OpFill, Size: 4 * words64, Pattern: []byte{0},
		Dst: devices.Loc{Device: d, Block: b}}))
	return b
}

func contentOf(t testing.TB, d *Device, q *Queue, b mem.Block, waits ...mem.Wait) uint32 {
	t.Helper()
	got := make([]byte, 4*words64)
	finishPoint(t, q, run(t, q, read(d, b, 0, got), waits...))
	return binary.NativeEndian.Uint32(got[4*(words64-1):])
}

func inSpan(q *Queue, p mem.Point) bool {
	q.dev.host.mu.Lock()
	defer q.dev.host.mu.Unlock()
	return q.span.has(p.Seq)
}

// settled waits until OpenCL has said of all records that they have ended, so that
// an injected fault is of what comes after.
func settled(t testing.TB, q *Queue) {
	t.Helper()
	require.Eventually(t, func() bool {
		q.dev.host.mu.Lock()
		defer q.dev.host.mu.Unlock()
		return q.dev.host.inUseLocked() == 0
	}, 10*time.Second, time.Millisecond)
}

func TestUnobservedLaunchesEndWithAWaitOfAThreadsOwn(t *testing.T) {
	unobserved(t, func(t *testing.T, d *Device, m devices.Module) {
		q := openQueue(t, d, devices.QueueOptions{Name: "q"})
		a := zeroed(t, d, q)
		var p mem.Point
		var want uint32
		for i := range uint32(100) {
			p = run(t, q, step(t, m, a, i))
			want = 3*want + i
		}
		require.True(t, inSpan(q, p))
		require.NoError(t, q.Wait(context.Background(), p, devices.BlockThread))
		require.True(t, p.Passed())
		require.False(t, inSpan(q, p))
		require.Equal(t, want, contentOf(t, d, q, a))
	})
}

func TestWhoAsksToBeToldOfAnUnobservedPointIsTold(t *testing.T) {
	unobserved(t, func(t *testing.T, d *Device, m devices.Module) {
		q := openQueue(t, d, devices.QueueOptions{Name: "q"})
		a := zeroed(t, d, q)
		for i := range 50 {
			first := run(t, q, step(t, m, a, 1))
			last := run(t, q, step(t, m, a, 1))
			if i%2 == 0 {
				finishPoint(t, q, first)
			}
			finishPoint(t, q, last)
			require.True(t, last.Passed())
		}
	})
}

func TestWhatFollowsUnobservedLaunchesWaitsForThem(t *testing.T) {
	unobserved(t, func(t *testing.T, d *Device, m devices.Module) {
		q := openQueue(t, d, devices.QueueOptions{Name: "q"})
		other := openQueue(t, d, devices.QueueOptions{Name: "other", OutOfOrder: true})
		a := zeroed(t, d, q)
		want := uint32(0)
		launches := func() (p mem.Point) {
			for range 20 {
				p = run(t, q, step(t, m, a, 1))
				want = 3*want + 1
			}
			return p
		}
		p := launches()
		require.Equal(t, want, contentOf(t, d, q, a, mem.Wait{Point: p, Kind: mem.Data}), "a read of the same queue")
		p = launches()
		require.Equal(t, want, contentOf(t, d, other, a, mem.Wait{Point: p, Kind: mem.Data}), "a read of another queue")
		p = launches()
		reached := false
		finishPoint(t, q, run(t, q, &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error {
			reached = p.Reached()
			return nil
		}}))
		require.True(t, reached, "a host call comes after them")
		p = launches()
		marker := run(t, q, &devices.Command{Op: devices.OpMarker})
		finishPoint(t, q, marker)
		require.True(t, p.Reached(), "a later point that has ended ends those before")
	})
}

// A command of another queue, and of another device, waits for quiet launches in OpenCL.
func TestOtherQueuesWaitForUnobservedLaunchesInOpenCL(t *testing.T) {
	devs, ms := launching(t, 2, map[string]string{"quiet": "on"})
	q := openQueue(t, devs[0], devices.QueueOptions{Name: "q"})
	for i, d := range devs {
		other := openQueue(t, d, devices.QueueOptions{Name: "other", OutOfOrder: true})
		a, b := zeroed(t, devs[0], q), zeroed(t, d, other)
		long := step(t, ms[0], a, 1<<23)
		long.Kernel, long.Global = kernelNamed(t, ms[0], "spin"), [3]uint64{1}
		p := run(t, q, long)
		require.True(t, inSpan(q, p))
		then := run(t, other, step(t, ms[i], b, 1), mem.Wait{Point: p, Kind: mem.Data})
		d.host.mu.Lock()
		r := other.flight.get(then.Seq)
		held := r != nil && r.state == held
		d.host.mu.Unlock()
		require.False(t, held)
		finishPoint(t, other, then)
		require.True(t, p.Succeeded())
	}
}

func TestClosingAQueueEndsItsUnobservedLaunches(t *testing.T) {
	unobserved(t, func(t *testing.T, d *Device, m devices.Module) {
		for range 10 {
			dq, err := d.NewQueue(devices.QueueOptions{Name: "q"})
			require.NoError(t, err)
			q := dq.(*Queue)
			a := zeroed(t, d, q)
			p := run(t, q, step(t, m, a, 1))
			var called atomic.Bool
			run(t, q, &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error { called.Store(true); return nil }})
			last := run(t, q, step(t, m, a, 1))
			require.NoError(t, q.Close())
			require.True(t, p.Reached() && last.Passed() && called.Load())
		}
	})
}

func TestAFailureOfUnobservedLaunchesIsThatOfAll(t *testing.T) {
	unobserved(t, func(t *testing.T, d *Device, m devices.Module) {
		var failed []mem.Point
		q := openQueue(t, d, devices.QueueOptions{Name: "q", OnFail: func(p mem.Point, _ error) { failed = append(failed, p) }})
		a := zeroed(t, d, q)
		settled(t, q)
		p := run(t, q, step(t, m, a, 1))
		r := run(t, q, step(t, m, a, 1))
		inject(t, ocl.FaultEnd, 1, mem.OutOfResources)
		require.Equal(t, mem.OutOfResources, mem.StatusOf(q.Wait(context.Background(), r, devices.BlockThread)))
		require.Equal(t, mem.OutOfResources, mem.StatusOf(p.Err()))
		require.Equal(t, []mem.Point{p, r}, failed)

		p = run(t, q, step(t, m, a, 1))
		inject(t, ocl.FaultEnd, 1, mem.OutOfResources)
		require.Equal(t, mem.OutOfResources, mem.StatusOf(q.Wait(context.Background(), p, devices.Park)), "of the fence")

		inject(t, ocl.FaultEnqueue, 1, mem.OutOfResources)
		_, err := q.Submit(step(t, m, a, 1), nil)
		require.Equal(t, mem.OutOfResources, mem.StatusOf(err), "refused")
		require.Equal(t, q.Timeline().Last(), p)
		finishPoint(t, q, run(t, q, step(t, m, a, 1)))
	})
}

func TestUnobservedLaunchesThatNeedAFailedCommandFail(t *testing.T) {
	unobserved(t, func(t *testing.T, d *Device, m devices.Module) {
		q := openQueue(t, d, devices.QueueOptions{Name: "q"})
		a := zeroed(t, d, q)
		for range 20 {
			settled(t, q)
			inject(t, ocl.FaultEnd, 1, mem.OutOfResources)
			w := run(t, q, write(d, a, 0, pattern(4*words64, 1)))
			p := run(t, q, step(t, m, a, 1), mem.Wait{Point: w, Kind: mem.Data})
			_ = p.Wait(context.Background())
			if w.Err() == nil { // a poll saw it end before it could fail
				ocl.Inject(ocl.FaultEnd, 0, 0)
				continue
			}
			require.Equal(t, mem.OutOfResources, mem.StatusOf(w.Err()))
			require.ErrorIs(t, p.Err(), mem.ErrDependency)
		}
	})
}

func TestAKernelMayGoWhileItsUnobservedLaunchesRun(t *testing.T) {
	unobserved(t, func(t *testing.T, d *Device, _ devices.Module) {
		q := openQueue(t, d, devices.QueueOptions{Name: "q"})
		a := zeroed(t, d, q)
		_, released := Objects()
		var p mem.Point
		const n = 64
		for i := range n {
			m, err := d.Build(context.Background(), &devices.Program{Name: "quiet", Source: advanceSource})
			require.NoError(t, err)
			p = run(t, q, step(t, m, a, uint32(i)))
			require.NoError(t, m.Close())
		}
		require.NoError(t, q.Wait(context.Background(), p, devices.BlockThread))
		finishPoint(t, q, run(t, q, &devices.Command{Op: devices.OpMarker}))
		_, now := Objects()
		require.Equal(t, released.Kernels+n, now.Kernels)
	})
}

func TestArgumentsAreThoseOfEachLaunch(t *testing.T) {
	unobserved(t, func(t *testing.T, d *Device, m devices.Module) {
		q := openQueue(t, d, devices.QueueOptions{Name: "q"})
		a, b := zeroed(t, d, q), zeroed(t, d, q)
		var wantA, wantB uint32
		for i := range uint32(60) {
			run(t, q, step(t, m, a, i/7))
			wantA = 3*wantA + i/7
			if i%3 == 0 {
				run(t, q, step(t, m, b, i/7))
				wantB = 3*wantB + i/7
			}
			if i%10 == 0 { // another's arguments, checked on the same cl_kernel
				require.NoError(t, kernelNamed(t, m, "advance").(*Kernel).CheckArg(1, 4, word(77)))
			}
		}
		require.Equal(t, wantA, contentOf(t, d, q, a))
		require.Equal(t, wantB, contentOf(t, d, q, b))
		for i := range uint32(20) { // blocks that may have each other's handles
			var c [1]mem.Block
			out, err := d.Memory().AllocAll([]mem.Request{{Size: 4 * words64}}, c[:], nil)
			require.NoError(t, err)
			require.Equal(t, mem.Ready, out)
			run(t, q, &devices.Command{Op: devices.OpFill, Size: 4 * words64, Pattern: word(i), Dst: devices.Loc{Device: d, Block: c[0]}})
			p := run(t, q, step(t, m, c[0], 1))
			require.Equal(t, 3*i+1, contentOf(t, d, q, c[0], mem.Wait{Point: p, Kind: mem.Data}))
			require.NoError(t, d.Memory().FreeAfter(c[0], []mem.Point{p}))
		}
	})
}

// Where a release is slow beside an enqueue, events are released by who waits, who enqueues nothing meanwhile.
func TestEventsAreReleasedByWhoWaits(t *testing.T) {
	unobserved(t, func(t *testing.T, d *Device, m devices.Module) {
		kept := func() int64 {
			created, released := ocl.Objects()
			return created.Events - released.Events
		}
		q := openQueue(t, d, devices.QueueOptions{Name: "q"})
		cmd := step(t, m, zeroed(t, d, q), 1)
		cmd.Unobserved = false
		settled(t, q)
		before := kept()
		const n = 2 * mostTrash
		for range n {
			run(t, q, cmd)
		}
		require.NoError(t, q.Timeline().Last().Wait(context.Background())) // told by another goroutine
		settled(t, q)
		require.Equal(t, before+n, kept())
		for range 1000 { // who is told may have seen the end of one before its waiter
			if blocked(t, q, run(t, q, cmd)); kept() <= mostTrash+1 {
				break
			}
		}
		require.LessOrEqual(t, kept(), int64(mostTrash)+1)
		for range 2 * muchTrash {
			run(t, q, cmd)
		}
		require.NoError(t, q.Timeline().Last().Wait(context.Background()))
		settled(t, q)
		require.Eventually(t, func() bool { return kept() <= muchTrash+1 }, 20*time.Second, time.Millisecond, "many by others too")
	})
}
