package resource

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"godwit/bufalloc"
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
// bufalloc's. A slab with nothing live in it is cached until Trim.
//
// A block freed after points is carved again only when they have been reached.
type Pool struct {
	base
	opts PoolOptions // immutable

	mu     sync.Mutex
	slabs  []*poolSlab           // protected by mu, in order of growth
	live   map[mem.Block]poolCut // protected by mu: live and pending
	waits  pending               // protected by mu
	busy   mem.BusyRanges        // protected by mu: addresses given back early, see reuse.go
	chunks []bufalloc.Chunk      // protected by mu: scratch
	holes  []mem.Range           // protected by mu: scratch
	stats  mem.ResourceStats     // protected by mu: all but what Stats derives
}

type poolSlab struct {
	block  mem.Block
	region *bufalloc.Region
	cuts   int // blocks carved: live and pending
}

type poolCut struct {
	slab    *poolSlab
	chunk   bufalloc.Chunk
	pending bool
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
	return &Pool{base: base{up}, opts: o, live: map[mem.Block]poolCut{}}, nil
}

// String names the layer and its slab size.
func (p *Pool) String() string { return "pool " + mem.FormatBytes(p.opts.Slab) + " slabs" }

// AllocAll carves all requests from one slab where one has the room, so that
// they come and go together; else each from the first slab that has.
func (p *Pool) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	want, err := total(reqs)
	if err != nil {
		return mem.Exhausted, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first := reuse.Len()
	o, err := p.placeLocked(reqs, out, want, reuse)
	if err != nil || o != mem.Ready {
		p.stats.Failures++
		reuse.Cut(first)
		return o, err
	}
	p.stats.Allocs += uint64(len(reqs))
	p.stats.Live += want
	p.stats.PeakLive = max(p.stats.PeakLive, p.stats.Live)
	p.stats.Blocks += len(reqs)
	return mem.Ready, nil
}

func (p *Pool) placeLocked(reqs []mem.Request, out []mem.Block, want uint64, reuse *mem.Reuse) (mem.Outcome, error) {
	if ok, err := p.carveLocked(reqs, out, reuse); ok || err != nil {
		return mem.Ready, err
	}
	if len(p.waits.entries) > 0 {
		p.waits.reap(p.recycleLocked)
		if ok, err := p.carveLocked(reqs, out, reuse); ok || err != nil {
			return mem.Ready, err
		}
	}
	o, err := p.growLocked(reqs, want, nil)
	if err == nil && o != mem.Ready && reuse != nil {
		if ok, err := p.reuseLocked(reqs, out, reuse); ok || err != nil {
			return mem.Ready, err
		}
		o, err = p.growLocked(reqs, want, reuse)
	}
	if err != nil || o != mem.Ready {
		if err == nil && o == mem.Exhausted && len(p.waits.entries) > 0 {
			o = mem.NeedsWait
		}
		return o, err
	}
	ok, err := p.carveLocked(reqs, out, reuse)
	if err == nil && !ok {
		return mem.Exhausted, fmt.Errorf("pool: a new slab did not hold the %d bytes it was made for", want)
	}
	return mem.Ready, err
}

