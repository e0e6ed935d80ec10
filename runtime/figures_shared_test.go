package runtime_test

import (
	stdruntime "runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/runtime"
)

// Figures that outlive devices do not keep those that a context has closed.
func TestSharedFiguresForgetDevicesThatAContextCloses(t *testing.T) {
	figures := new(runtime.RingFigures)
	gone := measured(t, figures)
	require.Eventually(t, func() bool {
		stdruntime.GC()
		return gone[0].Value() == nil && gone[1].Value() == nil
	}, 20*time.Second, 10*time.Millisecond)
	stdruntime.KeepAlive(figures)
}

// measured opens two devices, has contexts measure what is between them until figures know that, and closes them.
func measured(t *testing.T, figures *runtime.RingFigures) (gone [2]weak.Pointer[devicetest.Bus]) {
	family, devs := new(devicetest.Family), []devices.Device(nil)
	for i := range gone {
		d := must(tce.New(tce.Options{Memory: 64 << 20}))
		b := devicetest.NewBus(d, family)
		devs, gone[i] = append(devs, b), weak.Make(b)
	}
	for n := int64(1); n > 0; { // where noise made no sense nothing is kept
		before := family.Batches.Load()
		c := must(runtime.NewContext(runtime.Options{Devices: devs, Figures: figures}))
		require.NoError(t, c.Close(t.Context()))
		n = family.Batches.Load() - before
	}
	c := must(runtime.NewContext(runtime.Options{Devices: devs, Figures: figures, OwnDevices: true}))
	require.NoError(t, c.Close(t.Context()))
	return gone
}
