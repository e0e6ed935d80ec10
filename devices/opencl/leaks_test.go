//go:build cgo

package opencl

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// leakless runs a test that releases every cl object it creates, and returns how many
// it created. What a failed test left before is not its fault.
func leakless(t *testing.T, f func(t *testing.T)) Counts {
	t.Helper()
	before, gone := Objects()
	skipped := false
	ok := t.Run("use", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		f(t)
	})
	switch {
	case !ok:
		t.FailNow()
	case skipped:
		t.SkipNow()
	}
	created, released := Objects()
	made := less(created, before)
	require.Equal(t, made, less(released, gone), "released what it created")
	return made
}

func less(c, d Counts) Counts {
	return Counts{
		Contexts: c.Contexts - d.Contexts, Queues: c.Queues - d.Queues, Buffers: c.Buffers - d.Buffers,
		Programs: c.Programs - d.Programs, Kernels: c.Kernels - d.Kernels, Events: c.Events - d.Events,
	}
}

func TestNothingLeaks(t *testing.T) {
	modes(t, func(t *testing.T, params map[string]string) {
		made := leakless(t, func(t *testing.T) {
			devs := open(t, 2, params)
			a, b := devs[0], devs[1]
			if l := b.Link(a, b); !l.Direct.There {
				a = b // such copies are the mover's
			}
			q := openQueue(t, b, devices.QueueOptions{Name: "b", OutOfOrder: true, Profiling: true})
			src, dst := alloc(t, a, 3<<20), alloc(t, b, 3<<20)
			var p mem.Point
			for range 50 {
				p = run(t, q, &devices.Command{Op: devices.OpCopy, Size: 3 << 20,
					Dst: devices.Loc{Device: b, Block: dst}, Src: devices.Loc{Device: a, Block: src}}, mem.Wait{Point: p})
			}
			m, err := b.Build(context.Background(), &devices.Program{Name: "p", Source: source})
			require.NoError(t, err)
			_, err = m.Kernel("add")
			require.NoError(t, err)
			require.NoError(t, m.Close())
			finishPoint(t, q, p)
			times, ok := q.Times(p, devices.DeviceClock)
			require.True(t, ok)
			require.LessOrEqual(t, times.Started, times.Ended)
		})
		require.Positive(t, made.Events)
	})
}

// A Wait that polls sees a command end before its callback comes. Closing right
// then must wait for the callback: it writes to memory of ours, and the event is
// released by it.
func TestClosingWaitsForCallbacksStillToCome(t *testing.T) {
	for range 20 {
		leakless(t, func(t *testing.T) {
			d := open(t, 1, nil)[0]
			q := openQueue(t, d, devices.QueueOptions{Name: "q"})
			b := alloc(t, d, 64)
			for range 20 {
				finishPoint(t, q, run(t, q, write(d, b, 0, pattern(64, 1))))
			}
		})
	}
}
