package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
)

func open(t testing.TB, o cpu.Options) *cpu.Device {
	d, err := cpu.New(o)
	require.NoError(t, err)
	return d
}

func TestConformance(t *testing.T) {
	t.Run("system", func(t *testing.T) {
		devicetest.Run(t, func(t testing.TB) devices.Device { return open(t, cpu.Options{}) })
	})
	t.Run("region", func(t *testing.T) {
		devicetest.Run(t, func(t testing.TB) devices.Device { return open(t, cpu.Options{Memory: 16 << 20, Workers: 1}) })
	})
	t.Run("tight region", func(t *testing.T) {
		devicetest.Run(t, func(t testing.TB) devices.Device {
			return open(t, cpu.Options{Memory: 8 << 20, Workers: 4, Strategy: bufalloc.Tight, BaseAlign: 1024})
		})
	})
}
