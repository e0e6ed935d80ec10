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
	"godwit/internal/mover"
	"godwit/mem"
)

// testBatch is a ring of two slots from one device to others.
type testBatch struct {
	legs []devices.Leg

	mu    sync.Mutex
	ended int // protected by mu
}

func (b *testBatch) Stage(bool) ([]devices.Leg, bool) { return b.legs, true }

func (b *testBatch) Ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended++
}

// bus is two devices, each with a hidden queue and a block, and staging.
type bus struct {
	devs   []*Device
	queues []*Queue
	blocks []mem.Block
	view   []byte
}

const busSize, busChunk = 40_000, 4096

func openBus(t *testing.T, n int) *bus {
	x := &bus{devs: open(t, n, map[string]string{"bus": "on", "events": "watch"})}
	for _, d := range x.devs {
		x.queues = append(x.queues, openQueue(t, d, devices.QueueOptions{Name: "hidden", OutOfOrder: true}))
		x.blocks = append(x.blocks, alloc(t, d, busSize))
	}
	m, err := x.devs[0].PinnedMemory(devices.NodeAny)
	require.NoError(t, err)
	var b [1]mem.Block
	out, err := m.AllocAll([]mem.Request{{Size: 2 * busChunk}}, b[:], nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, out)
	t.Cleanup(func() { require.NoError(t, m.FreeAfter(b[0], nil)) })
	x.view, err = m.View(b[0], 0, 2*busChunk)
	require.NoError(t, err)
	return x
}

// batch copies the first device's block to the second's.
func (x *bus) batch() *testBatch {
	b := new(testBatch)
	for k, off := 0, 0; off < busSize; k, off = k+1, off+busChunk {
		n := min(busChunk, busSize-off)
		slot := devices.Loc{Bytes: x.view[k%2*busChunk:][:n:n]}
		read := int32(len(b.legs))
		r := devices.Leg{Queue: x.queues[0], Dst: slot, Src: devices.Loc{Device: x.devs[0], Block: x.blocks[0], Off: uint64(off)}, Size: uint64(n), Data: -1, To: -1}
		if k >= 2 {
			r.After = []int32{read - 3}
		}
		b.legs = append(b.legs, r, devices.Leg{Queue: x.queues[1], Dst: devices.Loc{Device: x.devs[1], Block: x.blocks[1], Off: uint64(off)}, Src: slot, Size: uint64(n), Data: read})
	}
	return b
}

func (x *bus) submit(b *testBatch, waits ...mem.Wait) (mem.Point, error) {
	var p [1]mem.Point
	err := x.queues[0].SubmitBatch(b, []devices.Queue{x.queues[1]}, waits, p[:])
	return p[0], err
}

// copies does it, and checks what arrived.
func (x *bus) copies(t *testing.T, seed byte) {
	t.Helper()
	data, got := pattern(busSize, seed), make([]byte, busSize)
	finishPoint(t, x.queues[0], run(t, x.queues[0], write(x.devs[0], x.blocks[0], 0, data)))
	b := x.batch()
	p, err := x.submit(b)
	require.NoError(t, err)
	finishPoint(t, x.queues[1], p)
	require.Equal(t, 1, b.ended)
	finishPoint(t, x.queues[1], run(t, x.queues[1], read(x.devs[1], x.blocks[1], 0, got)))
	require.True(t, bytes.Equal(data, got))
}

// A leg that is refused after others were accepted fails the batch once those have ended,
// without anybody waiting within Submit; the first one's refusal is Submit's own.
func TestABatchThatIsRefusedMidwayFailsAndTheNextOneWorks(t *testing.T) {
	leakless(t, func(t *testing.T) {
		x := openBus(t, 2)
		x.copies(t, 1) // the tracks are there
		for nth := 1; nth <= len(x.batch().legs); nth++ {
			b := x.batch()
			inject(t, ocl.FaultEnqueue, nth, mem.OutOfResources)
			p, err := x.submit(b)
			if nth == 1 {
				require.ErrorIs(t, err, mem.ErrNoResources)
				require.Zero(t, b.ended)
				continue
			}
			require.NoError(t, err)
			require.ErrorIs(t, p.Wait(context.Background()), mem.ErrNoResources, "leg %d", nth)
			require.Equal(t, 1, b.ended)
		}
		x.copies(t, 2)
	})
}

