// Package worstfit is a placement in the fewest lines: the largest hole. It is a
// bad one, and shows what a placement has to do.
package worstfit

import (
	"slices"

	"godwit/bufalloc"
	"godwit/mem"
)

var _ = bufalloc.Register("worstfit", true, func() bufalloc.Placement { return &placement{} })

type placement struct{ holes []bufalloc.Hole }

func (p *placement) Reset(mem.Range)        { p.holes = p.holes[:0] }
func (p *placement) Insert(h bufalloc.Hole) { p.holes = append(p.holes, h) }

func (p *placement) Remove(h bufalloc.Hole) {
	i := slices.Index(p.holes, h)
	p.holes = slices.Delete(p.holes, i, i+1)
}

func (p *placement) Find(size, align uint64, _ mem.Hint) (id uint32, addr uint64) {
	most := uint64(0)
	for _, h := range p.holes {
		if at, ok := h.Fits(size, align); ok && h.Size > most {
			id, addr, most = h.ID, at, h.Size
		}
	}
	return id, addr
}
