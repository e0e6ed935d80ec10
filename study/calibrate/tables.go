package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"godwit/internal/figures"
	"godwit/lib/kernels"
	"godwit/runtime"
)

// Tables of kernels of lib/kernels: what a launch takes by the size of its largest buffer.

// kernelTable is a table that is to be measured on a device.
type kernelTable struct {
	table
	group string
	dev   int
	all   []uint64
}

func (t *kernelTable) name() string {
	if t.Items == 0 {
		return t.Kernel + " on " + t.group
	}
	return fmt.Sprintf("%s on %s, %d work-items", t.Kernel, t.group, t.Items)
}

// narrow is how few work-items kernels of one dimension are measured with, too, that take any number.
var narrow = []uint64{2 << 10, 16 << 10, 128 << 10}

// measuredKernels are those of single precision that programs use most; each has the arguments of a launch over
// buffers of so many bytes, and how many work-items that has.
var measuredKernels = []struct {
	name string
	args func(x, y, z *runtime.Buffer, elements uint64) []runtime.Arg
	dims int
}{
	{"fill", func(x, _, _ *runtime.Buffer, n uint64) []runtime.Arg {
		return []runtime.Arg{runtime.Out(x), runtime.Float32(1), runtime.Uint64(n)}
	}, 1},
	{"copy", func(x, y, _ *runtime.Buffer, n uint64) []runtime.Arg {
		return []runtime.Arg{runtime.In(x), runtime.Out(y), runtime.Uint64(4 * n)}
	}, 1},
	{"scale", func(x, y, _ *runtime.Buffer, n uint64) []runtime.Arg {
		return []runtime.Arg{runtime.In(x), runtime.Out(y), runtime.Float32(2), runtime.Uint64(n)}
	}, 1},
	{"saxpy", func(x, y, _ *runtime.Buffer, n uint64) []runtime.Arg {
		return []runtime.Arg{runtime.In(x), runtime.InOut(y), runtime.Float32(2), runtime.Uint64(n)}
	}, 1},
	{"add", func(x, y, z *runtime.Buffer, n uint64) []runtime.Arg {
		return []runtime.Arg{runtime.In(x), runtime.In(y), runtime.Out(z), runtime.Uint64(n)}
	}, 1},
	{"stencil1d", func(x, y, _ *runtime.Buffer, n uint64) []runtime.Arg {
		return []runtime.Arg{runtime.In(x), runtime.Out(y), runtime.Uint64(0), runtime.Uint64(n), runtime.Uint64(n)}
	}, 1},
	{"stencil2d", func(x, y, _ *runtime.Buffer, n uint64) []runtime.Arg {
		side := side(n)
		return []runtime.Arg{runtime.In(x), runtime.Out(y), runtime.Uint64(0), runtime.Uint64(side), runtime.Uint64(side), runtime.Uint64(side)}
	}, 1},
	{"transpose", func(x, y, _ *runtime.Buffer, n uint64) []runtime.Arg {
		return []runtime.Arg{runtime.In(x), runtime.Out(y), runtime.Uint64(side(n)), runtime.Uint64(side(n))}
	}, 1},
	{"matmul", func(x, y, z *runtime.Buffer, n uint64) []runtime.Arg {
		side := runtime.Uint64(side(n))
		return []runtime.Arg{runtime.In(x), runtime.In(y), runtime.Out(z), side, side, side}
	}, 2},
}

// side is that of a square of so many elements.
func side(n uint64) uint64 { return uint64(math.Sqrt(float64(n))) }

// kernels are the tables to measure.
func (s *site) kernels(quick bool) (out []kernelTable) {
	for _, g := range s.groups {
		for _, k := range measuredKernels {
			t := kernelTable{table: table{Kernel: k.name}, group: g.Name, dev: g.Devs[0], all: []uint64{4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20}}
			if quick {
				t.all = t.all[:3]
			}
			for _, n := range narrow {
				if few := t; k.dims == 1 {
					few.Items = n
					few.all = slices.DeleteFunc(slices.Clone(t.all), func(size uint64) bool { return size/4 <= n }) // it is as with many
					out = append(out, few)
				}
			}
			out = append(out, t)
		}
	}
	return out
}

// longest is the longest launch that is measured, in nanoseconds.
const longest = 30e6

// table measures a kernel, from the smallest size on until launches take too long; as many more are left.
func (m *measuring) table(t *kernelTable, left int) (err error) {
	b := m.bench
	var args func(x, y, z *runtime.Buffer, elements uint64) []runtime.Arg
	dims := 1
	for _, k := range measuredKernels {
		if k.name == t.Kernel {
			args, dims = k.args, k.dims
		}
	}
	p, err := kernels.Only(t.Kernel)
	if err != nil {
		return err
	}
	built, err := b.rt.Build(b.ctx, p, b.devs[t.dev])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, built.Close()) }()
	kernel, err := built.Kernel(t.Kernel)
	if err != nil {
		return err
	}
	for i, size := range t.all {
		if size > b.most(t.dev) {
			break
		}
		if n := len(t.Times); n > 1 && t.Times[n-1].Value*math.Pow(float64(size)/float64(t.Sizes[n-1]), 1.5) > longest {
			break
		}
		global := []uint64{size / 4}
		if t.Items > 0 {
			global[0] = t.Items
		}
		if dims == 2 {
			global = []uint64{side(size / 4), side(size / 4)}
		}
		slopes, err := b.slopes(commands(t.Kernel, 2, 10, 3, size, t.dev, hidden, func(r *run, bufs []*runtime.Buffer, _ int) {
			if r.err == nil {
				r.took(r.q(t.dev, 0).EnqueueLaunch(r.ctx, runtime.Launch{Kernel: kernel, Global: global, Args: args(bufs[0], bufs[1], bufs[2], size/4)}))
			}
		}), m.again(len(t.all)*left-i))
		if err != nil {
			return err
		}
		f := figureOf(slopes)
		if f.Value < 1 {
			return fmt.Errorf("%s: longer runs took less time (%.0f ns a launch)", figures.Size(size), f.Value)
		}
		t.Sizes, t.Times = append(t.Sizes, size), append(t.Times, f)
	}
	return nil
}

// most is the largest buffer for a kernel on a device, of which three are taken.
func (b *bench) most(dev int) uint64 {
	has := b.devs[dev].Info().GlobalMemory
	if has == 0 {
		return math.MaxUint64
	}
	return has / 16
}
