//go:build cgo

package opencl

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/mem"
)

// Many commands wait for one point of somebody else's: they run, or fail, when it has
// ended, and Close finds none left.
func TestOnePointHoldsManyCommands(t *testing.T) {
	errGate := errors.New("the gate's")
	for _, cause := range []error{nil, errGate} {
		d := open(t, 1, nil)[0]
		q := openQueue(t, d, devices.QueueOptions{OutOfOrder: true})
		const n = 773
		b := alloc(t, d, 4*n)
		foreign := mem.NewTimeline("foreign", false, nil)
		gate := foreign.Next()
		data := pattern(4*n, 3)
		finishPoint(t, q, run(t, q, write(d, b, 0, make([]byte, 4*n))))
		var last mem.Point
		for i := range uint64(n) {
			last = run(t, q, write(d, b, 4*i, data[4*i:4*i+4]), mem.Wait{Point: gate, Kind: mem.Data})
		}
		require.NoError(t, q.Flush())
		require.Equal(t, n, foreign.Waiters())
		require.False(t, last.Reached())
		foreign.End(gate, cause)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		require.NoError(t, last.WaitPassed(ctx))
		cancel()
		want := data
		if cause != nil {
			require.ErrorIs(t, last.Err(), mem.ErrDependency)
			require.ErrorIs(t, last.Err(), errGate)
			want = make([]byte, 4*n)
		}
		got := make([]byte, 4*n)
		finishPoint(t, q, run(t, q, read(d, b, 0, got)))
		require.Equal(t, want, got)
	}
}

// What is in flight is found by its number, and nothing else is, whatever stays
// for how long.
func TestFlightsEqualAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, want := flights{}, map[uint64]*record{}
		var in, all []uint64
		seq := uint64(0)
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			if len(in) == 0 || rapid.IntRange(0, 20).Draw(t, "ends") < rapid.IntRange(5, 15).Draw(t, "share") {
				seq += rapid.SampledFrom([]uint64{1, 2, 1024}).Draw(t, "step")
				r := &record{life: life{point: mem.Point{Seq: seq}}}
				f.put(r)
				want[seq], in, all = r, append(in, seq), append(all, seq, seq+1)
			} else {
				i := rapid.IntRange(0, min(len(in)-1, 3)).Draw(t, "which")
				f.drop(in[i])
				delete(want, in[i])
				in = slices.Delete(in, i, i+1)
			}
			for _, s := range all {
				require.Same(t, want[s], f.get(s))
			}
		}
	})
}

// Every command waits for the two before it, so that there are more ways through their
// waits than could ever be gone.
func TestWaitingForAWebOfHeldCommandsLooksAtFewOfThem(t *testing.T) {
	d := open(t, 1, nil)[0]
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

// However often a record is said to be ready, it is on the list once.
func TestARecordIsOnTheReadyListOnce(t *testing.T) {
	d := open(t, 1, nil)[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	h := d.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining++ // nobody looks meanwhile
	r := h.takeLocked(q, devices.OpMarker, 0)
	h.readyLocked(r)
	h.readyLocked(r)
	require.Len(t, h.ready[h.next:], 1)
	require.Same(t, r, h.nextLocked())
	h.draining--
	h.refuseLocked(r)
}

// What one point holds becomes ready in the order of its submission when that has ended.
func TestWhatOnePointHeldGoesOnInItsOrder(t *testing.T) {
	d := open(t, 1, nil)[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
	line := mem.NewTimeline("user", false, nil)
	gate := line.Next()
	var points, ready []mem.Point
	for range 8 {
		points = append(points, run(t, q, &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: gate, Kind: mem.Data}))
	}
	h := d.host
	h.mu.Lock()
	h.draining++ // nobody looks meanwhile
	h.mu.Unlock()
	line.End(gate, nil)
	h.mu.Lock()
	for _, r := range h.ready[h.next:] {
		ready = append(ready, r.point)
	}
	h.drainUnlocks(0)
	h.mu.Unlock()
	require.Equal(t, points, ready)
}
