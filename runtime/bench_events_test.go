package runtime_test

import (
	"bytes"
	"context"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/null"
	"godwit/runtime"
)

// liveEvents is how many events BenchmarkLiveEvents holds at once.
const liveEvents = 1_000_000

// BenchmarkLiveEvents holds a million events at once, of markers that have ended
// or that all wait for one user event, and reports what each costs: live bytes on
// the Go heap, all the way down to the driver's queue, and the growth of the
// process (its resident pages, once the collector has given back what it can).
// What a gated launch of three buffers costs is beside them, of a tenth as many:
// there the arguments that the driver keeps weigh more than the event.
func BenchmarkLiveEvents(b *testing.B) {
	for _, kind := range []string{"null", "cpu"} {
		for _, how := range []string{"ended", "gated in order", "gated out of order", "gated launches"} {
			b.Run(kind+"/"+how, func(b *testing.B) {
				d := devices.Device(null.New(devices.Config{}))
				if kind == "cpu" {
					d = must(cpu.New(cpu.Options{}))
				}
				for b.Loop() {
					holdEvents(b, d, how)
				}
				require.NoError(b, d.Close())
			})
		}
	}
}

// holdEvents makes the events in a context of their own.
func holdEvents(b *testing.B, d devices.Device, how string) {
	ctx := context.Background()
	c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}}))
	q := must(c.NewQueue(d, runtime.QueueOptions{OutOfOrder: how == "gated out of order"}))
	gate := must(c.NewUserEvent())
	wait := []runtime.Event{gate}
	if how == "ended" {
		wait = nil
	}
	n := liveEvents
	release := func() {}
	enqueue := func() (runtime.Event, error) { return q.EnqueueMarker(ctx, wait...) }
	if how == "gated launches" {
		n /= 10
		enqueue, release = gatedLaunch(b, c, q, gate)
	}
	var err error
	events := make([]runtime.Event, n)
	clear(events) // its pages are there before the measurement
	heap, process := used(b)
	for i := range events {
		if events[i], err = enqueue(); err != nil {
			b.Fatal(err)
		}
	}
	heapAfter, processAfter := used(b)
	b.ReportMetric((heapAfter-heap)/float64(n), "B/event")
	b.ReportMetric((processAfter-process)/float64(n), "process-B/event")
	require.NoError(b, gate.SetStatus(runtime.Complete))
	require.NoError(b, q.Finish(ctx))
	for _, e := range append(events, gate) {
		if err := e.Release(); err != nil {
			b.Fatal(err)
		}
	}
	release()
	require.NoError(b, c.Close(ctx))
}

// gatedLaunch returns what enqueues a kernel of three buffers behind the gate, and
// what releases them.
func gatedLaunch(b *testing.B, c *runtime.Context, q *runtime.Queue, gate runtime.Event) (enqueue func() (runtime.Event, error), release func()) {
	p := must(c.Build(context.Background(), three))
	kernel := must(p.Kernel("three"))
	var args [3]runtime.Arg
	var buffers [3]*runtime.Buffer
	for i := range args {
		buffers[i] = must(c.CreateBuffer(64, 0, nil))
		args[i] = runtime.Buf(buffers[i])
	}
	enqueue = func() (runtime.Event, error) {
		return q.EnqueueLaunch(context.Background(), runtime.Launch{Kernel: kernel, Global: []uint64{1}, Args: args[:]}, gate)
	}
	return enqueue, func() {
		for _, buf := range buffers {
			require.NoError(b, buf.Release())
		}
	}
}

// used is the live heap and the resident pages of the process, in bytes.
func used(b *testing.B) (heap, process float64) {
	debug.FreeOSMemory()
	var s goruntime.MemStats
	goruntime.ReadMemStats(&s)
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return float64(s.HeapAlloc), float64(s.Sys - s.HeapReleased)
	}
	pages, err := strconv.ParseUint(string(bytes.Fields(statm)[1]), 10, 64)
	require.NoError(b, err)
	return float64(s.HeapAlloc), float64(pages) * float64(os.Getpagesize())
}
