package main

import (
	"math/rand/v2"
	"slices"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// A model is eight tables. Its answer is arithmetic on 32-bit words, so that every device's is the same
// and can be compared with the host's.
const (
	layers  = 8
	outputs = 64
	reads   = 16 // of a table, for each output
)

// weights are a model's tables, as long as each other.
type weights [layers][]uint32

func newWeights(seed uint64, words int) *weights {
	dice, w := rand.New(rand.NewPCG(seed, 0)), new(weights)
	for l := range w {
		w[l] = make([]uint32, words)
		for i := range w[l] {
			w[l][i] = dice.Uint32()
		}
	}
	return w
}

// answer is the reference: what a device must say after so many steps.
func (w *weights) answer(x []uint32, steps int) []uint32 {
	y := slices.Clone(x)
	for i := range y {
		for range steps {
			y[i] = infer(y[i], uint32(len(w[0])), func(l, at int) uint32 { return w[l][at] })
		}
	}
	return y
}

func infer(x, n uint32, load func(layer, at int) uint32) uint32 {
	for l := range layers {
		sum := x
		for k := range uint32(reads) {
			sum = sum*31 + load(l, int((x+k*2053)%n))
		}
		x = sum
	}
	return x
}

// program is the model's kernel, in Go for simulated devices and in OpenCL C.
var program = &devices.Program{Name: "serve", Source: source, Go: []devices.GoKernel{{
	Name: "infer",
	Args: []devices.ArgInfo{
		table("w0"), table("w1"), table("w2"), table("w3"), table("w4"), table("w5"), table("w6"), table("w7"),
		devices.BufferArg[uint32]("x", mem.Read), devices.BufferArg[uint32]("y", mem.Write), devices.ValueArg[uint32]("n"),
	},
	Func: func(g *work.Group) {
		var w [layers]work.View[uint32]
		for l := range w {
			w[l] = work.Global[uint32](g, l)
		}
		x, y := work.Global[uint32](g, layers), work.Global[uint32](g, layers+1)
		n := work.Value[uint32](g, layers+2)
		g.Items(func(it work.Item) {
			i := it.Global(0)
			y.Store(i, infer(x.Load(i), n, func(l, at int) uint32 { return w[l].Load(at) }))
		})
	},
}}}

func table(name string) devices.ArgInfo { return devices.BufferArg[uint32](name, mem.Read) }

const source = `
#define LAYER(w) { uint sum = v; for (uint k = 0; k < 16; k++) sum = sum * 31 + w[(v + k * 2053) % n]; v = sum; }
__kernel void infer(__global const uint *w0, __global const uint *w1, __global const uint *w2, __global const uint *w3,
                    __global const uint *w4, __global const uint *w5, __global const uint *w6, __global const uint *w7,
                    __global const uint *x, __global uint *y, uint n) {
  uint i = get_global_id(0), v = x[i];
  LAYER(w0) LAYER(w1) LAYER(w2) LAYER(w3) LAYER(w4) LAYER(w5) LAYER(w6) LAYER(w7)
  y[i] = v;
}
`
