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
		body: each("out[i] = *(__global const float *)(uintptr_t)pointers[i];"),
		run: func(g *work.Group) {
			p, out := work.Global[uint64](g, 0), work.Global[float32](g, 1)
			strided(g, 0, size(g, 2), func(i int) { out.Store(i, work.LoadAt[float32](g, p.Load(i))) })
		},
	}, {
		name: "scatter",
		args: []devices.ArgInfo{in("pointers", "ulong"), in("x", "float"), value("n", "ulong")},
		body: each("*(__global float *)(uintptr_t)pointers[i] = x[i];"),
		run: func(g *work.Group) {
			p, x := work.Global[uint64](g, 0), work.Global[float32](g, 1)
			strided(g, 0, size(g, 2), func(i int) { work.StoreAt(g, p.Load(i), x.Load(i)) })
		},
	}}
}
