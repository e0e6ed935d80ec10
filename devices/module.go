package devices

import (
	"fmt"
	"slices"

	"godwit/mem"
)

// GoModule is a Program's Go forms, built: the Module of simulated devices.
type GoModule struct {
	name    string
	kernels map[string]*BuiltGo
}

// BuiltGo is a kernel of a GoModule.
type BuiltGo struct{ form GoKernel }

// BuildGo builds the Go forms of p. It fails with mem.ErrBuild where p has
// none, or a form is not whole.
func BuildGo(p *Program) (*GoModule, error) {
	if p == nil || len(p.Go) == 0 {
		return nil, fmt.Errorf("no Go form of any kernel, which is all a simulated device can run: %w", mem.ErrBuild)
	}
	m := &GoModule{name: p.Name, kernels: make(map[string]*BuiltGo, len(p.Go))}
	for _, k := range p.Go {
		switch {
		case k.Name == "" || k.Func == nil:
			return nil, fmt.Errorf("program %s: Go kernel %q needs a name and a function: %w", p.Name, k.Name, mem.ErrBuild)
		case m.kernels[k.Name] != nil:
			return nil, fmt.Errorf("program %s: Go kernel %q twice: %w", p.Name, k.Name, mem.ErrBuild)
		}
		k.Args = slices.Clone(k.Args)
		m.kernels[k.Name] = &BuiltGo{k}
	}
	return m, nil
}

// Kernel implements Module.
func (m *GoModule) Kernel(name string) (Kernel, error) {
	k, ok := m.kernels[name]
	if !ok {
		return nil, fmt.Errorf("kernel %q: program %s has %v: %w", name, m.name, m.Kernels(), mem.ErrKernelName)
	}
	return k, nil
}

// Kernels implements Module.
func (m *GoModule) Kernels() []string {
	names := make([]string, 0, len(m.kernels))
	for n := range m.kernels {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Close implements Module. There is nothing to release.
func (m *GoModule) Close() error { return nil }

// Name implements Kernel.
func (k *BuiltGo) Name() string { return k.form.Name }

// Args implements Kernel.
func (k *BuiltGo) Args() []ArgInfo { return k.form.Args }
