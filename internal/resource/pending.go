package resource

import "godwit/mem"

// pending is the bytes of blocks that were given back but whose points have not all been
// reached, in the order of the frees: a Limit's, under its mutex.
type pending struct {
	entries []pendingEntry
	bytes   uint64
	spare   [][]mem.Point // reused slices of points
}

type pendingEntry struct {
	bytes uint64      // that were not spent
	after []mem.Point // not known to be reached when the block was freed
}

// add counts bytes until the points, which it copies, are reached, and reports whether one
// is not.
func (p *pending) add(bytes uint64, after []mem.Point) bool {
	var keep []mem.Point
	if n := len(p.spare); n > 0 {
		keep, p.spare = p.spare[n-1], p.spare[:n-1]
	}
	for _, pt := range after {
		if !pt.Reached() {
			keep = append(keep, pt)
		}
	}
	if len(keep) == 0 {
		p.spare = append(p.spare, keep)
		return false
	}
	p.entries = append(p.entries, pendingEntry{bytes, keep})
	p.bytes += bytes
	return true
}

// reap forgets what has all its points reached, and returns how many of its bytes were not
// spent.
func (p *pending) reap() (bytes uint64) {
	var none *mem.Reuse
	kept := p.entries[:0]
	for _, e := range p.entries {
		if !none.Takes(e.after) {
			kept = append(kept, e)
			continue
		}
		bytes += e.bytes
		clear(e.after)
		p.spare = append(p.spare, e.after[:0])
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

// spend gives n bytes of the frees that reuse takes to so many blocks, the oldest first.
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