// A batch held by a gate that is then refused fails, from the first leg on.
func TestAHeldBatchThatIsRefusedFails(t *testing.T) {
	x := openBus(t, 2)
	x.copies(t, 1)
	user := mem.NewTimeline("user", false, nil)
	gate := user.Next()
	b := x.batch()
	p, err := x.submit(b, mem.Wait{Point: gate, Kind: mem.Data})
	require.NoError(t, err)
	inject(t, ocl.FaultEnqueue, 1, mem.OutOfResources)
	user.End(gate, nil)
	require.ErrorIs(t, p.Wait(context.Background()), mem.ErrNoResources)
	require.Equal(t, 1, b.ended)
}

// Where something fails in OpenCL that a batch was only to come after, it runs all the same;
// where it needed that, it fails, and nothing has moved.
func TestABatchBehindAFailureOfOpenCLsOwn(t *testing.T) {
	for _, kind := range []mem.WaitKind{mem.Order, mem.Data} {
		x := openBus(t, 2)
		if x.devs[0].host.quirks.slowEvents {
			t.Skip("this platform gives what waits for a failed command that command's own status; there a command that fails is the last")
		}
		x.copies(t, 1)
		data, got := pattern(busSize, 2), make([]byte, busSize)
		finishPoint(t, x.queues[0], run(t, x.queues[0], write(x.devs[0], x.blocks[0], 0, data)))
		bad := gateOn(t, x.queues[0])
		b := x.batch()
		p, err := x.submit(b, mem.Wait{Point: bad.Point, Kind: kind})
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		require.False(t, p.Reached())
		bad.end(t, mem.OutOfResources)
		err = p.Wait(context.Background())
		want := data
		if kind == mem.Data {
			require.ErrorIs(t, err, mem.ErrDependency)
			want = pattern(busSize, 1)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, 1, b.ended)
		finishPoint(t, x.queues[1], run(t, x.queues[1], read(x.devs[1], x.blocks[1], 0, got)))
		require.True(t, bytes.Equal(want, got))
	}
}

// More gated batches than there are side tracks wait for their gates; ungated ones pass them.
func TestGatedBatchesHoldUpNoOther(t *testing.T) {
	x := openBus(t, 2)
	gates := make([]*nativeGate, 2*sideTracks)
	points := make([]mem.Point, len(gates))
	for i := range gates {
		gates[i] = gateOn(t, x.queues[0])
		var err error
		points[i], err = x.submit(x.batch(), mem.Wait{Point: gates[i].Point, Kind: mem.Data})
		require.NoError(t, err)
	}
	x.copies(t, 3)
	for i, g := range gates {
		require.False(t, points[i].Reached())
		g.end(t, 0)
		finishPoint(t, x.queues[1], points[i])
	}
}

// Where the queue of either end is closed a batch is refused, and makes no tracks.
func TestABatchOfAClosedQueueMakesNoTracks(t *testing.T) {
	x := openBus(t, 2)
	for end, d := range x.devs {
		ends := []*Queue{x.queues[0], x.queues[1]}
		q, err := d.NewQueue(devices.QueueOptions{Name: "gone", OutOfOrder: true})
		require.NoError(t, err)
		require.NoError(t, q.Close())
		ends[end] = q.(*Queue)
		require.ErrorIs(t, ends[0].SubmitBatch(x.batch(), []devices.Queue{ends[1]}, nil, make([]mem.Point, 1)), mem.ErrClosed)
		h := x.devs[0].host
		h.mu.Lock()
		require.Empty(t, h.routes)
		h.mu.Unlock()
	}
}

// Tracks are OpenCL's queues: SubmitBatch makes none itself, and the batch is held until it has them.
func TestABatchThatHasNoTracksYetIsHeld(t *testing.T) {
	leakless(t, func(t *testing.T) {
		x := openBus(t, 2)
		h, b, to := x.devs[0].host, x.batch(), []devices.Queue{x.queues[1]}
		key := x.queues[0].to(x.queues[1])
		h.mu.Lock()
		h.routes[key] = nil // somebody makes them
		h.mu.Unlock()
		var points [1]mem.Point
		require.NoError(t, x.queues[0].SubmitBatch(b, to, nil, points[:]))
		require.False(t, points[0].Reached())
		w := h.newRoute(key)
		h.mu.Lock()
		h.routes[key] = w
		h.mu.Unlock()
		x.queues[0].Resume(b)
		finishPoint(t, x.queues[1], points[0])
		require.Equal(t, 1, b.ended)
		x.copies(t, 1)
	})
}

