package tensor

import (
	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// halves are the kernels for Half, in both forms, with the arguments of package
// kernels. They compute in float and round once, so that both forms give the same
// bits.
var halves = &devices.Program{Name: "tensor: float16", Source: halfSource, Go: []devices.GoKernel{
	{Name: "add_f16", Args: []devices.ArgInfo{halfIn("a"), halfIn("b"), halfOut("c"), value("n", "ulong", 8)}, Func: func(g *work.Group) {
		a, b, c := work.Global[uint16](g, 0), work.Global[uint16](g, 1), work.Global[uint16](g, 2)
		strided(g, work.Value[uint64](g, 3), func(i int) { c.Store(i, narrow(wide(a.Load(i))+wide(b.Load(i)))) })
	}},
	{Name: "mul_f16", Args: []devices.ArgInfo{halfIn("a"), halfIn("b"), halfOut("c"), value("n", "ulong", 8)}, Func: func(g *work.Group) {
		a, b, c := work.Global[uint16](g, 0), work.Global[uint16](g, 1), work.Global[uint16](g, 2)
		strided(g, work.Value[uint64](g, 3), func(i int) { c.Store(i, narrow(wide(a.Load(i))*wide(b.Load(i)))) })
	}},
	{Name: "scale_f16", Args: []devices.ArgInfo{halfIn("x"), halfOut("y"), value("alpha", "float", 4), value("n", "ulong", 8)}, Func: func(g *work.Group) {
		x, y, alpha := work.Global[uint16](g, 0), work.Global[uint16](g, 1), work.Value[float32](g, 2)
		strided(g, work.Value[uint64](g, 3), func(i int) { y.Store(i, narrow(alpha*wide(x.Load(i)))) })
	}},
	{Name: "sum_f16", Args: []devices.ArgInfo{halfIn("x"), halfOut("partial"), value("n", "ulong", 8), {Name: "scratch", Kind: devices.ArgLocal, Type: "float"}}, Func: sumHalves},
	{Name: "matmul_f16", Args: []devices.ArgInfo{halfIn("a"), halfIn("b"), halfOut("c"), value("m", "ulong", 8), value("n", "ulong", 8), value("k", "ulong", 8)}, Func: matmulHalves},
}}

func halfIn(name string) devices.ArgInfo {
	return devices.ArgInfo{Name: name, Kind: devices.ArgBuffer, Access: mem.Read, Type: "half"}
}

func halfOut(name string) devices.ArgInfo {
	return devices.ArgInfo{Name: name, Kind: devices.ArgBuffer, Access: mem.Write, Type: "half"}
}

func value(name, t string, size uint64) devices.ArgInfo {
	return devices.ArgInfo{Name: name, Kind: devices.ArgValue, Size: size, Type: t}
}

func wide(h uint16) float32   { return Half(h).Float32() }
func narrow(f float32) uint16 { return uint16(ToHalf(f)) }

// strided runs f for this group's share of [0, n).
func strided(g *work.Group, n uint64, f func(i int)) {
	g.Items(func(it work.Item) {
		for i := it.Global(0); i < int(n); i += g.GlobalSize(0) {
			f(i)
		}
	})
}

func sumHalves(g *work.Group) {
	x, partial, scratch := work.Global[uint16](g, 0), work.Global[uint16](g, 1), work.Local[float32](g, 3)
	n := int(work.Value[uint64](g, 2))
	g.Items(func(it work.Item) {
		var s float32
		for i := it.Global(0); i < n; i += g.GlobalSize(0) {
			s += wide(x.Load(i))
		}
		scratch.Store(it.Local(0), s)
	})
	for m := g.Size(0); m > 1; {
		half := (m + 1) / 2
		g.Items(func(it work.Item) {
			if l := it.Local(0); l+half < m {
				scratch.Store(l, scratch.Load(l)+scratch.Load(l+half))
			}
		})
		m = half
	}
	partial.Store(g.ID(0), narrow(scratch.Load(0)))
}

func matmulHalves(g *work.Group) {
	a, b, c := work.Global[uint16](g, 0), work.Global[uint16](g, 1), work.Global[uint16](g, 2)
	m, n, k := int(work.Value[uint64](g, 3)), int(work.Value[uint64](g, 4)), int(work.Value[uint64](g, 5))
	g.Items(func(it work.Item) {
		for row := it.Global(1); row < m; row += g.GlobalSize(1) {
			for col := it.Global(0); col < n; col += g.GlobalSize(0) {
				var s float32
				for i := range k {
					s += float32(wide(a.Load(row*k+i)) * wide(b.Load(i*n+col)))
				}
				c.Store(row*n+col, narrow(s))
			}
		}
	})
}

const halfSource = `
#pragma OPENCL FP_CONTRACT OFF
#define EACH(i, n) for (ulong i = get_global_id(0); i < n; i += get_global_size(0))
__kernel void add_f16(__global const half *a, __global const half *b, __global half *c, ulong n) {
  EACH(i, n) vstore_half_rte(vload_half(i, a) + vload_half(i, b), i, c);
}
__kernel void mul_f16(__global const half *a, __global const half *b, __global half *c, ulong n) {
  EACH(i, n) vstore_half_rte(vload_half(i, a) * vload_half(i, b), i, c);
}
__kernel void scale_f16(__global const half *x, __global half *y, float alpha, ulong n) {
  EACH(i, n) vstore_half_rte(alpha * vload_half(i, x), i, y);
}
__kernel void sum_f16(__global const half *x, __global half *partial, ulong n, __local float *scratch) {
  size_t l = get_local_id(0);
  float s = 0;
  EACH(i, n) s += vload_half(i, x);
  scratch[l] = s;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (size_t m = get_local_size(0); m > 1;) {
    size_t upper = (m + 1) / 2;
    if (l + upper < m) scratch[l] += scratch[l + upper];
    barrier(CLK_LOCAL_MEM_FENCE);
    m = upper;
  }
  if (l == 0) vstore_half_rte(scratch[0], get_group_id(0), partial);
}
__kernel void matmul_f16(__global const half *a, __global const half *b, __global half *c, ulong m, ulong n, ulong k) {
  for (ulong row = get_global_id(1); row < m; row += get_global_size(1))
    for (ulong col = get_global_id(0); col < n; col += get_global_size(0)) {
      float s = 0;
      for (ulong i = 0; i < k; i++) s += vload_half(row * k + i, a) * vload_half(i * n + col, b);
      vstore_half_rte(s, row * n + col, c);
    }
}
`
