//go:build cgo

package opencl

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

func init() {
	if library := loaderByEnv(); library != "" {
		ocl.UseLoader(library)
	}
	devices.Register("opencl", &driver{hosts: make(map[int]*host)})
}

// Objects returns how many cl objects this process has created and released through this
// package and go-opencl, so far.
func Objects() (created, released Counts) { return ocl.Objects() }

// driver keeps one host for each platform in use, so that devices opened one
// by one still share a cl_context.
type driver struct {
	mu    sync.Mutex
	hosts map[int]*host // protected by mu: by platform index; while it has open devices
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
	h.opens(1)
	dev, err := newDevice(d, h, f, opts)
	if err != nil {
		d.shutLocked(h, f.Platform)
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
	d.shutLocked(dev.host, dev.found.Platform)
	return err
}

// shutLocked counts one open device less of a platform's host, which goes with the last.
func (d *driver) shutLocked(h *host, platform int) {
	if h.opens(-1); h.open == 0 {
		delete(d.hosts, platform)
		h.close()
	}
}
