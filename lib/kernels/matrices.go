package kernels

import (
	"godwit/devices"
	"godwit/devices/work"
)

// matrices: matmul(a, b, c, m, n, k), c = a b, row-major, a of m x k and b of
// k x n elements. The launch is one- or two-dimensional: columns in dimension
// 0, rows in dimension 1; both stride. transpose(in, out, rows, columns) is of a
// matrix of so many rows and columns.
func matrices() []kernel {
	return []kernel{
		matmul[float32]("float", ""), matmul[float64]("double", "_f64"), matmul[int32]("int", "_i32"),
		transpose[float32]("float", ""), transpose[float64]("double", "_f64"), transpose[int32]("int", "_i32"),
	}
}

func transpose[T number](t, suffix string) kernel {
	return kernel{
		name: "transpose" + suffix,
		args: []devices.ArgInfo{in("in", t), out("out", t), value("rows", "ulong"), value("columns", "ulong")},
		body: typed(`  const ulong n = rows * columns;
  `+loop+`
    out[i % columns * rows + i / columns] = in[i];`, t),
		run: func(g *work.Group) {
			in, out := work.Global[T](g, 0), work.Global[T](g, 1)
			rows, columns := size(g, 2), size(g, 3)
			strided(g, 0, rows*columns, func(i int) { out.Store(i%columns*rows+i/columns, in.Load(i)) })
		},
	}
}

func matmul[T number](t, suffix string) kernel {
	return kernel{
		name: "matmul" + suffix,
		args: []devices.ArgInfo{
			in("a", t), in("b", t), out("c", t), value("m", "ulong"), value("n", "ulong"), value("k", "ulong"),
		},
		body: typed(`  for (ulong row = get_global_id(1) - get_global_offset(1); row < m; row += get_global_size(1))
    for (ulong col = get_global_id(0) - get_global_offset(0); col < n; col += get_global_size(0)) {
      $T s = 0;
      for (ulong i = 0; i < k; i++)
        s += a[row * k + i] * b[i * n + col];
      c[row * n + col] = s;
    }`, t),
		run: func(g *work.Group) {
			a, b, c := work.Global[T](g, 0), work.Global[T](g, 1), work.Global[T](g, 2)
			m, n, k := size(g, 3), size(g, 4), size(g, 5)
			g.Items(func(it work.Item) {
				for row := it.Global(1) - g.Offset(1); row < m; row += g.GlobalSize(1) {
					for col := it.Global(0) - g.Offset(0); col < n; col += g.GlobalSize(0) {
						var s T
						for i := range k {
							s += T(a.Load(row*k+i) * b.Load(i*n+col))
						}
						c.Store(row*n+col, s)
					}
				}
			})
		},
	}
}
