//go:build cgo

package opencl

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// staged are parameters with which transfers of more than so many bytes are staged,
// though the device shares the host's memory.
func staged(lanes int, chunk, from uint64) map[string]string {
	return map[string]string{"stage": "on", "stage-lanes": fmt.Sprint(lanes), "stage-chunk": fmt.Sprint(chunk), "stage-from": fmt.Sprint(from)}
}

// transfers is how many a device has staged so far.
func transfers(d *Device) (n uint64) {
	d.stagers.mu.Lock()
	defer d.stagers.mu.Unlock()
	for _, s := range d.stagers.by {
		if s != nil {
			s.mu.Lock()
			n += s.pushed
			s.mu.Unlock()
		}
	}
	return n
}

func TestStagedTransfersBringEveryByte(t *testing.T) {
	for _, lanes := range []int{1, 2, 3} {
		for _, opts := range []devices.QueueOptions{{Name: "in order"}, {Name: "out of order", OutOfOrder: true, Profiling: true}} {
			d := open(t, 1, staged(lanes, 8192, 4096))[0]
			q := openQueue(t, d, opts)
			const most = 1 << 20
			b := alloc(t, d, most)
			count := uint64(0)
			for i, n := range []int{1, 4095, 4096, 4097, 8192, 8193, 16384, 24577, 65536, 100_001, most} {
				data, got := pattern(n, byte(i)), make([]byte, n)
				off := uint64(most-n) &^ 3
				p := run(t, q, write(d, b, off, data))
				p = run(t, q, read(d, b, off, got), mem.Wait{Point: p, Kind: mem.Data})
				finishPoint(t, q, p)
				require.True(t, bytes.Equal(data, got), "%d bytes with %d lanes", n, lanes)
				if n >= 4096 {
					count += 2
				}
				if opts.Profiling {
					times, ok := q.Times(p)
					require.True(t, ok)
					require.LessOrEqual(t, times.Started, times.Ended)
				}
			}
			require.Equal(t, count, transfers(d))
		}
	}
}

