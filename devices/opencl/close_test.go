//go:build cgo

package opencl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// Who submits, flushes, waits or asks while a queue is closed is told that it is, and
// what was accepted has ended when Close returns.
func TestAQueueMayBeClosedWhileItIsUsed(t *testing.T) {
	leakless(t, func(t *testing.T) {
		for i := range 60 {
			params := map[string]string{"carve": []string{"on", "off"}[i%2]}
			if i%3 == 0 {
				params = map[string]string{"bus": "on"}
			}
			params["count"] = "1"
			d := openSmall(t, params)
			q, err := d.NewQueue(devices.QueueOptions{Name: "q", OutOfOrder: i%4 < 2, Profiling: i%5 == 0})
			require.NoError(t, err)
			var b [1]mem.Block
			out, err := d.Memory().AllocAll([]mem.Request{{Size: 8192}}, b[:], nil)
			require.NoError(t, err)
			require.Equal(t, mem.Ready, out)
			closeWhileUsed(t, d, q.(*Queue), b[0], time.Duration(i)*20*time.Microsecond)
			_, err = q.Submit(&devices.Command{Op: devices.OpMarker}, nil)
			require.ErrorIs(t, err, mem.ErrClosed)
			require.ErrorIs(t, q.Flush(), mem.ErrClosed)
		}
	})
}

// TestTimesAreAskedForAfterTheDeviceWasClosed: of a host call they are by the host's clock, and the device's, which
// they are to be told by, cannot be read any more.
func TestTimesAreAskedForAfterTheDeviceWasClosed(t *testing.T) {
	leakless(t, func(t *testing.T) {
		d := openSmall(t, map[string]string{"count": "1"})
		q, err := d.NewQueue(devices.QueueOptions{Name: "q", Profiling: true})
		require.NoError(t, err)
		time.Sleep(30 * time.Millisecond) // since the clock was read
		p := run(t, q.(*Queue), &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error { return nil }})
		require.NoError(t, q.Wait(context.Background(), p, devices.Park))
		require.NoError(t, q.Close())
		require.NoError(t, d.Close())
		times, ok := q.Times(p, devices.DeviceClock)
		require.True(t, ok)
		require.NotZero(t, times.Error)
	})
}

// closeWhileUsed closes q, and then the device, while three goroutines use q.
func closeWhileUsed(t *testing.T, d *Device, q *Queue, b mem.Block, after time.Duration) {
	var users sync.WaitGroup
	var last atomic.Pointer[mem.Point]
	refused := make(chan error, 1)
	users.Go(func() {
		cmds := []*devices.Command{write(d, b, 0, make([]byte, 8192)), {Op: devices.OpMarker}, read(d, b, 0, make([]byte, 64)),
			{Op: devices.OpFill, Dst: devices.Loc{Device: d, Block: b}, Size: 64, Pattern: []byte{1}}}
		for n := 0; ; n++ {
			p, err := q.Submit(cmds[n%len(cmds)], nil)
			if err != nil {
				refused <- err
				return
			}
			last.Store(&p)
		}
	})
	users.Go(func() {
		for q.Flush() == nil {
		}
	})
	users.Go(func() {
		for q.Flush() == nil {
			if p := last.Load(); p != nil {
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				if err := q.Wait(ctx, *p, devices.Park); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("wait: %v", err)
				}
				q.Times(*p, devices.DeviceClock)
				cancel()
			}
		}
	})
	time.Sleep(after)
	require.NoError(t, q.Close())
	require.NoError(t, d.Memory().FreeAfter(b, nil)) // who is still on the way in does not touch it
	require.NoError(t, d.Close())
	users.Wait()
	require.ErrorIs(t, <-refused, mem.ErrClosed)
	if p := last.Load(); p != nil {
		require.True(t, p.Reached())
		require.NoError(t, p.Err())
	}
	require.ErrorIs(t, q.Close(), mem.ErrClosed)
}
