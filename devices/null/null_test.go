package null_test

import (
	"testing"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/null"
)

func TestConformance(t *testing.T) {
	lacks := []devicetest.Option{devicetest.WithoutContent()}
	devicetest.Run(t, func(testing.TB) devices.Device { return null.New(devices.Config{Memory: 16 << 20}) }, lacks...)
}
