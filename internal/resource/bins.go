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
type Bins struct {
	base
	name string // immutable

	mu        sync.Mutex
	bins      []*slabs               // slots and lists protected by mu; ascending sizes
	past      map[mem.Block]struct{} // protected by mu: live blocks that were passed on
	pastBytes uint64                 // protected by mu: their sum
	stats     mem.ResourceStats      // protected by mu: counts and the peak only
}

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
	b := &Bins{base: base{up}, name: "bins", past: make(map[mem.Block]struct{})}
	for _, s := range sizes {
		b.bins = append(b.bins, newSlabs(s, slab))
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

// bin finds the smallest fitting size, or nil.
func (b *Bins) bin(r mem.Request) *slabs {
	i, _ := slices.BinarySearchFunc(b.bins, r.Size, func(s *slabs, size uint64) int {
		if s.size < size {
			return -1
		}
		return 1
	})
	for ; i < len(b.bins); i++ {
		if r.Align <= b.bins[i].align {
			return b.bins[i]
		}
	}
	return nil
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
	b.stats.PeakLive = max(b.stats.PeakLive, b.liveLocked())
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

func (b *Bins) allocLocked(r mem.Request, out *mem.Block, reuse *mem.Reuse, i int) (o mem.Outcome, err error) {
	if s := b.bin(r); s != nil {
		*out, o, err = s.alloc(b.up, r.Size, r.Tag, reuse, i)
		return o, err
	}
	one := [1]mem.Request{r}
	var got [1]mem.Block
	n := reuse.Len()
	defer func() { reuse.Shift(n, i) }()
	if o, err = b.up.AllocAll(one[:], got[:], reuse); err == nil && o == mem.Ready {
		*out = got[0]
		b.past[got[0]] = struct{}{}
		b.pastBytes += got[0].Size
	}
	return o, err
}

// Fits counts slots; what is not served from one, and new slabs, must fit upstream.
func (b *Bins) Fits(reqs []mem.Request, gone []mem.Block, reuse *mem.Reuse) bool {
	var past []mem.Request
	var left []mem.Block
	b.mu.Lock()
	slots := make(map[*slabs]int)
	for _, blk := range gone {
		if s := b.slotOf(blk); s != nil {
			slots[s]++
		} else {
			left = append(left, blk)
		}
	}
	for _, s := range b.bins {
		slots[s] += s.room(reuse)
	}
	for _, r := range reqs {
		s := b.bin(r)
		if s == nil {
			past = append(past, r)
			continue
		}
		if slots[s] == 0 {
			past = append(past, mem.Request{Size: s.size * s.slots, Align: s.align})
			slots[s] = int(s.slots)
		}
		slots[s]--
	}
	b.mu.Unlock()
	return len(past) == 0 || b.up.Fits(past, left, reuse)
}

// slotOf finds whose slot a live block is, or nil. mu is held.
func (b *Bins) slotOf(blk mem.Block) *slabs {
	for _, s := range b.bins {
		if s.where[blk] != nil {
			return s
		}
	}
	return nil
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
	for _, s := range b.bins {
		if s.release(blk, after) {
			return nil
		}
	}
	if _, ok := b.past[blk]; !ok {
		return notLive(b.name, blk)
	}
	if err := b.up.FreeAfter(blk, after); err != nil {
		return err
	}
	delete(b.past, blk)
	b.pastBytes -= blk.Size
	return nil
}

// Pending appends what slots and upstream wait for.
func (b *Bins) Pending(dst []mem.Point) []mem.Point {
	b.mu.Lock()
	for _, s := range b.bins {
		dst = s.waits.points(dst)
	}
	b.mu.Unlock()
	return b.up.Pending(dst)
}

// Trim gives wholly free slabs back, then trims upstream.
func (b *Bins) Trim(keep uint64) uint64 {
	b.mu.Lock()
	var freed uint64
	for _, s := range b.bins {
		n, err := s.trim(b.up, keep)
		freed += n
		keep -= min(keep, s.cached())
		if err != nil {
			break // upstream refused its own block: Check will say so
		}
	}
	b.mu.Unlock()
	return freed + b.up.Trim(keep)
}

func (b *Bins) liveLocked() (n uint64) {
	for _, s := range b.bins {
		n += s.live * s.size
	}
	return n + b.pastBytes
}

// Stats counts slots at their full size as live; what upstream holds in free
// slots is reserved, in free slabs cached.
func (b *Bins) Stats() mem.ResourceStats {
	up := b.up.Stats()
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.stats
	st.Capacity, st.LargestFree = up.Capacity, up.LargestFree
	st.Live, st.Blocks = b.liveLocked(), len(b.past)
	st.Pending, st.Reserved, st.Cached = up.Pending, up.Reserved, up.Cached
	for _, s := range b.bins {
		s.reap()
		st.Blocks += int(s.live)
		st.Pending += uint64(len(s.waits.entries)) * s.size
		st.Cached += s.cached()
	}
	return st
}

// Check tests every slab, then upstream.
func (b *Bins) Check() error {
	b.mu.Lock()
	for _, s := range b.bins {
		if err := s.check(); err != nil {
			b.mu.Unlock()
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	b.mu.Unlock()
	return b.up.Check()
}
