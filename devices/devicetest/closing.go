package devicetest

import (
	"context"

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
