package kernels

import (
	"slices"

	"godwit/devices"
	"godwit/devices/work"
)

// reductions: sum(x, partial, n, scratch) and histogram(data, counts, n,
// scratch).
func reductions() []kernel {
	return slices.Concat(
		sum[float32]("float", ""), sum[float64]("double", "_f64"), sum[int32]("int", "_i32"),
		[]kernel{histogram()},
	)
}

// sum adds n elements up, one result for each work-group: partial has as many
// elements as the launch has groups, and scratch as many as a group has
// work-items. Each work-item adds its own elements, then the group's results are
// added as a tree in local memory.
func sum[T number](t, suffix string) []kernel {
	return []kernel{{
		name: "sum" + suffix,
		args: []devices.ArgInfo{in("x", t), out("partial", t), value("n", "ulong"), local("scratch", t)},
		body: typed(`  size_t l = get_local_id(0), size = get_local_size(0);
  $T s = 0;
  `+loop+`
    s += x[i];
  scratch[l] = s;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (size_t m = size; m > 1;) {
    size_t upper = (m + 1) / 2;
    if (l + upper < m)
      scratch[l] += scratch[l + upper];
    barrier(CLK_LOCAL_MEM_FENCE);
    m = upper;
  }
  if (l == 0)
    partial[get_group_id(0)] = scratch[0];`, t),
		run: func(g *work.Group) {
			x, partial, scratch := work.Global[T](g, 0), work.Global[T](g, 1), work.Local[T](g, 3)
			n, stride, off := size(g, 2), g.GlobalSize(0), g.Offset(0)
			g.Items(func(it work.Item) {
				var s T
				for i := it.Global(0) - off; i < n; i += stride {
					s += x.Load(i)
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
			partial.Store(g.ID(0), scratch.Load(0))
		},
	}}
}

// histogram adds how often each byte value occurs in n bytes to counts, which
// has 256 elements and keeps what was there. scratch has 256 elements too.
func histogram() kernel {
	return kernel{
		name: "histogram",
		args: []devices.ArgInfo{in("data", "uchar"), inout("counts", "uint"), value("n", "ulong"), local("scratch", "uint")},
		body: `  size_t l = get_local_id(0), size = get_local_size(0);
  for (size_t v = l; v < 256; v += size)
    scratch[v] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  ` + loop + `
    atomic_inc(&scratch[data[i]]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (size_t v = l; v < 256; v += size)
    if (scratch[v])
      atomic_add(&counts[v], scratch[v]);`,
		run: func(g *work.Group) {
			data, counts, scratch := work.Global[uint8](g, 0), work.Global[uint32](g, 1), work.Local[uint32](g, 3)
			n, width := size(g, 2), g.Size(0)
			g.Items(func(it work.Item) {
				for v := it.Local(0); v < 256; v += width {
					scratch.Store(v, 0)
				}
			})
			// A group's items run one after another, so that these need not be atomic.
			strided(g, 0, n, func(i int) {
				v := int(data.Load(i))
				scratch.Store(v, scratch.Load(v)+1)
			})
			g.Items(func(it work.Item) {
				for v := it.Local(0); v < 256; v += width {
					if c := scratch.Load(v); c != 0 {
						counts.Add(v, c)
					}
				}
			})
		},
	}
}
