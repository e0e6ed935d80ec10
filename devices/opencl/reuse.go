//go:build cgo

package opencl

import (
	"cmp"
	"slices"

	"godwit/bufalloc"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/storage"
	"godwit/mem"
)

// Slabs whose bytes are given again while commands still use them (storage.Yielder).
//
// A sub-buffer is not released before a later one that shares its bytes
// (subBuffers in quirks.go). Blocks of a slab share none, until one is yielded:
// then a new block may lie over its bytes, with sub-buffers that are newer. So from
// then on the slab keeps a list of its sub-buffers in the order in which they were
// made, and one that nobody needs any more is released when no newer one shares bytes
// with it. Where yields go on, each new block may hold up those before it: of slabs
// where maxHeld are held up nothing more is yielded, until they are gone.

// maxHeld is how many sub-buffers of a slab may be held up.
const maxHeld = 64

// sub is a sub-buffer of a slab with shared bytes.
type sub struct {
	mem  ocl.Mem
	made uint64
	r    mem.Range // of the slab
	dead bool      // nobody needs it any more
}

var _ storage.Yielder = (*store)(nil)

// Yield implements storage.Yielder, for blocks of slabs: other buffers cannot share
// bytes.
func (s *store) Yield(p storage.Place, _ uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.objects[p.Key]
	if o.slab == nil || o.slab.held() >= maxHeld {
		return false
	}
	s.share(o.slab)
	_ = o.slab.region.Free(o.chunk) // live by construction; Check would tell
	s.given -= o.size
	o.slab.yields++
	o.yielded = true
	return true
}

// Ended implements storage.Yielder.
func (s *store) Ended(p storage.Place, size uint64) { s.Give(p, size) }

// Span implements storage.Yielder: a slab is a space, and so is a buffer of its own.
func (s *store) Span(p storage.Place, size uint64) (uint64, mem.Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.objects[p.Key]
	if o.slab == nil {
		return p.Addr, mem.Range{End: size}
	}
	return uint64(o.slab.mem), mem.Range{Start: o.off, End: o.off + size}
}

// share begins the list of a slab's sub-buffers, if there is none. mu is held.
func (s *store) share(sl *slab) {
	if sl.shared() {
		return
	}
	sl.subs = sl.subs[:0]
	for i := range s.objects {
		o := &s.objects[i]
		if !o.live || o.slab != sl {
			continue
		}
		for _, p := range o.parts {
			sl.subs = append(sl.subs, sub{mem: p.mem, made: p.made, r: mem.Range{Start: o.off + p.off, End: o.off + p.off + p.size}})
		}
	}
	slices.SortFunc(sl.subs, func(a, b sub) int { return cmp.Compare(a.made, b.made) })
}

// held is how many sub-buffers wait for newer ones.
func (sl *slab) held() (n int) {
	for i := range sl.subs {
		if sl.subs[i].dead {
			n++
		}
	}
	return n
}

// releasable returns which sub-buffers may be released, the newest first, now that
// nobody needs those of dead: these, where the slab's blocks share no bytes.
func (sl *slab) releasable(dead []ocl.Mem) []ocl.Mem {
	if len(sl.subs) == 0 { // none, or none had been made when one was yielded
		return dead
	}
	for i := range sl.subs {
		sl.subs[i].dead = sl.subs[i].dead || slices.Contains(dead, sl.subs[i].mem)
	}
	dead = dead[:0]
	for i := len(sl.subs) - 1; i >= 0; i-- {
		x := sl.subs[i]
		if x.dead && !slices.ContainsFunc(sl.subs[i+1:], func(y sub) bool { return y.r.Overlaps(x.r) }) {
			dead = append(dead, x.mem)
			sl.subs = slices.Delete(sl.subs, i, i+1)
		}
	}
	if !sl.shared() {
		sl.subs = sl.subs[:0]
	}
	return dead
}

// shared reports whether sub-buffers of different blocks may share bytes.
func (sl *slab) shared() bool { return sl.yields > 0 || sl.held() > 0 }

// Fits implements storage.Store.
func (s *store) Fits(reqs []mem.Request, gone []storage.Gone) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range reqs {
		if s.dev.lost.Load() || r.Size >= 1<<objectShift || s.dev.info.MaxAlloc != 0 && r.Size > s.dev.info.MaxAlloc {
			return false
		}
	}
	room := s.room()
	if !s.carve.Load() { // each block is a buffer of its own
		return storage.FitsIn(room, reqs, gone, func(n uint64) uint64 { return padded(n, s.dev.isDiscrete()) })
	}
	s.holes = s.holes[:0]
	for _, sl := range s.slabs {
		s.goneFrom(sl, gone)
		s.holes = sl.region.Holes(s.holes, s.chunks)
	}
	if bufalloc.Pack(s.holes, reqs, 1) {
		return true
	}
	s.holes = s.holes[:0] // again, with what empty slabs leave for new ones
	for _, sl := range s.slabs {
		if s.goneFrom(sl, gone); len(s.chunks) == sl.live && !sl.shared() {
			room += min(sl.size, ^uint64(0)-room)
			continue
		}
		s.holes = sl.region.Holes(s.holes, s.chunks)
	}
	for i := range reqs {
		n := s.inSlab(reqs[i].Size)
		if bufalloc.Pack(s.holes, reqs[i:i+1], 1) {
			continue
		}
		if n > room {
			return false
		}
		room -= n
	}
	return true
}

// goneFrom leaves in s.chunks those of gone that lie in a slab. mu is held.
func (s *store) goneFrom(sl *slab, gone []storage.Gone) {
	s.chunks = s.chunks[:0]
	for _, g := range gone {
		if o := &s.objects[g.Key]; o.slab == sl && !o.yielded {
			s.chunks = append(s.chunks, o.chunk)
		}
	}
}
