//go:build cgo

package opencl

import (
	"godwit/bufalloc"
	"godwit/devices/nvlink"
	"godwit/devices/opencl/internal/ocl"
)

// Slabs: large cl_mems out of which a store carves blocks. See store.go.

// slab is one; its fields are protected by the store's mu.
type slab struct {
	mem    ocl.Mem
	region *bufalloc.Region
	size   uint64         // bytes of the cl_mem
	window *nvlink.Window // of which the cl_mem is an import; else nil
	views  []view         // of window, for other devices
	live   int            // blocks, those that were yielded included
	yields int            // blocks that were yielded and are still used
	subs   []sub          // all, in the order made, where blocks may share bytes; see reuse.go
}

// view is a window of one device as a cl_mem of another, which reaches it over the link.
type view struct {
	by  *Device
	mem ocl.Mem
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
	sl := new(slab)
	if sl.mem, sl.window = s.createWindow(size); sl.window != nil {
		sl.size = sl.window.Size()
	} else if sl.mem = s.create(size, true); sl.mem != 0 {
		sl.size = padded(size, true)
	} else {
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

// release gives a slab's memory back. mu is held.
func (s *store) release(sl *slab) {
	for _, v := range sl.views {
		ocl.ReleaseMems(v.mem)
	}
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
