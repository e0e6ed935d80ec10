package mover_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/devices"
	"godwit/devices/mover"
	"godwit/devices/soft"
	"godwit/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("the test says so")

// newHost opens a host device that the test closes, checked.
func newHost(t testing.TB, opts soft.HostOptions) *soft.Host {
	h := soft.NewHost(opts)
	t.Cleanup(func() {
		require.NoError(t, h.Memory().Check())
		require.NoError(t, h.Close())
	})
	return h
}

func newQueue(t testing.TB, d devices.Device, opts devices.QueueOptions) devices.Queue {
	q, err := d.NewQueue(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q
}

func alloc(t testing.TB, d devices.Device, size uint64) mem.Block {
	out := make([]mem.Block, 1)
	got, err := d.Memory().AllocAll([]mem.Request{{Size: size}}, out)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, got)
	t.Cleanup(func() { require.NoError(t, d.Memory().FreeAfter(out[0], nil)) })
	return out[0]
}

func newTransport(t testing.TB, opts mover.TransportOptions) *mover.Transport {
	tr, err := mover.NewTransport(opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, tr.Check())
		require.NoError(t, tr.Close())
	})
	return tr
}

func end(t testing.TB, d devices.Device, size uint64) mover.End {
	b := alloc(t, d, size)
	return mover.End{Device: d, Block: b, Queue: newQueue(t, d, devices.QueueOptions{Name: "hidden", OutOfOrder: true})}
}
