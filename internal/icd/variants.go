//go:build cgo

package icd

import (
	"bytes"
	"cmp"
	"slices"

	"godwit/devices/opencl"
	"godwit/mem"
)

// Several devices may be one real device, for which a program of the real platform
// holds one build and one binary. And PoCL 3.1 forgets, when a program is built, the
// devices that it was built for before, and ends the process where one of binaries is
// built again. So where a device is built for apart from others, as programs do that
// have options for each device, it gets a program of the real platform of its own: a
// variant. There are never more of them than devices, and one more for each time that
// binaries are built again.

// part is devices with what they are built in.
type part struct {
	native *opencl.NativeProgram
	on     []*target
}

// variant makes what some devices, no two of which differ in what they are, are built in.
// mu is held, or the program is new.
func (p *program) variant(on []*target) (err error) {
	var native *opencl.NativeProgram
	switch d := p.c.opencl(on[0].d); p.origin {
	case ofIL:
		native, err = d.NewILProgram(p.source)
	case ofBinary:
		native, _, err = p.ofCode(on)
	default:
		native, err = d.NewSourceProgram(append([]byte(p.c.prelude()), p.source...))
	}
	if err == nil {
		p.builtIn(on, native)
	}
	return err
}

// builtIn notes what some devices are built in. mu is held, or the program is new.
func (p *program) builtIn(on []*target, native *opencl.NativeProgram) {
	p.all = append(p.all, native)
	for _, t := range on {
		t.native = native
	}
}

// ofCode makes a program of some devices' binaries; each has a status.
func (p *program) ofCode(on []*target) (*opencl.NativeProgram, []mem.Status, error) {
	code := make([][]byte, len(on))
	for i, t := range on {
		code[i] = t.code
	}
	return opencl.NewBinaryProgram(p.opencls(on), code)
}

// fromBinaries makes what devices are built in of their binaries: as few as there can
// be. each is what became of every binary, where some are none.
func (p *program) fromBinaries(each []int32) (err error) {
	for _, on := range together(p.on, func(t, o *target) bool { return !t.d.sharesReal(o.d) || bytes.Equal(t.code, o.code) }) {
		native, sts, e := p.ofCode(on)
		for i, s := range sts {
			each[slices.Index(p.on, on[i])] = int32(s)
		}
		err = cmp.Or(err, e)
		p.builtIn(on, native)
	}
	if err != nil {
		p.closeAll()
	}
	return err
}

// sharesReal reports whether two devices are one real device.
func (d *device) sharesReal(o *device) bool {
	return d.found.Platform == o.found.Platform && d.found.Index == o.found.Index
}

// apart gives devices that are to be built variants of their own, where what they are
// built in holds a build for another, or any of binaries. mu is held.
func (p *program) apart(on []*target) error {
	for _, part := range parts(on) {
		disturbed := func(o *target) bool {
			return o.native == part.native && o.state.status != buildNone && (p.origin == ofBinary || !slices.Contains(on, o))
		}
		if !slices.ContainsFunc(p.on, disturbed) {
			continue
		}
		if err := p.variant(part.on); err != nil {
			return err
		}
	}
	return nil
}

// parts groups devices by what they are built in. program.mu is held.
func parts(on []*target) (list []part) {
	for _, some := range together(on, func(t, o *target) bool { return t.native == o.native }) {
		list = append(list, part{some[0].native, some})
	}
	return list
}

// together groups devices: each is in the first group that it may be in with all who are.
func together(on []*target, may func(t, o *target) bool) (groups [][]*target) {
	for _, t := range on {
		i := slices.IndexFunc(groups, func(g []*target) bool { return !slices.ContainsFunc(g, func(o *target) bool { return !may(t, o) }) })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return groups
}

// native is what a device is built in; nil while it is being linked, and where that
// failed.
func (p *program) native(d *device) *opencl.NativeProgram {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of(d).native
}
