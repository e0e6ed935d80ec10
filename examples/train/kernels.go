package main

import (
	"math"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// own are the kernels that package kernels lacks, each in Go and in OpenCL C:
// an application's own run beside the library's.
var own = &devices.Program{Name: "train", Source: source, Go: []devices.GoKernel{
	{Name: "relu", Args: []devices.ArgInfo{devices.BufferArg[float32]("x", mem.ReadWrite), devices.ValueArg[uint64]("n")}, Func: func(g *work.Group) {
		x := work.Global[float32](g, 0)
		each(g, 1, func(i int) { x.Store(i, max(x.Load(i), 0)) })
	}},
	{Name: "relu_gradient", Args: []devices.ArgInfo{devices.BufferArg[float32]("h", mem.Read), devices.BufferArg[float32]("dh", mem.ReadWrite), devices.ValueArg[uint64]("n")}, Func: func(g *work.Group) {
		h, dh := work.Global[float32](g, 0), work.Global[float32](g, 1)
		each(g, 2, func(i int) {
			if h.Load(i) <= 0 {
				dh.Store(i, 0)
			}
		})
	}},
	{Name: "logistic", Args: []devices.ArgInfo{devices.BufferArg[float32]("z", mem.Read), devices.BufferArg[float32]("y", mem.Read), devices.BufferArg[float32]("dz", mem.Write), devices.BufferArg[float32]("loss", mem.Write), devices.ValueArg[float32]("weight"), devices.ValueArg[uint64]("n")}, Func: logistic},
	{Name: "matmul_tn", Args: []devices.ArgInfo{devices.BufferArg[float32]("a", mem.Read), devices.BufferArg[float32]("b", mem.Read), devices.BufferArg[float32]("c", mem.Write), devices.ValueArg[uint64]("m"), devices.ValueArg[uint64]("n"), devices.ValueArg[uint64]("k")}, Func: matmulTN},
}}

// each runs f for this group's share of [0, value argument n).
func each(g *work.Group, n int, f func(i int)) {
	end := int(work.Value[uint64](g, n))
	g.Items(func(it work.Item) {
		for i := it.Global(0); i < end; i += g.GlobalSize(0) {
			f(i)
		}
	})
}

// logistic is the cross entropy of sigmoid(z) against y, and its gradient in z,
// both times weight.
func logistic(g *work.Group) {
	z, y := work.Global[float32](g, 0), work.Global[float32](g, 1)
	dz, loss, weight := work.Global[float32](g, 2), work.Global[float32](g, 3), work.Value[float32](g, 4)
	each(g, 5, func(i int) {
		v, want := float64(z.Load(i)), float64(y.Load(i))
		dz.Store(i, weight*float32(1/(1+math.Exp(-v))-want))
		loss.Store(i, weight*float32(max(v, 0)-v*want+math.Log1p(math.Exp(-math.Abs(v)))))
	})
}

// matmulTN is c = aᵀ b, with a of k x m and b of k x n elements.
func matmulTN(g *work.Group) {
	a, b, c := work.Global[float32](g, 0), work.Global[float32](g, 1), work.Global[float32](g, 2)
	m, n, k := int(work.Value[uint64](g, 3)), int(work.Value[uint64](g, 4)), int(work.Value[uint64](g, 5))
	g.Items(func(it work.Item) {
		for at := it.Global(0); at < m*n; at += g.GlobalSize(0) {
			var s float32
			for i := range k {
				s += a.Load(i*m+at/n) * b.Load(i*n+at%n)
			}
			c.Store(at, s)
		}
	})
}

const source = `
#define EACH(i, n) for (ulong i = get_global_id(0); i < (n); i += get_global_size(0))
__kernel void relu(__global float *x, ulong n) { EACH(i, n) x[i] = fmax(x[i], 0.0f); }
__kernel void relu_gradient(__global const float *h, __global float *dh, ulong n) {
  EACH(i, n) if (h[i] <= 0) dh[i] = 0;
}
__kernel void logistic(__global const float *z, __global const float *y, __global float *dz, __global float *loss, float weight, ulong n) {
  EACH(i, n) {
    dz[i] = weight * (1 / (1 + exp(-z[i])) - y[i]);
    loss[i] = weight * (fmax(z[i], 0.0f) - z[i] * y[i] + log1p(exp(-fabs(z[i]))));
  }
}
__kernel void matmul_tn(__global const float *a, __global const float *b, __global float *c, ulong m, ulong n, ulong k) {
  EACH(at, m * n) {
    float s = 0;
    for (ulong i = 0; i < k; i++) s += a[i * m + at / n] * b[i * n + at % n];
    c[at] = s;
  }
}
`
