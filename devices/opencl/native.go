//go:build cgo

package opencl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// NativeProgram is a cl_program in the cl_context of a platform's open devices,
// for those who need all that OpenCL knows of programs: binaries, compiling and
// linking apart, build logs, builds for some devices. What was built for a device
// becomes a devices.Module by Module, whose kernels are launched as any.
//
// Several Godwit devices may be one real device; OpenCL is told of it once.
//
// All methods are safe for use from many goroutines; builds of one program are
// for OpenCL to keep apart. A program must be closed before the last device of
// its platform is.
type NativeProgram struct {
	host *host       // immutable
	cl   ocl.Program // immutable
	text bool        // immutable: it is made of OpenCL C

	mu     sync.Mutex
	users  int            // protected by mu: modules, and one until Close
	closed bool           // protected by mu
	last   []ocl.DeviceID // protected by mu: devices for which it was built last
}

// argInfoOption makes OpenCL remember what describeArgs asks for.
const argInfoOption = "-cl-kernel-arg-info"

// BuildCall is what one step of building was given.
type BuildCall struct {
	On      []*Device // at least one
	Options string    // as the user gave them
}

// handles are the real devices of some Godwit devices, each once.
func handles(h *host, on []*Device) ([]ocl.DeviceID, error) {
	if len(on) == 0 {
		return nil, fmt.Errorf("no devices: %w", mem.ErrInvalidValue)
	}
	var list []ocl.DeviceID
	for _, d := range on {
		if d == nil || d.host != h {
			return nil, fmt.Errorf("a device of another platform: %w", mem.ErrInvalidDevice)
		}
		if err := d.usable(); err != nil {
			return nil, err
		}
		if !slices.Contains(list, d.id) {
			list = append(list, d.id)
		}
	}
	return list, nil
}

// wrap makes a NativeProgram of what OpenCL made.
func wrap(h *host, p ocl.Program, st ocl.Status, what string) (*NativeProgram, error) {
	if err := statusError(st, "program from %s", what); err != nil {
		return nil, err
	}
	return &NativeProgram{host: h, cl: p, users: 1}, nil
}

// newProgram makes a program of OpenCL C.
func (h *host) newProgram(source []byte) (*NativeProgram, error) {
	c, st := h.context.NewProgram(source)
	p, err := wrap(h, c, st, "source")
	if p != nil {
		p.text = true
	}
	return p, err
}

// NewSourceProgram makes a program of OpenCL C, for the devices of d's platform.
func (d *Device) NewSourceProgram(source []byte) (*NativeProgram, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	return d.host.newProgram(source)
}

// NewILProgram makes a program of intermediate language. It fails with
// mem.ErrInvalidOperation where d's platform has no such function.
func (d *Device) NewILProgram(il []byte) (*NativeProgram, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	return d.host.newILProgram(il)
}

func (h *host) newILProgram(il []byte) (*NativeProgram, error) {
	p, st := h.context.NewProgramIL(il)
	return wrap(h, p, st, "intermediate language")
}

// NewBinaryProgram makes a program of binaries, one for each device. Where some
// are no binaries of their device, each has its status, in the order of on; but
// OpenCL may take any bytes, and fail with the same status to build them. It
// fails with mem.ErrInvalidValue where two that are one real device have
// different binaries: those take two programs.
func NewBinaryProgram(on []*Device, binaries [][]byte) (p *NativeProgram, each []mem.Status, err error) {
	if len(on) == 0 || len(on) != len(binaries) {
		return nil, nil, fmt.Errorf("%d binaries for %d devices: each takes one: %w", len(binaries), len(on), mem.ErrInvalidValue)
	}
	h := on[0].host
	devs, err := handles(h, on)
	if err != nil {
		return nil, nil, err
	}
	unique := make([][]byte, len(devs))
	for i, d := range on {
		switch at := slices.Index(devs, d.id); {
		case unique[at] == nil:
			unique[at] = binaries[i]
		case !bytes.Equal(unique[at], binaries[i]):
			return nil, nil, fmt.Errorf("a second binary, of %d bytes, for what device %s really is: %w", len(binaries[i]), d.name, mem.ErrInvalidValue)
		}
	}
	var c ocl.Program
	var sts []ocl.Status
	var st ocl.Status
	h.do(func() { c, sts, st = h.context.NewProgramOf(devs, unique) })
	each = make([]mem.Status, len(on))
	for i, d := range on {
		each[i] = mem.Status(sts[slices.Index(devs, d.id)])
	}
	p, err = wrap(h, c, st, "binaries")
	return p, each, err
}

// withArgInfo calls build with options that ask for information about kernel
// arguments, and where those are refused without. A compiler must know the option;
// of linkers and of what reads binaries any failure may be because of it.
func withArgInfo(options string, compiler bool, build func(options string) ocl.Status) ocl.Status {
	if strings.Contains(options, argInfoOption) {
		return build(options)
	}
	st := build(strings.TrimSpace(options + " " + argInfoOption))
	if st != 0 && !compiler || st == invalidBuildOptions || st == invalidCompilerOptions || st == invalidLinkerOptions {
		return build(options)
	}
	return st
}

