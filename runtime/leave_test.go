//go:build unix

package runtime_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/engine"
	"godwit/mem"
	"godwit/runtime"
)

// abandoned are devices on which bytes get to the program's memory by different hands: its waiter's, or lanes'.
func abandoned() map[string]devices.Device {
	return map[string]devices.Device{
		"by hand":  engine.NewHost(engine.HostOptions{}),
		"by lanes": devicetest.NewBus(engine.NewHost(engine.HostOptions{}), &devicetest.Family{}),
	}
}

// TestWhoLeavesAReadHasHisMemoryBack: its context ends while something holds the command back. The memory is then
// protected, so that whoever touches it is caught; a read ends well all the same, and a write fails and poisons.
func TestWhoLeavesAReadHasHisMemoryBack(t *testing.T) {
	for name, d := range abandoned() {
		for _, size := range []int{4, 100_000, 9 << 20} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, size), func(t *testing.T) {
				h := build(t, runtime.Options{Devices: []devices.Device{d}, Staging: 4 << 20}, runtime.QueueOptions{})
				ctx, q := soon(t), h.q[0]
				b := h.buffer(uint64(size), make([]byte, size))
				for _, call := range []func(context.Context, *runtime.Buffer, uint64, []byte, ...runtime.Event) error{q.Read, q.Write} {
					memory, protect := lend(t, size)
					gate := h.gate()
					brief, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
					require.ErrorIs(t, call(brief, b, 0, memory[:size], gate), context.DeadlineExceeded)
					cancel()
					protect()
					require.NoError(t, gate.SetStatus(runtime.Complete))
				}
				require.ErrorIs(t, q.Finish(ctx), context.DeadlineExceeded, "the write's; the read has failed nobody")
				require.ErrorIs(t, q.Read(ctx, b, 0, make([]byte, size)), mem.ErrPoisoned)
				require.NoError(t, q.Write(ctx, b, 0, make([]byte, size)))
				require.NoError(t, q.Read(ctx, b, 0, make([]byte, size)))
			})
			d = abandoned()[name] // build's context closes it
		}
		require.NoError(t, d.Close())
	}
}

// TestBytesArriveOrTheirWaiterHasLeft: reads and writes whose contexts end at any time, most of them in the midst. What a call
// that returned nil has moved is right, and after one that did not the memory is not touched.
func TestBytesArriveOrTheirWaiterHasLeft(t *testing.T) {
	const size = 600 << 10
	for name, d := range abandoned() {
		t.Run(name, func(t *testing.T) {
			h := build(t, runtime.Options{Devices: []devices.Device{d}, Staging: 256 << 10}, runtime.QueueOptions{})
			ctx, q := soon(t), h.q[0]
			b := h.buffer(size, make([]byte, size))
			in, out := make([]byte, size), make([]byte, size)
			left := 0
			for i := range 40 {
				copy(in, bytes.Repeat([]byte{byte(i)}, size))
				copy(out, bytes.Repeat([]byte{0xee}, size))
				gate := h.gate()
				brief, cancel := context.WithTimeout(ctx, time.Duration(i)*12*time.Microsecond+5*time.Microsecond)
				go func() { _ = gate.SetStatus(runtime.Complete) }()
				err := q.Write(brief, b, 0, in, gate)
				cancel()
				if err != nil {
					left++
					require.ErrorIs(t, err, context.DeadlineExceeded)
					clear(in)
					_ = q.Finish(ctx)
					require.NoError(t, q.Write(ctx, b, 0, in))
				}
				brief, cancel = context.WithTimeout(ctx, time.Duration(i)*12*time.Microsecond+5*time.Microsecond)
				err = q.Read(brief, b, 0, out)
				cancel()
				if err == nil {
					require.Equal(t, in, out)
					continue
				}
				left++
				seen := string(out)
				require.NoError(t, q.Finish(ctx))
				require.Equal(t, seen, string(out), "touched after the call")
			}
			t.Log(left, "of 80 left")
		})
	}
}

// TestReadersHoldNoThreads: a thousand wait behind one command, and only the blocking calls would hold a thread each.
func TestReadersHoldNoThreads(t *testing.T) {
	d := must(cpu.New(cpu.Options{}))
	h := build(t, runtime.Options{Devices: []devices.Device{d}}, runtime.QueueOptions{})
	ctx, q := soon(t), h.q[0]
	b := h.buffer(4096, make([]byte, 4096))
	gate := h.gate()
	threads := pprof.Lookup("threadcreate").Count()
	var all sync.WaitGroup
	waiting := make(chan error, 1000)
	for range 1000 {
		all.Go(func() { waiting <- q.Read(ctx, b, 0, make([]byte, 4), gate) })
	}
	require.Eventually(t, func() bool { return q.Last().Seq >= 1000 }, 10*time.Second, time.Millisecond)
	require.NoError(t, gate.SetStatus(runtime.Complete))
	all.Wait()
	for range 1000 {
		require.NoError(t, <-waiting)
	}
	require.LessOrEqual(t, pprof.Lookup("threadcreate").Count(), threads+16)
}
