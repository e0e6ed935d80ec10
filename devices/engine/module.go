package engine

import (
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// Module is a Program's Go forms, built: the Module of simulated devices.
type Module struct {
	name    string
	kernels map[string]*Kernel
}

// Kernel is a kernel of a Module.
type Kernel struct {
	args []devices.ArgInfo
	run  work.Kernel
}

// Build builds the Go forms of p for a device of that name, which errors tell. It
// fails with mem.ErrBuild if p has none, or a form is not whole.
func Build(device string, p *devices.Program) (devices.Module, error) {
	if p == nil || len(p.Go) == 0 {
		return nil, fmt.Errorf("device %s: no Go form of any kernel, which is all a simulated device can run: %w", device, mem.ErrBuild)
	}
	m := &Module{name: p.Name, kernels: make(map[string]*Kernel, len(p.Go))}
	for _, k := range p.Go {
		switch {
		case k.Name == "" || k.Func == nil:
			return nil, fmt.Errorf("device %s: program %s: Go kernel %q needs a name and a function: %w", device, p.Name, k.Name, mem.ErrBuild)
		case m.kernels[k.Name] != nil:
			return nil, fmt.Errorf("device %s: program %s: Go kernel %q twice: %w", device, p.Name, k.Name, mem.ErrBuild)
		}
		built := &Kernel{slices.Clone(k.Args), work.Kernel{Name: k.Name, Func: k.Func}}
		for _, a := range k.Args {
			built.run.Args = append(built.run.Args, a.Name)
		}
		m.kernels[k.Name] = built
	}
	return m, nil
}

// Kernel implements Module.
func (m *Module) Kernel(name string) (devices.Kernel, error) {
	k, ok := m.kernels[name]
	if !ok {
		return nil, devices.NoKernel(name, m.name, m.Kernels())
	}
	return k, nil
}

// Kernels implements Module.
func (m *Module) Kernels() []string {
	names := make([]string, 0, len(m.kernels))
	for n := range m.kernels {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Close implements Module. There is nothing to release.
func (m *Module) Close() error { return nil }

// Name implements Kernel.
func (k *Kernel) Name() string { return k.run.Name }

// Args implements Kernel.
func (k *Kernel) Args() []devices.ArgInfo { return k.args }
