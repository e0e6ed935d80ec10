// Package kernels is a small library of kernels that any device can run: each
// has a Go form, for simulated devices, and OpenCL C source, side by side.
//
// Conventions. Buffers come first, inputs before outputs, then values, then
// local memory. Kernels over n elements use a grid-stride loop, so that any
// global size covers them; a global offset is taken off. Outputs that a kernel
// overwrites without reading are promised (mem.Write): all n elements of them
// are written, whatever the global size. Element types are float unless the
// name says otherwise (_f64, _i32), sizes are ulong. Both forms compute the same
// bits, which is why the OpenCL C forms forbid contraction.
package kernels

import (
	"fmt"
	"slices"
	"strings"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// kernel is both forms of one kernel.
type kernel struct {
	name string
	args []devices.ArgInfo
	body string // of the form in OpenCL C, whose head args make
	run  func(g *work.Group)
}

// source is the kernel in OpenCL C.
func (k *kernel) source() string {
	params, doubles := make([]string, len(k.args)), false
	for i, a := range k.args {
		space := map[devices.ArgKind]string{devices.ArgBuffer: "__global ", devices.ArgLocal: "__local "}[a.Kind]
		if a.Access == mem.Read && a.Kind == devices.ArgBuffer {
			space += "const "
		}
		params[i] = space + a.Type + " " + a.Name
		if space != "" {
			params[i] = space + a.Type + " *" + a.Name
		}
		doubles = doubles || a.Type == "double"
	}
	text := fmt.Sprintf("\n__kernel void %s(%s) {\n%s\n}\n", k.name, strings.Join(params, ", "), k.body)
	if doubles {
		return "#if defined(cl_khr_fp64) || defined(__opencl_c_fp64)" + text + "#endif\n"
	}
	return text
}

// library lists all kernels, in the order of their files.
func library() []kernel {
	return slices.Concat(
		elementwise(), reductions(), stencils(), matrices(), pointers(),
	)
}

// Names lists the kernels, sorted.
func Names() []string {
	var names []string
	for _, k := range library() {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

// Program returns all kernels as one program.
func Program() *devices.Program { return program("kernels", library()) }

// Only returns a program of the named kernels. It fails with mem.ErrKernelName
// where there is none of a name.
func Only(names ...string) (*devices.Program, error) {
	var some []kernel
	all := library()
	for _, n := range names {
		i := slices.IndexFunc(all, func(k kernel) bool { return k.name == n })
		if i < 0 {
			return nil, fmt.Errorf("kernel %q: the library has %v: %w", n, Names(), mem.ErrKernelName)
		}
		some = append(some, all[i])
	}
	return program("kernels: "+strings.Join(names, ", "), some), nil
}

func program(name string, ks []kernel) *devices.Program {
	p := &devices.Program{Name: name}
	var src strings.Builder
	src.WriteString("#pragma OPENCL FP_CONTRACT OFF\n")
	for _, k := range ks {
		src.WriteString(k.source())
		p.Go = append(p.Go, devices.GoKernel{Name: k.name, Args: k.args, Func: k.run})
	}
	p.Source = src.String()
	return p
}

// number is an element type that has kernels of its own.
type number interface{ float32 | float64 | int32 }

// typed fills the element type in for $T.
func typed(body, t string) string { return strings.ReplaceAll(body, "$T", t) }

func in(name, t string) devices.ArgInfo {
	return devices.ArgInfo{Name: name, Kind: devices.ArgBuffer, Access: mem.Read, Type: t}
}

func out(name, t string) devices.ArgInfo {
	return devices.ArgInfo{Name: name, Kind: devices.ArgBuffer, Access: mem.Write, Type: t}
}

func inout(name, t string) devices.ArgInfo {
	return devices.ArgInfo{Name: name, Kind: devices.ArgBuffer, Access: mem.ReadWrite, Type: t}
}

func local(name, t string) devices.ArgInfo {
	return devices.ArgInfo{Name: name, Kind: devices.ArgLocal, Type: t}
}

func value(name, t string) devices.ArgInfo {
	size := map[string]uint64{"float": 4, "int": 4, "uint": 4, "double": 8, "ulong": 8}[t]
	return devices.ArgInfo{Name: name, Kind: devices.ArgValue, Size: size, Type: t}
}

// size is value argument i, a ulong, as an int.
func size(g *work.Group, i int) int {
	return int(min(work.Value[uint64](g, i), 1<<62))
}

// strided runs f(i) for this group's share of i in [lo, hi): each work-item
// those at a distance of the global size.
func strided(g *work.Group, lo, hi int, f func(i int)) {
	stride := g.GlobalSize(0)
	first := lo - g.Offset(0)
	g.Items(func(it work.Item) {
		for i := first + it.Global(0); i < hi; i += stride {
			f(i)
		}
	})
}

// each is the same loop in OpenCL C.
func each(statement string) string { return "  " + loop + "\n    " + statement }

const loop = `for (ulong i = get_global_id(0) - get_global_offset(0); i < n; i += get_global_size(0))`
