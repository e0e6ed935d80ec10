//go:build cgo

package opencl

import (
	"testing"

	"godwit/devices"
	"godwit/devices/devicetest"
)

// small are devices with little memory, so that the suite can fill them.
func TestConformance(t *testing.T) {
	for name, params := range map[string]map[string]string{
		"whole":  {"carve": "off", "count": "1"},
		"carved": {"carve": "on", "count": "1", "slab": "4194304"},
	} {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t testing.TB) devices.Device { return openSmall(t, params) })
		})
	}
}
