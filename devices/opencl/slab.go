//go:build cgo

package opencl

import (
	"godwit/bufalloc"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/nvlink"
)

// Slabs: large cl_mems out of which a store carves blocks. See store.go.

// slab is one; its fields are protected by the store's mu.
type slab struct {
	mem    ocl.Mem
	region *bufalloc.Region
	size   uint64         // bytes of the cl_mem
	window *nvlink.Window // of which the cl_mem is an import; else nil
	live   int            // blocks, those that were yielded included
	yields int            // blocks that were yielded and are still used
	subs   []sub          // all, in the order made, where blocks may share bytes; see reuse.go
}

// leastInWindow is the size of blocks, in bytes, from which on they get windows although a slab that is none, made before
// there were any, has room: what is copied between two windows needs no copy within a device. Smaller ones fill
// such slabs up.
const leastInWindow = 64 << 10

// carveOut places a block in a slab, a new one where the others have no room.
// mu is held.
func (s *store) carveOut(o *object, size, align uint64) bool {
	want := s.slabSize - touchPad
	if size > want/2 {
		want = size // a slab of its own
	}
	if s.engine != nil && size >= leastInWindow {
		if s.placeIn(o, size, align, true) {
			return true
		}
		sl := new(slab)
		if sl.mem, sl.window = s.createWindow(want); s.addSlab(sl, want) {
			return s.place(sl, o, size, align)
		}
	}
	if s.placeIn(o, size, align, false) {
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

// newSlab makes a slab of at least size bytes, in a window where it can be; nil where there is no room.
func (s *store) newSlab(size uint64) *slab {
	sl := new(slab)
	if sl.mem, sl.window = s.createWindow(size); sl.window == nil {
		sl.mem = s.create(size, true)
	}
	if !s.addSlab(sl, size) {
		return nil
	}
	return sl
}

// addSlab takes a new slab of at least size bytes in, where its memory could be made.
func (s *store) addSlab(sl *slab, size uint64) bool {
	if sl.mem == 0 {
		return false
	}
	sl.size = padded(size, true)
	if sl.window != nil {
		sl.size = sl.window.Size()
	}
	var err error
	if sl.region, err = bufalloc.NewRegion(0, sl.size-touchPad, bufalloc.Options{}); err != nil {
		s.release(sl)
		return false
	}
	s.slabs = append(s.slabs, sl)
	return true
}

// release gives a slab's memory back. mu is held.
func (s *store) release(sl *slab) {
	ocl.ReleaseMems(sl.mem)
	if sl.window != nil {
		sl.window.Release()
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
		s.release(sl)
		freed += sl.size
	}
	clear(s.slabs[len(kept):])
	s.slabs = kept
	return freed
}
