package runtime

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"godwit/devices"
	"godwit/mem"
)

// Program is a set of kernels built for some or all devices of a context. Safe
// for use from many goroutines.
type Program struct {
	c       *Context
	name    string
	modules []devices.Module // by memory; nil where not built; immutable but for Close
	closed  bool             // protected by c.mu
}

// ErrNotBuilt says that a program was not built for a device.
var ErrNotBuilt = mem.Sentinel("program not built for this device", mem.InvalidProgramExecutable)

// Build makes p's kernels runnable on the given devices, or on all of the
// context. It may take long; it stops when ctx ends. It fails with mem.ErrBuild
// and the log of the first device that cannot build p, and then nothing is
// built.
func (c *Context) Build(ctx context.Context, p *devices.Program, on ...devices.Device) (*Program, error) {
	if p == nil {
		return nil, fmt.Errorf("build of no program: %w", mem.ErrInvalidValue)
	}
	prog := &Program{c: c, name: p.Name, modules: make([]devices.Module, len(c.mems))}
	if len(on) == 0 {
		for _, m := range c.mems[1:] {
			on = append(on, m.dev)
		}
	}
	for _, d := range on {
		id, err := c.Memory(d)
		if err != nil {
			return nil, errors.Join(err, prog.release())
		}
		if prog.modules[id] != nil {
			continue
		}
		m, err := d.Build(ctx, p)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("program %q on %s: %w", p.Name, c.topo.Name(id), err), prog.release())
		}
		prog.modules[id] = m
	}
	if err := c.enlist(prog); err != nil {
		return nil, errors.Join(err, prog.release())
	}
	return prog, nil
}

// Adopt makes a program of modules built elsewhere, one for each of the devices.
// They are the program's from then on, which closes them; where Adopt fails they
// stay the caller's.
func (c *Context) Adopt(name string, on []devices.Device, modules []devices.Module) (*Program, error) {
	if len(on) == 0 || len(on) != len(modules) {
		return nil, fmt.Errorf("program %q of %d modules for %d devices: each takes one: %w", name, len(modules), len(on), mem.ErrInvalidValue)
	}
	prog := &Program{c: c, name: name, modules: make([]devices.Module, len(c.mems))}
	for i, d := range on {
		id, err := c.Memory(d)
		switch {
		case err != nil:
			return nil, fmt.Errorf("program %q: %w", name, err)
		case modules[i] == nil || prog.modules[id] != nil:
			return nil, fmt.Errorf("program %q: no module, or a second one, for %s: %w", name, c.topo.Name(id), mem.ErrInvalidValue)
		}
		prog.modules[id] = modules[i]
	}
	if err := c.enlist(prog); err != nil {
		return nil, err
	}
	return prog, nil
}

// enlist makes a program one of the context's.
func (c *Context) enlist(p *Program) error {
	if err := c.begin("program"); err != nil {
		return err
	}
	defer c.unlock()
	c.programs = append(c.programs, p)
	return nil
}

