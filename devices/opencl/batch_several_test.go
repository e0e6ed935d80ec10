//go:build cgo

package opencl

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// toTwo is a batch out of device 0 into devices 1 and 2.
func (x *bus) toTwo() *testBatch {
	b := new(testBatch)
	for k, off := 0, 0; off < busSize; k, off = k+1, off+busChunk {
		n := min(busChunk, busSize-off)
		slot := devices.Loc{Bytes: x.view[k%2*busChunk:][:n:n]}
		read := int32(len(b.legs))
		r := devices.Leg{Queue: x.queues[0], Dst: slot, Src: devices.Loc{Device: x.devs[0], Block: x.blocks[0], Off: uint64(off)}, Size: uint64(n), Data: -1, To: -1}
		if k >= 2 {
			r.After = []int32{read - 5, read - 4}
		}
		b.legs = append(b.legs, r)
		for i := range 2 {
			b.legs = append(b.legs, devices.Leg{Queue: x.queues[1+i], Dst: devices.Loc{Device: x.devs[1+i], Block: x.blocks[1+i], Off: uint64(off)},
				Src: slot, Size: uint64(n), Data: read, To: int32(i)})
		}
	}
	return b
}

func (x *bus) submitToTwo(t *testing.T, b *testBatch, waits ...mem.Wait) []mem.Point {
	p := make([]mem.Point, 2)
	require.NoError(t, x.queues[0].SubmitBatch(b, []devices.Queue{x.queues[1], x.queues[2]}, waits, p))
	return p
}

// TestABatchOfTwoThatIsRunAgainIsRunAgainOnce: both of its ends go on when what it waited
// for has ended, and one of them stands for the batch.
func TestABatchOfTwoThatIsRunAgainIsRunAgainOnce(t *testing.T) {
	leakless(t, func(t *testing.T) {
		x := openBus(t, 3)
		data := pattern(busSize, 2)
		finishPoint(t, x.queues[0], run(t, x.queues[0], write(x.devs[0], x.blocks[0], 0, data)))
		for _, p := range x.submitToTwo(t, x.toTwo()) {
			require.NoError(t, p.Wait(context.Background()))
		}
		for range 20 {
			bad := gateOn(t, x.queues[0])
			points := x.submitToTwo(t, x.toTwo(), mem.Wait{Point: bad.Point, Kind: mem.Order})
			bad.end(t, mem.OutOfResources)
			for _, p := range points {
				require.NoError(t, p.Wait(context.Background()), "an Order wait only delays")
			}
		}
		for i := 1; i <= 2; i++ {
			got := make([]byte, busSize)
			finishPoint(t, x.queues[i], run(t, x.queues[i], read(x.devs[i], x.blocks[i], 0, got)))
			require.True(t, bytes.Equal(data, got))
		}
	})
}

// gated has n batches to device 1 wait for gates in OpenCL until the test's end. Their blocks and
// their staging, which OpenCL retains nothing of, are free only then.
func (x *bus) gated(t *testing.T, n int) {
	t.Helper()
	for range n {
		g := gateOn(t, x.queues[0])
		p, err := x.submit(x.batch(), mem.Wait{Point: g.Point, Kind: mem.Data})
		t.Cleanup(func() {
			g.end(t, 0)
			finishPoint(t, x.queues[1], p)
		})
		require.NoError(t, err)
	}
}

// TestGatedBatchesLeaveATrackForSeveralDestinations, which take side tracks too.
func TestGatedBatchesLeaveATrackForSeveralDestinations(t *testing.T) {
	x := openBus(t, 3)
	for _, p := range x.submitToTwo(t, x.toTwo()) { // once there are tracks
		require.NoError(t, p.Wait(context.Background()))
	}
	x.gated(t, sideTracks)
	for _, p := range x.submitToTwo(t, x.toTwo()) {
		require.NoError(t, p.Wait(context.Background()))
	}
}

// TestTracksOfARefusedBatchGoToWhoWaitsForThem: of two batches that want the last side
// track, the first is refused by OpenCL while the second waits. Nothing else comes later
// that would have the second one ask again.
func TestTracksOfARefusedBatchGoToWhoWaitsForThem(t *testing.T) {
	x := openBus(t, 3)
	for _, p := range x.submitToTwo(t, x.toTwo()) { // once there are tracks
		require.NoError(t, p.Wait(context.Background()))
	}
	x.gated(t, sideTracks-1)
	for range 20 {
		inject(t, ocl.FaultEnqueue, 1, mem.OutOfResources)
		var points [2]mem.Point
		var second error
		var submitted sync.WaitGroup
		first := &stagedBatch{testBatch: x.toTwo(), staged: func() {
			submitted.Go(func() {
				second = x.queues[0].SubmitBatch(x.toTwo(), []devices.Queue{x.queues[1], x.queues[2]}, nil, points[:])
			})
			time.Sleep(5 * time.Millisecond) // so that it is next to get the driver's lock
		}}
		err := x.queues[0].SubmitBatch(first, []devices.Queue{x.queues[1], x.queues[2]}, nil, make([]mem.Point, 2))
		require.ErrorIs(t, err, mem.ErrNoResources)
		submitted.Wait()
		require.NoError(t, second)
		for _, p := range points {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			require.NoError(t, p.Wait(ctx), "nobody told the batch that there is a track again")
			cancel()
		}
	}
}

// stagedBatch is a batch that tells when it is staged, first.
type stagedBatch struct {
	*testBatch
	staged func()
}

func (b *stagedBatch) Stage(gated bool) ([]devices.Leg, bool) {
	if b.staged != nil {
		b.staged()
		b.staged = nil
	}
	return b.testBatch.Stage(gated)
}
