package resource

import (
	"fmt"

	"godwit/bufalloc"
	"godwit/internal/storage"
	"godwit/mem"
)

// PoolOptions shape a Pool. The zero value is a good default.
type PoolOptions struct {
	// Slab is the bytes taken from upstream at a time; 0 is 64 MiB. Larger
	// requests get a slab of their own size.
	Slab uint64
	// Align is the least alignment of every block and the granule to which
	// sizes are rounded: a power of two; 0 is 256.
	Align uint64
	// Strategy places blocks in slabs.
	Strategy bufalloc.Strategy
}

// Pool carves large slabs of upstream and keeps what is freed for the next
// request, as RMM's pool and PyTorch's caching allocator do; the carving is
// bufalloc's (poolSlabs). Which blocks are live, which frees are pending and how their
// bytes are given again is storage.Blocks', as for the memory of a device. A slab with
// nothing live in it is cached until Trim.
type Pool struct {
	base
	blocks *storage.Blocks // immutable
	slabs  *poolSlabs      // immutable: the store of blocks
}

// NewPool returns a carving layer over up. It fails with mem.ErrInvalidValue
// where Align is not a power of two or a strategy cannot be used for carving.
func NewPool(up mem.Resource, o PoolOptions) (*Pool, error) {
	if o.Slab == 0 {
		o.Slab = 64 << 20
	}
	if o.Align == 0 {
		o.Align = 256
	}
	if !mem.IsPow2(o.Align) {
		return nil, fmt.Errorf("pool alignment %d: want a power of two: %w", o.Align, mem.ErrInvalidValue)
	}
	if _, err := bufalloc.NewRegion(0, o.Slab, bufalloc.Options{Strategy: o.Strategy, Granularity: o.Align}); err != nil {
		return nil, fmt.Errorf("pool slabs: %w", err)
	}
	s := &poolSlabs{up: up, opts: o}
	return &Pool{base: base{up}, blocks: storage.NewBlocks("pool", o.Align, s), slabs: s}, nil
}

// String names the layer and its slab size.
func (p *Pool) String() string { return "pool " + mem.FormatBytes(p.slabs.opts.Slab) + " slabs" }

// AllocAll carves all requests from one slab where one has the room, so that
// they come and go together; else each from the first slab that has.
func (p *Pool) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	if _, err := total(reqs); err != nil {
		return mem.Exhausted, err
	}
	return p.blocks.AllocAll(reqs, out, reuse)
}

// Fits looks in the slabs first, then for one more upstream: with those that would be
// empty given back.
func (p *Pool) Fits(reqs []mem.Request, gone []mem.Block, reuse *mem.Reuse) bool {
	if _, err := total(reqs); err != nil {
		return false
	}
	slab, empty, ok := p.missing(reqs, gone, reuse)
	return ok && (slab.Size == 0 || p.Resource.Fits([]mem.Request{slab}, empty, reuse))
}

// missing is the slab that the requests want of upstream, of 0 bytes where they find room,
// and which slabs are empty; not ok where there can be none.
func (p *Pool) missing(reqs []mem.Request, gone []mem.Block, reuse *mem.Reuse) (slab mem.Request, empty []mem.Block, ok bool) {
	leaving := p.blocks.Freeable(nil, gone, reuse)
	p.blocks.Locked(func() { slab, empty, ok = p.slabs.missing(reqs, leaving) })
	return slab, empty, ok
}

// FreeAfter keeps b for later requests.
func (p *Pool) FreeAfter(b mem.Block, after []mem.Point) error { return p.blocks.FreeAfter(b, after) }

// Pending appends what freed blocks and upstream wait for.
func (p *Pool) Pending(dst []mem.Point) []mem.Point { return p.Resource.Pending(p.blocks.Pending(dst)) }

// Trim gives empty slabs back, the newest first, then trims upstream.
func (p *Pool) Trim(keep uint64) uint64 {
	freed := p.blocks.Trim(keep)
	return freed + p.Resource.Trim(keep-min(keep, p.empty()))
}

// empty is the bytes of slabs with nothing in them.
func (p *Pool) empty() (n uint64) {
	p.blocks.Locked(func() { n = p.slabs.empty() })
	return n
}

// Stats counts bytes asked for as live; reserved is what the slabs hold.
func (p *Pool) Stats() mem.ResourceStats {
	st := p.blocks.Stats()
	st.Cached = p.empty() + p.Resource.Stats().Cached
	return st
}

// Check tests every slab's region, that blocks and slabs agree, and the counts; then
// upstream.
func (p *Pool) Check() error {
	if err := p.blocks.Check(); err != nil {
		return err
	}
	return p.Resource.Check()
}
