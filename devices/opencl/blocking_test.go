//go:build cgo

package opencl

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

const transferSize = 1 << 20

// transfers are awaited writes and reads of one block, of which reads find what was written last.
type transfers struct {
	t    *testing.T
	d    *Device
	q    *Queue
	b    mem.Block
	last byte
}

func newTransfers(t *testing.T, d *Device, opts devices.QueueOptions) *transfers {
	return &transfers{t: t, d: d, q: openQueue(t, d, opts), b: alloc(t, d, transferSize)}
}

func (x *transfers) write(waits ...mem.Wait) mem.Point {
	x.last++
	cmd := write(x.d, x.b, 0, pattern(transferSize, x.last))
	cmd.Awaited = true
	return run(x.t, x.q, cmd, waits...)
}

func (x *transfers) reads() {
	x.t.Helper()
	got := make([]byte, transferSize)
	cmd := read(x.d, x.b, 0, got)
	cmd.Awaited = true
	x.blocks(run(x.t, x.q, cmd))
	require.Equal(x.t, pattern(transferSize, x.last), got)
}

func (x *transfers) blocks(p mem.Point) {
	x.t.Helper()
	require.NoError(x.t, x.q.Wait(context.Background(), p, devices.BlockThread))
}

// everyQueue runs f on devices whose memory is not this process's, with each kind of queue.
func everyQueue(t *testing.T, f func(t *testing.T, x *transfers)) {
	nativeModes(t, func(t *testing.T, params map[string]string) {
		d := open(t, 1, params)[0]
		for name, opts := range map[string]devices.QueueOptions{"in order": {}, "out of order": {OutOfOrder: true}, "times": {Profiling: true}} {
			t.Run(name, func(t *testing.T) { f(t, newTransfers(t, d, opts)) })
		}
	})
}

// OpenCL calls nobody back for a transfer that its submitter waits for: that is one call, made by
// who waits. A Flush leaves it to him.
func TestAnAwaitedTransferIsOneBlockingCall(t *testing.T) {
	everyQueue(t, func(t *testing.T, x *transfers) {
		p := x.write()
		require.NoError(t, x.q.Flush())
		require.False(t, p.Reached(), "who submitted it is about to wait")
		x.blocks(p)
		require.True(t, p.Succeeded(), "when the call returns")
		x.reads()
		if x.q.timing {
			times, ok := x.q.Times(p, devices.DeviceClock)
			require.True(t, ok)
			require.LessOrEqual(t, times.Queued, times.Started)
			require.LessOrEqual(t, times.Started, times.Ended)
		}
		finishPoint(t, x.q, x.write()) // by who parks
		x.reads()
	})
}

// The call waits in OpenCL for what the transfer follows, on its queue and on others, which ends
// with it.
func TestAnAwaitedTransferFollowsWhatOpenCLHas(t *testing.T) {
	everyQueue(t, func(t *testing.T, x *transfers) {
		other := openQueue(t, x.d, devices.QueueOptions{})
		in := alloc(t, x.d, 64)
		for i := range byte(20) {
			values, got := make([]byte, 64), make([]byte, 64)
			values[0] = i
			finishPoint(t, x.q, run(t, x.q, write(x.d, in, 0, values)))
			on := []*Queue{x.q, other}[i%2]
			launched := run(t, on, addsOne(t, x.d, x.b, in))
			cmd := read(x.d, x.b, 0, got)
			cmd.Awaited = true
			x.blocks(run(t, x.q, cmd, mem.Wait{Point: launched, Kind: mem.Data}))
			require.True(t, launched.Succeeded())
			require.Equal(t, i+1, got[0])
		}
	})
}

// Nobody waits for ever who waits for such a transfer, or for what follows it, on another queue,
// or has to let go first what it waits for.
func TestNobodyHangsOnAnAwaitedTransfer(t *testing.T) {
	everyQueue(t, func(t *testing.T, x *transfers) {
		other := openQueue(t, x.d, devices.QueueOptions{})
		p := x.write()
		got := make([]byte, transferSize)
		after := run(t, other, read(x.d, x.b, 0, got), mem.Wait{Point: p, Kind: mem.Data})
		ended := make(chan error, 3)
		go func() { ended <- p.Wait(context.Background()) }()
		go func() { ended <- x.q.Wait(context.Background(), p, devices.BlockThread) }()
		go func() { ended <- other.Wait(context.Background(), after, devices.BlockThread) }()
		for range cap(ended) {
			require.NoError(t, <-ended)
		}
		require.Equal(t, pattern(transferSize, x.last), got)

		gate := mem.NewTimeline("gate", true, nil)
		held := gate.Next()
		p = x.write(mem.Wait{Point: held, Kind: mem.Data})
		go func() { ended <- x.q.Wait(context.Background(), p, devices.BlockThread) }()
		gate.End(held, nil)
		require.NoError(t, <-ended)
		x.reads()

		held = gate.Next()
		launched := run(t, other, addsOne(t, x.d, x.b, x.b), mem.Wait{Point: held, Kind: mem.Data})
		p = x.write(mem.Wait{Point: launched, Kind: mem.Order})
		go func() { ended <- x.q.Wait(context.Background(), p, devices.BlockThread) }()
		gate.End(held, nil)
		require.NoError(t, <-ended)
		x.reads()
	})
}

