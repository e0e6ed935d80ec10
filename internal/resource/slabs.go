package resource

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"godwit/bufalloc"
	"godwit/internal/storage"
	"godwit/mem"
)

// poolSlabs is the store of a Pool: blocks are chunks of slabs, which are blocks of upstream.
// All is called under the lock of the Blocks, which comes before upstream's.
type poolSlabs struct {
	up   mem.Resource // immutable
	opts PoolOptions  // immutable

	slabs   []*poolSlab         // in order of growth
	fresh   *poolSlab           // what the last Grow got, for the next Take
	busy    *storage.BusyRanges // of the Blocks; nil before there is a slab
	outcome mem.Outcome         // of the last Grow
	err     error               // likewise
	chunks  []bufalloc.Chunk    // scratch
	holes   []mem.Range         // scratch
}

var _ storage.Grower = (*poolSlabs)(nil)

type poolSlab struct {
	block  mem.Block
	region *bufalloc.Region
	asked  uint64 // bytes of its blocks
}

// at is the slab that an address lies in; nil where there is none any more.
func (s *poolSlabs) at(addr uint64) *poolSlab {
	for _, sl := range s.slabs {
		if addr-sl.block.Addr < sl.block.Size {
			return sl
		}
	}
	return nil
}

// Take implements storage.Store: in one slab, the first with room, else each in the first with
// room. A slab that was just got for the requests comes before all others: what these have
// room for may be in use.
func (s *poolSlabs) Take(reqs []mem.Request, at []storage.Place) bool {
	fresh := s.fresh
	s.fresh = nil
	if fresh != nil && s.takeIn(fresh, reqs, at) {
		return true
	}
	for _, sl := range s.slabs {
		if s.takeIn(sl, reqs, at) {
			return true
		}
	}
	return len(reqs) > 1 && storage.TakeEach(reqs, at, s.takeOne, s.Give)
}

func (s *poolSlabs) takeOne(size, align uint64) (storage.Place, bool) {
	one, at := [1]mem.Request{{Size: size, Align: align}}, [1]storage.Place{}
	ok := slices.ContainsFunc(s.slabs, func(sl *poolSlab) bool { return s.takeIn(sl, one[:], at[:]) })
	return at[0], ok
}

// takeIn carves all requests from one slab, or none.
func (s *poolSlabs) takeIn(sl *poolSlab, reqs []mem.Request, at []storage.Place) bool {
	s.chunks = slices.Grow(s.chunks[:0], len(reqs))[:len(reqs)]
	if !sl.region.TryAll(reqs, s.chunks) {
		return false
	}
	for i, c := range s.chunks {
		addr, err := sl.region.Addr(c)
		if err != nil {
			panic(fmt.Sprintf("pool: a chunk just given: %v", err))
		}
		at[i] = storage.Place{Addr: addr, Key: c.Ref(), Ref: sl.block.Ref}
		sl.asked += reqs[i].Size
	}
	return true
}

// Give implements storage.Store.
func (s *poolSlabs) Give(p storage.Place, size uint64) {
	sl := s.at(p.Addr)
	sl.asked -= size
	if err := sl.region.Free(bufalloc.ChunkFromRef(p.Key)); err != nil {
		panic(fmt.Sprintf("pool: a chunk that Blocks holds: %v", err))
	}
}

// Yield implements storage.Yielder: the chunk is free.
func (s *poolSlabs) Yield(p storage.Place, size uint64) bool {
	s.Give(p, size)
	return true
}

// Ended implements storage.Yielder: nothing is kept beside a place's bytes.
func (s *poolSlabs) Ended(storage.Place, uint64) {}

// Span implements storage.Yielder.
func (s *poolSlabs) Span(p storage.Place, size uint64) (uint64, mem.Range) {
	return 0, mem.Range{Start: p.Addr, End: p.Addr + size}
}

// Grow implements storage.Grower: it takes a slab that is sure to hold the requests side by
// side.
func (s *poolSlabs) Grow(reqs []mem.Request, reuse *mem.Reuse, busy *storage.BusyRanges) bool {
	s.busy = busy
	s.outcome, s.err = s.grow(reqs, reuse)
	return s.err == nil && s.outcome == mem.Ready
}

