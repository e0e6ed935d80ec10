package runtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/mem"
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
			d := must(cpu.New(cpu.Options{}))
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
		for _, r := range sink.Commands() {
			require.Equal(t, ends == trace.AllEnds, r.Enqueued > 0 && r.Done > 0, "a clock is read for who is told all ends")
		}
		require.Eventually(t, func() bool {
			late, others := 0, 0
			for _, c := range sink.Completions() {
				if c.Step >= 0 && c.Moved.Size() == 10 {
					late++
				} else if c.Step == -1 {
					others++
				}
			}
			return (late == 1) == (ends != trace.NoEnds) && (others > 0) == (ends == trace.AllEnds)
		}, 10*time.Second, time.Millisecond, "%v: %v", ends, sink.Completions())
		require.NoError(t, b.Release())
		require.NoError(t, size.Release())
	}
}

// forgetful counts the points of which a queue is told, before or later, that nobody asks for their times.
type forgetful struct {
	devices.Queue
	points *[]mem.Point
}

func (f forgetful) Forget(p mem.Point) { *f.points = append(*f.points, p) }

func (f forgetful) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	p, err := f.Queue.Submit(cmd, waits)
	if cmd.Unobserved {
		f.Forget(p)
	}
	return p, err
}

type forgetfulCPU struct {
	*cpu.Device
	points *[]mem.Point
}

func (d forgetfulCPU) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.Device.NewQueue(o)
	return forgetful{q, d.points}, err
}

// A profiling queue is told which times nobody can ask for any more: those of commands without an
// event, or whose last reference is gone.
func TestAQueueIsToldWhichTimesNobodyAsksFor(t *testing.T) {
	for _, profiling := range []bool{true, false} {
		for _, ends := range []trace.Ends{trace.NoEnds, trace.AllEnds} {
			var points []mem.Point
			d := must(cpu.New(cpu.Options{}))
			h := build(t, runtime.Options{Devices: []devices.Device{forgetfulCPU{d, &points}}, Trace: &asking{ends: ends}}, runtime.QueueOptions{Profiling: profiling})
			ctx := soon(t)
			b := h.buffer(100, nil)
			e := h.ok(h.q[0].EnqueueFill(ctx, b, []byte{1}, 0, 100))
			p := must(e.Point())
			require.NoError(t, e.Retain())
			require.NoError(t, e.Release())
			require.Empty(t, points, "there is another reference")
			require.NoError(t, e.Release())
			require.NoError(t, h.q[0].Read(ctx, b, 0, make([]byte, 100)))
			var want []mem.Point
			if ends != trace.AllEnds {
				if profiling {
					want = append(want, p)
				}
				want = append(want, mem.Point{Line: p.Line, Seq: p.Seq + 1})
			}
			require.Equal(t, want, points)
			require.NoError(t, b.Release())
		}
	}
}
