package devicetest

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// ringBatch is a devices.Batch: a range of one block through a ring of slots into others.
type ringBatch struct {
	legs   []devices.Leg
	queue  devices.Batcher
	points []mem.Point

	mu    sync.Mutex
	short bool // protected by mu: Stage has nothing
	asks  int  // protected by mu: calls of Stage
	ended int  // protected by mu
	early bool // protected by mu: all points were reached before Ended
}

// Stage implements devices.Batch.
func (b *ringBatch) Stage(bool) ([]devices.Leg, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asks++
	if b.short {
		return nil, false
	}
	return b.legs, true
}

// Ended implements devices.Batch.
func (b *ringBatch) Ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended++
	b.early = b.early || len(b.points) > 0 && !slices.ContainsFunc(b.points, func(p mem.Point) bool {
		return p.IsZero() || !p.Reached() // the batch may end before submit has noted its points
	})
}

// asked is how often Stage was called.
func (b *ringBatch) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asks
}

// setShort says whether Stage has nothing.
func (b *ringBatch) setShort(short bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.short = short
}

// batches is what tests of batches use.
type batches struct {
	*env
	q       devices.Batcher
	to      []devices.Queue
	staging devices.PinnedMemory
}

// newBatches skips the test where the device's queues take no batches.
func newBatches(e *env) *batches {
	b := &batches{env: e}
	for range 3 {
		b.to = append(b.to, e.outOfOrder())
	}
	q, ok := b.to[0].(devices.Batcher)
	locker, locks := e.dev.(devices.PageLocker)
	if !ok || !locks || !q.Joins(b.to[1]) {
		e.t.Skip("its queues take no batches")
	}
	var err error
	b.q = q
	b.staging, err = locker.PinnedMemory(devices.NodeAny)
	require.NoError(e.t, err)
	return b
}

// ring makes a batch from a block to as many others, in chunks through so many slots.
func (b *batches) ring(from mem.Block, to []mem.Block, size, chunk uint64, slots int) *ringBatch {
	var block [1]mem.Block
	out, err := b.staging.AllocAll([]mem.Request{{Size: uint64(slots) * chunk}}, block[:], nil)
	require.NoError(b.t, err)
	require.Equal(b.t, mem.Ready, out)
	b.t.Cleanup(func() { require.NoError(b.t, b.staging.FreeAfter(block[0], nil)) })
	view, err := b.staging.View(block[0], 0, uint64(slots)*chunk)
	require.NoError(b.t, err)
	r := &ringBatch{queue: b.q, points: make([]mem.Point, len(to))}
	last := make([][]int32, slots)
	for k, off := 0, uint64(0); off < size; k, off = k+1, off+chunk {
		n, s := min(chunk, size-off), k%slots
		slot := devices.Loc{Bytes: view[uint64(s)*chunk:][:n:n]}
		read := int32(len(r.legs))
		r.legs = append(r.legs, devices.Leg{Queue: b.q, Dst: slot, Src: devices.Loc{Device: b.dev, Block: from, Off: off}, Size: n, Data: -1, After: last[s], To: -1})
		last[s] = nil
		for i, t := range to {
			last[s] = append(last[s], int32(len(r.legs)))
			r.legs = append(r.legs, devices.Leg{Queue: b.to[i], Dst: devices.Loc{Device: b.dev, Block: t, Off: off}, Src: slot, Size: n, Data: read, To: int32(i)})
		}
	}
	return r
}

func (b *batches) submit(r *ringBatch, waits ...mem.Wait) {
	points := make([]mem.Point, len(r.points))
	require.NoError(b.t, b.q.SubmitBatch(r, b.to[:len(points)], waits, points))
	r.mu.Lock()
	defer r.mu.Unlock()
	copy(r.points, points)
}

