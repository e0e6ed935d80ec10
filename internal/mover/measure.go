package mover

import (
	"context"
	"slices"
	"sync"

	"godwit/devices"
	"godwit/internal/storage"
	"godwit/mem"
)

// Figures are costs of rings that were measured, by pairs of devices. Movers that share
// some measure each pair once. Safe for use from many goroutines.
type Figures struct {
	by sync.Map // of cost, by [2]devices.Device
}

// known returns what was measured of a pair; the zero cost where nothing was.
func (f *Figures) known(from, to devices.Device) cost {
	v, _ := f.by.Load([2]devices.Device{from, to})
	c, _ := v.(cost)
	return c
}

// Forget drops what was measured of a device, which is to be closed: an opening of it that comes later is another device.
func (f *Figures) Forget(d devices.Device) {
	f.by.Range(func(pair, _ any) bool {
		if p := pair.([2]devices.Device); p[0] == d || p[1] == d {
			f.by.Delete(pair)
		}
		return true
	})
}

// probes are the copies that are timed: three shapes give three linear equations for a
// cost's b, g and k.
var probes = [3]probe{{32 << 20, 1 << 20}, {32 << 20, 8 << 20}, {8 << 20, 1 << 20}}

type probe struct{ size, chunk uint64 } // bytes

// mostProbe is the largest chunk of a probe: with smaller rings nothing is measured.
const mostProbe = 8 << 20

// Measure finds out the cost of rings that go in batches, some tens of milliseconds for
// each direction of a pair that f does not know, tells the topology, and locks the
// staging that these rings will use. It also finds out which devices have links. It has to be called before anybody else uses mover
// or topology. It ends early when ctx does, with ctx's error. Then, and where there is no
// room for the copies or their times make no sense, the cost of two H200s is assumed.
func (m *Mover) Measure(ctx context.Context, t *mem.Topology, f *Figures) error {
	if slices.ContainsFunc(m.mems, func(x memory) bool { return x.window != nil }) {
		m.beside.Go(func() { m.findLinks(ctx, t) }) // blocks that are made from then on lie in windows
	}
	m.prepare(ctx)
	m.beside.Wait()
	unknown := m.unstated()
	for _, i := range unknown {
		for _, j := range unknown {
			from, to := mem.MemoryID(i), mem.MemoryID(j)
			l := t.Link(from, to)
			if i == j || !m.joined(from, to) || l.Direct.There || l.Ring.Bandwidth != 0 {
				continue
			}
			c := f.known(m.mems[i].Device, m.mems[j].Device)
			if c.bandwidth == 0 && ctx.Err() == nil && m.share() >= leastSlots*mostProbe {
				if c = m.measure(ctx, from, to); ctx.Err() == nil && c != batchCost {
					f.by.Store([2]devices.Device{m.mems[i].Device, m.mems[j].Device}, c)
				}
			}
			m.costs[[2]mem.MemoryID{from, to}] = &c
			l.Ring = m.cost(from, to).path()
			if err := t.SetLink(from, to, l); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// unstated are the memories of families whose drivers state no costs of rings: of any two of a
// family, if of the first two.
func (m *Mover) unstated() (out []int) {
	stated := make(map[int]bool)
	for i := range m.mems {
		f := m.mems[i].family
		if _, asked := stated[f]; f >= 0 && f != i && !asked {
			d := m.mems[i].Device
			stated[f] = d.Link(m.mems[f].Device, d).Ring.There
		}
	}
	for i := range m.mems {
		if f := m.mems[i].family; f >= 0 && !stated[f] {
			out = append(out, i)
		}
	}
	return out
}

// prepare gets the homes of families the staging that the budget has for them: to lock
// it takes tens of milliseconds, which no copy should wait for. Where there are devices
// beside, an arena is left for them.
func (m *Mover) prepare(ctx context.Context) {
	for again := true; again; {
		again = false
		for i := range m.mems {
			if m.mems[i].family >= 0 && m.mems[i].home == i && ctx.Err() == nil {
				grown, err := m.growIdle(i, true)
				again = again || grown && err == nil
			}
		}
	}
}

// measure is the cost of rings from one memory to another, by timing some.
func (m *Mover) measure(ctx context.Context, from, to mem.MemoryID) cost {
	src, err := storage.Allocate(m.mems[from].Device.Memory(), nil, probes[0].size, 0)
	if err != nil {
		return batchCost
	}
	defer func() { _ = src.Free() }() // live by construction
	dst, err := storage.Allocate(m.mems[to].Device.Memory(), nil, probes[0].size, 0)
	if err != nil {
		return batchCost
	}
	defer func() { _ = dst.Free() }()
	t := Transfer{
		Way: mem.Ring, From: End{Memory: from, Block: src.Block}, To: []End{{Memory: to, Block: dst.Block}}, Points: make([]mem.Point, 1),
	}
	at := new(cost)
	m.costs[[2]mem.MemoryID{from, to}] = at
	if c, ok := m.probe(ctx, &t, at); ok {
		return c
	}
	return batchCost
}

// probe finds the cost of transfers like t by timing some of other sizes and chunks; at
// is where the mover looks for that cost, and has others meanwhile.
func (m *Mover) probe(ctx context.Context, t *Transfer, at *cost) (cost, bool) {
	var times [len(probes)]float64
	for i, p := range probes {
		t.Size = p.size
		*at = cost{bandwidth: 1, gap: float64(p.chunk) * float64(p.chunk) / float64(p.size)} // whose best chunk is just this
		if times[i] = m.timed(ctx, t); times[i] == 0 {
			return cost{}, false
		}
	}
	c, ok := solve(times)
	if !ok {
		return c, false
	}
	t.Size, *at = smallCopy, c
	c.small = m.timed(ctx, t) // the line through large ones is far off for small ones
	return c, c.small != 0
}

// timed is the median time of a transfer in seconds, or 0 where it failed or ctx
// ended.
func (m *Mover) timed(ctx context.Context, t *Transfer) float64 {
	var all []float64
	for range 7 {
		start := m.by.Now()
		if ctx.Err() != nil || m.Move(t) != nil || m.Wait(context.Background(), t.Points[0]) != nil {
			return 0
		}
		all = append(all, float64(m.by.Now()-start)/1e9)
	}
	all = all[2:] // the first ones warm up
	slices.Sort(all)
	return all[len(all)/2]
}

// solve finds the cost from the times of the probes. ok is false where noise gave
// something that no link can be.
func solve(t [len(probes)]float64) (c cost, ok bool) {
	// t = (size + chunk) * x + size/chunk * g + k, for x = 1/b. Differences to the
	// first equation leave two unknowns.
	bytes := func(i int) float64 { return float64(probes[i].size + probes[i].chunk) }
	chunks := func(i int) float64 { return float64(probes[i].size / probes[i].chunk) }
	a1, b1, c1 := bytes(1)-bytes(0), chunks(1)-chunks(0), t[1]-t[0]
	a2, b2, c2 := bytes(2)-bytes(0), chunks(2)-chunks(0), t[2]-t[0]
	det := a1*b2 - a2*b1
	x, g := (c1*b2-c2*b1)/det, (a1*c2-a2*c1)/det
	c = cost{bandwidth: 1 / x, gap: g, base: max(t[0]-bytes(0)*x-chunks(0)*g, 0)}
	return c, x > 1e-13 && x < 1e-7 && g > 5e-7 && g < 1e-3
}
