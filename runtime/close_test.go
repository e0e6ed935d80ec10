package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
)

func TestCloseWithinReturnsThoughACommandNeverEnds(t *testing.T) {
	d := must(cpu.New(cpu.Options{}))
	c := must(runtime.NewContext(runtime.Options{Name: "stuck", Devices: []devices.Device{d}, OwnDevices: true}))
	q := must(c.NewQueue(d, runtime.QueueOptions{}))
	release := make(chan struct{})
	e, err := q.EnqueueHostCall(context.Background(), func(context.Context) error {
		<-release
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, e.Release())
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, q.Finish(short), context.DeadlineExceeded)
	err = c.CloseWithin(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "context stuck")
	require.ErrorIs(t, c.Close(short), mem.ErrClosed, "it is being closed")
	require.ErrorIs(t, c.CloseWithin(short), context.DeadlineExceeded)
	close(release)
	require.NoError(t, c.CloseWithin(context.Background()))
	require.NoError(t, c.CloseWithin(short), "done is done")
}

// closed is a device that tells when it was closed.
type closed struct {
	*cpu.Device
	at chan struct{}
}

func (d closed) Close() error {
	close(d.at)
	return d.Device.Close()
}

// TestAContextWaitsForQueuesThatAreClosing: Queue.Close, beside which the context is closed,
// may still wait for a command that uses what the context would free.
func TestAContextWaitsForQueuesThatAreClosing(t *testing.T) {
	bg := context.Background()
	for _, aborts := range []bool{false, true} {
		inner := must(cpu.New(cpu.Options{}))
		d := closed{inner, make(chan struct{})}
		c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true}))
		q := must(c.NewQueue(d, runtime.QueueOptions{}))
		hold, began, ended := make(chan struct{}), make(chan struct{}), false
		_ = must(q.EnqueueHostCall(bg, func(context.Context) error { close(began); <-hold; ended = true; return nil }))
		behind := must(q.EnqueueHostCall(bg, func(context.Context) error { return nil }))
		<-began
		queue, all := make(chan error), make(chan error)
		go func() { queue <- q.Close() }()
		for { // until it refuses commands
			if _, err := q.EnqueueMarker(bg); err != nil {
				require.ErrorIs(t, err, mem.ErrInvalidQueue)
				break
			}
		}
		ctx, cancel := context.WithCancel(bg)
		if aborts {
			cancel()
		}
		go func() { all <- c.Close(ctx) }()
		select {
		case err := <-all:
			t.Errorf("the context was closed under a command: %v", err)
		case <-d.at:
			t.Error("the device was closed under a command")
		case <-time.After(50 * time.Millisecond):
		}
		close(hold)
		require.NoError(t, <-queue)
		require.NoError(t, <-all)
		require.True(t, ended)
		select {
		case <-d.at:
		default:
			t.Error("the context's own device was left open")
		}
		if err := behind.Wait(bg); aborts {
			require.ErrorIs(t, err, context.Canceled)
		} else {
			require.NoError(t, err)
		}
		cancel()
	}
}

// TestCloseFailsWhatHasNotStarted: a program that is told to stop does not wait for what it
// has enqueued, but for what runs.
func TestCloseFailsWhatHasNotStarted(t *testing.T) {
	for _, within := range []bool{false, true} {
		d := must(tce.New(tce.Options{}))
		c := must(runtime.NewContext(runtime.Options{Name: "stopped", Devices: []devices.Device{d}, OwnDevices: true}))
		q := must(c.NewQueue(d, runtime.QueueOptions{}))
		other := must(c.NewQueue(d, runtime.QueueOptions{OutOfOrder: true}))
		bg := context.Background()
		user := must(c.NewUserEvent())
		started, aborted := make(chan struct{}), make(chan struct{})
		require.NoError(t, user.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) { close(aborted) })) // after Close has aborted the queues
		ran := 0
		running, err := q.EnqueueHostCall(bg, func(context.Context) error {
			close(started)
			<-aborted
			ran++
			return nil
		})
		require.NoError(t, err)
		<-started
		b := must(c.CreateBuffer(1<<20, 0, nil))
		data := make([]byte, 1<<20)
		var events []runtime.Event
		for i := range 1000 {
			e := must(q.EnqueueHostCall(bg, func(context.Context) error { ran++; return nil }))
			events = append(events, e)
			if i%10 == 0 { // and copies of the runtime's own
				on := []*runtime.Queue{q, other}[i/10%2]
				e = must(on.EnqueueWrite(bg, b, 0, data, e))
				events = append(events, e)
				e, err = other.EnqueueRead(bg, b, 0, data, e)
				require.NoError(t, err)
				events = append(events, e)
			}
		}
		stopped, stop := context.WithCancelCause(bg)
		stop(errStopped)
		if within {
			_ = c.CloseWithin(stopped) // goes on by itself
			err = c.CloseWithin(bg)
		} else {
			err = c.Close(stopped)
		}
		require.ErrorIs(t, err, runtime.ErrLeak)
		require.NoError(t, running.Err())
		require.Equal(t, 1, ran)
		for _, e := range append(events, user) {
			require.ErrorIs(t, e.Err(), errStopped)
			require.ErrorContains(t, e.Err(), "context stopped closed")
		}
	}
}

var errStopped = errors.New("told to stop")
