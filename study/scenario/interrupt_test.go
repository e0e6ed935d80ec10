package scenario

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/mem"
)

// busyDevice is a cpu device with queues whose first fill takes until they are aborted:
// that of the driver liar with {busy: true}.
type busyDevice struct{ *cpu.Device }

type busyQueue struct {
	devices.Queue
	cause   error
	began   bool
	aborted chan struct{}
	given   bool // it was not aborted in time
}

// aBusyQueue is the one that was made last: there is one run at a time.
var aBusyQueue *busyQueue

func (d busyDevice) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.Device.NewQueue(o)
	if err != nil || o.OutOfOrder { // hidden
		return q, err
	}
	aBusyQueue = &busyQueue{Queue: q, aborted: make(chan struct{})}
	return aBusyQueue, nil
}

func (q *busyQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	if cmd.Op == devices.OpFill && !q.began {
		q.began = true
		return q.Queue.Submit(&devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error {
			select {
			case <-q.aborted:
			case <-time.After(20 * time.Second):
				q.given = true
			}
			return nil
		}}, waits)
	}
	return q.Queue.Submit(cmd, waits)
}

func (q *busyQueue) Abort(cause error) {
	q.cause = cause
	q.Queue.Abort(cause)
	close(q.aborted)
}

// TestAnInterruptedRunWaitsForWhatRunsOnly: what is queued behind it does not start.
func TestAnInterruptedRunWaitsForWhatRunsOnly(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte(`
devices: [{name: d, driver: liar, memory: 1 MiB, params: {busy: true}}]
buffers: [{name: a, size: 4 KiB}]
commands:
- {repeat: 100, do: [{fill: a, pattern: 3}]}
`), Options{})
	require.NoError(t, err)
	stopped := errors.New("told to stop")
	ctx, stop := context.WithCancelCause(t.Context())
	_, err = Run(ctx, s, RunOptions{Progress: func(_ string, done, total int) {
		if done == total {
			stop(stopped)
		}
	}})
	require.ErrorIs(t, err, stopped)
	require.False(t, aBusyQueue.given, "the run waits for the fill, and not the other way round")
	require.ErrorIs(t, aBusyQueue.cause, stopped)
	require.False(t, aBusyQueue.Timeline().Last().Succeeded())
}
