package tce_test

import (
	"testing"

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

func TestConformanceWithDMAWords(t *testing.T) {
	devicetest.Run(t, func(t testing.TB) devices.Device { return open(t, tce.Options{Memory: 16 << 20, DMAWord: 8}) })
}
