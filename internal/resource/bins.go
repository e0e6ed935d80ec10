package resource

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"godwit/mem"
)

// Bins serves small requests from slabs cut into slots of fixed sizes, each
// request from the smallest size that holds it, and passes the rest on. A
// request for more alignment than its size's slots have is passed on as well.
// The slots of one size are a Pool's, all of whose blocks are that large.
type Bins struct {
	base
	name string // immutable

	mu    sync.Mutex
	bins  []bin                // immutable; ascending sizes
	live  map[mem.Block]binned // protected by mu
	stats mem.ResourceStats    // protected by mu: counts, bytes that are live and their peak
	one   [1]mem.Request       // protected by mu: scratch
	got   [1]mem.Block         // protected by mu: scratch
}

// bin is the slots of one size.
type bin struct {
	*Pool
	size uint64 // bytes of a slot
}

// binned is which bin a live block came from, passedOn for upstream, and what it is there.
type binned struct {
	bin   int
	block mem.Block
}

const passedOn = -1

// NewBins returns a layer with slots of the given sizes in bytes, cut from
// slabs of slab bytes each. It fails with mem.ErrInvalidValue for no or zero
// sizes, and for slabs smaller than the largest slot.
func NewBins(up mem.Resource, slab uint64, sizes ...uint64) (*Bins, error) {
	if len(sizes) == 0 {
		return nil, fmt.Errorf("bins without sizes: name at least one: %w", mem.ErrInvalidValue)
	}
	sizes = slices.Compact(slices.Sorted(slices.Values(sizes)))
	if sizes[0] == 0 {
		return nil, fmt.Errorf("bin of 0 bytes: a slot holds at least one byte: %w", mem.ErrInvalidValue)
	}
	if top := sizes[len(sizes)-1]; slab < top {
		return nil, fmt.Errorf("slabs of %d bytes cannot hold a slot of %d: %w", slab, top, mem.ErrInvalidValue)
	}
	b := &Bins{base: base{up}, name: "bins", live: make(map[mem.Block]binned)}
	for _, s := range sizes {
		align := min(s&-s, 4096) // every slot of a slab has it
		p, err := NewPool(up, PoolOptions{Slab: slab / s * s, Align: align})
		if err != nil {
			return nil, err
		}
		b.bins = append(b.bins, bin{p, s})
	}
	return b, nil
}

// NewFixed returns a layer with slots of one size in bytes, count of them in a
// slab; larger requests are passed on.
func NewFixed(up mem.Resource, size, count uint64) (*Bins, error) {
	if size == 0 || count == 0 || size*count/count != size {
		return nil, fmt.Errorf("fixed slots of %d bytes, %d in a slab: both must be positive and their product fit 64 bits: %w", size, count, mem.ErrInvalidValue)
	}
	b, err := NewBins(up, size*count, size)
	if err == nil {
		b.name = "fixed"
	}
	return b, err
}

// String names the layer and its sizes.
func (b *Bins) String() string {
	var sizes []string
	for _, s := range b.bins {
		sizes = append(sizes, mem.FormatBytes(s.size))
	}
	return b.name + " " + strings.Join(sizes, ",")
}

// bin is the index of the smallest size that serves a request, or passedOn.
func (b *Bins) bin(r mem.Request) int {
	for i := range b.bins {
		if s := &b.bins[i]; r.Size <= s.size && r.Align <= s.slabs.opts.Align {
			return i
		}
	}
	return passedOn
}

// source is where a bin takes its blocks.
func (b *Bins) source(bin int) mem.Resource {
	if bin == passedOn {
		return b.Resource
	}
	return b.bins[bin].Pool
}

// AllocAll gives every request its slot, or none.
func (b *Bins) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	if _, err := total(reqs); err != nil {
		return mem.Exhausted, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	first := reuse.Len()
	for i, r := range reqs {
		o, err := b.allocLocked(r, &out[i], reuse, i)
		if err == nil && o == mem.Ready {
			continue
		}
		for j := range i { // none, then
			if e := b.freeLocked(out[j], busyOf(reuse, first, j)); e != nil && err == nil {
				err = e
			}
			out[j] = mem.Block{}
		}
		reuse.Cut(first)
		b.stats.Failures++
		return o, err
	}
	b.stats.Allocs += uint64(len(reqs))
	b.stats.PeakLive = max(b.stats.PeakLive, b.stats.Live)
	return mem.Ready, nil
}

