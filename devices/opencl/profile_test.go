//go:build cgo

package opencl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// Times can be asked for as long as they are kept, read or not, of a queue that was closed too;
// what was forgotten, before its end or after it, has none; and no event is left.
func TestTimesAreReadWhenSomebodyAsks(t *testing.T) {
	const n = mostUnread + 500
	made := leakless(t, func(t *testing.T) {
		d := open(t, 1, nil)[0]
		opened, err := d.NewQueue(devices.QueueOptions{Name: "q", Profiling: true})
		require.NoError(t, err)
		q := opened.(*Queue)
		b := alloc(t, d, 64)
		points := make([]mem.Point, n)
		for i := range points {
			points[i] = run(t, q, write(d, b, 0, pattern(64, 1)))
			if i%5 == 0 {
				q.Forget(points[i]) // which has ended or not
			}
		}
		finishPoint(t, q, points[n-1])
		for i, p := range points {
			require.True(t, p.Reached())
			if i%5 == 1 {
				q.Forget(p)
			}
		}
		asked := func() {
			for i, p := range points {
				times, ok := q.Times(p, devices.DeviceClock)
				require.Equal(t, i%5 > 1, ok, i)
				if ok {
					require.Positive(t, times.Queued, i)
					require.LessOrEqual(t, times.Queued, times.Started, i)
					require.LessOrEqual(t, times.Started, times.Ended, i)
				}
				if i == n/2 {
					return
				}
			}
		}
		asked()
		require.NoError(t, q.Close())
		asked()
		times, ok := q.Times(points[n-2], devices.DeviceClock)
		require.True(t, ok, "not asked before the queue was closed")
		require.LessOrEqual(t, times.Started, times.Ended)
	})
	require.Positive(t, made.Events)
}
