//go:build cgo

package opencl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// program is OpenCL C, or SPIR-V, built for all devices of a host, shared by the modules of
// the same source and options.
type program struct {
	key   [3]string     // source, SPIR-V where there is none, options
	users int           // protected by host.buildMu
	built chan struct{} // closed once what follows is there
	prog  *NativeProgram
	names []string // sorted
	err   error
}

// module is a program on one device. It keeps the program until it drops it.
type module struct {
	dev   *Device
	prog  *NativeProgram
	names []string // of kernels, sorted
	drop  func()
	name  string
	// forms are the arguments of the Go forms: they know what OpenCL C cannot
	// say, that all of an argument is written. Immutable.
	forms map[string][]devices.ArgInfo

	mu      sync.Mutex
	kernels map[string]*Kernel // protected by mu: made on first use
	closed  bool               // protected by mu
}

// Kernel is a cl_kernel of a module: beside what every kernel can be asked it answers OpenCL's own
// questions (native_kernel.go). Its arguments are state of the cl_kernel,
// so setting them and launching happens under Device.launching. The module uses it until it is
// closed, an accepted launch until it has ended (of unobserved ones, until it has been enqueued:
// OpenCL keeps it from then on), a query for its length.
type Kernel struct {
	name string
	args []devices.ArgInfo
	dev  *Device

	cl     ocl.Kernel   // immutable; released with the last use
	uses   atomic.Int64 // 0 for good once it is
	closed atomic.Bool

	set ocl.SetArgs // what it points to is protected by dev.launching
}

// use keeps the cl_kernel until release.
func (k *Kernel) use() error {
	for n := k.uses.Load(); n > 0 && !k.closed.Load(); n = k.uses.Load() {
		if k.uses.CompareAndSwap(n, n+1) {
			return nil
		}
	}
	return fmt.Errorf("kernel %s: its program was closed: %w", k.name, mem.ErrInvalidKernel)
}

func (k *Kernel) release() {
	if k.uses.Add(-1) == 0 {
		k.cl.Release()
		k.set.Free()
	}
}

// Name implements devices.Kernel.
func (k *Kernel) Name() string { return k.name }

// Args implements devices.Kernel.
func (k *Kernel) Args() []devices.ArgInfo { return k.args }

// Build implements devices.Device. The compiler cannot be stopped; where ctx
// ends first, Build returns and the compiler's result is kept for others.
func (d *Device) Build(ctx context.Context, p *devices.Program) (devices.Module, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	if p == nil || strings.TrimSpace(p.Source) == "" && len(p.Forms[devices.FormSPIRV]) == 0 {
		return nil, fmt.Errorf("device %s: the program has neither OpenCL C nor SPIR-V, which is what this device runs: %w", d.name, mem.ErrBuild)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	prog := d.host.program(p)
	select {
	case <-prog.built:
	case <-ctx.Done():
		d.host.dropProgram(prog)
		return nil, ctx.Err()
	}
	if prog.err != nil {
		d.host.dropProgram(prog)
		return nil, fmt.Errorf("program %s: %w", p.Name, prog.err)
	}
	m := d.newModule(p.Name, prog.prog, prog.names, func() { d.host.dropProgram(prog) })
	for _, k := range p.Go {
		m.forms[k.Name] = slices.Clone(k.Args)
	}
	return m, nil
}

func (d *Device) newModule(name string, prog *NativeProgram, names []string, drop func()) *module {
	d.busy.Add(1)
	return &module{dev: d, prog: prog, names: names, drop: drop, name: name, forms: make(map[string][]devices.ArgInfo), kernels: make(map[string]*Kernel)}
}

// program returns the program of p's source and options, being built.
func (h *host) program(p *devices.Program) *program {
	h.buildMu.Lock()
	defer h.buildMu.Unlock()
	key := [3]string{p.Source, "", p.Options}
	if strings.TrimSpace(p.Source) == "" {
		key[1] = string(p.Forms[devices.FormSPIRV])
	}
	prog := h.programs[key]
	if prog == nil {
		prog = &program{key: key, built: make(chan struct{})}
		h.programs[key] = prog
		h.builds.Go(func() {
			prog.prog, prog.names, prog.err = h.compile(key)
			close(prog.built)
		})
	}
	prog.users++
	return prog
}

// dropProgram ends one use of prog. A program without users is released, or
// left to host.close where its compiler still runs.
func (h *host) dropProgram(prog *program) {
	h.buildMu.Lock()
	defer h.buildMu.Unlock()
	if prog.users--; prog.users > 0 {
		return
	}
	select {
	case <-prog.built:
		delete(h.programs, prog.key)
		prog.release()
	default:
	}
}

// release gives up what was built.
func (p *program) release() {
	if p.prog != nil {
		p.prog.drop()
	}
}

// ids are the devices that there are programs for.
func (h *host) ids() []ocl.DeviceID {
	ids := make([]ocl.DeviceID, len(h.devices))
	for i, d := range h.devices {
		ids[i] = d.ID
	}
	return ids
}

// compile builds a program for all devices of the host.
func (h *host) compile(key [3]string) (p *NativeProgram, names []string, err error) {
	il, options := key[1], key[2]
	if il != "" {
		p, err = h.newILProgram([]byte(il))
	} else {
		p, err = h.newProgram([]byte(key[0]))
	}
	if err != nil {
		return nil, nil, errors.Join(err, mem.ErrBuild)
	}
	if p.build(h.ids(), options) != 0 {
		err = fmt.Errorf("%w (options %q)%s", mem.ErrBuild, options, h.buildLogs(p.cl))
	} else {
		names, err = p.KernelNames()
	}
	if err != nil {
		p.drop()
		return nil, nil, err
	}
	return p, names, nil
}

// buildLogs is what the compiler said for the devices where it failed, each
// text once.
func (h *host) buildLogs(p ocl.Program) string {
	var b strings.Builder
	seen := make(map[string]bool)
	for _, d := range h.devices {
		log, failed := p.Log(d.ID)
		if failed && log != "" && !seen[log] {
			seen[log] = true
			fmt.Fprintf(&b, "\nfor %s:\n%s", d.ID.Text(infoName), log)
		}
	}
	return b.String()
}

// Kernels implements devices.Module.
func (m *module) Kernels() []string { return slices.Clone(m.names) }

// Kernel implements devices.Module.
func (m *module) Kernel(name string) (devices.Kernel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("program %s: %w", m.name, mem.ErrClosed)
	}
	if k := m.kernels[name]; k != nil {
		return k, nil
	}
	if _, ok := slices.BinarySearch(m.names, name); !ok {
		return nil, devices.NoKernel(name, m.name, m.names)
	}
	ck, st := m.prog.cl.NewKernel(name)
	if st != 0 {
		return nil, statusError(st, "kernel %s of program %s", name, m.name)
	}
	k := &Kernel{name: name, dev: m.dev, cl: ck}
	var err error
	if k.args, err = describeArgs(ck); err != nil {
		ck.Release()
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	k.uses.Store(1)
	k.set = ocl.NewSetArgs() // without, all are set each time
	k.promise(m.forms[name])
	m.kernels[name] = k
	return k, nil
}

// Close implements devices.Module.
func (m *module) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("program %s: %w", m.name, mem.ErrClosed)
	}
	m.closed = true
	for _, k := range m.kernels {
		k.closed.Store(true)
		k.release()
	}
	m.drop()
	m.dev.busy.Add(-1)
	return nil
}
