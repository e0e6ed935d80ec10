//go:build cgo

package opencl

import (
	"testing"

	"godwit/devices"
	"godwit/devices/devicetest"
)

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name     string
		params   map[string]string
		discrete bool // as if the memory were not the host's
	}{
		{"direct", map[string]string{"carve": "off"}, false},
		{"whole", map[string]string{"carve": "off", "direct": "off"}, false},
		{"carved", map[string]string{"carve": "on", "slab": "4194304"}, false},
		{"discrete", map[string]string{"carve": "on", "events": "watch"}, true},
		{"discrete, whole", map[string]string{"carve": "off", "direct": "off", "events": "watch"}, true},
		{"worker", map[string]string{"carve": "off", "worker": "on"}, false},
		{"worker, discrete", map[string]string{"carve": "on", "worker": "on"}, true},
		{"discrete, staged", map[string]string{"carve": "on", "events": "watch", "stage": "on", "stage-from": "1", "stage-chunk": "4096", "stage-lanes": "2"}, true},
	} {
		c.params["count"] = "1"
		t.Run(c.name, func(t *testing.T) {
			devicetest.Run(t, func(t testing.TB) devices.Device {
				d := openSmall(t, c.params)
				d.info.SharesHost = d.info.SharesHost && !c.discrete
				return d
			})
		})
	}
}
