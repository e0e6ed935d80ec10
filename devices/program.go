package devices

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"godwit/devices/work"
	"godwit/internal/suggest"
	"godwit/mem"
)

// Program is a set of kernels in one form or several: each says the same. A device
// builds what it can run.
type Program struct {
	Name    string // for errors
	Source  string // OpenCL C; empty where there is none
	Options string // for the OpenCL compiler
	Go      []GoKernel
	// Forms are further ones by name: FormSPIRV, or a driver's own, which it documents. A form that a device does not know it leaves alone.
	// What arguments are, and which are written in full, it finds in Go, whose kernels need no function then.
	Forms map[string][]byte
}

// FormSPIRV is a module in SPIR-V, which OpenCL's devices take where there is no Source.
const FormSPIRV = "spirv"

// ArgInfo describes a kernel's argument.
type ArgInfo struct {
	Name   string
	Kind   ArgKind
	Access mem.Mode // for buffers: Read where declared const, else ReadWrite, unless the Go form promises Write
	Type   string   // the OpenCL C type of the value, or of the elements; empty where unknown
	Size   uint64   // bytes, for values; 0 is unknown
	Image  bool     // ArgBuffer: it has to have the shape of an image; a Go form gets its bytes
}

// BufferArg describes a buffer of elements of T, as a GoKernel reaches it by work.Global.
func BufferArg[T work.Scalar](name string, access mem.Mode) ArgInfo {
	return ArgInfo{Name: name, Kind: ArgBuffer, Access: access, Type: typeOf[T]()}
}

// LocalArg describes local memory as elements of T, as a GoKernel reaches it by work.Local.
func LocalArg[T work.Scalar](name string) ArgInfo {
	return ArgInfo{Name: name, Kind: ArgLocal, Type: typeOf[T]()}
}

// ValueArg describes an argument by value, as a GoKernel reads it by work.Value.
func ValueArg[T work.Scalar](name string) ArgInfo {
	return ArgInfo{Name: name, Kind: ArgValue, Type: typeOf[T](), Size: uint64(unsafe.Sizeof(*new(T)))}
}

// typeOf is the OpenCL C type of T.
func typeOf[T work.Scalar]() string {
	return map[reflect.Kind]string{
		reflect.Int8: "char", reflect.Uint8: "uchar", reflect.Int16: "short", reflect.Uint16: "ushort", reflect.Int32: "int",
		reflect.Uint32: "uint", reflect.Int64: "long", reflect.Uint64: "ulong", reflect.Float32: "float", reflect.Float64: "double",
	}[reflect.TypeFor[T]().Kind()]
}

// GoKernel is the Go form of a kernel: a function run once for each
// work-group. It is called from many goroutines at once, for different groups.
type GoKernel struct {
	Name string
	Args []ArgInfo
	Func func(g *work.Group)
}

// Module is a built program on a device.
type Module interface {
	// Kernel finds a kernel by name; it fails with mem.ErrKernelName.
	Kernel(name string) (Kernel, error)
	// Kernels lists the names in the module, sorted.
	Kernels() []string
	// Close releases it, once nothing launches its kernels.
	Close() error
}

// Kernel is a function on a device, ready for launches from many goroutines.
type Kernel interface {
	Name() string
	// Args describes the arguments in order. The slice must not be changed.
	Args() []ArgInfo
}

// NoKernel is the error of a Module that has no kernel of that name.
func NoKernel(name, program string, known []string) error {
	return fmt.Errorf("kernel %q: program %s has %s%s: %w", name, program, strings.Join(known, ", "), suggest.For(name, known), mem.ErrKernelName)
}
