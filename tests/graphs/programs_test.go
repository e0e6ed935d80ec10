package graphs_test

import (
	"maps"
	"slices"

	"godwit/bufalloc/pack"
	"godwit/mem"
)

const float = 4 // bytes

// mlp is a training step of a perceptron of layers x width, data-parallel: each device has a
// batch of its own, the gradients are summed up round a ring, and of each layer the last of it has the momentum.
func mlp(devices, layers int, batch, width uint64) *Graph {
	g := &Graph{Name: "mlp", Devices: devices}
	var w, momentum []int
	for l := range layers {
		w, momentum = append(w, g.add(false, width*width*float, "w%d", l)), append(momentum, g.add(false, width*width*float, "m%d", l))
	}
	act, grad := make([][]int, devices), make([]int, devices)
	for d := range devices {
		act[d] = []int{g.add(false, batch*width*float, "x%d", d)}
		for l := range layers {
			y := g.add(true, batch*width*float, "act%d.%d", d, l)
			g.run(d, "forward", slices.Concat(g.in(act[d][l], w[l]), g.out(y))...)
			act[d] = append(act[d], y)
		}
		labels := g.add(false, batch*float, "labels%d", d)
		grad[d] = g.add(true, batch*width*float, "dact%d.%d", d, layers)
		g.run(d, "loss", slices.Concat(g.in(act[d][layers], labels), g.out(grad[d]))...)
	}
	for l := layers - 1; l >= 0; l-- {
		owner, sums := l%devices, make([]int, devices)
		for d := range devices {
			sums[d] = g.add(true, width*width*float, "dw%d.%d", d, l)
			g.run(d, "weights' gradient", slices.Concat(g.in(act[d][l], grad[d]), g.out(sums[d]))...)
			if l > 0 {
				before := g.add(true, batch*width*float, "dact%d.%d", d, l)
				g.run(d, "backward", slices.Concat(g.in(grad[d], w[l], act[d][l]), g.out(before))...)
				grad[d] = before
			}
		}
		for d := owner + 1; d < owner+devices; d++ { // round the ring
			next := (d + 1) % devices
			g.run(next, "sum", slices.Concat(g.in(sums[d%devices]), g.inOut(sums[next]))...)
		}
		g.run(owner, "update", slices.Concat(g.in(sums[owner]), g.inOut(w[l], momentum[l]))...)
	}
	return g
}

// decoder is one token of a transformer of layers x width for a batch of sequences, at position
// at of tokens: each device has some of the layers, and their keys and values.
func decoder(devices, layers int, width, batch, tokens, at uint64) *Graph {
	g := &Graph{Name: "decoder", Devices: devices}
	row, hidden := batch*width*float, batch*width*float
	token := g.add(false, max(128, batch*float), "token")
	embedding := g.add(false, 8*width*width*float, "embedding")
	x := g.add(true, hidden, "x")
	g.run(0, "embed", slices.Concat(g.in(token, embedding), g.out(x))...)
	for l := range layers {
		d := l * devices / layers
		temp := func(size uint64, name string) int { return g.add(true, size, "%s%d", name, l) }
		weights := func(n uint64, name string) int { return g.add(false, n*width*width*float, "%s%d", name, l) }
		keys, values := g.add(false, tokens*row, "k%d", l), g.add(false, tokens*row, "v%d", l)
		h, qkv := temp(hidden, "h"), temp(3*hidden, "qkv")
		g.run(d, "norm", slices.Concat(g.in(x), g.out(h))...)
		g.run(d, "qkv", slices.Concat(g.in(h, weights(3, "wqkv")), g.out(qkv))...)
		for _, cache := range []int{keys, values} {
			g.run(d, "append", append(g.in(qkv), use{cache, mem.Range{Start: at * row, End: (at + 1) * row}, mem.Write})...)
		}
		past := mem.Range{End: (at + 1) * row}
		scores, attended := temp(max(128, batch*(at+1)*float), "scores"), temp(hidden, "att")
		g.run(d, "scores", slices.Concat(g.in(qkv), []use{{keys, past, mem.Read}}, g.out(scores))...)
		g.run(d, "attend", slices.Concat(g.in(scores), []use{{values, past, mem.Read}}, g.out(attended))...)
		mid, h2, up, next := temp(hidden, "mid"), temp(hidden, "h2"), temp(4*hidden, "up"), temp(hidden, "x")
		g.run(d, "project", slices.Concat(g.in(x, attended, weights(1, "wo")), g.out(mid))...)
		g.run(d, "norm", slices.Concat(g.in(mid), g.out(h2))...)
		g.run(d, "up", slices.Concat(g.in(h2, weights(4, "w1")), g.out(up))...)
		g.run(d, "down", slices.Concat(g.in(mid, up, weights(4, "w2")), g.out(next))...)
		x = next
	}
	g.run(devices-1, "sample", slices.Concat(g.in(x), g.out(token))...)
	return g
}

// halo is two steps of a stencil over rows x columns of devices, each with a column of tiles of n x n: edges are
// packed, read by the neighbours, and the tiles computed, from u to v and back.
func halo(rows, columns, tiles int, n uint64) *Graph {
	g := &Graph{Name: "halo", Devices: rows * columns}
	rows *= tiles
	on := func(t int) int { return t/columns/tiles*columns + t%columns }
	var field [2][]int
	for t := range rows * columns {
		for k := range field {
			field[k] = append(field[k], g.add(false, n*n*float, "%c%d", "uv"[k], t))
		}
	}
	for step := range 2 {
		from, to := field[step], field[1-step]
		into := make([][]int, rows*columns) // edges that each reads
		for t := range rows * columns {
			for dir, next := range []int{
				(t/columns+rows-1)%rows*columns + t%columns, (t/columns+1)%rows*columns + t%columns,
				t/columns*columns + (t+columns-1)%columns, t/columns*columns + (t+1)%columns,
			} {
				if next == t {
					continue
				}
				edge := g.add(true, n*float, "edge%d.%d.%d", step, t, dir)
				g.run(on(t), "pack", slices.Concat(g.in(from[t]), g.out(edge))...)
				into[next] = append(into[next], edge)
			}
		}
		for t := range rows * columns {
			g.run(on(t), "stencil", slices.Concat(g.in(from[t]), g.in(into[t]...), g.out(to[t]))...)
		}
	}
	return g
}

// Real are the three programs at sizes for tests, on so many devices, 2 or 4.
func Real(devices int) []*Graph {
	return []*Graph{
		mlp(devices, 24, 64, 64),
		decoder(devices, 24, 64, 4, 32, 31),
		halo(devices/2, 2, 16, 64),
	}
}

// Lives is a graph of transients with these lifetimes on one device: each is written at the begin of its own and read at the end.
func Lives(items []pack.Item) *Graph {
	g := &Graph{Name: "lives", Devices: 1}
	ends := make(map[uint64][]use) // by time
	for i, it := range items {
		b := g.add(true, it.Size, "t%d", i)
		ends[it.Lower] = append(ends[it.Lower], g.out(b)...)
		if it.Upper > it.Lower+1 {
			ends[it.Upper-1] = append(ends[it.Upper-1], g.in(b)...)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(ends)) {
		g.run(0, "any", ends[at]...)
	}
	return g
}