// busyOf are the points behind the first entries that block i is in use until.
func busyOf(reuse *mem.Reuse, first, i int) (points []mem.Point) {
	if reuse == nil {
		return nil
	}
	for _, b := range reuse.Busy[first:] {
		if b.Index == i {
			points = append(points, b.Point)
		}
	}
	return points
}

func (b *Bins) allocLocked(r mem.Request, out *mem.Block, reuse *mem.Reuse, i int) (mem.Outcome, error) {
	k, n := b.bin(r), reuse.Len()
	if b.one[0] = r; k != passedOn {
		b.one[0].Size = b.bins[k].size
	}
	o, err := b.source(k).AllocAll(b.one[:], b.got[:], reuse)
	reuse.Shift(n, i)
	if err == nil && o == mem.Ready {
		*out = b.got[0].Piece(0, r.Size)
		b.live[*out] = binned{k, b.got[0]}
		b.stats.Live += b.got[0].Size
	}
	return o, err
}

// Fits asks each size for the slab that it lacks: these, and what is not served from a
// slot, must fit upstream.
func (b *Bins) Fits(reqs []mem.Request, gone []mem.Block, reuse *mem.Reuse) bool {
	wants, leaving := make(map[int][]mem.Request), make(map[int][]mem.Block)
	for _, r := range reqs {
		k := b.bin(r)
		if k != passedOn {
			r.Size = b.bins[k].size
		}
		wants[k] = append(wants[k], r)
	}
	b.mu.Lock()
	for _, blk := range gone {
		if l, ok := b.live[blk]; ok {
			leaving[l.bin] = append(leaving[l.bin], l.block)
		}
	}
	b.mu.Unlock()
	past := wants[passedOn]
	for k := range b.bins {
		if len(wants[k]) == 0 {
			continue
		}
		slab, _, ok := b.bins[k].missing(wants[k], leaving[k], reuse)
		if !ok {
			return false
		}
		if slab.Size > 0 {
			past = append(past, slab)
		}
	}
	return len(past) == 0 || b.Resource.Fits(past, leaving[passedOn], reuse)
}

// FreeAfter gives b's slot back.
func (b *Bins) FreeAfter(blk mem.Block, after []mem.Point) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.freeLocked(blk, after); err != nil {
		return err
	}
	b.stats.Frees++
	return nil
}

func (b *Bins) freeLocked(blk mem.Block, after []mem.Point) error {
	l, ok := b.live[blk]
	if !ok {
		return notLive(b.name, blk)
	}
	if err := b.source(l.bin).FreeAfter(l.block, after); err != nil {
		return err
	}
	delete(b.live, blk)
	b.stats.Live -= l.block.Size
	return nil
}

// Pending appends what slots and upstream wait for.
func (b *Bins) Pending(dst []mem.Point) []mem.Point {
	for _, s := range b.bins {
		dst = s.blocks.Pending(dst)
	}
	return b.Resource.Pending(dst)
}

// Trim gives wholly free slabs back, then trims upstream.
func (b *Bins) Trim(keep uint64) (freed uint64) {
	for _, s := range b.bins {
		freed += s.blocks.Trim(keep)
		keep -= min(keep, s.empty())
	}
	return freed + b.Resource.Trim(keep)
}

// Stats counts slots at their full size as live; what upstream holds in free
// slots is reserved, in free slabs cached.
func (b *Bins) Stats() mem.ResourceStats {
	up := b.Resource.Stats()
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.stats
	st.Capacity, st.LargestFree = up.Capacity, up.LargestFree
	st.Blocks = len(b.live)
	st.Pending, st.Reserved, st.Cached = up.Pending, up.Reserved, up.Cached
	for _, s := range b.bins {
		st.Pending += s.blocks.Stats().Pending
		st.Cached += s.empty()
	}
	return st
}

// Check tests every slab and the bytes that are live, then upstream.
func (b *Bins) Check() error {
	b.mu.Lock()
	live := b.stats.Live
	for _, l := range b.live {
		live -= l.block.Size
	}
	b.mu.Unlock()
	if live != 0 {
		return fmt.Errorf("%s: %d bytes more are counted as live than blocks hold", b.name, int64(live))
	}
	for _, s := range b.bins {
		if err := s.blocks.Check(); err != nil {
			return fmt.Errorf("%s: slots of %d bytes: %w", b.name, s.size, err)
		}
	}
	return b.Resource.Check()
}
