//go:build cgo

package opencl_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

const spinSource = `kernel void spin(global uint *x, ulong n) { uint v = x[0]; for (ulong i = 0; i < n; i++) v = v * 1664525u + 1013904223u; x[0] = v; }`

// spinner is a context on PoCL, with a kernel that runs for a while.
func spinner(t testing.TB) (*runtime.Context, *runtime.Queue, *runtime.Buffer, func(n uint64) runtime.Launch) {
	devs, err := devices.Open(context.Background(), "opencl", devices.Config{Params: map[string]string{"count": "1"}})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err)
	q, err := c.NewQueue(devs[0], runtime.QueueOptions{})
	require.NoError(t, err)
	p, err := c.Build(context.Background(), &devices.Program{Name: "spin", Source: spinSource})
	require.NoError(t, err)
	k, err := p.Kernel("spin")
	require.NoError(t, err)
	b, err := c.CreateBuffer(4, 0, []byte{1, 2, 3, 4})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, b.Release())
		require.NoError(t, c.Close(context.Background()))
	})
	return c, q, b, func(n uint64) runtime.Launch {
		return runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{runtime.InOut(b), runtime.Uint64(n)}}
	}
}

// TestAReadLeavesALongKernel: its context ends while a kernel runs before it, and nobody touches its memory any more.
func TestAReadLeavesALongKernel(t *testing.T) {
	need(t)
	_, q, b, spin := spinner(t)
	ctx := context.Background()
	memory, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	e, err := q.EnqueueLaunch(ctx, spin(500_000_000))
	require.NoError(t, err)
	start := time.Now()
	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, q.Read(brief, b, 0, memory[:4]), context.DeadlineExceeded)
	t.Log("returned after", time.Since(start))
	st, err := e.Status()
	require.NoError(t, err)
	require.NotEqual(t, runtime.Complete, st)
	require.NoError(t, unix.Mprotect(memory, unix.PROT_NONE))
	require.NoError(t, q.Finish(ctx))
	t.Log("the kernel ended after", time.Since(start))
	require.NoError(t, e.Release())
}

func TestReadersOfOpenCLHoldNoThreads(t *testing.T) {
	need(t)
	_, q, b, spin := spinner(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, q.Read(ctx, b, 0, make([]byte, 4)))
	e, err := q.EnqueueLaunch(ctx, spin(300_000_000))
	require.NoError(t, err)
	threads := pprof.Lookup("threadcreate").Count()
	var all sync.WaitGroup
	failed := make(chan error, 1000)
	for range 1000 {
		all.Go(func() { failed <- q.Read(ctx, b, 0, make([]byte, 4)) })
	}
	all.Wait()
	for range 1000 {
		require.NoError(t, <-failed)
	}
	more := pprof.Lookup("threadcreate").Count() - threads
	t.Log(more, "more threads")
	require.LessOrEqual(t, more, 16)
	require.NoError(t, e.Release())
}

var errGone = errors.New("the client has gone")

// TestAnAbortedRequestOfOpenCLRunsAtMostItsWindow: what OpenCL was given runs, the rest never begins.
func TestAnAbortedRequestOfOpenCLRunsAtMostItsWindow(t *testing.T) {
	need(t)
	c, q, b, spin := spinner(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	r, err := c.NewRequest(ctx)
	require.NoError(t, err)
	defer r.Close()
	with := q.With(runtime.CommandOptions{Request: r})
	var events []runtime.Event
	for range 12 {
		e, err := with.EnqueueLaunch(ctx, spin(20_000_000))
		require.NoError(t, err)
		events = append(events, e)
	}
	require.NoError(t, r.Abort(errGone))
	ran := 0
	for _, e := range events {
		if err := e.Wait(ctx); err == nil {
			ran++
		} else {
			require.ErrorIs(t, err, errGone)
		}
		require.NoError(t, e.Release())
	}
	require.LessOrEqual(t, ran, 6, "the window, and what began while they were enqueued")
	require.ErrorIs(t, q.Read(ctx, b, 0, make([]byte, 4)), mem.ErrPoisoned)
	require.ErrorIs(t, q.Finish(ctx), errGone)
	require.NoError(t, q.Write(ctx, b, 0, make([]byte, 4)))
}

// BenchmarkLaunchesOfARequest is a launch in a row, of no request and of one.
func BenchmarkLaunchesOfARequest(b *testing.B) {
	c, q, _, spin := spinner(b)
	ctx := context.Background()
	r, err := c.NewRequest(ctx)
	require.NoError(b, err)
	defer r.Close()
	for _, n := range []uint64{1000, 100_000} {
		for _, of := range []*runtime.Request{nil, r} {
			with := q.With(runtime.CommandOptions{NoEvent: true, Request: of})
			b.Run(fmt.Sprintf("%d turns, request=%t", n, of != nil), func(b *testing.B) {
				for b.Loop() {
					if _, err := with.EnqueueLaunch(ctx, spin(n)); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, q.Finish(ctx))
			})
		}
	}
}

// BenchmarkRead is what a read of 4 bytes costs, by how it is waited for, of an idle queue and behind a launch.
func BenchmarkRead(b *testing.B) {
	_, q, buf, spin := spinner(b)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	quiet := q.With(runtime.CommandOptions{NoEvent: true})
	out := make([]byte, 4)
	ways := []struct {
		name string
		read func() error
	}{
		{"blocking", func() error { _, err := quiet.BlockingRead(ctx, buf, 0, out); return err }},
		{"parked", func() error { return q.Read(context.Background(), buf, 0, out) }},
		{"may leave", func() error { return q.Read(ctx, buf, 0, out) }},
	}
	for _, behind := range []bool{false, true} {
		for _, w := range ways {
			b.Run(w.name+map[bool]string{true: " behind a launch"}[behind], func(b *testing.B) {
				for b.Loop() {
					if behind {
						if _, err := quiet.EnqueueLaunch(ctx, spin(1000)); err != nil {
							b.Fatal(err)
						}
					}
					if err := w.read(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
