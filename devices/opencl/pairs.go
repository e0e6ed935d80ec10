//go:build cgo

package opencl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/nvlink"
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
	for from, to := 0, 0; from < len(all); from = to {
		for to = from; to < len(all) && all[to].Platform == all[from].Platform; {
			to++
		}
		of, err := pairsOf(ctx, from, all[from:to])
		if err != nil {
			return pairs, err
		}
		pairs = append(pairs, of...)
	}
	return pairs, nil
}

// pairsOf are the pairs of one platform's devices, of which the first has that index.
func pairsOf(ctx context.Context, first int, found []Found) (pairs []Pair, err error) {
	q := (&options{}).over(quirksOf(found[0].Info.Platform))
	if len(found) < 2 || !q.windows && !slices.ContainsFunc(found, func(f Found) bool { return f.Info.Type == devices.GPU }) {
		return nil, nil
	}
	var (
		e    *nvlink.Engine
		gpus []ocl.DeviceID
		none = fmt.Errorf("%s: %w", noWindows, mem.ErrInvalidOperation)
	)
	if q.windows {
		if e, gpus, none = openEngine(ctx, found[0].all, q.untried); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if e != nil {
		defer func() { err = errors.Join(err, e.Close()) }()
	}
	for i := range found {
		for k := range found {
			if i != k {
				p := Pair{From: first + i, To: first + k, Missing: none}
				if e != nil {
					p.Missing = apart(e, gpus, found[i].device.ID, found[k].device.ID)
				}
				pairs = append(pairs, p)
			}
		}
	}
	return pairs, nil
}

// apart is why an engine does not get from a device to another; nil where it does.
func apart(e *nvlink.Engine, gpus []ocl.DeviceID, from, to ocl.DeviceID) error {
	for _, d := range []ocl.DeviceID{from, to} {
		if !slices.Contains(gpus, d) {
			_, err := uuidOf(d)
			return errors.Join(err, mem.ErrInvalidOperation)
		}
	}
	return e.Joined(slices.Index(gpus, from), slices.Index(gpus, to))
}
