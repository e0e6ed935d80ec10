package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/eviction"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// A block whose only way is to the host's block of its buffer stays while what uses that one
// waits for a user event. That is no want of room.
func TestABlockWhoseWayBackHangsSaysSo(t *testing.T) {
	h := crowded(t, runtime.Options{}, 1)
	q, d := h.q[0], h.devs[0]
	host := must(h.c.Device(mem.Host))
	hq := h.queue(host, outOfOrder)
	gate := h.gate()
	b := h.buffer(room, nil)
	h.paint(q, b, 1)
	got := make([]byte, room)
	read := h.ok(hq.EnqueueRead(soon(t), b, 0, got, gate))
	h.ended(h.paint(q, b, 2))
	err := b.Drop(d)
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.ErrorContains(t, err, "waits for a user event")
	var others []*runtime.Buffer
	for i := range 4 {
		others = append(others, h.buffer(room, nil))
		if i < 3 {
			h.paint(q, others[i], 3)
			require.NoError(t, others[i].Pin(d))
		}
	}
	_, err = q.EnqueueFill(soon(t), others[3], []byte{4}, 0, room)
	var why *runtime.OutOfMemory
	require.ErrorAs(t, err, &why)
	for _, x := range why.Holders {
		if x.Tag == uint64(b.ID()) {
			require.Equal(t, eviction.Hangs, x.Why)
		} else {
			require.Equal(t, eviction.Pinned, x.Why)
		}
	}
	require.NoError(t, gate.SetStatus(runtime.Complete))
	h.ended(read)
	require.EqualValues(t, 1, got[0])
	require.NoError(t, b.Drop(d))
	h.ended(h.paint(q, others[3], 4))
	h.holds(hq, b, 2)
}

// An enqueue that waits for room waits for the host call that uses the host's block of a
// buffer, where the device's block goes there.
func TestAnEnqueueWaitsForAHostCallOnTheWayBack(t *testing.T) {
	h := crowded(t, runtime.Options{WaitForMemory: true}, 1)
	q := h.q[0]
	host := must(h.c.Device(mem.Host))
	hq := h.queue(host, outOfOrder)
	b := h.buffer(room, nil)
	h.paint(q, b, 1)
	began, end := make(chan struct{}), make(chan struct{})
	call := h.ok(hq.EnqueueHostCall(soon(t), func(context.Context) error { close(began); <-end; return nil }))
	<-began
	got := make([]byte, room)
	h.ok(hq.EnqueueRead(soon(t), b, 0, got, call))
	h.ended(h.paint(q, b, 2))
	for range 3 {
		other := h.buffer(room, nil)
		h.paint(q, other, 3)
		require.NoError(t, other.Pin(h.devs[0]))
	}
	late := h.buffer(room, nil)
	enqueued := make(chan error, 1)
	go func() {
		_, err := q.EnqueueFill(soon(t), late, []byte{4}, 0, room)
		enqueued <- err
	}()
	select {
	case err := <-enqueued:
		require.Fail(t, "it does not wait", "%v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(end)
	require.NoError(t, <-enqueued)
	h.holds(q, late, 4)
	h.holds(hq, b, 2)
}

// keeping is a device that refuses the n-th copy from it.
type keeping struct {
	*tce.Device
	n int
}

func (d *keeping) Unwrap() devices.Device { return d.Device }

func (d *keeping) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return devicetest.Tap(d.Device, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		if cmd.Op == devices.OpCopy && cmd.Src.Device == d.Device && d.n > 0 {
			if d.n--; d.n == 0 {
				return mem.Point{}, errRefusedCopy
			}
		}
		return q.Submit(cmd, waits)
	})
}

// What was written back for blocks that stay, since another write-back was refused, is in
// the trace with the command that was refused for it.
func TestWriteBacksOfBlocksThatStayAreTraced(t *testing.T) {
	d := must(tce.New(tce.Options{Memory: 4 * room}))
	keep := &keeping{Device: d}
	h := build(t, runtime.Options{Devices: []devices.Device{keep}, Policy: eviction.LRU{}}, outOfOrder)
	var all []*runtime.Buffer
	for i := range 4 {
		all = append(all, h.buffer(room, nil))
		h.ended(h.paint(h.q[0], all[i], byte(i)))
	}
	large := h.buffer(4*room, nil)
	keep.n = 3
	_, err := h.q[0].EnqueueFill(soon(t), large, []byte{9}, 0, 4*room)
	require.ErrorIs(t, err, errRefusedCopy)
	require.ErrorContains(t, err, "write-back")
	require.EqualValues(t, 2*room, h.c.Resource(mem.Host).Stats().Live, "the host keeps what came, and gives back room for what did not")
	commands := h.rec.Commands()
	last := commands[len(commands)-1]
	require.ErrorIs(t, last.Err, errRefusedCopy)
	require.Len(t, last.Evictions, 2)
	for i, v := range last.Evictions {
		require.True(t, v.Stayed())
		require.Equal(t, all[i].ID(), v.Buffer)
		require.Len(t, v.Backs, 1)
		require.EqualValues(t, room, v.Backs[0].Range.Size())
		require.Equal(t, []trace.BlockRecord{{Buffer: v.Buffer, Bytes: room, Range: mem.Range{End: room}}}, v.Blocks)
	}
	require.Zero(t, h.c.Stats().Evictions)
	for i, b := range all {
		h.holds(h.q[0], b, byte(i))
	}
}

// The certificate for a command that waits for room, before anything is evicted for it, has
// nothing of what was evicted for an earlier one, of which a buffer may be gone.
func TestACertificateForgetsEarlierEvictions(t *testing.T) {
	d := must(cpu.New(cpu.Options{Memory: 4 * room}))
	hold := devicetest.NewHold(d)
	h := build(t, runtime.Options{Devices: []devices.Device{hold}, Policy: eviction.LRU{}, WaitForMemory: true}, outOfOrder)
	q, gate := h.q[0], h.gate()
	var all []*runtime.Buffer
	for i := range 5 { // the first is written back to the host, which has not stored it yet
		all = append(all, h.buffer(room, nil))
		h.ended(h.paint(q, all[i], byte(i)))
	}
	require.NotZero(t, h.c.Stats().BytesWrittenBack)
	require.NoError(t, all[0].Release())
	h.paint(q, all[1], 7, gate)
	hold.Hold()
	h.paint(q, all[2], 7)
	require.NoError(t, all[1].Release())
	require.NoError(t, all[2].Release()) // of these, one ends by itself
	late := h.buffer(2*room, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := q.EnqueueFill(ctx, late, []byte{9}, 0, 2*room)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var why *runtime.OutOfMemory
	require.ErrorAs(t, err, &why)
	require.Equal(t, []uint64{room, room}, []uint64{why.Holders[0].Bytes, why.Holders[1].Bytes})
	for _, x := range why.Holders {
		require.Equal(t, eviction.Goes, x.Why, "the earlier command used it")
	}
	hold.Release()
	require.NoError(t, gate.SetStatus(runtime.Complete))
	h.ended(h.ok(q.EnqueueFill(soon(t), late, []byte{9}, 0, 2*room)))
}
