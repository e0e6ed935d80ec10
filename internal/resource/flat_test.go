package resource_test

import (
	"fmt"
	"slices"
	"sort"
	"sync"

	"godwit/mem"
)

// flat is the reference memory below every stack under test: first fit over
// [0, cap), no cleverness, every rule of mem.Resource checked.
type flat struct {
	mu      sync.Mutex
	cap     uint64
	next    uint64
	blocks  []mem.Block // live and pending, by address
	live    map[mem.Block]bool
	waiting map[mem.Block][]mem.Point
	stats   mem.ResourceStats
}

func newFlat(capacity uint64) *flat {
	return &flat{cap: capacity, live: map[mem.Block]bool{}, waiting: map[mem.Block][]mem.Point{}}
}

func (f *flat) reap() {
	for b, pts := range f.waiting {
		done := true
		for _, p := range pts {
			done = done && p.Reached()
		}
		if done {
			delete(f.waiting, b)
			f.remove(b)
		}
	}
}

func (f *flat) remove(b mem.Block) {
	for i := range f.blocks {
		if f.blocks[i] == b {
			f.blocks = append(f.blocks[:i], f.blocks[i+1:]...)
			return
		}
	}
	panic("flat: lost a block")
}

func (f *flat) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reap()
	first := reuse.Len()
	for i, r := range reqs {
		b, ok := f.place(r, nil, i)
		if !ok && reuse != nil {
			b, ok = f.place(r, reuse, i)
		}
		if !ok {
			reuse.Cut(first)
			for _, b := range out[:i] {
				delete(f.live, b)
				f.remove(b)
			}
			f.stats.Failures++
			if len(f.waiting) > 0 {
				return mem.NeedsWait, nil
			}
			return mem.Exhausted, nil
		}
		out[i] = b
	}
	f.stats.Allocs += uint64(len(reqs))
	return mem.Ready, nil
}

// place finds the first place for r; with reuse, pending blocks that it takes count as
// free, and request i waits for those that it gets bytes of.
func (f *flat) place(r mem.Request, reuse *mem.Reuse, i int) (mem.Block, bool) {
	at, ok := holeIn(f.cap, f.blocks, r, func(b mem.Block) bool {
		return reuse != nil && !f.live[b] && reuse.Takes(f.waiting[b])
	})
	if !ok {
		return mem.Block{}, false
	}
	f.next++
	b := mem.Block{Addr: at, Size: r.Size, Ref: f.next}
	for _, o := range f.blocks {
		if o.Addr < at+r.Size && at < o.Addr+o.Size {
			reuse.Add(i, f.waiting[o])
		}
	}
	f.blocks = append(f.blocks, b)
	sort.Slice(f.blocks, func(i, j int) bool { return f.blocks[i].Addr < f.blocks[j].Addr })
	f.live[b] = true
	return b, true
}

// holeIn finds the first hole for r between blocks, sorted by address, but for those
// that do not count.
func holeIn(capacity uint64, blocks []mem.Block, r mem.Request, skip func(mem.Block) bool) (uint64, bool) {
	at := uint64(0)
	for i := 0; i <= len(blocks); i++ {
		if i < len(blocks) && skip(blocks[i]) {
			continue
		}
		up, _ := mem.AlignUp(at, max(r.Align, 1))
		end := capacity
		if i < len(blocks) {
			end = blocks[i].Addr
		}
		if up <= end && r.Size <= end-up {
			return up, true
		}
		if i < len(blocks) {
			at = max(at, blocks[i].Addr+blocks[i].Size)
		}
	}
	return 0, false
}

func (f *flat) Fits(reqs []mem.Request, gone []mem.Block, reuse *mem.Reuse) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reap()
	blocks := append([]mem.Block(nil), f.blocks...)
	for i, r := range reqs {
		at, ok := holeIn(f.cap, blocks, r, func(b mem.Block) bool {
			return slices.Contains(gone, b) || reuse != nil && !f.live[b] && b.Ref != 0 && reuse.Takes(f.waiting[b])
		})
		if !ok {
			return false
		}
		blocks = append(blocks, mem.Block{Addr: at, Size: reqs[i].Size})
		sort.Slice(blocks, func(i, j int) bool { return blocks[i].Addr < blocks[j].Addr })
	}
	return true
}

func (f *flat) FreeAfter(b mem.Block, after []mem.Point) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.live[b] {
		return fmt.Errorf("flat: %v is not live: %w", b, mem.ErrInvalidValue)
	}
	delete(f.live, b)
	f.waiting[b] = append([]mem.Point(nil), after...)
	f.stats.Frees++
	f.reap()
	return nil
}

func (f *flat) Pending(dst []mem.Point) []mem.Point {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pts := range f.waiting {
		for _, p := range pts {
			if !p.Reached() {
				dst = append(dst, p)
			}
		}
	}
	return dst
}

func (f *flat) Trim(uint64) uint64 { return 0 }

func (f *flat) Stats() mem.ResourceStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reap()
	s := f.stats
	s.Capacity, s.Blocks = f.cap, len(f.live)
	for b := range f.live {
		s.Live += b.Size
	}
	for b := range f.waiting {
		s.Pending += b.Size
	}
	s.Reserved = s.Live + s.Pending
	return s
}

func (f *flat) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.blocks) != len(f.live)+len(f.waiting) {
		return fmt.Errorf("flat: %d blocks, %d live, %d waiting", len(f.blocks), len(f.live), len(f.waiting))
	}
	return nil
}