// release closes all modules.
func (p *Program) release() error {
	var errs []error
	for _, m := range p.modules {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// Close releases the program. Its kernels cannot be launched any more; launches
// in flight must have ended.
func (p *Program) Close() error {
	if err := p.c.call(); err != nil {
		return err
	}
	if p.closed {
		p.c.unlock()
		return fmt.Errorf("program %q: %w", p.name, mem.ErrClosed)
	}
	p.closed = true
	p.c.programs = slices.DeleteFunc(p.c.programs, func(x *Program) bool { return x == p })
	p.c.unlock()
	return p.release()
}

// Kernels lists the names of the kernels, sorted.
func (p *Program) Kernels() []string {
	var names []string
	for _, m := range p.modules {
		if m != nil {
			names = append(names, m.Kernels()...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Kernel is a function of a program, for launches on any device it was built
// for, from many goroutines. It has no state: arguments come with each launch.
type Kernel struct {
	prog *Program
	name string
	on   []devices.Kernel // by memory; nil where not built; immutable
	args []devices.ArgInfo
	nums []numeral // of args by value
}

// Kernel finds a kernel by name; it fails with mem.ErrKernelName where no device's
// module has it, and with mem.ErrKernelDiffers where devices disagree about its
// arguments. It can be launched where it is there.
func (p *Program) Kernel(name string) (*Kernel, error) {
	k := &Kernel{prog: p, name: name, on: make([]devices.Kernel, len(p.modules))}
	missing, found := error(nil), false
	for id, m := range p.modules {
		if m == nil {
			continue
		}
		dk, err := m.Kernel(name)
		switch {
		case errors.Is(err, mem.ErrKernelName):
			missing = err
			continue
		case err != nil:
			return nil, fmt.Errorf("program %q: %w", p.name, err)
		}
		k.on[id] = dk
		if !found {
			k.args, found = dk.Args(), true
			continue
		}
		if k.args, err = agreed(k.args, dk.Args()); err != nil {
			return nil, fmt.Errorf("program %q: kernel %s on %s: %w", p.name, name, p.c.topo.Name(mem.MemoryID(id)), err)
		}
	}
	if !found && missing != nil {
		return nil, fmt.Errorf("program %q: %w", p.name, missing)
	}
	k.nums = make([]numeral, len(k.args))
	for i := range k.args {
		k.nums[i] = numeralOf(k.args[i].Type)
	}
	return k, nil
}

// agreed is what two devices say of a kernel's arguments; what one does not know the
// other may, and what one only reads the other may write.
func agreed(a, b []devices.ArgInfo) ([]devices.ArgInfo, error) {
	if slices.Equal(a, b) {
		return a, nil
	}
	if len(a) != len(b) {
		return nil, fmt.Errorf("%d arguments, and %d elsewhere: %w", len(b), len(a), mem.ErrKernelDiffers)
	}
	out := slices.Clone(a)
	for i, y := range b {
		x := &out[i]
		switch {
		case y.Kind == devices.ArgUnknown:
			continue
		case x.Kind == devices.ArgUnknown:
			*x = y
			continue
		case x.Kind != y.Kind || x.Size != 0 && y.Size != 0 && x.Size != y.Size:
			return nil, fmt.Errorf("argument %d is %v of %d bytes, and %v of %d elsewhere: %w", i, y.Kind, y.Size, x.Kind, x.Size, mem.ErrKernelDiffers)
		case x.Access != y.Access:
			x.Access = mem.ReadWrite
		}
		x.Size = max(x.Size, y.Size)
	}
	return out, nil
}

// Name is the kernel's name.
func (k *Kernel) Name() string { return k.name }

// Args describes the arguments, in order. The slice must not be changed.
func (k *Kernel) Args() []devices.ArgInfo { return k.args }

// Arg is the value of a kernel argument in a launch. Make one with Bytes,
// Int32, ..., Buf, In, Out, InOut or Local. The zero Arg is no argument.
type Arg struct {
	kind    devices.ArgKind
	set     bool
	n       uint8
	number  numeral
	mode    argMode
	ranged  bool
	whole   bool
	small   [16]byte // values up to 16 bytes, so that making one allocates nothing
	large   []byte
	buf     *Buffer
	off     uint64
	pointer Pointer
	size    uint64
	image   *devices.Image // nil of what is none
	sampler devices.Sampler
}

type argMode uint8

const (
	byKernel argMode = iota // as the kernel declares it
	modeRead
	modeWrite
	modeReadWrite
)

// Bytes is an argument by value. Longer values than 16 bytes are not copied
// until the enqueue.
func Bytes(b []byte) Arg {
	a := Arg{kind: devices.ArgValue, set: true}
	if len(b) <= len(a.small) {
		a.n = uint8(copy(a.small[:], b))
	} else {
		a.large = b
	}
	return a
}

func word(v uint64, n uint8, of numeral) Arg {
	a := Arg{kind: devices.ArgValue, set: true, n: n, number: of}
	binary.LittleEndian.PutUint64(a.small[:], v)
	return a
}

// Int32 is a 4-byte signed value.
func Int32(v int32) Arg { return word(uint64(uint32(v)), 4, integer) }

// Uint32 is a 4-byte unsigned value.
func Uint32(v uint32) Arg { return word(uint64(v), 4, integer) }

// Int64 is an 8-byte signed value.
func Int64(v int64) Arg { return word(uint64(v), 8, integer) }

// Uint64 is an 8-byte unsigned value.
func Uint64(v uint64) Arg { return word(v, 8, integer) }

// Float32 is a 4-byte floating-point value.
func Float32(v float32) Arg { return word(uint64(math.Float32bits(v)), 4, float) }

// Float64 is an 8-byte floating-point value.
func Float64(v float64) Arg { return word(math.Float64bits(v), 8, float) }

// LocalSize is the bytes of local memory that a asks for; 0 where it is another
// kind of argument.
func (a *Arg) LocalSize() uint64 {
	if a.kind != devices.ArgLocal {
		return 0
	}
	return a.size
}

// Local is n bytes of local memory for each work-group.
func Local(n uint64) Arg { return Arg{kind: devices.ArgLocal, set: true, size: n} }

// Buf is a whole buffer or sub-buffer, used as the kernel and the buffer's
// flags declare: read where either says so, else read and written. A nil buffer
// is a null pointer.
func Buf(b *Buffer) Arg { return Arg{kind: devices.ArgBuffer, set: true, buf: b} }

// In is a buffer that this launch only reads.
func In(b *Buffer) Arg { return Arg{kind: devices.ArgBuffer, set: true, buf: b, mode: modeRead} }

// InOut is a buffer that this launch reads and writes, or writes in part.
func InOut(b *Buffer) Arg {
	return Arg{kind: devices.ArgBuffer, set: true, buf: b, mode: modeReadWrite}
}

// Out is a buffer of which this launch writes every byte (or, with Range, every
// byte of the range), so that its old content need not be brought. The promise
// is believed: bytes that are not written are garbage.
func Out(b *Buffer) Arg { return Arg{kind: devices.ArgBuffer, set: true, buf: b, mode: modeWrite} }

// Range limits what the launch uses of a buffer argument to size bytes at off
// of it: nothing outside is brought or ordered. The kernel still receives the
// start of the (sub-)buffer, and writes there unless it is told an offset: a kernel
// that is to work on a part is given a sub-buffer (Buffer.Sub). Devices
// that check (tce; cpu with its Promises) fail a launch that does otherwise. A kernel's own declaration that it writes all of
// an argument counts only together with a Range. Of an image it limits nothing: a device may copy all of it behind the launch.
func (a Arg) Range(off, size uint64) Arg {
	if a.image != nil {
		return a
	}
	a.ranged, a.off, a.size = true, off, size
	return a
}

// Whole has a device store all of the buffer or sub-buffer in one block, as for commands that are
// no launches, also where a Range ends before it does.
func (a Arg) Whole() Arg {
	a.whole = true
	return a
}

// value is the bytes of an ArgValue.
func (a *Arg) value() []byte {
	if a.large != nil {
		return a.large
	}
	return a.small[:a.n]
}

// access is what a launch with argument a of kernel argument info does to it.
func (a *Arg) access(info *devices.ArgInfo) mem.Mode {
	switch {
	case a.mode == modeRead || a.buf.view.Flags.ReadOnly() || (a.mode == byKernel && info.Access == mem.Read):
		return mem.Read
	case a.mode == modeWrite || (a.mode == byKernel && info.Access == mem.Write && a.ranged):
		return mem.Write
	}
	return mem.ReadWrite
}

// check tests a against the kernel's argument i.
func (a *Arg) check(i int, k *Kernel) error {
	info := &k.args[i]
	if !a.set {
		return fmt.Errorf("argument %d (%s) is not set: %w", i, info.Name, mem.ErrKernelArgs)
	}
	if a.kind != info.Kind && info.Kind != devices.ArgUnknown && (a.kind != devices.ArgSVM || info.Kind != devices.ArgBuffer || info.Image) {
		return fmt.Errorf("argument %d (%s) is a %v: the kernel wants a %v: %w", i, info.Name, a.kind, info.Kind, mem.ErrArgValue)
	}
	switch a.kind {
	case devices.ArgValue:
		if n := uint64(len(a.value())); n == 0 || (info.Size != 0 && n != info.Size) {
			return fmt.Errorf("argument %d (%s) has %d bytes: the kernel wants %d: %w", i, info.Name, n, info.Size, mem.ErrArgSize)
		}
		if want := k.nums[i]; a.number != want && a.number != anyNumber && want != anyNumber {
			return fmt.Errorf("argument %d (%s) is made of %v: the kernel wants a %s: %w", i, info.Name, a.number, info.Type, mem.ErrArgValue)
		}
	case devices.ArgLocal:
		if a.size == 0 {
			return fmt.Errorf("argument %d (%s): 0 bytes of local memory: %w", i, info.Name, mem.ErrArgSize)
		}
	case devices.ArgBuffer:
		if a.buf == nil {
			if a.ranged || info.Image {
				return fmt.Errorf("argument %d (%s): a range, or an image, of no buffer: %w", i, info.Name, mem.ErrArgValue)
			}
			return nil
		}
		if info.Kind == devices.ArgBuffer && (a.image != nil) != info.Image {
			return fmt.Errorf("argument %d (%s): %w", i, info.Name, devices.NoImage(info))
		}
		if (a.mode == modeWrite || a.mode == modeReadWrite) && a.buf.view.Flags.ReadOnly() {
			return fmt.Errorf("argument %d (%s) writes a read-only buffer: %w", i, info.Name, mem.ErrArgValue)
		}
	}
	return nil
}
