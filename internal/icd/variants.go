//go:build cgo

package icd

import (
	"bytes"
	"slices"

	"godwit/devices/opencl"
)

// Several devices may be one real device, for which a program of the real platform
// holds one build and one binary. And PoCL 3.1 forgets, when a program is built, the
// devices that it was built for before, and ends the process where one of binaries is
// built again. So where a device is built for apart from others, as programs do that
// have options for each device, it gets a program of the real platform of its own: a
// variant. There are never more of them than devices, and one more for each time that
// binaries are built again.

// natives are programs of the real platform. Some may be nil, or there several times.
type natives []*opencl.NativeProgram

// close closes natives, which are there once.
func (n natives) close() {
	for _, v := range n {
		if v != nil {
			_ = v.Close() // it is open
		}
	}
}

// part is devices with what they are built in.
type part struct {
	native *opencl.NativeProgram
	on     []*device
}

// variant makes what some devices, no two of which differ in what they are, are built in.
func (p *program) variant(on []*device) (*opencl.NativeProgram, error) {
	d := p.c.opencl(on[0])
	switch p.origin {
	case ofIL:
		return d.NewILProgram(p.source)
	case ofBinary:
		code := make([][]byte, len(on))
		for i, d := range on {
			code[i] = p.code[slices.Index(p.devices, d)]
		}
		native, _, err := opencl.NewBinaryProgram(p.c.opencls(on), code)
		return native, err
	}
	return d.NewSourceProgram(append([]byte(prelude), p.source...))
}

// fromBinaries makes what devices are built in of their binaries: as few as there can
// be. each is what became of every binary, where some are none.
func (p *program) fromBinaries(each []int32) (all, by natives, err error) {
	by = make(natives, len(p.devices))
	for left := p.devices; len(left) > 0; {
		var on, later []*device
		var code [][]byte
		for _, d := range left {
			mine := p.code[slices.Index(p.devices, d)]
			if slices.ContainsFunc(on, func(o *device) bool {
				return d.sharesReal(o) && !bytes.Equal(mine, p.code[slices.Index(p.devices, o)])
			}) {
				later = append(later, d)
				continue
			}
			on, code = append(on, d), append(code, mine)
		}
		native, sts, e := opencl.NewBinaryProgram(p.c.opencls(on), code)
		for i, s := range sts {
			each[slices.Index(p.devices, on[i])] = int32(s)
		}
		if e != nil && err == nil {
			err = e
		}
		if native != nil {
			all = append(all, native)
		}
		for _, d := range on {
			by[slices.Index(p.devices, d)] = native
		}
		left = later
	}
	if err != nil {
		all.close()
		return nil, nil, err
	}
	return all, by, nil
}

// sharesReal reports whether two devices are one real device.
func (d *device) sharesReal(o *device) bool {
	return d.found.Platform == o.found.Platform && d.found.Index == o.found.Index
}

// apart gives devices that are to be built variants of their own, where what they are
// built in holds a build for another, or any of binaries. mu is held.
func (p *program) apart(on []*device) error {
	for _, part := range p.parts(on) {
		disturbs := func(i int) bool {
			o := p.devices[i]
			return p.by[i] == part.native && p.states[i].status != buildNone && (p.origin == ofBinary || !slices.Contains(on, o))
		}
		if !slices.ContainsFunc(indices(len(p.devices)), disturbs) {
			continue
		}
		native, err := p.variant(part.on)
		if err != nil {
			return err
		}
		p.all = append(p.all, native)
		for _, d := range part.on {
			p.by[slices.Index(p.devices, d)] = native
		}
	}
	return nil
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// parts groups devices by what they are built in. mu is held.
func (p *program) parts(on []*device) (list []part) {
	for _, d := range on {
		native := p.by[slices.Index(p.devices, d)]
		i := slices.IndexFunc(list, func(q part) bool { return q.native == native })
		if i < 0 {
			i, list = len(list), append(list, part{native: native})
		}
		list[i].on = append(list[i].on, d)
	}
	return list
}

// each builds parts. The errors are by device, in the order of on.
func (p *program) each(list []part, on []*device, build func(native *opencl.NativeProgram, on []*opencl.Device) error) []error {
	errs := make([]error, len(on))
	for _, part := range list {
		err := build(part.native, p.c.opencls(part.on))
		for _, d := range part.on {
			errs[slices.Index(on, d)] = err
		}
	}
	return errs
}

// native is what a device is built in; nil while it is being linked, and where that
// failed.
func (p *program) native(d *device) *opencl.NativeProgram {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[p.of(d)]
}
