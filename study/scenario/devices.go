package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// realDriver is the driver of real devices, which are discovered and not made
// up, and so are asked for together.
const realDriver = "opencl"

// open opens the devices, or a machine, and makes the context over them.
func (r *runner) open(ctx context.Context) (err error) {
	s := r.s
	opt := runtime.Options{Name: s.Name, OwnDevices: true, Resource: r.stack, NoEviction: s.Policy == "none", Caps: r.caps(), WholeBelow: s.WholeBelow}
	if opt.Policy, err = r.policy(); err != nil {
		return err
	}
	r.devs, r.names = make(map[string]devices.Device), []string{"host"}
	what, ids := "context", map[string]mem.MemoryID{"host": mem.Host}
	if r.opt.Machine != nil {
		what += " on machine " + r.opt.Machine.Name
		err = r.openMachine(r.opt.Machine, &opt)
	} else {
		opt.Devices, err = s.openDevices(ctx)
	}
	defer func() {
		if r.ctx == nil && r.model == nil {
			for _, d := range opt.Devices {
				_ = d.Close() // the first error is the one that counts
			}
		}
	}()
	if err != nil {
		return err
	}
	for i := range s.Devices {
		name := s.Devices[i].Name
		r.names, r.devs[name], ids[name] = append(r.names, name), opt.Devices[i], mem.MemoryID(i+1)
	}
	opt.Names, opt.Trace = r.names[1:], r.sink()
	for _, l := range s.Links {
		if r.model == nil {
			opt.Links = append(opt.Links, runtime.Link{From: ids[l.From], To: ids[l.To], Link: l.Link})
		}
	}
	if r.ctx, err = runtime.OpenContext(ctx, opt); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if r.stackErr != nil {
		return r.stackErr
	}
	if slices.ContainsFunc(s.Devices, func(d deviceDecl) bool { return d.Driver == realDriver }) && r.model == nil {
		r.unlinked = r.ctx.OpenLinks(ctx) // before the commands, which are all enqueued at once; where there are none, as without them
	}
	r.devs["host"], err = r.ctx.Device(mem.Host)
	return err
}

// capacity is what device i may hold, in bytes: real and modelled devices have more than a
// scenario may give them; 0 is no limit.
func (r *runner) capacity(i int) uint64 {
	has, limit := r.devs[r.names[i+1]].Info().GlobalMemory, r.s.Devices[i].Memory
	if limit > 0 && (has == 0 || limit < has) {
		return limit
	}
	return has
}

// openDevices opens the devices that the scenario names. Where that fails, it returns what was
// opened.
func (s *Scenario) openDevices(ctx context.Context) (open []devices.Device, err error) {
	for i := 0; i < len(s.Devices); {
		group := s.Devices[i:min(i+s.Devices[i].Count, len(s.Devices))]
		devs, err := openGroup(ctx, group)
		if open = append(open, devs...); err != nil {
			return open, group[0].blame("", err)
		}
		i += len(group)
	}
	return open, nil
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
	for _, d := range group { // of which each has no more than its own: see caps
		if cfg.Memory = max(cfg.Memory, d.Memory); d.Memory == 0 {
			cfg.Memory = 0
			break
		}
	}
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
