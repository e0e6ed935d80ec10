package resource

import (
	"fmt"

	"godwit/bufalloc"
	"godwit/mem"
)

// How a pool gives bytes again that commands still use (mem.Reuse): a pending block of
// the same size and place as it is; else pending blocks go back to their slabs early,
// and what overlaps them is busy until their points are reached.

// usableLocked reports whether reuse takes what is busy of p.chunks, which are for
// reqs; where not, they are free again.
func (p *Pool) usableLocked(s *poolSlab, reqs []mem.Request, reuse *mem.Reuse) bool {
	p.busy.Reap()
	if p.busy.Empty() {
		return true
	}
	ok := true
	for i := range reqs {
		if r, err := s.region.Range(p.chunks[i]); err != nil || !p.busy.Takes(reuse, 0, r) {
			ok = false
		}
	}
	if ok {
		return true
	}
	for i := range reqs {
		if err := s.region.Free(p.chunks[i]); err != nil {
			panic(fmt.Sprintf("pool: a chunk just given: %v", err))
		}
	}
	return false
}

// reuseLocked places the requests where pending blocks are, all or none.
func (p *Pool) reuseLocked(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (bool, error) {
	if len(reqs) == 1 {
		r := reqs[0]
		k := p.waits.find(reuse, func(b mem.Block) bool { return b.Size == r.Size && b.Addr&(max(r.Align, 1)-1) == 0 })
		if k >= 0 {
			out[0] = p.waits.remove(k, reuse, 0)
			cut := p.live[out[0]]
			cut.pending = false
			p.live[out[0]] = cut
			return true, nil
		}
	}
	for {
		k := p.waits.find(reuse, func(mem.Block) bool { return true })
		if k < 0 {
			return false, nil
		}
		b := p.waits.entries[k].block
		p.busy.Add(0, mem.Range{Start: b.Addr, End: b.Addr + b.Size}, p.waits.entries[k].after)
		p.recycleLocked(p.waits.remove(k, nil, 0))
		if ok, err := p.carveLocked(reqs, out, reuse); ok || err != nil {
			return ok, err
		}
	}
}

// busyInLocked are the points that a slab is in use until.
func (p *Pool) busyInLocked(s *poolSlab) []mem.Point {
	return p.busy.Points(nil, 0, mem.Range{Start: s.block.Addr, End: s.block.Addr + s.block.Size})
}

// Fits looks in the slabs first, then for one more upstream: with those that would be
// empty given back.
func (p *Pool) Fits(reqs []mem.Request, gone []mem.Block, reuse *mem.Reuse) bool {
	if _, err := total(reqs); err != nil {
		return false
	}
	slab, empty, ok := p.missing(reqs, gone, reuse)
	return ok && (slab.Size == 0 || p.up.Fits([]mem.Request{slab}, empty, reuse))
}

// missing is the slab that the requests want of upstream, of 0 bytes where they find room,
// and which slabs are empty; not ok where there can be none.
func (p *Pool) missing(reqs []mem.Request, gone []mem.Block, reuse *mem.Reuse) (slab mem.Request, empty []mem.Block, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holes = p.holes[:0]
	for _, s := range p.slabs {
		p.collectFreeable(s, gone, reuse)
		if len(p.chunks) == s.cuts {
			empty = append(empty, s.block)
		}
		p.holes = s.region.Holes(p.holes, p.chunks)
	}
	if bufalloc.Pack(p.holes, reqs, p.opts.Align) {
		return mem.Request{}, empty, true
	}
	slab.Size, slab.Align, ok = p.slabFor(reqs)
	return slab, empty, ok
}

// collectFreeable sets p.chunks to the chunks of s that gone or reuse would make free. mu is
// held.
func (p *Pool) collectFreeable(s *poolSlab, gone []mem.Block, reuse *mem.Reuse) {
	p.chunks = p.chunks[:0]
	for _, b := range gone {
		if c, ok := p.live[b]; ok && c.slab == s {
			p.chunks = append(p.chunks, c.chunk)
		}
	}
	for i := range p.waits.entries {
		if e := &p.waits.entries[i]; reuse.Takes(e.after) {
			if c := p.live[e.block]; c.slab == s {
				p.chunks = append(p.chunks, c.chunk)
			}
		}
	}
}