// finish waits for all of a batch, whose first outcome it returns.
func (b *batches) finish(r *ringBatch) (err error) {
	for i, p := range r.points {
		require.NoError(b.t, b.to[i].Flush())
		if e := b.to[i].Wait(b.ctx, p, devices.Park); err == nil {
			err = e
		}
	}
	require.NoError(b.t, b.ctx.Err())
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Equal(b.t, 1, r.ended, "Ended is called once, before the last point is reached")
	require.False(b.t, r.early, "Ended comes before the last point")
	return err
}

// testBatches moves ranges through rings, plainly, gated and short of staging.
func testBatches(e *env) {
	b := newBatches(e)
	const size = 5*4096 + 100
	plain := e.inOrder()
	from, data := e.alloc(size), bytes.Repeat([]byte{3, 1, 4, 1, 5, 9, 2}, size/7)
	data = append(data, make([]byte, size-len(data))...)
	put := func(b mem.Block, with []byte) mem.Block {
		e.wait(plain, e.write(plain, b, 0, with))
		return b
	}
	put(from, data)
	fresh := func(n int) (to []mem.Block) {
		for range n {
			to = append(to, put(e.alloc(size), make([]byte, size)))
		}
		return to
	}
	hold := func(to []mem.Block, want []byte) {
		for _, t := range to {
			e.equal(want, e.content0(plain, t, size), "what a batch brought")
		}
	}
	for _, ends := range []int{1, 3} {
		for _, slots := range []int{1, 2, 6} {
			to := fresh(ends)
			r := b.ring(from, to, size, 4096, slots)
			b.submit(r)
			require.NoError(e.t, b.finish(r))
			hold(to, data)
		}
	}

	// What gates a batch gates no other.
	foreign := mem.NewTimeline("foreign", false, nil)
	for _, kind := range []mem.WaitKind{mem.Data, mem.Order} {
		for _, cause := range []error{nil, errTest} {
			gate, to, others := foreign.Next(), fresh(2), fresh(1)
			r, other := b.ring(from, to, size, 4096, 2), b.ring(from, others, size, 4096, 2)
			b.submit(r, mem.Wait{Point: gate, Kind: kind})
			behind := e.submit(b.to[0], &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: r.points[0], Kind: mem.Order})
			b.submit(other)
			require.NoError(e.t, b.finish(other))
			hold(others, data)
			require.False(e.t, r.points[0].Reached() || r.points[1].Reached() || behind.Reached())
			foreign.End(gate, cause)
			err := b.finish(r)
			if cause != nil && kind == mem.Data {
				require.ErrorIs(e.t, err, mem.ErrDependency)
				require.ErrorIs(e.t, r.points[1].Err(), errTest)
				hold(to, make([]byte, size))
				continue
			}
			require.NoError(e.t, err)
			hold(to, data)
		}
	}

	// A chain of commands and batches on one timeline needs nobody in between.
	to := fresh(1)
	fill := &devices.Command{Op: devices.OpFill, Dst: devices.Loc{Device: e.dev, Block: from}, Size: size, Pattern: []byte{1}}
	var p mem.Point
	var last *ringBatch
	for i := range 20 {
		fill.Pattern[0] = byte(i + 1)
		p = e.submit(b.to[1], fill, mem.Wait{Point: p, Kind: mem.Order})
		last = b.ring(from, to, size, 4096, 2)
		b.submit(last, mem.Wait{Point: p, Kind: mem.Data})
		p = last.points[0]
	}
	require.NoError(e.t, b.finish(last))
	hold(to, bytes.Repeat([]byte{20}, size))

	// Short of staging: a batch asks again when it is told, or by itself, and waits meanwhile.
	short := b.ring(from, to, size, 4096, 2)
	short.setShort(true)
	b.submit(short)
	for asked := 0; asked < 3; {
		before := asked
		require.Eventually(e.t, func() bool { asked = short.asked(); return asked > before }, 10*time.Second, time.Millisecond)
		require.False(e.t, short.points[0].Reached())
		b.q.Resume(short)
	}
	short.setShort(false)
	b.q.Resume(short)
	require.NoError(e.t, b.finish(short))
}