// Where tracks cannot be made the batch fails that needed them; the next one tries again.
func TestABatchWithoutTracksFailsAndTheNextOneWorks(t *testing.T) {
	leakless(t, func(t *testing.T) {
		x := openBus(t, 2)
		h, key := x.devs[0].host, x.queues[0].to(x.queues[1])
		h.mu.Lock()
		h.routes[key] = &route{err: mem.ErrNoResources}
		h.mu.Unlock()
		b := x.batch()
		_, err := x.submit(b)
		require.ErrorIs(t, err, mem.ErrNoResources)
		require.Zero(t, b.ended)
		x.copies(t, 1)

		user := mem.NewTimeline("user", false, nil)
		gate := user.Next()
		p, err := x.submit(b, mem.Wait{Point: gate, Kind: mem.Data})
		require.NoError(t, err)
		h.mu.Lock()
		w := h.routes[key]
		h.routes[key] = &route{err: mem.ErrNoResources}
		h.mu.Unlock()
		user.End(gate, nil)
		require.ErrorIs(t, p.Wait(t.Context()), mem.ErrNoResources)
		require.Equal(t, 1, b.ended)
		w.release()
		x.copies(t, 2)
	})
}

// The queue that a held batch comes from is closed, and its device after it, only when the batch has
// ended.
func TestClosingAQueueWaitsForBatchesOutOfIt(t *testing.T) {
	leakless(t, func(t *testing.T) {
		x := openBus(t, 2)
		q, err := x.devs[0].NewQueue(devices.QueueOptions{Name: "source", OutOfOrder: true})
		require.NoError(t, err)
		user := mem.NewTimeline("user", false, nil)
		gate := user.Next()
		b := x.batch()
		var points [1]mem.Point
		require.NoError(t, q.(*Queue).SubmitBatch(b, []devices.Queue{x.queues[1]}, []mem.Wait{{Point: gate, Kind: mem.Data}}, points[:]))
		closed := make(chan error, 1)
		go func() { closed <- q.Close() }()
		select {
		case err := <-closed:
			require.NoError(t, err)
			require.Fail(t, "closed before the batch has ended")
		case <-time.After(20 * time.Millisecond):
		}
		user.End(gate, nil)
		require.NoError(t, <-closed)
		finishPoint(t, x.queues[1], points[0])
		require.Equal(t, 1, b.ended)
	})
}

// Staging that OpenCL did not lock is refused: it may take its bytes when a write is
// enqueued.
func TestABatchThroughUnlockedMemoryIsRefused(t *testing.T) {
	x := openBus(t, 2)
	x.copies(t, 1)
	x.view = make([]byte, len(x.view))
	_, err := x.submit(x.batch())
	require.ErrorIs(t, err, mem.ErrInvalidValue)
}

// What the mover moves between two devices across a bus goes by batches.
func TestTheMoverMovesBetweenDevicesByBatches(t *testing.T) {
	x := openBus(t, 2)
	o := mover.Options{Budget: 16 << 20}
	for _, d := range x.devs {
		o.Memories = append(o.Memories, mover.Memory{Device: d, Name: d.name})
	}
	m, err := mover.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	const size = 3<<20 + 17
	src, dst, got := alloc(t, x.devs[0], size), alloc(t, x.devs[1], size), make([]byte, size)
	var waits []mem.Wait
	for i := range byte(30) { // gated by each other, in OpenCL
		data := pattern(size, i)
		p := run(t, x.queues[0], write(x.devs[0], src, 0, data), waits...)
		points := make([]mem.Point, 1)
		require.NoError(t, m.Move(&mover.Transfer{Way: mem.Ring, From: mover.End{Memory: 0, Block: src}, To: []mover.End{{Memory: 1, Block: dst}},
			Size: size, Waits: []mem.Wait{{Point: p, Kind: mem.Data}}, Points: points}))
		waits = []mem.Wait{{Point: points[0], Kind: mem.Order}}
		if i%10 == 9 {
			require.NoError(t, points[0].Wait(context.Background()))
			finishPoint(t, x.queues[1], run(t, x.queues[1], read(x.devs[1], dst, 0, got)))
			require.True(t, bytes.Equal(data, got))
			waits = nil
		}
	}
	require.NoError(t, m.Check())
	require.EqualValues(t, 30, m.Stats().Batches)
}
