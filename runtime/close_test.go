package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/mem"
	"godwit/runtime"
)

func TestCloseWithinReturnsThoughACommandNeverEnds(t *testing.T) {
	d, err := cpu.New(cpu.Options{})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Name: "stuck", Devices: []devices.Device{d}, OwnDevices: true})
	require.NoError(t, err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	require.NoError(t, err)
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
