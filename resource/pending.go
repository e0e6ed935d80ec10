package resource

import "godwit/mem"

// pending holds blocks that were given back but whose points have not all been
// reached. Owners guard it with their own mutex. Order is that of the frees.
type pending struct {
	entries []pendingEntry
	bytes   uint64
	spare   [][]mem.Point // reused slices of points
}

type pendingEntry struct {
	block mem.Block
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
	p.entries = append(p.entries, pendingEntry{b, keep})
	p.bytes += b.Size
}

// reap calls free for every block whose points have all been reached, oldest
// first, and forgets it.
func (p *pending) reap(free func(mem.Block)) {
	kept := p.entries[:0]
	for _, e := range p.entries {
		if !reached(e.after) {
			kept = append(kept, e)
			continue
		}
		p.bytes -= e.block.Size
		clear(e.after)
		p.spare = append(p.spare, e.after[:0])
		free(e.block)
	}
	clear(p.entries[len(kept):])
	p.entries = kept
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
