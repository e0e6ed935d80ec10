package kernels

import (
	"godwit/devices"
	"godwit/devices/work"
)

// stencils: stencil1d(in, out, lo, hi, n) and stencil2d(in, out, lo, hi, width,
// height). Both compute the cells (rows) from lo up to hi and nothing else, so
// that a launch may be given a share of the whole: with a range on each buffer
// argument, only the cells at the edges of a share come from elsewhere.
func stencils() []kernel {
	return []kernel{{
		// out[i] = in[i-1]/4 + in[i]/2 + in[i+1]/4; the first and the last of
		// the n cells stay as they are.
		name: "stencil1d",
		args: []devices.ArgInfo{in("in", "float"), out("out", "float"), value("lo", "ulong"), value("hi", "ulong"), value("n", "ulong")},
		body: `  for (ulong i = lo + get_global_id(0) - get_global_offset(0); i < hi; i += get_global_size(0)) {
    if (i == 0 || i + 1 == n)
      out[i] = in[i];
    else
      out[i] = 0.25f * in[i - 1] + 0.5f * in[i] + 0.25f * in[i + 1];
  }`,
		run: func(g *work.Group) {
			in, out := work.Global[float32](g, 0), work.Global[float32](g, 1)
			n := size(g, 4)
			strided(g, size(g, 2), size(g, 3), func(i int) {
				if i == 0 || i+1 == n {
					out.Store(i, in.Load(i))
					return
				}
				out.Store(i, float32(0.25*in.Load(i-1))+float32(0.5*in.Load(i))+float32(0.25*in.Load(i+1)))
			})
		},
	}, {
		// Half of each cell stays and an eighth of each of its four neighbours
		// comes; cells at the rim stay as they are. Rows of width cells.
		name: "stencil2d",
		args: []devices.ArgInfo{
			in("in", "float"), out("out", "float"), value("lo", "ulong"), value("hi", "ulong"), value("width", "ulong"), value("height", "ulong"),
		},
		body: `  for (ulong i = lo * width + get_global_id(0) - get_global_offset(0); i < hi * width; i += get_global_size(0)) {
    ulong x = i % width, y = i / width;
    if (x == 0 || x + 1 == width || y == 0 || y + 1 == height)
      out[i] = in[i];
    else
      out[i] = 0.5f * in[i] + 0.125f * (in[i - 1] + in[i + 1] + in[i - width] + in[i + width]);
  }`,
		run: func(g *work.Group) {
			in, out := work.Global[float32](g, 0), work.Global[float32](g, 1)
			width, height := size(g, 4), size(g, 5)
			strided(g, size(g, 2)*width, size(g, 3)*width, func(i int) {
				if x, y := i%width, i/width; x == 0 || x+1 == width || y == 0 || y+1 == height {
					out.Store(i, in.Load(i))
					return
				}
				around := in.Load(i-1) + in.Load(i+1) + in.Load(i-width) + in.Load(i+width)
				out.Store(i, float32(0.5*in.Load(i))+float32(0.125*around))
			})
		},
	}}
}
