package kernels

import (
	"godwit/devices"
	"godwit/devices/work"
)

// pointers: gather(pointers, out, n) and scatter(pointers, x, n), for shared
// virtual memory: pointers are addresses of floats, which lie in memory that the
// launch names besides its arguments. Addresses that a scatter writes are
// different ones.
func pointers() []kernel {
	return []kernel{{
		name: "gather",
		args: []devices.ArgInfo{in("pointers", "ulong"), out("out", "float"), value("n", "ulong")},
		source: `
__kernel void gather(__global const ulong *pointers, __global float *out, ulong n) {
  ` + loop + `
    out[i] = *(__global const float *)(uintptr_t)pointers[i];
}
`,
		run: func(g *work.Group) {
			p, out := work.Global[uint64](g, 0), work.Global[float32](g, 1)
			strided(g, 0, size(g, 2), func(i int) { out.Store(i, work.LoadAt[float32](g, p.Load(i))) })
		},
	}, {
		name: "scatter",
		args: []devices.ArgInfo{in("pointers", "ulong"), in("x", "float"), value("n", "ulong")},
		source: `
__kernel void scatter(__global const ulong *pointers, __global const float *x, ulong n) {
  ` + loop + `
    *(__global float *)(uintptr_t)pointers[i] = x[i];
}
`,
		run: func(g *work.Group) {
			p, x := work.Global[uint64](g, 0), work.Global[float32](g, 1)
			strided(g, 0, size(g, 2), func(i int) { work.StoreAt(g, p.Load(i), x.Load(i)) })
		},
	}}
}