// Statuses of option strings.
const (
	invalidBuildOptions    = -43
	invalidCompilerOptions = -66
	invalidLinkerOptions   = -67
)

// Build compiles and links the program for some devices. A status that OpenCL
// gives is the error's; the log is BuildInfo's.
func (p *NativeProgram) Build(call BuildCall) error {
	devs, err := handles(p.host, call.On)
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	st := p.build(devs, call.Options)
	return statusError(st, "build with options %q", call.Options)
}

// build compiles and links for some devices.
func (p *NativeProgram) build(devs []ocl.DeviceID, options string) ocl.Status {
	p.builtFor(devs)
	return withArgInfo(options, p.text, func(o string) (st ocl.Status) {
		if p.text {
			o = p.host.shadow.options(o)
		}
		p.host.do(func() { st = p.cl.Build(devs, o) })
		return st
	})
}

func (p *NativeProgram) builtFor(devs []ocl.DeviceID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = devs
}

// Compile compiles the program for some devices, for a Link. headers are
// programs of source, to be included by the names beside them.
func (p *NativeProgram) Compile(call BuildCall, headers []*NativeProgram, names []string) error {
	devs, err := handles(p.host, call.On)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	if len(headers) != len(names) {
		return fmt.Errorf("compile: %d headers with %d names: %w", len(headers), len(names), mem.ErrInvalidValue)
	}
	hs, err := programHandles(p.host, headers)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	p.builtFor(devs)
	st := withArgInfo(call.Options, true, func(o string) (st ocl.Status) {
		p.host.do(func() { st = p.cl.Compile(devs, p.host.shadow.options(o), hs, names) })
		return st
	})
	return statusError(st, "compile with options %q", call.Options)
}

// Link makes a program of compiled ones, for some devices. Where linking fails,
// OpenCL may make a program all the same, to be asked for its log: then both
// results are not nil, and the program is to be closed as any.
func Link(call BuildCall, inputs []*NativeProgram) (*NativeProgram, error) {
	if len(call.On) == 0 || len(inputs) == 0 {
		return nil, fmt.Errorf("link of %d programs for %d devices: %w", len(inputs), len(call.On), mem.ErrInvalidValue)
	}
	h := call.On[0].host
	devs, err := handles(h, call.On)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	hs, err := programHandles(h, inputs)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	var linked ocl.Program
	st := withArgInfo(call.Options, false, func(o string) ocl.Status {
		if linked != 0 {
			linked.Release()
		}
		var st ocl.Status
		h.do(func() { linked, st = h.context.Link(devs, o, hs) })
		return st
	})
	err = statusError(st, "link with options %q", call.Options)
	if linked == 0 {
		return nil, err
	}
	return &NativeProgram{host: h, cl: linked, users: 1, last: devs}, err
}

func programHandles(h *host, list []*NativeProgram) ([]ocl.Program, error) {
	hs := make([]ocl.Program, len(list))
	for i, p := range list {
		if p == nil || p.host != h {
			return nil, fmt.Errorf("program %d is of another platform: %w", i, mem.ErrInvalidContext)
		}
		hs[i] = p.cl
	}
	return hs, nil
}

// BuildInfo is what clGetProgramBuildInfo answers for d.
func (p *NativeProgram) BuildInfo(d *Device, what uint32) ([]byte, error) {
	b, st := p.cl.BuildInfo(d.id, what)
	if what == ocl.BuildGlobals && len(b) == 4 { // a size_t, answered as a cl_uint
		b = binary.NativeEndian.AppendUint64(nil, uint64(binary.NativeEndian.Uint32(b)))
	}
	return b, statusError(st, "build information %#x for device %s", what, d.name)
}

// KernelNames lists the kernels, sorted. It fails with the status
// CL_INVALID_PROGRAM_EXECUTABLE where nothing was built.
func (p *NativeProgram) KernelNames() ([]string, error) {
	names, st := p.cl.KernelNames()
	slices.Sort(names)
	return names, statusError(st, "kernel names")
}

// Binary is what was built for d, and empty where nothing was.
func (p *NativeProgram) Binary(d *Device) ([]byte, error) {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	b, st := p.cl.Binary(d.id, last)
	return b, statusError(st, "binary for device %s", d.name)
}

// Module is what was built for d, as a module of it; name is for errors. The
// module may outlive the program's Close.
func (p *NativeProgram) Module(d *Device, name string) (devices.Module, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	if d.host != p.host {
		return nil, fmt.Errorf("program %s: device %s is of another platform: %w", name, d.name, mem.ErrInvalidDevice)
	}
	names, err := p.KernelNames()
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("program %s: %w", name, mem.ErrClosed)
	}
	p.users++
	return d.newModule(name, p, names, p.drop), nil
}

// Close gives the program up; its modules keep it until they are closed.
func (p *NativeProgram) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return fmt.Errorf("program: %w", mem.ErrClosed)
	}
	p.drop()
	return nil
}

func (p *NativeProgram) drop() {
	p.mu.Lock()
	p.users--
	last := p.users == 0
	p.mu.Unlock()
	if last {
		p.cl.Release()
	}
}