// carveLocked places the requests in the slabs there are, all or none.
func (p *Pool) carveLocked(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (bool, error) {
	p.chunks = slices.Grow(p.chunks[:0], len(reqs))[:len(reqs)]
	for _, s := range p.slabs {
		err := s.region.AllocAll(reqs, p.chunks)
		if err == nil {
			if !p.usableLocked(s, reqs, reuse) {
				continue
			}
			for i, c := range p.chunks {
				if err := p.takeLocked(s, c, reqs[i].Size, &out[i], reuse, i); err != nil {
					return false, err
				}
			}
			return true, nil
		}
		if !errors.Is(err, mem.ErrNoMemory) {
			return false, err
		}
	}
	if len(reqs) == 1 {
		return false, nil
	}
	first := reuse.Len()
	for i, r := range reqs {
		ok, err := p.carveOneLocked(reqs[i:i+1], r, &out[i], reuse, i)
		if ok && err == nil {
			continue
		}
		for _, b := range out[:i] {
			p.recycleLocked(b)
		}
		clear(out[:i])
		reuse.Cut(first)
		return false, err
	}
	return true, nil
}

func (p *Pool) carveOneLocked(one []mem.Request, r mem.Request, out *mem.Block, reuse *mem.Reuse, i int) (bool, error) {
	for _, s := range p.slabs {
		c, err := s.region.Alloc(r.Size, max(r.Align, 1))
		if err == nil {
			if p.chunks[0] = c; !p.usableLocked(s, one, reuse) {
				continue
			}
			return true, p.takeLocked(s, c, r.Size, out, reuse, i)
		}
		if !errors.Is(err, mem.ErrNoMemory) {
			return false, err
		}
	}
	return false, nil
}

func (p *Pool) takeLocked(s *poolSlab, c bufalloc.Chunk, size uint64, out *mem.Block, reuse *mem.Reuse, i int) error {
	addr, err := s.region.Addr(c)
	if err != nil {
		return err
	}
	*out = s.block.Piece(addr-s.block.Addr, size)
	p.busy.Tell(reuse, i, 0, mem.Range{Start: out.Addr, End: out.Addr + size})
	p.live[*out] = poolCut{slab: s, chunk: c}
	s.cuts++
	return nil
}

// growLocked gets a slab that is sure to hold the requests side by side.
func (p *Pool) growLocked(reqs []mem.Request, want uint64, reuse *mem.Reuse) (mem.Outcome, error) {
	size, align, ok := p.slabFor(reqs)
	if !ok {
		return mem.Exhausted, fmt.Errorf("%d bytes at alignment %d overflow 64 bits: %w", want, align, mem.ErrInvalidSize)
	}
	req := [1]mem.Request{{Size: max(size, p.opts.Slab), Align: align, Tag: reqs[0].Tag, Hint: mem.Kept}}
	var out [1]mem.Block
	first := reuse.Len()
	o, err := p.up.AllocAll(req[:], out[:], reuse)
	if err == nil && o != mem.Ready && size < p.opts.Slab { // less will do
		req[0].Size = size
		o, err = p.up.AllocAll(req[:], out[:], reuse)
	}
	if err != nil || o != mem.Ready {
		return o, err
	}
	if points := busyOf(reuse, first, 0); len(points) > 0 { // all of the slab is
		reuse.Cut(first)
		p.busy.Add(0, mem.Range{Start: out[0].Addr, End: out[0].Addr + out[0].Size}, points)
	}
	region, err := bufalloc.NewRegion(out[0].Addr, out[0].Size, bufalloc.Options{Strategy: p.opts.Strategy, Granularity: p.opts.Align})
	if err != nil {
		return mem.Exhausted, errors.Join(err, p.up.FreeAfter(out[0], nil))
	}
	s := &poolSlab{block: out[0], region: region}
	p.slabs = append(p.slabs, s)
	return mem.Ready, nil
}

// slabFor is the least slab that is sure to hold the requests side by side.
func (p *Pool) slabFor(reqs []mem.Request) (size, align uint64, ok bool) {
	align = p.opts.Align
	for _, r := range reqs {
		align = max(align, r.Align)
	}
	for _, r := range reqs {
		up, ok := mem.AlignUp(r.Size, align)
		if !ok || size+up < size {
			return 0, 0, false
		}
		size += up
	}
	return size, align, true
}

// FreeAfter keeps b for later requests.
func (p *Pool) FreeAfter(b mem.Block, after []mem.Point) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	cut, ok := p.live[b]
	if !ok || cut.pending {
		return notLive("pool", b)
	}
	p.stats.Live -= b.Size
	p.stats.Blocks--
	p.stats.Frees++
	if reached(after) {
		p.recycleLocked(b)
		return nil
	}
	cut.pending = true
	p.live[b] = cut
	p.waits.add(b, after)
	return nil
}

