package bufalloc

import (
	"errors"
	"fmt"
	"iter"

	"godwit/mem"
)

// Regions searches several regions in order: the first that has room serves a
// request. Their addresses do not overlap. It belongs to one goroutine at a
// time, and so do its regions.
type Regions struct {
	list []*Region
}

// Place is a chunk of one of the regions.
type Place struct {
	Region int // place in the order, from 0
	Chunk  Chunk
}

// NewRegions returns a search order. It fails as Add does.
func NewRegions(list ...*Region) (*Regions, error) {
	g := &Regions{}
	for _, r := range list {
		if err := g.Add(r); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Add puts a region at the end of the order. It fails with mem.ErrInvalidValue
// where r is nil, and with mem.ErrOverlap where it shares an address with
// another.
func (g *Regions) Add(r *Region) error {
	if r == nil {
		return fmt.Errorf("region %d is nil: %w", len(g.list), mem.ErrInvalidValue)
	}
	for i, o := range g.list {
		if o.Bounds().Overlaps(r.Bounds()) {
			return fmt.Errorf("region %v shares addresses with region %d, %v: %w", r.Bounds(), i, o.Bounds(), mem.ErrOverlap)
		}
	}
	g.list = append(g.list, r)
	return nil
}

// All yields the regions in order.
func (g *Regions) All() iter.Seq2[int, *Region] {
	return func(yield func(int, *Region) bool) {
		for i, r := range g.list {
			if !yield(i, r) {
				return
			}
		}
	}
}

// Alloc is Region.Alloc on the first region that has room. Its error is that of
// the last region tried; mem.ErrNoMemory without any.
func (g *Regions) Alloc(size, align uint64) (Place, error) {
	err := error(&NoRoomError{Size: size, Align: align})
	for i, r := range g.list {
		var c Chunk
		if c, err = r.Alloc(size, align); err == nil {
			return Place{i, c}, nil
		}
		if !errors.Is(err, mem.ErrNoMemory) {
			break
		}
	}
	return Place{}, err
}

// AllocAll is Region.AllocAll on the first region that has room for all, and
// where none has, request by request over the regions in order: all or none.
func (g *Regions) AllocAll(reqs []mem.Request, out []Place) error {
	if len(out) != len(reqs) {
		return fmt.Errorf("%d requests and room for %d chunks: want as many: %w", len(reqs), len(out), mem.ErrInvalidValue)
	}
	clear(out)
	chunks := make([]Chunk, len(reqs))
	for i, r := range g.list {
		err := r.AllocAll(reqs, chunks)
		if err == nil {
			for k, c := range chunks {
				out[k] = Place{i, c}
			}
			return nil
		}
		if !errors.Is(err, mem.ErrNoMemory) {
			return err
		}
	}
	for k, q := range reqs {
		p, err := g.Alloc(q.Size, max(q.Align, 1))
		if err != nil {
			for j := k - 1; j >= 0; j-- {
				if err := g.Free(out[j]); err != nil {
					return err
				}
			}
			clear(out)
			return fmt.Errorf("request %d of %d: %w", k, len(reqs), err)
		}
		out[k] = p
	}
	return nil
}

// at is the region of that place in the order.
func (g *Regions) at(p Place) (*Region, error) {
	if p.Region < 0 || p.Region >= len(g.list) {
		return nil, fmt.Errorf("%v of region %d: there are %d: %w", p.Chunk, p.Region, len(g.list), ErrForeignChunk)
	}
	return g.list[p.Region], nil
}

// Free is Region.Free.
func (g *Regions) Free(p Place) error {
	r, err := g.at(p)
	if err != nil {
		return err
	}
	return r.Free(p.Chunk)
}

// Range is Region.Range.
func (g *Regions) Range(p Place) (mem.Range, error) {
	r, err := g.at(p)
	if err != nil {
		return mem.Range{}, err
	}
	return r.Range(p.Chunk)
}

// Lookup is Region.Lookup on the region that the address lies in.
func (g *Regions) Lookup(addr uint64) (Place, bool) {
	for i, r := range g.list {
		if addr-r.base < r.size {
			c, ok := r.Lookup(addr)
			return Place{i, c}, ok
		}
	}
	return Place{}, false
}

// FreeAddr is Region.FreeAddr on the region that the address lies in.
func (g *Regions) FreeAddr(addr uint64) error {
	for _, r := range g.list {
		if addr-r.base < r.size {
			return r.FreeAddr(addr)
		}
	}
	return fmt.Errorf("free of address %#x: in none of %d regions: %w", addr, len(g.list), ErrNoChunk)
}

// Stats are the sums over the regions; LargestFree is the largest of them.
func (g *Regions) Stats() Stats {
	var sum Stats
	for _, r := range g.list {
		s := r.Stats()
		sum.Capacity += s.Capacity
		sum.Live += s.Live
		sum.Slack += s.Slack
		sum.Free += s.Free
		sum.LargestFree = max(sum.LargestFree, s.LargestFree)
		sum.PeakLive += s.PeakLive
		sum.HighWater += s.HighWater
		sum.Chunks += s.Chunks
		sum.Holes += s.Holes
		sum.Allocs += s.Allocs
		sum.Frees += s.Frees
		sum.Failures += s.Failures
		sum.Scans += s.Scans
		sum.ScanSteps += s.ScanSteps
		sum.Bookkeeping += s.Bookkeeping
	}
	return sum
}

// Check is Region.Check on each.
func (g *Regions) Check() error {
	for i, r := range g.list {
		if err := r.Check(); err != nil {
			return fmt.Errorf("region %d: %w", i, err)
		}
	}
	return nil
}

// Reset is Region.Reset on each.
func (g *Regions) Reset() {
	for _, r := range g.list {
		r.Reset()
	}
}
