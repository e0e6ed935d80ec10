package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/figures"
	"godwit/internal/resource"
	"godwit/mem"
)

// Resources: the layers over a device's memory that a scenario asks for, and what
// they count.

// layerKinds are the layers that a scenario can name. Those for tests and for
// recordings are left out.
var layerKinds = []string{"statistics", "track", "retry", "limit", "bins", "pool"}

// readLayers reads a device's layers, from the caller down: names, {limit:
// BYTES}, {bins: [BYTES, ...]} or {pool: BYTES}.
func (l *loader) readLayers(d *mapping) (out []layer) {
	what := d.What + ": resources"
	for _, n := range l.list(d.get("resources")) {
		if _, isMap := l.plain(n).(*ast.MappingNode); isMap {
			if layer, ok := l.sizedLayer(n, what); ok {
				out = append(out, layer)
			}
			continue
		}
		switch kind := l.text(n, what); {
		case kind == "":
		case kind == "limit" || kind == "bins":
			l.errorf(n, "%s: %s wants sizes, as in {%s: 64 KiB}", what, kind, kind)
		case !slices.Contains(layerKinds, kind):
			l.errorf(n, "%s %q: want some of %s", what, kind, strings.Join(layerKinds, ", "))
		default:
			out = append(out, layer{Kind: kind})
		}
	}
	for i, a := range out {
		if slices.ContainsFunc(out[:i], func(b layer) bool { return a.Kind == b.Kind }) {
			l.errorf(d.get("resources"), "%s: %s is there twice", what, a.Kind)
		}
	}
	return out
}

// sizedLayer reads a layer with sizes.
func (l *loader) sizedLayer(n ast.Node, what string) (out layer, ok bool) {
	before := l.faults
	m := l.mapping(n, what, "layer")
	if l.faults > before {
		return out, false
	}
	for _, kind := range []string{"limit", "bins", "pool"} {
		if !m.Has(kind) {
			continue
		}
		out.Kind = kind
		for _, n := range l.list(m.get(kind)) {
			v := l.number(n, what+": "+kind)
			if (v < 1 || v > maxPitch) && l.faults == before {
				l.errorf(n, "%s: %s is %d: want from 1 to %d", what, kind, v, uint64(maxPitch))
			}
			out.Sizes = append(out.Sizes, uint64(max(v, 0)))
		}
		if kind != "bins" && len(out.Sizes) != 1 && l.faults == before {
			l.errorf(n, "%s: %s: want one size, not %d", what, kind, len(out.Sizes))
		}
		if len(out.Sizes) > 0 {
			out.Size = out.Sizes[0]
		}
		if !slices.IsSorted(out.Sizes) {
			l.errorf(n, "%s: bins %v: want ascending sizes", what, out.Sizes)
		}
		return out, l.faults == before
	}
	return out, false // one of them is there
}

// over returns the layer over a memory.
func (y layer) over(up mem.Resource) (mem.Resource, error) {
	switch y.Kind {
	case "statistics":
		return resource.NewStatistics(up), nil
	case "track":
		return resource.NewTrack(up, 0), nil
	case "retry":
		return resource.NewRetry(up), nil
	case "limit":
		return resource.NewLimit(up, y.Size)
	case "bins":
		return resource.NewBins(up, 16*y.Sizes[len(y.Sizes)-1], y.Sizes...)
	}
	return resource.NewPool(up, resource.PoolOptions{Slab: y.Size})
}

// stack builds the layers of a memory. Where statistics are asked for, and none
// of the layers keeps them, they are on top.
func (r *runner) stack(id mem.MemoryID, base mem.Resource) mem.Resource {
	var layers []layer
	var d *deviceDecl // of the layers
	if id != mem.Host {
		d = &r.s.Devices[id-1]
		layers = d.Resources
	}
	out := base
	for _, y := range slices.Backward(layers) {
		next, err := y.over(out)
		if err != nil {
			r.stackErr = d.blame(": resources: "+y.Kind, err)
			return base
		}
		out = next
	}
	if _, ok := resource.Find[*resource.Statistics](out); r.opt.Stats && !ok {
		out = resource.NewStatistics(out)
	}
	return out
}

// memoryResult is what a memory's resources have given out and got back, with the
// meanings of PyTorch's torch.cuda.memory_stats: up to the end of the scenario's
// commands, verification left out.
type memoryResult struct {
	Name      string `json:"name"`
	Resources string `json:"resources"` // the layers, from the caller down

	Allocated     figure `json:"allocated"`      // bytes in blocks given out and not given back
	Active        figure `json:"active"`         // bytes allocated, or given back but waited for
	Reserved      figure `json:"reserved"`       // bytes taken from the device
	InactiveSplit figure `json:"inactive_split"` // bytes reserved and unused, in slabs in use
	Allocations   figure `json:"allocations"`    // blocks
	Retries       uint64 `json:"retries"`
	OutOfMemory   uint64 `json:"out_of_memory"` // requests refused
}

// figure is a figure over time.
type figure struct {
	Current     uint64 `json:"current"`
	Peak        uint64 `json:"peak"`
	Accumulated uint64 `json:"accumulated"` // all increases
	Released    uint64 `json:"released"`    // all decreases; of allocations: frees
}

// countMemories adds every memory's statistics.
func (r *runner) countMemories(res *Result) {
	for id, name := range r.names {
		top := r.ctx.Resource(mem.MemoryID(id))
		s, ok := resource.Find[*resource.Statistics](top)
		if !ok {
			continue
		}
		f := s.Figures()
		res.Memories = append(res.Memories, memoryResult{
			Name: name, Resources: resource.Describe(top),
			Allocated: figure(f.Allocated), Active: figure(f.Active), Reserved: figure(f.Reserved), InactiveSplit: figure(f.InactiveSplit),
			Allocations: figure(f.Allocations), Retries: f.Retries, OutOfMemory: f.OutOfMemory,
		})
	}
}

// memories shows the statistics of memories, where there are any.
func (p *printer) memories() {
	if len(p.r.Memories) == 0 {
		return
	}
	t := figures.NewTable("memory", "figure", ">current", ">peak", ">accumulated", ">released")
	for i := range p.r.Memories {
		m := &p.r.Memories[i]
		name := m.Name
		row := func(figure string, f figure, show func(uint64) string) {
			t.Row(name, figure, show(f.Current), show(f.Peak), show(f.Accumulated), show(f.Released))
			name = ""
		}
		row("allocated", m.Allocated, roughText)
		row("active", m.Active, roughText)
		row("reserved", m.Reserved, roughText)
		row("inactive split", m.InactiveSplit, roughText)
		row("allocations", m.Allocations, func(n uint64) string { return fmt.Sprint(n) })
		t.Row("", fmt.Sprintf("%s, %d out of memory", count(int(m.Retries), "retry", "retries"), m.OutOfMemory))
	}
	p.render(t)
	for i := range p.r.Memories {
		fmt.Fprintf(p.w, "resources of %s: %s\n", p.r.Memories[i].Name, p.r.Memories[i].Resources)
	}
	fmt.Fprintln(p.w)
}
