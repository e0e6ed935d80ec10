package resource

import (
	"slices"

	"godwit/mem"
)

// pending holds blocks that were given back but whose points have not all been
// reached. Owners guard it with their own mutex. Order is that of the frees.
type pending struct {
	entries []pendingEntry
	bytes   uint64
	spare   [][]mem.Point // reused slices of points
}

type pendingEntry struct {
	block mem.Block
	bytes uint64      // of it that were not spent
	after []mem.Point // not yet known to be reached
}

// reached reports whether all points have ended.
func reached(points []mem.Point) bool {
	for _, p := range points {
		if !p.Reached() {
			return false
		}
	}
	return true
}

// add keeps b until the points are reached; it copies the points.
func (p *pending) add(b mem.Block, after []mem.Point) {
	var keep []mem.Point
	if n := len(p.spare); n > 0 {
		keep, p.spare = p.spare[n-1], p.spare[:n-1]
	}
	for _, pt := range after {
		if !pt.Reached() {
			keep = append(keep, pt)
		}
	}
	p.entries = append(p.entries, pendingEntry{b, b.Size, keep})
	p.bytes += b.Size
}

// reap calls free for every block whose points have all been reached, oldest
// first, and forgets it. It returns how many of their bytes were not spent.
func (p *pending) reap(free func(mem.Block)) (bytes uint64) {
	kept := p.entries[:0]
	for _, e := range p.entries {
		if !reached(e.after) {
			kept = append(kept, e)
			continue
		}
		bytes += e.bytes
		clear(e.after)
		p.spare = append(p.spare, e.after[:0])
		free(e.block)
	}
	clear(p.entries[len(kept):])
	p.entries = kept
	p.bytes -= bytes
	return bytes
}

// takes is how many bytes of the frees could be given again to reuse.
func (p *pending) takes(reuse *mem.Reuse) (bytes uint64) {
	for i := range p.entries {
		if e := &p.entries[i]; reuse.Takes(e.after) {
			bytes += e.bytes
		}
	}
	return bytes
}

// spend gives n bytes of the frees that reuse takes to n blocks, the oldest first.
func (p *pending) spend(n uint64, reuse *mem.Reuse, blocks int) {
	p.bytes -= n
	for k := 0; n > 0 && k < len(p.entries); k++ {
		e := &p.entries[k]
		if e.bytes == 0 || !reuse.Takes(e.after) {
			continue
		}
		part := min(n, e.bytes)
		e.bytes -= part
		n -= part
		for i := range blocks {
			reuse.Add(i, e.after)
		}
	}
}

// find returns the first free that reuse takes of those for which ok holds, or -1.
func (p *pending) find(reuse *mem.Reuse, ok func(mem.Block) bool) int {
	if reuse == nil {
		return -1
	}
	return slices.IndexFunc(p.entries, func(e pendingEntry) bool { return ok(e.block) && reuse.Takes(e.after) })
}

// remove takes entry k out, and lists its points for block i of reuse.
func (p *pending) remove(k int, reuse *mem.Reuse, i int) mem.Block {
	e := p.entries[k]
	reuse.Add(i, e.after)
	p.bytes -= e.bytes
	clear(e.after)
	p.spare = append(p.spare, e.after[:0])
	p.entries = slices.Delete(p.entries, k, k+1)
	return e.block
}

// points appends what is waited for.
func (p *pending) points(dst []mem.Point) []mem.Point {
	for _, e := range p.entries {
		for _, pt := range e.after {
			if !pt.Reached() {
				dst = append(dst, pt)
			}
		}
	}
	return dst
}
