package bufalloc

import (
	"fmt"

	"godwit/mem"
)

// Placement decides which hole a request is cut from, and where in it: a
// strategy of one's own, usable in every Region once Register knows its name.
//
// The region tells a placement of every hole that comes and goes, merges holes
// that touch, and cuts what Find picked; a placement keeps the holes in an order
// of its own and never changes them. Between Find and the next call nothing has
// changed: only Insert and Remove do. The region checks every answer, so that a
// placement with a defect fails requests (ErrPlacement) and damages nothing.
//
// A placement belongs to one region, and is called by one goroutine at a time.
// bufalloctest.Placement tests one.
type Placement interface {
	// Reset forgets all holes. The region's addresses are bounds.
	Reset(bounds mem.Range)
	// Insert takes note of a hole. No hole with its ID is known.
	Insert(h Hole)
	// Remove forgets a hole: the one last inserted with this ID, unchanged.
	Remove(h Hole)
	// Find picks a hole, by its ID, and in it the address of a chunk of size
	// bytes, a multiple of align, which is a power of two. 0 for the ID refuses
	// the request. hint is what the caller knows of the chunk's life.
	Find(size, align uint64, hint mem.Hint) (id uint32, addr uint64)
}

// Hole is a hole as a Placement sees it.
type Hole struct {
	Addr, Size uint64 // bytes
	ID         uint32 // not 0; small, and used again once removed: an index into a slice
}

// Fits is the lowest address in the hole for size bytes at a multiple of align;
// ok is false where there is none.
func (h Hole) Fits(size, align uint64) (addr uint64, ok bool) {
	gap := -h.Addr & (align - 1)
	return h.Addr + gap, h.Size >= size && h.Size-size >= gap
}

// ErrPlacement: a registered placement gave an answer that breaks its rules. The
// request that it was asked for fails, and nothing has changed.
var ErrPlacement = mem.Sentinel("placement's answer is no place", mem.MemObjectAllocationFailure)

// placed is a Placement as a region's order of holes. It keeps count of the
// holes by itself, since it trusts no answer.
type placed struct {
	p     Placement
	holes []bool // by node: told to p
	n     int
	fault error // the last answer's, until it is reported
}

func (x *placed) reset(r *Region) {
	clear(x.holes)
	x.n, x.fault = 0, nil
	x.p.Reset(r.Bounds())
}

func holeOf(r *Region, i uint32) Hole { return Hole{r.nodes[i].addr, r.nodes[i].size, i} }

func (x *placed) insert(r *Region, i uint32) {
	for int(i) >= len(x.holes) {
		x.holes = append(x.holes, false)
	}
	x.holes[i] = true
	x.n++
	x.p.Insert(holeOf(r, i))
}

func (x *placed) remove(r *Region, i uint32) {
	x.holes[i] = false
	x.n--
	x.p.Remove(holeOf(r, i))
}

func (x *placed) find(r *Region, size, align uint64) (uint32, uint64, uint64) {
	i, addr := x.p.Find(size, align, r.hint)
	if i == 0 {
		return 0, 0, 0
	}
	if int(i) >= len(x.holes) || !x.holes[i] {
		x.fault = fmt.Errorf("%v: %d bytes aligned to %d in hole %d: there is no such hole: %w", r.strategy, size, align, i, ErrPlacement)
		return 0, 0, 0
	}
	n := &r.nodes[i]
	if off := addr - n.addr; off > n.size || n.size-off < size || addr&(align-1) != 0 {
		x.fault = fmt.Errorf("%v: %d bytes aligned to %d at %#x: not a place in hole %d, [%#x, %#x): %w",
			r.strategy, size, align, addr, i, n.addr, n.end(), ErrPlacement)
		return 0, 0, 0
	}
	return i, addr, size
}

func (x *placed) joins(*Region, uint32, uint32) bool { return true }

func (x *placed) count() int { return x.n }

func (x *placed) check(_ *Region, i uint32) error {
	if int(i) >= len(x.holes) || !x.holes[i] {
		return fmt.Errorf("hole %d was not told to the placement", i)
	}
	return nil
}

// takeFault is the error of the placement's last answer, once.
func (r *Region) takeFault() error {
	x, ok := r.placer.(*placed)
	if !ok || x.fault == nil {
		return nil
	}
	err := x.fault
	x.fault = nil
	return err
}
