package tce_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
)

func open(t testing.TB, o tce.Options) *tce.Device {
	d, err := tce.New(o)
	require.NoError(t, err)
	return d
}

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t testing.TB) devices.Device { return open(t, tce.Options{Memory: 16 << 20}) })
}

func TestConformanceWithWindows(t *testing.T) {
	devicetest.Run(t, func(t testing.TB) devices.Device {
		return open(t, tce.Options{Memory: 16 << 20, Windows: 64 << 10})
	})
}

// A device that is closed is not kept by one that it had a link to.
func TestALinkEndsWithItsDevice(t *testing.T) {
	stays := open(t, tce.Options{Memory: 1 << 20, Windows: 1})
	defer func() { require.NoError(t, stays.Close()) }()
	gone := func() weak.Pointer[tce.Device] {
		d := open(t, tce.Options{Memory: 1 << 20, Windows: 1})
		require.NoError(t, d.Connect(t.Context(), stays))
		require.NoError(t, stays.Connected(d))
		require.NoError(t, d.Close())
		require.Error(t, stays.Connected(d))
		return weak.Make(d)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return gone.Value() == nil
	}, 20*time.Second, 10*time.Millisecond)
}

func TestConformanceWithDMAWords(t *testing.T) {
	devicetest.Run(t, func(t testing.TB) devices.Device { return open(t, tce.Options{Memory: 16 << 20, DMAWord: 8}) })
}
