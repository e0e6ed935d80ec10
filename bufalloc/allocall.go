package bufalloc

import (
	"fmt"

	"godwit/mem"
)

// AllocAll gives a chunk for every request, or none: out[i] is for reqs[i],
// and len(out) must equal len(reqs). Where one hole holds them all they are
// placed in it side by side, in order, so that freeing them together gives the
// hole back whole; else each is placed by itself. An Align of 0 leaves the
// alignment to the region's granularity. It fails as Alloc does, and then
// nothing has changed and out holds zero chunks.
func (r *Region) AllocAll(reqs []mem.Request, out []Chunk) error {
	if len(out) != len(reqs) {
		return fmt.Errorf("%d requests and room for %d chunks: want as many: %w", len(reqs), len(out), mem.ErrInvalidValue)
	}
	clear(out)
	for i, q := range reqs {
		if q.Size == 0 || (q.Align != 0 && !mem.IsPow2(q.Align)) {
			return fmt.Errorf("request %d of %d: %w", i, len(reqs), badRequest(q.Size, q.Align))
		}
	}
	failed := r.allocAll(reqs, out)
	if failed < 0 {
		return nil
	}
	q := reqs[failed]
	err := r.takeFault()
	if err == nil {
		err = &NoRoomError{Size: q.Size, Align: max(q.Align, r.granule), Free: r.s.free(r.size), Chunks: r.chunks(), Limit: r.maxChunks}
	}
	return fmt.Errorf("request %d of %d: %w", failed, len(reqs), err)
}

// TryAll is AllocAll for valid requests of callers to whom running out is nothing
// unusual: it reports whether there was room, and makes no error that says why not.
func (r *Region) TryAll(reqs []mem.Request, out []Chunk) bool {
	clear(out)
	if r.allocAll(reqs, out) < 0 {
		return true
	}
	_ = r.takeFault() // a placement that answers badly has no room
	return false
}

// allocAll is AllocAll for valid requests. It returns which one found no room, or -1.
func (r *Region) allocAll(reqs []mem.Request, out []Chunk) int {
	if len(reqs) > 1 && !r.grid && r.follow == nil {
		if r.hint = common(reqs); r.hint != 0 {
			r.learn()
		}
		done := r.together(reqs, out)
		r.hint = 0
		if done {
			return -1
		}
	}
	before := r.s
	for i, q := range reqs {
		if out[i] = r.tryOne(q); !out[i].IsZero() {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			r.free(out[j].index)
		}
		clear(out)
		scans, steps := r.s.Scans, r.s.ScanSteps
		r.s = before
		r.s.Scans, r.s.ScanSteps = scans, steps
		r.s.Failures++
		return i
	}
	return -1
}

// tryOne gives a chunk for a valid request, or the zero one.
func (r *Region) tryOne(q mem.Request) Chunk {
	if q.Hint == 0 && q.Size-1 < r.quick && r.s.free(r.size) >= 2*q.Size {
		c, _ := r.Alloc(q.Size, max(q.Align, 1)) // the short way
		return c
	}
	if r.hint = q.Hint; r.hint != 0 {
		r.learn()
	}
	i := r.alloc(q.Size, max(q.Align, r.granule))
	r.hint = 0
	if i == 0 {
		return Chunk{}
	}
	return Chunk{i, r.nodes[i].a}
}

// common is the hint that all requests have, or none.
func common(reqs []mem.Request) mem.Hint {
	for _, q := range reqs {
		if q.Hint != reqs[0].Hint {
			return 0
		}
	}
	return reqs[0].Hint
}

// together places all requests in one hole, where there is one for them.
func (r *Region) together(reqs []mem.Request, out []Chunk) bool {
	total, align, ok := r.extent(reqs)
	if !ok || total > r.size || len(reqs) > r.maxChunks-r.chunks() || len(r.nodes) > maxNodes-128-2*len(reqs) {
		return false
	}
	i, addr, _ := r.find(total, align)
	if i == 0 {
		return false
	}
	i = r.carve(i, addr, total)
	for k, q := range reqs {
		at := r.nodes[i].addr
		if gap := -at & (max(q.Align, r.granule) - 1); gap > 0 {
			g := r.cutFront(i, gap)
			r.insert(g)
		}
		f := i
		if need := r.rounded(q.Size); need < r.nodes[i].size {
			f = r.cutFront(i, need)
		}
		r.enlive(f, q.Size, max(q.Align, r.granule))
		out[k] = Chunk{f, r.nodes[f].a}
	}
	return true
}

// extent is the bytes that the requests take side by side from an address
// aligned to align, the greatest of their alignments.
func (r *Region) extent(reqs []mem.Request) (total, align uint64, ok bool) {
	align = r.granule
	for _, q := range reqs {
		a := max(q.Align, r.granule)
		align = max(align, a)
		start, ok := mem.AlignUp(total, a)
		if !ok || q.Size > r.size || start > r.size {
			return 0, 0, false
		}
		total = start + r.rounded(q.Size)
	}
	return total, align, true
}

// rounded is a size, at most the region's, rounded up to the granularity.
func (r *Region) rounded(size uint64) uint64 { return (size + r.granule - 1) &^ (r.granule - 1) }
