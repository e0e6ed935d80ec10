package devicetest

import (
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

func testClose(e *env) {
	t, line := e.t, users()
	d := e.open(t)
	q, err := d.NewQueue(devices.QueueOptions{Name: "to be closed"})
	require.NoError(t, err)
	ran := false
	gate := line.Next()
	p, err := q.Submit(&devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error { ran = true; return nil }}, []mem.Wait{data(gate)})
	require.NoError(t, err)
	line.End(gate, nil)
	require.NoError(t, q.Close(), "drains")
	require.True(t, p.Reached() && ran)
	_, err = q.Submit(marker(), nil)
	require.ErrorIs(t, err, mem.ErrClosed)
	require.ErrorIs(t, q.Close(), mem.ErrClosed)
	require.ErrorIs(t, q.Flush(), mem.ErrClosed)
	require.NoError(t, q.Wait(e.context(), p, devices.Park), "points outlive the queue")

	out := make([]mem.Block, 1)
	got, err := d.Memory().AllocAll([]mem.Request{{Size: 12345, Tag: 678}}, out, nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, got)
	err = d.Close()
	require.ErrorContains(t, err, "12345", "names the leak")
	_, err = d.Memory().AllocAll([]mem.Request{{Size: 1}}, out, nil)
	require.ErrorIs(t, err, mem.ErrClosed)
}

// testAborted: of a queue that was aborted, what runs ends as ever, and all else fails, and
// has done nothing.
func testAborted(e *env) {
	for _, open := range []func() devices.Queue{e.inOrder, e.outOfOrder} {
		t, line, q := e.t, users(), open()
		side, b := e.outOfOrder(), e.alloc(4)
		e.wait(side, e.fill(side, b, 0, 4, []byte{1}))
		started, release := make(chan struct{}), make(chan struct{})
		running := e.submit(q, &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error {
			close(started)
			<-release
			return nil
		}})
		<-started
		gate, ran := line.Next(), false
		points := []mem.Point{
			e.fill(q, b, 0, 4, []byte{2}, data(gate)),
			e.submit(q, &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error { ran = true; return nil }}, order(gate)),
			e.submit(q, marker(), order(running)),
		}
		q.Abort(errTest)
		q.Abort(errors.New("another cause"))
		points = append(points, e.fill(q, b, 0, 4, []byte{3}), e.submit(q, marker(), data(gate)))
		close(release)
		e.wait(q, running)
		line.End(gate, nil)
		for _, p := range points {
			require.ErrorIs(t, e.failed(p), errTest)
		}
		require.False(t, ran)
		got := make([]byte, 4)
		e.wait(side, e.read(side, b, 0, got))
		e.equal([]byte{1, 1, 1, 1}, got, "nothing was done")
	}
}