// A failure of OpenCL's, and of what a transfer follows, is the transfer's, where it is Data; where
// that was only to come before it, it is carried out all the same.
func TestAnAwaitedTransferFailsAsAny(t *testing.T) {
	everyQueue(t, func(t *testing.T, x *transfers) {
		x.blocks(x.write())
		for _, fault := range []ocl.Fault{ocl.FaultEnqueue, ocl.FaultEnd} {
			inject(t, fault, 1, mem.OutOfResources)
			require.ErrorIs(t, x.q.Wait(context.Background(), x.write(), devices.BlockThread), mem.ErrNoResources)
			x.blocks(x.write())
			x.reads()
		}
		other := openQueue(t, x.d, devices.QueueOptions{})
		for _, kind := range []mem.WaitKind{mem.Data, mem.Order} {
			gate := mem.NewTimeline("gate", true, nil)
			held := gate.Next()
			failing := run(t, other, write(x.d, x.b, 0, make([]byte, 8)), mem.Wait{Point: held, Kind: mem.Data})
			p := x.write(mem.Wait{Point: failing, Kind: kind})
			gate.End(held, errors.New("the gate's"))
			err := x.q.Wait(context.Background(), p, devices.BlockThread)
			if kind == mem.Order {
				require.NoError(t, err)
				x.reads()
			} else {
				require.ErrorIs(t, err, mem.ErrDependency)
			}
		}
	})
}

// A queue may be closed before anybody waits for what was left to him.
func TestAClosedQueueCarriesOutWhatWasLeftToAWait(t *testing.T) {
	nativeModes(t, func(t *testing.T, params map[string]string) {
		d := open(t, 1, params)[0]
		made, err := d.NewQueue(devices.QueueOptions{Name: "closing"})
		require.NoError(t, err)
		cmd := write(d, alloc(t, d, transferSize), 0, pattern(transferSize, 7))
		cmd.Awaited = true
		p := run(t, made.(*Queue), cmd)
		require.NoError(t, made.Close())
		require.True(t, p.Succeeded())
	})
}

func leftToItsWait(q *Queue, p mem.Point) bool {
	q.dev.host.mu.Lock()
	defer q.dev.host.mu.Unlock()
	r := q.flight.get(p.Seq)
	return r != nil && r.deferred
}

// Where OpenCL takes the bytes of a write when it is enqueued, a small one is.
func TestASmallWriteIsNotLeftToItsWaitWhereOpenCLTakesItsBytes(t *testing.T) {
	nativeModes(t, func(t *testing.T, params map[string]string) {
		d := open(t, 1, params)[0]
		b := alloc(t, d, transferSize)
		for _, takes := range []bool{false, true} {
			d.host.quirks.takesBytesAtEnqueue = takes
			q := openQueue(t, d, devices.QueueOptions{})
			for _, n := range []int{4, takenAtOnce, takenAtOnce + 1} {
				want, got := pattern(n, 5), make([]byte, n)
				w, r := write(d, b, 0, want), read(d, b, 0, got)
				w.Awaited, r.Awaited = true, true
				p := run(t, q, w)
				require.Equal(t, !takes || n > takenAtOnce, leftToItsWait(q, p))
				require.NoError(t, q.Wait(context.Background(), p, devices.BlockThread))
				p = run(t, q, r)
				require.True(t, leftToItsWait(q, p))
				require.NoError(t, q.Wait(context.Background(), p, devices.BlockThread))
				require.Equal(t, want, got)
			}
		}
	})
}

// Buffers are made and released, and other queues used, while a transfer waits for what it follows:
// before, its call kept all of them out until that had ended.
func TestBuffersComeAndGoWhileATransferWaits(t *testing.T) {
	t.Run("as the platform needs it", buffersComeAndGo)
	t.Run("apart", func(t *testing.T) {
		ocl.KeepApart(true)
		defer ocl.KeepApart(false)
		buffersComeAndGo(t)
	})
}

