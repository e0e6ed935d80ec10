//go:build cgo

package opencl_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/mem"
	"godwit/runtime"
)

// TestADeviceThatIsLostCostsItsOwnContentOnly has the last device refuse everything from some moment on, while buffers go
// around the others.
func TestADeviceThatIsLostCostsItsOwnContentOnly(t *testing.T) {
	need(t)
	var lose func(int)
	m := openMigrations(t, func(devs []devices.Device, _ *runtime.Options) {
		var wrapped []devices.Device
		wrapped, lose = devicetest.Losable(slices.Clone(devs))
		copy(devs, wrapped)
	})
	ctx, last := t.Context(), len(m.devs)-1
	size := m.sizes(16)[0]
	var own, around, shared []*journey
	for i := range last {
		own = append(own, m.journey(size, i, i))
		around = append(around, m.journey(size, i, i))
		shared = append(shared, m.journey(size, i, last))
	}
	fetched := m.journey(size, last, 0) // from the device before it is lost
	gone := m.journey(size, last, 0)
	kept := append(append(append(own, around...), shared...), fetched)
	m.home(append(kept, gone))
	m.wait(time.Now(), m.depart(append(shared, fetched)))

	for i := range 50 {
		for _, j := range around {
			j.to[0] = (j.to[0] + 1) % last
		}
		events := m.depart(around)
		if i == 20 {
			lose(last)
		}
		m.wait(time.Now(), events)
	}
	word := make([]byte, 4)
	for range 2 {
		require.ErrorIs(t, m.qs[0].Read(ctx, gone.buf, 0, word), mem.ErrDeviceLost)
		_, err := m.qs[last].EnqueueMigrate(ctx, []*runtime.Buffer{own[0].buf}, 0)
		require.ErrorIs(t, err, mem.ErrDeviceLost)
	}
	for i, j := range shared { // wherever else it is wanted
		j.to[0] = (i + 1) % last
	}
	m.check(kept)
	require.NoError(t, gone.buf.Release())
}