// The bytes are the waits' until these are reached: here an earlier read fills them.
func TestAStagedWriteTakesTheBytesWhenItsWaitsAreReached(t *testing.T) {
	d := open(t, 1, staged(2, 4096, 4096))[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
	const n = 40_000
	a, b := alloc(t, d, n), alloc(t, d, n)
	data, through, got := pattern(n, 3), make([]byte, n), make([]byte, n)
	finishPoint(t, q, run(t, q, write(d, a, 0, data)))
	gate := mem.NewTimeline("user", false, nil)
	opening := gate.Next()
	p := run(t, q, read(d, a, 0, through), mem.Wait{Point: opening, Kind: mem.Data})
	p = run(t, q, write(d, b, 0, through), mem.Wait{Point: p, Kind: mem.Data})
	p = run(t, q, read(d, b, 0, got), mem.Wait{Point: p, Kind: mem.Data})
	unrelated := make([]byte, n)
	finishPoint(t, q, run(t, q, read(d, a, 0, unrelated))) // what is gated holds up nobody
	require.Equal(t, data, unrelated)
	require.False(t, p.Reached())
	gate.End(opening, nil)
	finishPoint(t, q, p)
	require.Equal(t, data, got)
}

func TestPinnedMemoryIsNotStaged(t *testing.T) {
	devs := open(t, 2, staged(1, 4096, 1))
	d := devs[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	pinned, err := devs[1].PinnedMemory(devices.NodeAny) // any device of the platform's will do
	require.NoError(t, err)
	var block [1]mem.Block
	out, err := pinned.AllocAll([]mem.Request{{Size: 3 * 4096}}, block[:])
	require.NoError(t, err)
	require.Equal(t, mem.Ready, out)
	require.EqualValues(t, 3*4096, pinned.Locking().Locked)
	require.NoError(t, pinned.Check())
	view, err := pinned.View(block[0], 0, 3*4096)
	require.NoError(t, err)
	b := alloc(t, d, 4*4096)
	copy(view, pattern(len(view), 1))
	finishPoint(t, q, run(t, q, write(d, b, 0, view[4096:])))
	got := make([]byte, 2*4096)
	require.Zero(t, transfers(d))
	finishPoint(t, q, run(t, q, read(d, b, 0, got)))
	require.Equal(t, view[4096:], got)
	require.EqualValues(t, 1, transfers(d), "the slice of Go's is pageable")
	require.NoError(t, pinned.FreeAfter(block[0], nil))
	require.False(t, d.host.pinned.holds(block[0].Addr, 1))
}

func TestPinnedRangesHoldWhatLiesInOne(t *testing.T) {
	var p pinnedRanges
	for _, start := range []uint64{8192, 0x1000, 65536} {
		p.add(mem.Range{Start: start, End: start + 4096})
	}
	for _, c := range []struct {
		addr, size uint64
		want       bool
	}{
		{8192, 4096, true}, {8192, 4097, false}, {8193, 4095, true}, {8191, 1, true}, {8191, 2, false}, {12288, 1, false},
		{0, 1, false}, {0xfff, 2, false}, {65536 + 4095, 1, true}, {1 << 40, 1, false}, {^uint64(0), 1, false},
	} {
		require.Equal(t, c.want, p.holds(c.addr, c.size), "%d at %d", c.size, c.addr)
	}
	p.remove(8192)
	require.False(t, p.holds(8192, 1))
	require.True(t, p.holds(0x1000, 4096))
}

func TestAStagedTransferThatFailsSaysSoAndTheNextOneWorks(t *testing.T) {
	leakless(t, func(t *testing.T) {
		d := open(t, 1, staged(2, 4096, 4096))[0]
		q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
		const n = 5 * 4096
		b := alloc(t, d, n)
		data, got := pattern(n, 9), make([]byte, n)
		finishPoint(t, q, run(t, q, write(d, b, 0, data)))
		finishPoint(t, q, run(t, q, read(d, b, 0, got)))
		ctx := context.Background()
		for _, op := range []int{faultEnqueue, faultEnd} {
			for nth := 1; nth <= 5; nth++ {
				for _, cmd := range []*devices.Command{write(d, b, 0, data), read(d, b, 0, got)} {
					inject(t, op, nth, mem.OutOfResources)
					p := run(t, q, cmd)
					after := run(t, q, &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: p, Kind: mem.Data})
					require.ErrorIs(t, p.Wait(ctx), mem.ErrNoResources, "op %d, call %d", op, nth)
					require.ErrorIs(t, after.Wait(ctx), mem.ErrDependency)
					inject(t, op, 0, 0)
				}
			}
		}
		finishPoint(t, q, run(t, q, write(d, b, 0, data)))
		clear(got)
		finishPoint(t, q, run(t, q, read(d, b, 0, got)))
		require.Equal(t, data, got)
		inject(t, faultCreate, 1, mem.MemObjectAllocationFailure)
		pinned, err := d.PinnedMemory(devices.NodeAny)
		require.NoError(t, err)
		var block [1]mem.Block
		out, err := pinned.AllocAll([]mem.Request{{Size: 4096}}, block[:])
		require.NoError(t, err)
		require.Equal(t, mem.Exhausted, out)
		require.Contains(t, pinned.Locking().Why, "4 KiB of page-locked memory")
	})
}

func TestWithoutPinnedMemoryOpenCLMovesPageableBytes(t *testing.T) {
	d := open(t, 1, staged(1, 4096, 4096))[0]
	b := alloc(t, d, 40_000)
	data, got := pattern(40_000, 9), make([]byte, 40_000)
	both := func(opts devices.QueueOptions) {
		q := openQueue(t, d, opts)
		finishPoint(t, q, run(t, q, write(d, b, 0, data)))
		clear(got)
		finishPoint(t, q, run(t, q, read(d, b, 0, got)))
		require.Equal(t, data, got)
		require.Zero(t, transfers(d))
	}
	inject(t, faultCreate, 1, mem.MemObjectAllocationFailure)
	both(devices.QueueOptions{Name: "no memory for a ring"})
	inject(t, faultCreate, 0, 0)
	d.stagers.failed = false
	t.Setenv("GODWIT_PINNED_H2D", "0")
	both(devices.QueueOptions{Name: "not wanted"})
}

func TestSubmitDoesNotWaitForAStagedTransfer(t *testing.T) {
	d := open(t, 1, staged(1, 4096, 4096))[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
	b := alloc(t, d, 1<<20)
	s, err := newStager(d, true)
	require.NoError(t, err)
	d.stagers.by[1] = s // not started: nobody is there to move anything
	data := pattern(1<<20, 1)
	p := run(t, q, write(d, b, 0, data))
	require.EqualValues(t, 1, transfers(d))
	require.False(t, p.Reached())
	s.start()
	finishPoint(t, q, p)
	got := make([]byte, len(data))
	t.Setenv("GODWIT_PINNED_H2D", "0")
	plain := openQueue(t, d, devices.QueueOptions{Name: "plain"})
	finishPoint(t, plain, run(t, plain, read(d, b, 0, got)))
	require.Equal(t, data, got)
}

// Every command waits for the two before it, so that there are more ways through their
// waits than could ever be gone.
func TestWaitingForAWebOfHeldCommandsLooksAtFewOfThem(t *testing.T) {
	d := open(t, 1, staged(1, 4096, 4096))[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
	b := alloc(t, d, 8192)
	data := pattern(8192, 1)
	gate := mem.NewTimeline("user", false, nil)
	opening := gate.Next()
	last := [2]mem.Point{opening, opening}
	for range 100 {
		last[0], last[1] = last[1], run(t, q, write(d, b, 0, data), mem.Wait{Point: last[0], Kind: mem.Data}, mem.Wait{Point: last[1], Kind: mem.Data})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, q.Wait(ctx, last[1]), context.DeadlineExceeded)
	gate.End(opening, nil)
	finishPoint(t, q, last[1])
}
