//go:build cgo

package opencl

import (
	"godwit/bufalloc"
	"godwit/devices/opencl/internal/ocl"
)

// Slabs: large cl_mems out of which a store carves blocks. See store.go.

// slab is one; its fields are protected by the store's mu.
type slab struct {
	mem    ocl.Mem
	region *bufalloc.Region
	size   uint64 // bytes of the cl_mem
	live   int    // blocks, those that were yielded included
	yields int    // blocks that were yielded and are still used
	subs   []sub  // all, in the order made, where blocks may share bytes; see reuse.go
}

// carveOut places a block in a slab, a new one where the others have no room.
// mu is held.
func (s *store) carveOut(o *object, size, align uint64) bool {
	for _, sl := range s.slabs {
		if s.place(sl, o, size, align) {
			return true
		}
	}
	want := s.slabSize - touchPad
	if size > want/2 {
		want = size // a slab of its own
	}
	for _, n := range []uint64{want, size} {
		for retried := false; ; retried = true {
			if sl := s.addSlab(n); sl != nil {
				return s.place(sl, o, size, align)
			}
			if retried || s.trim(0) == 0 {
				break
			}
		}
	}
	return false
}

func (s *store) addSlab(size uint64) *slab {
	m := s.create(size, true)
	if m == 0 {
		return nil
	}
	r, err := bufalloc.NewRegion(0, padded(size, true)-touchPad, bufalloc.Options{})
	if err != nil {
		s.reserved -= padded(size, true)
		ocl.ReleaseMems(m)
		return nil
	}
	sl := &slab{mem: m, region: r, size: padded(size, true)}
	s.slabs = append(s.slabs, sl)
	return sl
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
	sl.live++
	return true
}

// Trim implements storage.Store: it releases empty slabs.
func (s *store) Trim(keep uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trim(keep)
}

func (s *store) trim(keep uint64) (freed uint64) {
	kept := s.slabs[:0]
	for _, sl := range s.slabs {
		if sl.live > 0 || sl.shared() || s.reserved-s.given <= keep {
			kept = append(kept, sl)
			continue
		}
		ocl.ReleaseMems(sl.mem)
		s.reserved -= sl.size
		freed += sl.size
	}
	clear(s.slabs[len(kept):])
	s.slabs = kept
	return freed
}
