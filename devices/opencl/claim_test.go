//go:build cgo

package opencl

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/runtime"
)

// TestACappedContextTakesNoMoreBuffersThanItsCap: blocks of several sizes come and go, each with its own bytes, and the
// library never has more than the cap and one block; once it holds that, blocks cost it nothing new.
func TestACappedContextTakesNoMoreBuffersThanItsCap(t *testing.T) {
	ctx := context.Background()
	const devCap, largest = 1 << 20, 200 << 10
	devs, err := devices.Open(ctx, "opencl", devices.Config{Params: map[string]string{"count": "1", "carve": "on"}})
	if err != nil {
		t.Skipf("not here: %v", err)
	}
	d := devs[0].(*Device)
	c, err := runtime.OpenContext(ctx, runtime.Options{Devices: devs, OwnDevices: true, Caps: []uint64{0, devCap}})
	require.NoError(t, err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	require.NoError(t, err)
	require.True(t, d.store.carve.Load() || !d.carves)
	dice := rand.New(rand.NewPCG(1, 1))
	var all []*runtime.Buffer
	for i := range 24 {
		b, err := c.CreateBuffer(uint64([]int{64 << 10, 100 << 10, largest}[i%3]), 0, nil)
		require.NoError(t, err)
		all = append(all, b)
	}
	values := make([]byte, len(all))
	for range 600 {
		i := dice.IntN(len(all))
		if values[i] > 0 {
			got := make([]byte, all[i].Size())
			require.NoError(t, q.Read(ctx, all[i], 0, got))
			require.Equal(t, values[i], got[len(got)-1])
		}
		values[i] = byte(1 + dice.IntN(255))
		e, err := q.EnqueueFill(ctx, all[i], values[i:i+1], 0, all[i].Size())
		require.NoError(t, err)
		require.NoError(t, e.Release())
		d.store.mu.Lock()
		reserved := d.store.reserved
		d.store.mu.Unlock()
		require.LessOrEqual(t, reserved, uint64(devCap+largest+4*touchPad))
	}
	require.NoError(t, c.Check())
	require.Greater(t, c.Stats().Evictions, uint64(100))
	for _, b := range all {
		require.NoError(t, b.Release())
	}
	require.NoError(t, c.Close(ctx))
}

// TestClaims: where a context may take all the library is asked for all; else for the caps and a block.
func TestClaims(t *testing.T) {
	d := &Device{carves: true, info: devices.Info{GlobalMemory: 100 << 20}}
	d.store = newStore(d, false, 0)
	require.EqualValues(t, 100<<20, d.store.limit())
	one, two := d.Claim(1<<20), d.Claim(2<<20)
	require.EqualValues(t, 3<<20+touchPad, d.store.limit())
	require.True(t, d.store.carve.Load())
	any := d.Claim(0)
	require.EqualValues(t, 100<<20, d.store.limit())
	any()
	one()
	require.EqualValues(t, 2<<20+touchPad, d.store.limit())
	two()
	require.EqualValues(t, 100<<20, d.store.limit())
}