func (s *poolSlabs) grow(reqs []mem.Request, reuse *mem.Reuse) (mem.Outcome, error) {
	size, align, ok := s.slabFor(reqs)
	if !ok {
		return mem.Exhausted, fmt.Errorf("pool: %d requests with their alignment overflow 64 bits: %w", len(reqs), mem.ErrInvalidSize)
	}
	req := [1]mem.Request{{Size: max(size, s.opts.Slab), Align: align, Tag: reqs[0].Tag, Hint: mem.Kept}}
	var out [1]mem.Block
	first := reuse.Len()
	o, err := s.up.AllocAll(req[:], out[:], reuse)
	if err == nil && o != mem.Ready && size < s.opts.Slab { // less will do
		req[0].Size = size
		o, err = s.up.AllocAll(req[:], out[:], reuse)
	}
	if err != nil || o != mem.Ready {
		return o, err
	}
	b := out[0]
	if points := busyOf(reuse, first, 0); len(points) > 0 { // all of the slab is
		reuse.Cut(first)
		s.busy.Add(0, mem.Range{Start: b.Addr, End: b.Addr + b.Size}, points)
	}
	region, err := bufalloc.NewRegion(b.Addr, b.Size, bufalloc.Options{Strategy: s.opts.Strategy, Granularity: s.opts.Align})
	if err != nil {
		return mem.Exhausted, errors.Join(err, s.up.FreeAfter(b, nil))
	}
	s.fresh = &poolSlab{block: b, region: region}
	s.slabs = append(s.slabs, s.fresh)
	return mem.Ready, nil
}

// slabFor is the least slab that is sure to hold the requests side by side.
func (s *poolSlabs) slabFor(reqs []mem.Request) (size, align uint64, ok bool) {
	align = s.opts.Align
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

// Refused implements storage.Grower.
func (s *poolSlabs) Refused() (mem.Outcome, error) { return s.outcome, s.err }

// Limits implements storage.Store.
func (s *poolSlabs) Limits() (capacity, largest uint64) {
	up := s.up.Stats()
	for _, sl := range s.slabs {
		up.LargestFree = max(up.LargestFree, sl.region.Stats().LargestFree)
	}
	return up.Capacity, up.LargestFree
}

// Trim implements storage.Store: empty slabs go back, the newest first.
func (s *poolSlabs) Trim(keep uint64) (freed uint64) {
	cached := s.empty()
	for i := len(s.slabs) - 1; i >= 0 && cached > keep; i-- {
		b := s.slabs[i].block
		if s.slabs[i].asked > 0 || s.up.FreeAfter(b, s.busy.Points(nil, 0, mem.Range{Start: b.Addr, End: b.Addr + b.Size})) != nil {
			continue
		}
		s.slabs, s.fresh = slices.Delete(s.slabs, i, i+1), nil
		cached -= b.Size
		freed += b.Size
	}
	return freed
}

// empty is the bytes of slabs with nothing in them.
func (s *poolSlabs) empty() (n uint64) {
	for _, sl := range s.slabs {
		if sl.asked == 0 {
			n += sl.block.Size
		}
	}
	return n
}

// Cached implements storage.Store: what slabs hold beside the bytes of blocks.
func (s *poolSlabs) Cached() (n uint64) {
	for _, sl := range s.slabs {
		n += sl.block.Size - sl.asked
	}
	return n
}

// Fits implements storage.Store.
func (s *poolSlabs) Fits(reqs []mem.Request, gone []storage.Gone) bool {
	slab, empty, ok := s.missing(reqs, gone)
	return ok && (slab.Size == 0 || s.up.Fits([]mem.Request{slab}, empty, nil))
}

// missing is Pool.missing.
func (s *poolSlabs) missing(reqs []mem.Request, gone []storage.Gone) (slab mem.Request, empty []mem.Block, ok bool) {
	s.holes = s.holes[:0]
	for _, sl := range s.slabs {
		s.chunks = s.chunks[:0]
		left := sl.asked
		for _, g := range gone {
			if g.Addr-sl.block.Addr < sl.block.Size {
				s.chunks = append(s.chunks, bufalloc.ChunkFromRef(g.Key))
				left -= g.Size
			}
		}
		if left == 0 {
			empty = append(empty, sl.block)
		}
		s.holes = sl.region.Holes(s.holes, s.chunks)
	}
	if bufalloc.Pack(s.holes, reqs, s.opts.Align) {
		return mem.Request{}, empty, true
	}
	slab.Size, slab.Align, ok = s.slabFor(reqs)
	return slab, empty, ok
}

// Check implements storage.Store.
func (s *poolSlabs) Check() error {
	for i, sl := range s.slabs {
		if err := sl.region.Check(); err != nil {
			return fmt.Errorf("pool slab %d: %w", i, err)
		}
		if n := sl.region.Stats().Live; n != sl.asked {
			return fmt.Errorf("pool slab %d: %d bytes live in the region, %d in blocks", i, n, sl.asked)
		}
	}
	return nil
}

// Extents implements mapper.
func (p *Pool) Extents() []extent {
	var out []extent
	p.blocks.Locked(func() {
		for _, sl := range p.slabs.slabs {
			out = append(out, extent{Range: sl.region.Bounds()})
		}
	})
	p.blocks.Each(func(b mem.Block, pending bool) {
		i := slices.IndexFunc(out, func(e extent) bool { return b.Addr-e.Range.Start < e.Range.Size() })
		if i >= 0 {
			out[i].Used = append(out[i].Used, use{b, pending})
		}
	})
	for i := range out {
		slices.SortFunc(out[i].Used, func(a, b use) int { return cmp.Compare(a.Block.Addr, b.Block.Addr) })
	}
	return out
}
