//go:build cgo

package opencl

import (
	"math"
	"time"

	"godwit/bufalloc"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/nvlink"
)

// Slabs: large cl_mems out of which a store carves blocks. See store.go.

// slab is one; its fields are protected by the store's mu.
type slab struct {
	mem    ocl.Mem
	memory uintptr // where its bytes are in this process, if they are
	region *bufalloc.Region
	size   uint64         // bytes of the cl_mem
	window *nvlink.Window // of which the cl_mem is an import; else nil
	live   int            // blocks, those that were yielded included
	yields int            // blocks that were yielded and are still used
	subs   []sub          // all, in the order made, where blocks may share bytes; see reuse.go
}

// leastInWindow is the size of blocks, in bytes, from which on they lie in windows, where there are any: what is copied
// between two windows needs no copy within a device. Smaller ones take the room of slabs that are none, too.
const leastInWindow = 64 << 10

// mostInWindow is the size of windows, in bytes, at most: any granularity of CUDA's below nvlink.Limit.
const mostInWindow = nvlink.Limit - 2<<20

// carveOut places a block in a slab, a new one where the others have no room. A block that is to lie in a window lies in
// one, or there is no room for it: a window that cannot be had is want of memory, which evictions end.
// mu is held.
func (s *store) carveOut(o *object, size, align uint64) bool {
	want := s.slabSize - touchPad
	if size > want/2 {
		want = size // a slab of its own
	}
	if s.placeIn(o, size, align, size >= leastInWindow && s.windowed(size)) {
		return true
	}
	for _, n := range []uint64{want, size} {
		for retried := false; ; retried = true {
			if sl := s.newSlab(n); sl != nil {
				return s.place(sl, o, size, align)
			}
			if retried || s.trim(0) == 0 {
				break
			}
		}
	}
	return false
}

// placeIn places a block in a slab that there is, of those in windows or of all.
func (s *store) placeIn(o *object, size, align uint64, windows bool) bool {
	for _, sl := range s.slabs {
		if (sl.window != nil || !windows) && s.place(sl, o, size, align) {
			return true
		}
	}
	return false
}

// newSlab makes a slab of at least size bytes, in a window where slabs of that size are; nil where there is no room.
func (s *store) newSlab(size uint64) *slab {
	sl := &slab{size: s.inSlab(size)}
	if s.windowed(size) {
		sl.mem, sl.window = s.createWindow(size)
	} else {
		sl.size = padded(size, true) // the engine may have been lost since
		sl.mem, sl.memory = s.create(size, true)
	}
	if s.learn(sl); sl.mem == 0 {
		return nil
	}
	var err error
	if sl.region, err = bufalloc.NewRegion(0, sl.size-touchPad, bufalloc.Options{}); err != nil {
		s.release(sl)
		return nil
	}
	s.slabs = append(s.slabs, sl)
	return sl
}

// comesLate is for how long the bytes of a window that has ended may not have come back: its import ends when OpenCL
// likes.
const comesLate = 50 * time.Millisecond

// learn finds out from whether a slab could be made how much memory there is: others use the device, too.
func (s *store) learn(sl *slab) {
	fits := s.room() >= sl.size
	s.late = false
	switch {
	case sl.mem != 0:
		if s.reserved > s.most {
			s.most = math.MaxUint64
		}
	case fits && time.Since(s.ended) < comesLate:
		s.late = true
	case fits:
		s.most = s.reserved + sl.size - 1
	}
}

// room is how many bytes of new slabs there should be room for. mu is held.
func (s *store) room() uint64 {
	most := s.most
	if limit := s.limit(); limit != 0 {
		most = min(most, limit)
	}
	return most - min(most, s.reserved)
}

// Late says whether memory that was given back is still on its way (package storage).
func (s *store) Late() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late
}

// release gives a slab's memory back. mu is held.
func (s *store) release(sl *slab) {
	ocl.ReleaseMems(sl.mem)
	if sl.window != nil {
		sl.window.Release()
		s.ended = time.Now()
	}
	s.reserved -= sl.size
}

func (s *store) place(sl *slab, o *object, size, align uint64) bool {
	c, err := sl.region.Alloc(size, align)
	if err != nil {
		return false
	}
	off, err := sl.region.Addr(c)
	if err != nil {
		return false
	}
	o.slab, o.chunk, o.off = sl, c, off
	if sl.memory != 0 {
		o.memory = sl.memory + uintptr(off)
	}
	sl.live++
	return true
}

// Trim implements storage.Store: it releases empty slabs, and where images have memory of their own those that nothing uses.
func (s *store) Trim(keep uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trim(keep)
}

func (s *store) trim(keep uint64) (freed uint64) {
	before := s.caches
	for i := 0; i < len(s.objects) && s.caches > 0 && s.reserved-s.given > keep; i++ {
		s.dropUnused(&s.objects[i], 0)
	}
	freed = before - s.caches
	kept := s.slabs[:0]
	for _, sl := range s.slabs {
		if sl.live > 0 || sl.shared() || s.reserved-s.given <= keep {
			kept = append(kept, sl)
			continue
		}
		s.release(sl)
		freed += sl.size
	}
	clear(s.slabs[len(kept):])
	s.slabs = kept
	return freed
}
