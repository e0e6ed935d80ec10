package kernels

import (
	"slices"

	"godwit/devices"
	"godwit/devices/work"
)

// elementwise: copy(src, dst, n), fill(dst, value, n), add(a, b, c, n) and
// mul(a, b, c, n), scale(x, y, alpha, n), saxpy(x, y, alpha, n).
func elementwise() []kernel {
	return slices.Concat(
		[]kernel{copyBytes()},
		typedElementwise[float32]("float", "", "saxpy"),
		typedElementwise[float64]("double", "_f64", "daxpy"),
		typedElementwise[int32]("int", "_i32", "iaxpy"),
	)
}

// copyBytes copies n bytes.
func copyBytes() kernel {
	return kernel{
		name: "copy",
		args: []devices.ArgInfo{in("src", "uchar"), out("dst", "uchar"), value("n", "ulong")},
		body: each("dst[i] = src[i];"),
		run: func(g *work.Group) {
			src, dst := work.Global[uint8](g, 0), work.Global[uint8](g, 1)
			strided(g, 0, size(g, 2), func(i int) { dst.Store(i, src.Load(i)) })
		},
	}
}

func typedElementwise[T number](t, suffix, axpy string) []kernel {
	return []kernel{{
		name: "fill" + suffix,
		args: []devices.ArgInfo{out("dst", t), value("value", t), value("n", "ulong")},
		body: each("dst[i] = value;"),
		run: func(g *work.Group) {
			dst, v := work.Global[T](g, 0), work.Value[T](g, 1)
			strided(g, 0, size(g, 2), func(i int) { dst.Store(i, v) })
		},
	}, {
		name: "add" + suffix,
		args: []devices.ArgInfo{in("a", t), in("b", t), out("c", t), value("n", "ulong")},
		body: each("c[i] = a[i] + b[i];"),
		run: func(g *work.Group) {
			a, b, c := work.Global[T](g, 0), work.Global[T](g, 1), work.Global[T](g, 2)
			strided(g, 0, size(g, 3), func(i int) { c.Store(i, a.Load(i)+b.Load(i)) })
		},
	}, {
		name: "mul" + suffix,
		args: []devices.ArgInfo{in("a", t), in("b", t), out("c", t), value("n", "ulong")},
		body: each("c[i] = a[i] * b[i];"),
		run: func(g *work.Group) {
			a, b, c := work.Global[T](g, 0), work.Global[T](g, 1), work.Global[T](g, 2)
			strided(g, 0, size(g, 3), func(i int) { c.Store(i, a.Load(i)*b.Load(i)) })
		},
	}, {
		name: "scale" + suffix,
		args: []devices.ArgInfo{in("x", t), out("y", t), value("alpha", t), value("n", "ulong")},
		body: each("y[i] = alpha * x[i];"),
		run: func(g *work.Group) {
			x, y, alpha := work.Global[T](g, 0), work.Global[T](g, 1), work.Value[T](g, 2)
			strided(g, 0, size(g, 3), func(i int) { y.Store(i, alpha*x.Load(i)) })
		},
	}, {
		name: axpy,
		args: []devices.ArgInfo{in("x", t), inout("y", t), value("alpha", t), value("n", "ulong")},
		body: each("y[i] = alpha * x[i] + y[i];"),
		run: func(g *work.Group) {
			x, y, alpha := work.Global[T](g, 0), work.Global[T](g, 1), work.Value[T](g, 2)
			// The conversion keeps Go from contracting, too.
			strided(g, 0, size(g, 3), func(i int) { y.Store(i, T(alpha*x.Load(i))+y.Load(i)) })
		},
	}}
}
