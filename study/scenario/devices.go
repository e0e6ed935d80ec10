package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// realDriver is the driver of real devices, which are discovered and not made
// up, and so are asked for together.
const realDriver = "opencl"

// open opens the devices and makes the context over them.
func (r *runner) open(ctx context.Context) (err error) {
	s := r.s
	r.devs = make(map[string]devices.Device)
	ids := map[string]mem.MemoryID{"host": mem.Host}
	r.names = []string{"host"}
	if r.opt.Machine != nil {
		return r.openMachine(ctx, r.opt.Machine)
	}
	var open []devices.Device
	defer func() {
		if r.ctx == nil {
			for _, d := range open {
				_ = d.Close() // the first error is the one that counts
			}
		}
	}()
	for i := 0; i < len(s.Devices); {
		group := s.Devices[i:min(i+s.Devices[i].Count, len(s.Devices))]
		devs, err := openGroup(ctx, group)
		open = append(open, devs...)
		if err != nil {
			return group[0].blame("", err)
		}
		for j, d := range devs {
			name := group[j].Name
			r.names = append(r.names, name)
			ids[name] = mem.MemoryID(len(r.names) - 1)
			r.devs[name] = d
		}
		i += len(group)
	}
	var links []runtime.Link
	for _, l := range s.Links {
		links = append(links, runtime.Link{From: ids[l.From], To: ids[l.To], Link: l.Link})
	}
	policy, err := r.policy()
	if err != nil {
		return err
	}
	capacity := []uint64{0}
	for i, d := range open {
		capacity = append(capacity, cmp.Or(s.Devices[i].Memory, d.Info().GlobalMemory))
	}
	r.ctx, err = runtime.OpenContext(ctx, runtime.Options{
		Name: s.Name, Devices: open, Names: r.names[1:], OwnDevices: true, Links: links, Trace: r.sink(capacity),
		Resource: r.stack, Policy: policy, NoEviction: s.Policy == "none", Caps: s.caps(), WholeBelow: s.WholeBelow,
	})
	if err != nil {
		return fmt.Errorf("context: %w", err)
	}
	if r.stackErr != nil {
		return r.stackErr
	}
	host, err := r.ctx.Device(mem.Host)
	r.devs["host"] = host
	return err
}

// openGroup opens the devices of one declaration. Real drivers are asked once,
// so that their devices can share what they share.
func openGroup(ctx context.Context, group []deviceDecl) ([]devices.Device, error) {
	d := group[0]
	cfg := devices.Config{Name: d.Name, Memory: d.Memory, Local: d.Local, Params: d.Params}
	if d.Driver == realDriver {
		return openReal(ctx, group, cfg)
	}
	var out []devices.Device
	for _, d := range group {
		cfg.Name = d.Name
		devs, err := devices.Open(ctx, d.Driver, cfg)
		out = append(out, devs...)
		if err != nil {
			return out, err
		}
		if len(devs) != 1 {
			return out, fmt.Errorf("driver %s opened %d devices where one was asked for: %w", d.Driver, len(devs), mem.ErrInvalidDevice)
		}
	}
	return out, nil
}

// openReal asks for a number of real devices at once, so that they can share
// what they share. Where there are fewer, and that is allowed, it opens those
// again and again, each time with a memory of its own.
func openReal(ctx context.Context, group []deviceDecl, cfg devices.Config) (out []devices.Device, err error) {
	cfg.Params = maps.Clone(cfg.Params)
	if cfg.Params == nil {
		cfg.Params = make(map[string]string)
	}
	for at := len(group); len(out) < len(group); {
		at = min(at, len(group)-len(out))
		cfg.Params["count"] = strconv.Itoa(at)
		devs, err := devices.Open(ctx, group[0].Driver, cfg)
		if group[0].Reuse && at > 1 && errors.Is(err, mem.ErrDeviceNotFound) {
			at--
			continue
		}
		out = append(out, devs...)
		if err == nil && len(devs) != at {
			err = fmt.Errorf("driver %s opened %d devices where %d were asked for: %w", group[0].Driver, len(devs), at, mem.ErrDeviceNotFound)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
