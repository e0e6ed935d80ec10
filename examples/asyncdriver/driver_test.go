package asyncdriver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
)

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t testing.TB) devices.Device {
		d, err := open("store", 8<<20, time.Microsecond)
		require.NoError(t, err)
		return d
	}, devicetest.WithoutKernels())
}