func buffersComeAndGo(t *testing.T) {
	everyQueue(t, func(t *testing.T, x *transfers) {
		other := openQueue(t, x.d, devices.QueueOptions{OutOfOrder: true})
		gate := gateOn(t, other)
		x.blocks(x.write())
		got := make([]byte, transferSize) // a read: writes may be held back (takesBytesAtEnqueue)
		cmd := read(x.d, x.b, 0, got)
		cmd.Awaited = true
		p, ended := run(t, x.q, cmd, mem.Wait{Point: gate.Point, Kind: mem.Data}), make(chan error, 1)
		go func() { ended <- x.q.Wait(context.Background(), p, devices.BlockThread) }()
		for waits := false; !waits; runtime.Gosched() {
			x.d.host.mu.Lock()
			r := x.q.flight.get(p.Seq)
			waits = r != nil && r.state == elsewhere && !r.deferred
			x.d.host.mu.Unlock()
		}
		time.Sleep(20 * time.Millisecond) // it is in the call by now, else this shows nothing
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			m, st := x.d.host.context.NewBuffer(64)
			if st == 0 {
				ocl.ReleaseMems(m)
			}
		}()
		select {
		case <-gone:
		case <-time.After(30 * time.Second):
			t.Error("a release waits for the transfer")
		}
		gate.end(t, 0)
		require.NoError(t, <-ended)
		require.Equal(t, pattern(transferSize, x.last), got)
	})
}

// What was enqueued before a transfer that OpenCL refuses is to be flushed by somebody.
func TestARefusedTransferHasFlushedNothing(t *testing.T) {
	nativeModes(t, func(t *testing.T, params map[string]string) {
		x := newTransfers(t, open(t, 1, params)[0], devices.QueueOptions{})
		p := x.write()
		x.q.dirty.Store(true)
		inject(t, ocl.FaultEnqueue, 1, mem.OutOfResources)
		x.d.host.mu.Lock()
		x.d.host.awaitUnlocks(x.q, p, true)
		x.d.host.mu.Unlock()
		require.True(t, p.Reached())
		require.True(t, x.q.dirty.Load())
	})
}

// A transfer that is left to its Wait has not started: of an aborted queue it fails, wherever the
// memory is.
func TestAnAbortedQueueDoesNotCarryOutWhatIsLeftToAWait(t *testing.T) {
	cause := errors.New("aborted")
	aborted := func(t *testing.T, x *transfers) {
		x.blocks(x.write())
		p := x.write()
		x.q.Abort(cause)
		require.ErrorIs(t, x.q.Wait(context.Background(), p, devices.BlockThread), cause)
		x.q = openQueue(t, x.d, devices.QueueOptions{})
		x.last--
		x.reads()
	}
	everyQueue(t, aborted)
	t.Run("direct", func(t *testing.T) { aborted(t, newTransfers(t, openDirect(t), devices.QueueOptions{})) })
}

// Transfers from many threads go through staging, as far as there is some, and without.
func TestAwaitedTransfersGoThroughStaging(t *testing.T) {
	nativeModes(t, func(t *testing.T, params map[string]string) {
		params["bus"] = "on"
		for _, none := range []bool{false, true} {
			d := open(t, 1, params)[0]
			if none {
				inject(t, ocl.FaultCreate, 1, mem.OutOfResources)
				require.Zero(t, d.takeStaging(ocl.Read, 1))
			}
			var all sync.WaitGroup
			for i := range byte(2 * mostStaging) {
				x := newTransfers(t, d, devices.QueueOptions{})
				x.last = i
				all.Go(func() {
					for range 10 {
						x.blocks(x.write())
						x.reads()
					}
				})
			}
			all.Wait()
			require.Zero(t, d.takeStaging(ocl.Read, stagingSize+1))
			require.Zero(t, d.takeStaging(ocl.Write, stagingWrite+1))
			if none {
				require.Empty(t, d.staging.free)
			} else {
				require.NotEmpty(t, d.staging.free)
				require.LessOrEqual(t, len(d.staging.free), mostStaging)
			}
		}
	})
}

// A wait that OpenCL refuses says nothing of the command, which goes on writing to memory of the host's.
func TestARefusedWaitEndsNoTransfer(t *testing.T) {
	nativeModes(t, func(t *testing.T, params map[string]string) {
		params["bus"] = "on"
		d := open(t, 1, params)[0]
		m, err := d.Build(context.Background(), &devices.Program{Name: "spin", Source: advanceSource})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		q := openQueue(t, d, devices.QueueOptions{})
		a := zeroed(t, d, q)
		long := step(t, m, a, 1<<26)
		long.Kernel, long.Global = kernelNamed(t, m, "spin"), [3]uint64{1}
		look := read(d, a, 0, make([]byte, 4))
		look.Awaited = true
		run(t, q, long)
		p := run(t, q, look)
		inject(t, ocl.FaultWait, 1, mem.OutOfHostMemory)
		blocked(t, q, p)
		want := make([]byte, 4)
		finishPoint(t, q, run(t, q, read(d, a, 0, want)))
		require.NotEqual(t, word(0), want)
		require.Equal(t, want, look.Dst.Bytes)
	})
}
