package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// module is a Program's Go forms, built: the devices.Module of simulated devices.
type module struct {
	name    string
	kernels map[string]*kernel
}

// kernel is a kernel of a module.
type kernel struct {
	args []devices.ArgInfo
	run  work.Kernel
}

// Build implements devices.Device, from the program's Go forms. It fails with mem.ErrBuild if p has
// none, or a form is not whole.
func (d *Device) Build(_ context.Context, p *devices.Program) (devices.Module, error) {
	if d.engine.opts.NoKernels {
		return nil, d.engine.noKernels()
	}
	device := d.info.Name
	if p == nil || len(p.Go) == 0 {
		return nil, fmt.Errorf("device %s: no Go form of any kernel, which is all a simulated device can run: %w", device, mem.ErrBuild)
	}
	m := &module{name: p.Name, kernels: make(map[string]*kernel, len(p.Go))}
	for _, k := range p.Go {
		switch {
		case k.Name == "" || k.Func == nil:
			return nil, fmt.Errorf("device %s: program %s: Go kernel %q needs a name and a function: %w", device, p.Name, k.Name, mem.ErrBuild)
		case m.kernels[k.Name] != nil:
			return nil, fmt.Errorf("device %s: program %s: Go kernel %q twice: %w", device, p.Name, k.Name, mem.ErrBuild)
		}
		built := &kernel{slices.Clone(k.Args), work.Kernel{Name: k.Name, Func: k.Func}}
		for _, a := range k.Args {
			built.run.Args = append(built.run.Args, a.Name)
		}
		m.kernels[k.Name] = built
	}
	return m, nil
}

// Kernel implements devices.Module.
func (m *module) Kernel(name string) (devices.Kernel, error) {
	k, ok := m.kernels[name]
	if !ok {
		return nil, devices.NoKernel(name, m.name, m.Kernels())
	}
	return k, nil
}

// Kernels implements devices.Module.
func (m *module) Kernels() []string { return slices.Sorted(maps.Keys(m.kernels)) }

// Close implements devices.Module. There is nothing to release.
func (m *module) Close() error { return nil }

// Name implements devices.Kernel.
func (k *kernel) Name() string { return k.run.Name }

// Args implements devices.Kernel.
func (k *kernel) Args() []devices.ArgInfo { return k.args }
