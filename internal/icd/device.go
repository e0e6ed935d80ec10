//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/internal/icd/devicefile"
)

// cl_device_type.
const (
	typeDefault     = C.CL_DEVICE_TYPE_DEFAULT
	typeCPU         = C.CL_DEVICE_TYPE_CPU
	typeGPU         = C.CL_DEVICE_TYPE_GPU
	typeAccelerator = C.CL_DEVICE_TYPE_ACCELERATOR
	typeCustom      = C.CL_DEVICE_TYPE_CUSTOM
	typeAll         = C.CL_DEVICE_TYPE_ALL
)

// device is a device of the platform: an opening of a real one, with a memory of
// its own. It is opened with the first context that is made.
type device struct {
	self   uintptr      // immutable
	p      *platform    // immutable
	index  int          // immutable: in the platform
	name   string       // immutable: of its memory, in traces
	found  opencl.Found // immutable
	typ    uint64       // immutable
	memory uint64       // immutable: bytes; 0 is the real device's

	parent      *device      // immutable; nil but for sub-devices
	units       uint32       // immutable: compute units of a sub-device
	partitioned []uintptr    // immutable: how a sub-device was made
	subs        atomic.Int64 // sub-devices made so far

	dev devices.Device // protected by p.opening; nil until opened
}

// destroy implements destroyer. It is called for sub-devices, once no context has
// them; the devices of the platform live for ever.
func (d *device) destroy() {
	d.p.opening.Lock()
	dev := d.dev
	d.dev = nil
	d.p.opening.Unlock()
	if dev != nil {
		d.p.figures.Forget(dev)
		complain(dev.Close())
	}
	release(d.parent.self)
}

// addDevices makes the platform's devices: those of a file, or so many, dealt out
// over the real ones. Without either there is one for each real device, but two
// where there is only one processor: one memory shows no migration. Of these a
// list chooses some.
func (p *platform) addDevices(found []opencl.Found) error {
	all, err := p.describe(found)
	if err != nil {
		return err
	}
	if p.config.chosen != nil {
		if all, err = pick(all, p.config.chosen); err != nil {
			return fmt.Errorf("GODWIT_DEVICES=%s: %w", strings.Join(p.config.chosen, ","), err)
		}
	}
	for i, d := range all {
		d.index = i
		devs.add(d, &d.self, 0) // after the platform: there is room
		p.devices = append(p.devices, d)
	}
	return nil
}

// describe lists the devices that there can be, with their names.
func (p *platform) describe(found []opencl.Found) (all []*device, err error) {
	list := p.config.devices
	if list == nil {
		n := p.config.count
		if n == 0 {
			n = len(found)
			if n == 1 && found[0].Info.Type == devices.CPU {
				n = 2
			}
		}
		list = make([]devicefile.Device, n)
	}
	numbers := make(map[uint64]int)
	for i, w := range list {
		f, err := choose(found, w.Real, i)
		if err != nil {
			return nil, err
		}
		d := &device{p: p, name: w.Name, found: f, memory: w.Memory, typ: cmp.Or(deviceTypes[w.Type], p.config.typ, deviceTypes[string(f.Info.Type)], typeCustom)}
		d.name = cmp.Or(d.name, typeName(d.typ)+strconv.Itoa(numbers[d.typ]))
		numbers[d.typ]++
		all = append(all, d)
	}
	return all, nil
}

// pick chooses devices by number, by name, or by a part of the real device's name that only one
// has, each once. They keep the names that they would have without.
func pick(all []*device, want []string) (list []*device, err error) {
	for _, w := range want {
		var fit []*device
		n, nan := strconv.Atoi(w)
		for i, d := range all {
			if nan == nil && i == n || d.name == w {
				fit = []*device{d}
				break
			}
			if nan != nil && strings.Contains(strings.ToLower(d.found.Info.Name), strings.ToLower(w)) {
				fit = append(fit, d)
			}
		}
		switch {
		case len(fit) == 0:
			return nil, fmt.Errorf("no device %q (a file has a / or a . in its path): there are %s", w, names(all))
		case len(fit) > 1:
			return nil, fmt.Errorf("%q is part of the names of several: %s", w, names(fit))
		case slices.Contains(list, fit[0]):
			return nil, fmt.Errorf("%q: device %s is there twice", w, fit[0].name)
		}
		list = append(list, fit[0])
	}
	return list, nil
}

// names lists devices for an error.
func names(all []*device) string {
	const most = 16
	var b strings.Builder
	for i, d := range all {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(all)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%s)", d.name, d.found.Info.Name)
	}
	return b.String()
}

// choose finds the real device for device number i.
func choose(found []opencl.Found, want string, i int) (opencl.Found, error) {
	if want == "" {
		return found[i%len(found)], nil
	}
	for _, f := range found {
		if n, err := strconv.Atoi(want); err == nil && n == f.Index || err != nil && strings.Contains(strings.ToLower(f.Info.Name), strings.ToLower(want)) {
			return f, nil
		}
	}
	return opencl.Found{}, fmt.Errorf("no real device %q", want)
}

func typeName(bits uint64) string {
	for name, b := range deviceTypes {
		if b == bits {
			return name
		}
	}
	return "device"
}

// open returns the real device, opened.
func (d *device) open() (devices.Device, error) {
	d.p.opening.Lock()
	defer d.p.opening.Unlock()
	if d.dev != nil {
		return d.dev, nil
	}
	// Events are watched and not called back of: a callback for every command costs
	// a C program more than its short commands do.
	opened, err := devices.Open(context.Background(), "opencl", devices.Config{
		Name: d.name, Memory: d.memory,
		Params: map[string]string{"events": "watch", "platform": strconv.Itoa(d.found.Platform), "device": strconv.Itoa(d.found.Index)},
	})
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", d.name, err)
	}
	d.dev = opened[0]
	return d.dev, nil
}

//export gwGetDeviceIDs
func gwGetDeviceIDs(h uintptr, typ uint64, n uint32, list, num unsafe.Pointer) int32 {
	p := platforms.get(h)
	if h == 0 {
		p = start()
	}
	if p == nil {
		return clInvalidPlatform
	}
	const known = typeDefault | typeCPU | typeGPU | typeAccelerator | typeCustom
	if typ == 0 || typ != typeAll && typ&^known != 0 {
		return clInvalidDeviceType
	}
	ids := p.ofType(typ)
	if len(ids) == 0 {
		if num != nil {
			*(*uint32)(num) = 0
		}
		return clDeviceNotFound
	}
	return listIDs(ids, n, list, num)
}

// ofType lists the devices of some types.
func (p *platform) ofType(typ uint64) (ids []uintptr) {
	for i, d := range p.devices {
		if typ == typeAll && d.typ != typeCustom || typ != typeAll && typ&d.typ != 0 || typ != typeAll && typ&typeDefault != 0 && i == 0 {
			ids = append(ids, d.self)
		}
	}
	return ids
}
