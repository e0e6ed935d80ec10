//go:build cgo

package opencl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

func init() {
	if library := os.Getenv("GODWIT_OPENCL_LIBRARY"); library != "" {
		ocl.UseLoader(library)
	}
	devices.Register("opencl", &driver{hosts: make(map[int]*host)})
}

// driver keeps one host for each platform in use, so that devices opened one
// by one still share a cl_context.
type driver struct {
	mu    sync.Mutex
	hosts map[int]*host // protected by mu: by platform index; while it has open devices
}

// options are the parameters of an Open beyond the selection.
type options struct {
	name    string
	memory  uint64 // bytes; 0 is the device's own
	carve   string // "on", "off", "" for the default
	slab    uint64 // bytes; 0 is the default
	events  string // "watch", "callback", "" for the default; of the platform's first device
	worker  string // "on", "off", "" for the default; of the platform's first device
	quiet   string // "on", "off", "" for the default; of the platform's first device
	direct  string // "on", "off", "" for the default, on where it is possible
	staging stagingOptions
}

// stagingOptions are what of staging was chosen; zero is not chosen.
type stagingOptions struct {
	on          string // "on", "off"
	lanes       int
	chunk, from uint64 // bytes
}

// over is the choice over a default.
func (o stagingOptions) over(s staging) staging {
	if o.on != "" {
		s.on = o.on == "on"
	}
	if o.lanes != 0 {
		s.lanes = o.lanes
	}
	if o.chunk != 0 {
		s.chunk = o.chunk
	}
	if o.from != 0 {
		s.from = o.from
	}
	return s
}

// parse reads one parameter of those that begin with "stage".
func (o *stagingOptions) parse(key, v string) (known, ok bool) {
	var err error
	switch key {
	case "stage":
		o.on = v
		return true, v == "on" || v == "off"
	case "stage-lanes":
		o.lanes, err = strconv.Atoi(v)
		return true, err == nil && o.lanes > 0 && o.lanes <= 64
	case "stage-chunk":
		o.chunk, err = strconv.ParseUint(v, 10, 64)
		return true, err == nil && o.chunk > 0 && o.chunk%pinnedPage == 0 && o.chunk <= 256<<20
	case "stage-from":
		o.from, err = strconv.ParseUint(v, 10, 64)
		return true, err == nil && o.from > 0
	}
	return false, false
}

// Open implements devices.Driver. Devices may be opened more than once; each
// opening is a device, and a memory, of its own.
func (d *driver) Open(ctx context.Context, cfg devices.Config) ([]devices.Device, error) {
	sel, opts, err := parse(cfg)
	if err != nil {
		return nil, err
	}
	found, err := Select(sel)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var open []devices.Device
	for i, f := range found {
		if err = ctx.Err(); err != nil {
			break
		}
		var dev *Device
		if dev, err = d.openOne(f, opts, i, len(found)); err != nil {
			break
		}
		open = append(open, dev)
	}
	if err == nil {
		return open, nil
	}
	for _, dev := range open {
		err = errors.Join(err, d.closeLocked(dev.(*Device)))
	}
	return nil, err
}

func (d *driver) openOne(f Found, opts options, i, n int) (*Device, error) {
	h := d.hosts[f.Platform]
	if h == nil {
		var err error
		if h, err = newHost(f, opts); err != nil {
			return nil, err
		}
		d.hosts[f.Platform] = h
	}
	if opts.name != "" && n > 1 {
		opts.name += strconv.Itoa(i)
	}
	dev, err := newDevice(d, h, f, opts)
	if err == nil {
		h.open++
	} else if h.open == 0 {
		delete(d.hosts, f.Platform)
		h.close()
	}
	return dev, err
}

// close closes a device, and with the last of its platform the cl_context.
func (d *driver) close(dev *Device) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closeLocked(dev)
}

func (d *driver) closeLocked(dev *Device) error {
	err := dev.shut()
	if errors.Is(err, errBusy) || errors.Is(err, mem.ErrClosed) {
		return err
	}
	h := dev.host
	if h.open--; h.open == 0 {
		delete(d.hosts, dev.found.Platform)
		h.close()
	}
	return err
}

// ParseSelection reads a selection from the parameters of a devices.Config, as
// opening devices does; unknown parameters are errors.
func ParseSelection(params map[string]string) (Selection, error) {
	sel, _, err := parse(devices.Config{Params: params})
	return sel, err
}

// parse reads the parameters; unknown ones are errors.
func parse(cfg devices.Config) (Selection, options, error) {
	sel, opts := Selection{}, options{name: cfg.Name, memory: cfg.Memory}
	var err error
	if cfg.Local != 0 {
		return sel, opts, fmt.Errorf("driver opencl: local memory of %d bytes: a real device's cannot be chosen: %w", cfg.Local, mem.ErrInvalidValue)
	}
	switches := map[string]*string{"carve": &opts.carve, "worker": &opts.worker, "quiet": &opts.quiet, "direct": &opts.direct}
	for key, v := range cfg.Params {
		ok := true
		switch key {
		case "platform":
			sel.Platform = v
		case "device":
			sel.Device = v
		case "type":
			sel.Type = devices.Type(v)
			ok = sel.Type == devices.CPU || sel.Type == devices.GPU || sel.Type == devices.Accelerator || sel.Type == devices.Custom
		case "count":
			sel.Count, err = strconv.Atoi(v)
			ok = err == nil && sel.Count > 0
		case "events":
			opts.events = v
			ok = v == "watch" || v == "callback"
		case "carve", "worker", "quiet", "direct":
			*switches[key] = v
			ok = v == "on" || v == "off"
		case "slab":
			opts.slab, err = strconv.ParseUint(v, 10, 64)
			ok = err == nil && opts.slab > 0
		default:
			var known bool
			if known, ok = opts.staging.parse(key, v); !known {
				return sel, opts, fmt.Errorf("driver opencl: parameter %q: it takes platform, device, type, count, carve, slab, direct, events, worker, quiet, stage, stage-lanes, stage-chunk and stage-from: %w", key, mem.ErrInvalidValue)
			}
		}
		if !ok {
			return sel, opts, fmt.Errorf("driver opencl: parameter %s: %q is none of its values: %w", key, v, mem.ErrInvalidValue)
		}
	}
	return sel, opts, nil
}
