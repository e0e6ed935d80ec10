package runtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/mem/trace"
	"godwit/runtime"
)

// asking is a sink that asks for some ends.
type asking struct {
	trace.Recorder
	ends trace.Ends
}

func (a *asking) Ends() trace.Ends { return a.ends }

// noting notes whether queues were to keep times.
type noting struct {
	*cpu.Device
	times *int
}

func (n noting) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	if o.Profiling {
		*n.times++
	}
	return n.Device.NewQueue(o)
}

// A sink is told the ends that it asks for, and no queue keeps times for one that asks for few.
func TestASinkIsToldTheEndsItAsksFor(t *testing.T) {
	for _, ends := range []trace.Ends{trace.NoEnds, trace.LateEnds, trace.AllEnds} {
		sink, times := &asking{ends: ends}, 0
		var devs []devices.Device
		for range 2 {
			d, err := cpu.New(cpu.Options{})
			require.NoError(t, err)
			devs = append(devs, noting{d, &times})
		}
		h := build(t, runtime.Options{Devices: devs, Trace: sink}, runtime.QueueOptions{})
		ctx := soon(t)
		b, size := h.buffer(100, nil), h.buffer(8, nil)
		require.NoError(t, b.SetContentSizeBuffer(size))
		h.done(h.ok(h.q[0].EnqueueFill(ctx, b, []byte{1}, 0, 100)))
		h.done(h.ok(h.q[0].EnqueueWrite(ctx, size, 0, []byte{10, 0, 0, 0, 0, 0, 0, 0})))
		h.done(h.ok(h.q[1].EnqueueMigrate(ctx, []*runtime.Buffer{b}, 0)))
		require.NoError(t, h.q[1].Finish(ctx))
		require.Equal(t, ends == trace.AllEnds, times > 0)
		require.Eventually(t, func() bool {
			late, others := 0, 0
			for _, c := range sink.Completions() {
				if c.Step >= 0 && c.Moved.Size() == 10 {
					late++
				} else {
					others++
				}
			}
			return (late == 1) == (ends != trace.NoEnds) && (others > 0) == (ends == trace.AllEnds)
		}, 10*time.Second, time.Millisecond, "%v: %v", ends, sink.Completions())
		require.NoError(t, b.Release())
		require.NoError(t, size.Release())
	}
}