// recycleLocked gives b's bytes back to its slab.
func (p *Pool) recycleLocked(b mem.Block) {
	cut := p.live[b]
	delete(p.live, b)
	cut.slab.cuts--
	if err := cut.slab.region.Free(cut.chunk); err != nil {
		panic(fmt.Sprintf("pool: a chunk it carved is not live: %v", err)) // impossible: live holds only live chunks
	}
}

// Pending appends what freed blocks and upstream wait for.
func (p *Pool) Pending(dst []mem.Point) []mem.Point { return p.up.Pending(p.pending(dst)) }

func (p *Pool) pending(dst []mem.Point) []mem.Point {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits.points(dst)
}

// Trim gives empty slabs back, the newest first, then trims upstream.
func (p *Pool) Trim(keep uint64) uint64 {
	freed, cached := p.trimSlabs(keep)
	return freed + p.up.Trim(keep-min(keep, cached))
}

// trimSlabs gives empty slabs back until at most keep bytes of them are left, and returns
// how many are.
func (p *Pool) trimSlabs(keep uint64) (freed, cached uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.reap(p.recycleLocked)
	cached = p.cachedLocked()
	for i := len(p.slabs) - 1; i >= 0 && cached > keep; i-- {
		s := p.slabs[i]
		if s.cuts > 0 || p.up.FreeAfter(s.block, p.busyInLocked(s)) != nil {
			continue
		}
		p.slabs = slices.Delete(p.slabs, i, i+1)
		cached -= s.block.Size
		freed += s.block.Size
	}
	return freed, cached
}

func (p *Pool) cachedLocked() (n uint64) {
	for _, s := range p.slabs {
		if s.cuts == 0 {
			n += s.block.Size
		}
	}
	return n
}

// Stats counts bytes asked for as live; reserved is what the slabs hold.
func (p *Pool) Stats() mem.ResourceStats {
	up, st := p.up.Stats(), p.slabStats()
	st.Capacity, st.LargestFree = up.Capacity, max(st.LargestFree, up.LargestFree)
	st.Cached += up.Cached
	return st
}

// slabStats are the figures but for upstream's part.
func (p *Pool) slabStats() mem.ResourceStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.reap(p.recycleLocked)
	st := p.stats
	st.Pending, st.Cached = p.waits.bytes, p.cachedLocked()
	for _, s := range p.slabs {
		st.Reserved += s.block.Size
		st.LargestFree = max(st.LargestFree, s.region.Stats().LargestFree)
	}
	return st
}

// Check tests every slab's region, that each carved block is one of its
// chunks, and the counts; then upstream.
func (p *Pool) Check() error {
	if err := p.checkSlabs(); err != nil {
		return err
	}
	return p.up.Check()
}

func (p *Pool) checkSlabs() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	cuts, bytes, pend := 0, uint64(0), 0
	for i, s := range p.slabs {
		if err := s.region.Check(); err != nil {
			return fmt.Errorf("pool slab %d: %w", i, err)
		}
		if n := s.region.Stats().Chunks; n != s.cuts {
			return fmt.Errorf("pool slab %d: %d chunks in the region, %d blocks carved", i, n, s.cuts)
		}
		cuts += s.cuts
	}
	for b, c := range p.live {
		r, err := c.slab.region.Range(c.chunk)
		if err != nil {
			return fmt.Errorf("pool block %#x: %w", b.Addr, err)
		}
		if r.Start != b.Addr || r.Size() < b.Size {
			return fmt.Errorf("pool block %#x of %d bytes lies in chunk %v", b.Addr, b.Size, r)
		}
		if c.pending {
			pend++
		} else {
			bytes += b.Size
		}
	}
	if len(p.live) != cuts || bytes != p.stats.Live || pend != len(p.waits.entries) {
		return fmt.Errorf("pool: %d blocks, %d carved; %d bytes live, %d counted; %d pending, %d waiting",
			len(p.live), cuts, bytes, p.stats.Live, pend, len(p.waits.entries))
	}
	return nil
}
