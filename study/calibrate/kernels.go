package calibrate

import (
	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// program has the kernels that shapes need beside those of lib/kernels:
//
//	spin(out, n)  n steps of arithmetic by one work-item, none of which can begin before the one before
//	touch(x, y, a, n)  adds a to the first word of x; it has as many arguments as a kernel often has
func program() *devices.Program {
	words := func(name string) devices.ArgInfo {
		return devices.ArgInfo{Name: name, Kind: devices.ArgBuffer, Access: mem.ReadWrite, Type: "uint"}
	}
	return &devices.Program{
		Name: "calibrate",
		Source: `__kernel void spin(__global uint *out, ulong n) {
  uint x = out[0];
  for (ulong i = 0; i < n; i++) x = x * 1664525u + 1013904223u + (x >> 16);
  out[0] = x;
}
__kernel void touch(__global uint *x, __global const uint *y, uint a, ulong n) { if (get_global_id(0) < n) x[0] += a; }
`,
		Go: []devices.GoKernel{{
			Name: "spin",
			Args: []devices.ArgInfo{words("out"), {Name: "n", Kind: devices.ArgValue, Size: 8, Type: "ulong"}},
			Func: func(g *work.Group) {
				out, n := work.Global[uint32](g, 0), work.Value[uint64](g, 1)
				x := out.Load(0)
				for range n {
					x = x*1664525 + 1013904223 + x>>16
				}
				out.Store(0, x)
			},
		}, {
			Name: "touch",
			Args: []devices.ArgInfo{words("x"), {Name: "y", Kind: devices.ArgBuffer, Access: mem.Read, Type: "uint"}, {Name: "a", Kind: devices.ArgValue, Size: 4, Type: "uint"}, {Name: "n", Kind: devices.ArgValue, Size: 8, Type: "ulong"}},
			Func: func(g *work.Group) {
				x := work.Global[uint32](g, 0)
				x.Store(0, x.Load(0)+work.Value[uint32](g, 2))
			},
		}},
	}
}
