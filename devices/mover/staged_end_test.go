package mover_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/mover"
	"godwit/devices/tce"
	"godwit/mem"
)

// lateQueue gives every command a further wait.
type lateQueue struct {
	devices.Queue
	gate mem.Point
}

func (q lateQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	return q.Queue.Submit(cmd, append([]mem.Wait{{Point: q.gate}}, waits...))
}

// refusingQueue accepts the first few commands only.
type refusingQueue struct {
	devices.Queue
	left *int
}

func (q refusingQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	if *q.left == 0 {
		return mem.Point{}, devicetest.ErrInjected
	}
	*q.left--
	return q.Queue.Submit(cmd, waits)
}

// TestALostTransferEndsAfterItsLegs: a read leg may still be at work on the
// source when every write leg has been refused. Until it has ended, no point of
// the transfer may: the source's next writer waits for them, and so does
// whoever frees the source.
func TestALostTransferEndsAfterItsLegs(t *testing.T) {
	for accepted := range 3 { // write legs, before one is refused
		var devs []devices.Device
		for range 3 {
			d, err := tce.New(tce.Options{Memory: 2 << 20})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			devs = append(devs, d)
		}
		user := mem.NewTimeline("user", false, nil)
		gate := user.Next()
		open := sync.OnceFunc(func() { user.End(gate, nil) })
		tr := newTransport(t, mover.TransportOptions{Chunk: 64 << 10, Budget: 1 << 20})
		src := end(t, devs[0], blockSize)
		src.Queue = lateQueue{src.Queue, gate}
		var dsts []mover.End
		for _, d := range devs[1:] {
			dst, left := end(t, d, blockSize), accepted
			dst.Queue = refusingQueue{dst.Queue, &left}
			dsts = append(dsts, dst)
		}
		t.Cleanup(open) // a test that fails must not hang
		out := make([]mem.Point, 2)
		require.NoError(t, tr.Copy(src, dsts, blockSize, nil, out))
		for _, p := range out {
			brief, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			require.ErrorIs(t, p.Wait(brief), context.DeadlineExceeded, "a point ended while a leg of its transfer had not, after %d write legs", accepted)
			cancel()
		}
		open()
		for _, p := range out {
			require.ErrorIs(t, p.Wait(context.Background()), devicetest.ErrInjected)
			require.True(t, src.Queue.Timeline().Last().Passed(), "all read legs have ended")
		}
	}
}
