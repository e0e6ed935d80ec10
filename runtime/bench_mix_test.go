package runtime_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/runtime"
)

// BenchmarkSubBuffersAndPointers is a launch with three arguments, enqueue to
// submitted, on devices that do nothing: of whole buffers, and of a sub-buffer, a
// pointer of shared virtual memory and a sub-buffer over another block of it. The two
// take turns, so that x-whole compares them in one run: it is the median over rounds of
// the mixed launches' time by the whole ones'.
func BenchmarkSubBuffersAndPointers(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(map[int]string{1: "in place", 2: "ping-pong"}[n], func(b *testing.B) {
			m := newMix(b, n)
			b.ReportAllocs()
			var whole, mixed, ratio []float64
			for b.Loop() {
				x, y := m.round(b, &m.whole), m.round(b, &m.mixed)
				whole, mixed, ratio = append(whole, x), append(mixed, y), append(ratio, y/x)
			}
			b.StopTimer()
			b.ReportMetric(median(whole), "ns/whole")
			b.ReportMetric(median(mixed), "ns/mixed")
			b.ReportMetric(median(ratio), "x-whole")
			b.ReportMetric(testing.AllocsPerRun(10, func() { m.round(b, &m.mixed) }), "allocs/round")
			m.close(b)
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// mix is a context over null devices with the arguments of both launches.
type mix struct {
	c            *runtime.Context
	queues       []*runtime.Queue
	kernel       *runtime.Kernel
	whole, mixed [3]runtime.Arg
	buffers      []*runtime.Buffer
	blocks       [2]runtime.Pointer
}

const mixSize = 1 << 20

func newMix(b *testing.B, n int) *mix {
	m := new(mix)
	var devs []devices.Device
	for range n {
		devs = append(devs, null.New(devices.Config{}))
	}
	m.c = must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true, SVMSize: 16 << 20}))
	p := must(m.c.Build(context.Background(), three))
	m.kernel = must(p.Kernel("three"))
	for _, d := range devs {
		q, err := m.c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(b, err)
		m.queues = append(m.queues, q)
	}
	for i := range m.whole {
		m.whole[i] = runtime.Buf(m.buffer(b, 0, nil))
	}
	m.mixed[0] = runtime.Buf(m.sub(b, m.buffer(b, 0, nil)))
	for i := range m.blocks {
		m.blocks[i] = must(m.c.SVMAlloc(mixSize, 0, 0))
	}
	m.mixed[1] = runtime.SVM(m.blocks[0])
	bytes := must(m.c.SVMBytes(m.blocks[1], mixSize))
	m.mixed[2] = runtime.Buf(m.sub(b, m.buffer(b, runtime.UseHostPtr, bytes)))
	return m
}

func (m *mix) buffer(b *testing.B, flags runtime.Flags, host []byte) *runtime.Buffer {
	buf := must(m.c.CreateBuffer(mixSize, flags, host))
	m.buffers = append(m.buffers, buf)
	return buf
}

func (m *mix) sub(b *testing.B, of *runtime.Buffer) *runtime.Buffer {
	s := must(of.Sub(mixSize/4, mixSize/2, 0))
	m.buffers = append(m.buffers, s)
	return s
}

// round is the time of a launch, in nanoseconds, over some on each device in turn.
func (m *mix) round(b *testing.B, args *[3]runtime.Arg) float64 {
	const launches = 200
	start := time.Now()
	for i := range launches {
		e, err := m.queues[i%len(m.queues)].EnqueueLaunch(context.Background(), runtime.Launch{Kernel: m.kernel, Global: []uint64{1 << 18}, Args: args[:]})
		if err == nil {
			err = e.Release()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return float64(time.Since(start)) / launches
}

func (m *mix) close(b *testing.B) {
	for _, buf := range m.buffers {
		require.NoError(b, buf.Release())
	}
	for _, p := range m.blocks {
		require.NoError(b, m.c.SVMFree(p))
	}
	require.NoError(b, m.c.Close(context.Background()))
}
