//go:build cgo

package opencl

import (
	"encoding/binary"
	"strings"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// OpenCL's address spaces and type qualifiers of kernel arguments.
const (
	addressGlobal   = 0x119B
	addressLocal    = 0x119C
	addressConstant = 0x119D
	qualifierConst  = 1
	qualifierPipe   = 8
	accessReadOnly  = 0x11A0
	accessNone      = 0x11A3

	argInfoNotAvailable = -19
)

// describeArgs asks a kernel for its arguments. Those that OpenCL says nothing
// of, as it may of kernels out of binaries, are devices.ArgUnknown.
func describeArgs(k ocl.Kernel) ([]devices.ArgInfo, error) {
	b, st := k.Info(ocl.KernelNumArgs)
	if st != 0 || len(b) < 4 {
		return nil, statusError(st, "number of arguments")
	}
	args := make([]devices.ArgInfo, binary.NativeEndian.Uint32(b))
	for i := range args {
		arg, st := k.Arg(i)
		a := &args[i]
		if st == argInfoNotAvailable {
			a.Kind, a.Access = devices.ArgUnknown, mem.ReadWrite
			continue
		}
		if st != 0 {
			return nil, statusError(st, "argument %d", i)
		}
		a.Name, a.Type = arg.Name, elementType(arg.Type)
		switch {
		case arg.Qualifier&qualifierPipe != 0 || is(arg.Type, "queue_t"):
			a.Kind = devices.ArgOpaque
		case is(arg.Type, "sampler_t"):
			a.Kind = devices.ArgSampler
		case is(arg.Type, "image") && arg.Access != accessNone:
			a.Kind, a.Image, a.Access = devices.ArgBuffer, true, mem.ReadWrite
			if arg.Access == accessReadOnly {
				a.Access = mem.Read
			}
		case arg.Address == addressGlobal, arg.Address == addressConstant:
			a.Kind, a.Access = devices.ArgBuffer, mem.ReadWrite
			if arg.Address == addressConstant || arg.Qualifier&qualifierConst != 0 {
				a.Access = mem.Read
			}
		case arg.Address == addressLocal:
			a.Kind = devices.ArgLocal
		default:
			a.Kind, a.Size = devices.ArgValue, sizeOfType(a.Type)
		}
	}
	return args, nil
}

// promise takes over what a Go form of the kernel says: that it writes all of an
// argument, and the sizes of values that OpenCL names by a type of the program's.
func (k *Kernel) promise(form []devices.ArgInfo) {
	if len(form) != len(k.args) {
		return
	}
	for i := range k.args {
		a, f := &k.args[i], &form[i]
		switch {
		case a.Kind != f.Kind:
		case a.Kind == devices.ArgBuffer && a.Access == mem.ReadWrite && f.Access == mem.Write:
			a.Access = mem.Write
		case a.Kind == devices.ArgValue && a.Size == 0:
			a.Size = f.Size
		}
	}
}

// is reports whether a type is one of OpenCL's objects, of those whose names begin so.
func is(typ, name string) bool {
	t := elementType(typ)
	return !strings.Contains(typ, "*") && strings.HasPrefix(t, name) && strings.HasSuffix(t, "_t")
}

// elementType is a type without pointers, qualifiers and C's long names.
func elementType(t string) string {
	t = strings.TrimSpace(strings.TrimRight(strings.TrimSpace(t), "* "))
	for _, q := range []string{"const ", "volatile ", "restrict "} {
		t = strings.ReplaceAll(t, q, "")
	}
	if u, ok := strings.CutPrefix(t, "unsigned "); ok {
		t = "u" + u
	}
	return t
}

// typeSizes are the sizes of OpenCL C's scalar types in bytes.
var typeSizes = map[string]uint64{
	"char": 1, "uchar": 1, "bool": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4, "float": 4,
	"long": 8, "ulong": 8, "double": 8, "size_t": 8, "ptrdiff_t": 8, "intptr_t": 8, "uintptr_t": 8,
}

// vectorRoom is for how many elements a vector type has room, by what its name ends in: one of
// three is as large as one of four.
var vectorRoom = map[string]uint64{"": 1, "2": 2, "3": 4, "4": 4, "8": 8, "16": 16}

// sizeOfType is the size of OpenCL C's scalar and vector types in bytes; 0 for
// any other, such as a struct.
func sizeOfType(t string) uint64 {
	base := strings.TrimRight(t, "0123456789")
	return typeSizes[base] * vectorRoom[t[len(base):]]
}
