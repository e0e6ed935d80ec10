//go:build cgo

package opencl

import (
	"context"
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Pairs lists what joins the devices of each platform that has several GPUs. No device is opened for
// that, but CUDA's library. It fails as Discover, and as ctx ends.
func Pairs(ctx context.Context) ([]Pair, error) {
	all, err := discover()
	if err != nil {
		return nil, err
	}
	var pairs []Pair
	for from, to := 0, 0; from < len(all) && ctx.Err() == nil; from = to {
		for to = from; to < len(all) && all[to].Platform == all[from].Platform; {
			to++
		}
		pairs = append(pairs, pairsOf(ctx, from, all[from:to])...)
	}
	return pairs, ctx.Err()
}

// pairsOf are the pairs of one platform's devices, of which the first has that index.
func pairsOf(ctx context.Context, first int, found []Found) (pairs []Pair) {
	h := &host{devices: found[0].all, quirks: (&options{}).over(quirksOf(found[0].Info.Platform))}
	if !h.quirks.windows && !slices.ContainsFunc(found, func(f Found) bool { return f.Info.Type == devices.GPU }) {
		return nil
	}
	defer h.fabric.close()
	devs := make([]*Device, len(found)) // as far as links need them
	for i, f := range found {
		devs[i] = &Device{host: h, name: f.Info.Name, info: f.Info, id: f.device.ID, store: newStore(&Device{}, true, 0)}
	}
	for i, d := range devs {
		for k, o := range devs {
			if i != k {
				pairs = append(pairs, Pair{From: first + i, To: first + k, Missing: d.join(ctx, o)})
			}
		}
	}
	return pairs
}

// LinkDriver is the index of the first platform that may have windows and has two devices, and the version of its
// driver.
func LinkDriver() (platform int, version string, err error) {
	all, err := discover()
	if err != nil {
		return 0, "", err
	}
	for i := range all {
		o := options{nvlink: nvlinkByEnv()}
		if o.over(quirksOf(all[i].Info.Platform)).windows && i+1 < len(all) && all[i+1].Platform == all[i].Platform {
			return all[i].Platform, all[i].device.ID.Text(ocl.DriverVersion), nil
		}
	}
	return 0, "", fmt.Errorf("no platform here has two GPUs that links are for: %w", mem.ErrDeviceNotFound)
}
