//go:build cgo

package opencl

import (
	"testing"

	"godwit/devices"
	"godwit/devices/devicetest"
)

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name   string
		params map[string]string
	}{
		{"direct", map[string]string{"carve": "off"}},
		{"whole", map[string]string{"carve": "off", "direct": "off"}},
		{"carved", map[string]string{"carve": "on", "slab": "4194304"}},
		{"discrete", map[string]string{"bus": "on", "events": "watch"}},
		{"discrete, whole", map[string]string{"bus": "on", "carve": "off", "direct": "off", "events": "watch"}},
		{"worker", map[string]string{"carve": "off", "worker": "on"}},
		{"worker, discrete", map[string]string{"bus": "on", "carve": "on", "worker": "on"}},
	} {
		c.params["count"] = "1"
		t.Run(c.name, func(t *testing.T) {
			keep(t, c.params)
			devicetest.Run(t, func(t testing.TB) devices.Device { return openSmall(t, c.params) })
		})
	}
}
