//go:build cgo

package opencl

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
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
func transfers(d *Device) uint64 {
	r, w := d.Staging()
	return r.Staged + w.Staged
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

// A model of pages, each locked or not, while others look: a range that is always there
// is always found.
func TestPinnedRangesAgreeWithAModelWhileOthersLook(t *testing.T) {
	var p pinnedRanges
	const pages, page = 500, 4096
	p.add(mem.Range{Start: page, End: 2 * page}) // the one that stays
	at := map[int]int{1: 1}                      // pages of ranges by their first
	stop := make(chan struct{})
	var looking sync.WaitGroup
	defer looking.Wait()
	defer close(stop)
	for range 2 {
		looking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if !p.holds(page+10, 100) {
					t.Error("a range was lost")
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		first, n := 2+rng.IntN(pages), 1+rng.IntN(3)
		if _, ok := at[first]; ok {
			p.remove(uint64(first) * page)
			delete(at, first)
		} else if vacant(at, first, n) {
			p.add(mem.Range{Start: uint64(first) * page, End: uint64(first+n) * page})
			at[first] = n
		}
		addr, size := uint64(rng.IntN(pages*page)), uint64(1+rng.IntN(3*page))
		want := false
		for f, n := range at {
			want = want || addr >= uint64(f)*page && addr+size <= uint64(f+n)*page
		}
		require.Equal(t, want, p.holds(addr, size), "%d at %d", size, addr)
	}
}

func vacant(at map[int]int, first, n int) bool {
	for f, m := range at {
		if f < first+n && first < f+m {
			return false
		}
	}
	return true
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

// carries writes pattern(n, seed) into b, reads it, and checks it.
func carries(t *testing.T, q *Queue, b mem.Block, n int, seed byte) {
	t.Helper()
	data, got := pattern(n, seed), make([]byte, n)
	p := run(t, q, write(q.dev, b, 0, data))
	finishPoint(t, q, run(t, q, read(q.dev, b, 0, got), mem.Wait{Point: p, Kind: mem.Data}))
	require.Equal(t, data, got)
	require.NoError(t, p.Err())
}

func TestWithoutPinnedMemoryOpenCLMovesPageableBytes(t *testing.T) {
	for _, opts := range []devices.QueueOptions{{Name: "in order", Profiling: true}, {Name: "out of order", OutOfOrder: true}} {
		t.Run(opts.Name, func(t *testing.T) {
			d := open(t, 1, staged(1, 4096, 4096))[0]
			b := alloc(t, d, 40_000)
			q := openQueue(t, d, opts)
			inject(t, faultCreate, 1, mem.MemObjectAllocationFailure)
			p := run(t, q, write(d, b, 0, pattern(40_000, 1)))
			finishPoint(t, q, p)
			_, ok := q.Times(p)
			require.Equal(t, opts.Profiling, ok)
			_, w := d.Staging()
			require.Equal(t, []uint64{0, 1, 1}, []uint64{w.Staged, w.Unstaged, w.Failures})
			require.Contains(t, w.Why, "page-locked memory to stage in")
			got := make([]byte, 40_000)
			finishPoint(t, q, run(t, q, read(d, b, 0, got)))
			require.Equal(t, pattern(40_000, 1), got)
			r, _ := d.Staging()
			require.Equal(t, Staging{Staged: 1}, r, "the other direction has memory of its own")
			carries(t, q, b, 40_000, 2)
			_, w = d.Staging()
			require.EqualValues(t, 1, w.Staged, "the next transfer tries again")

			t.Setenv("GODWIT_PINNED_H2D", "0")
			before := transfers(d)
			carries(t, openQueue(t, d, devices.QueueOptions{Name: "not wanted"}), b, 40_000, 3)
			require.Equal(t, before, transfers(d))
		})
	}
}

func TestTriesForPinnedMemoryBecomeRareAndDoNotEnd(t *testing.T) {
	d := open(t, 1, staged(1, 4096, 4096))[0]
	b := alloc(t, d, 8192)
	s := d.stagers[1]
	var tries []int
	n, gives := 0, false
	s.ring = func() error {
		tries = append(tries, n)
		if gives {
			return s.newRing()
		}
		return mem.ErrNoHostMemory
	}
	q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
	for n = 1; n <= 40; n++ {
		gives = n > 20
		carries(t, q, b, 8192, byte(n))
	}
	require.Equal(t, []int{1, 2, 4, 8, 16, 32}, tries)
	_, w := d.Staging()
	require.Equal(t, Staging{Staged: 9, Unstaged: 31, Failures: 5, Why: mem.ErrNoHostMemory.Error()}, w)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Zero(t, s.misses)
}

func TestAnUnstagedTransferThatFailsSaysSo(t *testing.T) {
	d := open(t, 1, staged(1, 4096, 4096))[0]
	b := alloc(t, d, 8192)
	for _, s := range d.stagers {
		s.ring = func() error { return mem.ErrNoHostMemory }
	}
	for _, ooo := range []bool{false, true} {
		q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: ooo})
		for _, op := range []int{faultEnqueue, faultEnd} {
			inject(t, op, 1, mem.OutOfResources)
			p := run(t, q, write(d, b, 0, pattern(8192, 1)))
			after := run(t, q, &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: p, Kind: mem.Data})
			require.ErrorIs(t, p.Wait(context.Background()), mem.ErrNoResources)
			require.ErrorIs(t, after.Wait(context.Background()), mem.ErrDependency)
			inject(t, op, 0, 0)
			carries(t, q, b, 8192, 2)
		}
	}
}

// Neither getting the memory nor the transfers hold up Submit, nor anything else.
func TestSubmitDoesNotWaitForAStagedTransfer(t *testing.T) {
	d := open(t, 1, staged(1, 4096, 4096))[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
	b, other := alloc(t, d, 1<<20), alloc(t, d, 64)
	s := d.stagers[1]
	gate := make(chan struct{})
	s.ring = func() error { <-gate; return s.newRing() }
	data := pattern(1<<20, 1)
	var points []mem.Point
	for range 3 {
		points = append(points, run(t, q, write(d, b, 0, data)))
	}
	small := make([]byte, 64)
	finishPoint(t, q, run(t, q, write(d, other, 0, pattern(64, 1))))
	finishPoint(t, q, run(t, q, read(d, other, 0, small)))
	for _, p := range points {
		require.False(t, p.Reached())
	}
	close(gate)
	for _, p := range points {
		finishPoint(t, q, p)
	}
	got := make([]byte, len(data))
	t.Setenv("GODWIT_PINNED_H2D", "0")
	plain := openQueue(t, d, devices.QueueOptions{Name: "plain"})
	finishPoint(t, plain, run(t, plain, read(d, b, 0, got)))
	require.Equal(t, data, got)
	require.EqualValues(t, 3, transfers(d))
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
	require.ErrorIs(t, q.Wait(ctx, last[1], devices.Park), context.DeadlineExceeded)
	gate.End(opening, nil)
	finishPoint(t, q, last[1])
}
