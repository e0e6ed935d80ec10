package resource

import (
	"fmt"
	"slices"

	"godwit/mem"
)

// slabs carves blocks of one size out of larger blocks of upstream. Not safe
// for concurrent use: its layer's mutex guards it.
//
// A slab is a stack of free slots. Slots are taken from the fullest-known slab
// first (the last in the partial list), so that others drain and can be given
// back. A slot's life: free -> live -> (pending ->) free.
type slabs struct {
	size  uint64 // bytes of a slot
	slots uint64 // slots in a slab
	align uint64

	slabs   []*slab
	where   map[mem.Block]*slab // of live and pending slots; a Ref may be shared by many slabs
	partial []*slab             // with at least one free slot; order is arbitrary but deterministic
	waits   pending
	live    uint64 // slots
}

type slab struct {
	block mem.Block
	free  []uint32 // stack of free slots
	used  []bool   // by slot: live or pending
	given []bool   // by slot: live
	at    int      // index in partial, -1 where full
}

func newSlabs(size, slabSize uint64) *slabs {
	align := uint64(1)
	for align < 4096 && size%(align*2) == 0 {
		align *= 2
	}
	return &slabs{size: size, slots: max(slabSize/size, 1), align: align, where: make(map[mem.Block]*slab)}
}

// alloc takes a slot for want bytes, from a new slab where none is free, or one that
// reuse takes; i is the request's number there.
func (s *slabs) alloc(up mem.Resource, want, tag uint64, reuse *mem.Reuse, i int) (mem.Block, mem.Outcome, error) {
	if len(s.partial) == 0 {
		s.reap()
	}
	if len(s.partial) == 0 {
		if o, err := s.grow(up, tag); err != nil || o != mem.Ready {
			if k := s.waits.find(reuse, func(mem.Block) bool { return true }); err == nil && k >= 0 {
				return s.again(s.waits.remove(k, reuse, i), want), mem.Ready, nil
			}
			if err == nil && o == mem.Exhausted && len(s.waits.entries) > 0 {
				o = mem.NeedsWait
			}
			return mem.Block{}, o, err
		}
	}
	sl := s.partial[len(s.partial)-1]
	n := len(sl.free) - 1
	slot := sl.free[n]
	sl.free = sl.free[:n]
	sl.used[slot], sl.given[slot] = true, true
	if n == 0 {
		s.unlist(sl)
	}
	s.live++
	b := sl.block.Piece(uint64(slot)*s.size, want)
	s.where[b] = sl
	return b, mem.Ready, nil
}

// again makes a pending slot a live one.
func (s *slabs) again(old mem.Block, want uint64) mem.Block {
	sl := s.where[old]
	delete(s.where, old)
	slot := (old.Addr - sl.block.Addr) / s.size
	sl.given[slot] = true
	s.live++
	b := sl.block.Piece(slot*s.size, want)
	s.where[b] = sl
	return b
}

func (s *slabs) grow(up mem.Resource, tag uint64) (mem.Outcome, error) {
	req := [1]mem.Request{{Size: s.size * s.slots, Align: s.align, Tag: tag, Hint: mem.Kept}}
	var out [1]mem.Block
	o, err := up.AllocAll(req[:], out[:], nil) // slots tell nobody of points
	if err != nil || o != mem.Ready {
		return o, err
	}
	sl := &slab{block: out[0], used: make([]bool, s.slots), given: make([]bool, s.slots)}
	for i := s.slots; i > 0; i-- { // lowest address on top
		sl.free = append(sl.free, uint32(i-1))
	}
	s.slabs = append(s.slabs, sl)
	s.list(sl)
	return mem.Ready, nil
}

func (s *slabs) list(sl *slab) {
	sl.at = len(s.partial)
	s.partial = append(s.partial, sl)
}

func (s *slabs) unlist(sl *slab) {
	last := s.partial[len(s.partial)-1]
	s.partial[sl.at], last.at = last, sl.at
	s.partial = s.partial[:len(s.partial)-1]
	sl.at = -1
}

// release gives a live slot back; false where b is none.
func (s *slabs) release(b mem.Block, after []mem.Point) bool {
	sl := s.where[b]
	if sl == nil {
		return false
	}
	slot := (b.Addr - sl.block.Addr) / s.size
	if !sl.given[slot] {
		return false
	}
	sl.given[slot] = false
	s.live--
	if reached(after) {
		s.recycle(b)
	} else {
		s.waits.add(b, after)
	}
	return true
}

func (s *slabs) reap() { s.waits.reap(s.recycle) }

// room is how many slots could be given without a new slab.
func (s *slabs) room(reuse *mem.Reuse) (n int) {
	s.reap()
	for _, sl := range s.partial {
		n += len(sl.free)
	}
	for i := range s.waits.entries {
		if reuse.Takes(s.waits.entries[i].after) {
			n++
		}
	}
	return n
}

// recycle makes b's slot free.
func (s *slabs) recycle(b mem.Block) {
	sl := s.where[b]
	delete(s.where, b)
	slot := (b.Addr - sl.block.Addr) / s.size
	sl.used[slot] = false
	sl.free = append(sl.free, uint32(slot))
	if sl.at < 0 {
		s.list(sl)
	}
}

// trim gives wholly free slabs back until at most keep bytes of them are left.
func (s *slabs) trim(up mem.Resource, keep uint64) (freed uint64, err error) {
	s.reap()
	cached := s.cached()
	for i := len(s.partial) - 1; i >= 0 && cached > keep; i-- {
		sl := s.partial[i]
		if uint64(len(sl.free)) != s.slots {
			continue
		}
		if err := up.FreeAfter(sl.block, nil); err != nil {
			return freed, err
		}
		s.unlist(sl)
		s.slabs = slices.DeleteFunc(s.slabs, func(x *slab) bool { return x == sl })
		cached -= sl.block.Size
		freed += sl.block.Size
	}
	return freed, nil
}

// cached is the bytes in wholly free slabs.
func (s *slabs) cached() (n uint64) {
	for _, sl := range s.partial {
		if uint64(len(sl.free)) == s.slots {
			n += sl.block.Size
		}
	}
	return n
}

// check tests every clause of the type's comment.
func (s *slabs) check() error {
	var live, pend uint64
	for ref, sl := range s.slabs {
		var used uint64
		for i := range sl.used {
			if sl.given[i] {
				live++
			}
			if sl.used[i] {
				used++
				if !sl.given[i] {
					pend++
				}
			} else if sl.given[i] {
				return fmt.Errorf("slab %d: slot %d is live but not used", ref, i)
			}
		}
		if used+uint64(len(sl.free)) != s.slots {
			return fmt.Errorf("slab %d: %d used and %d free of %d slots", ref, used, len(sl.free), s.slots)
		}
		if (len(sl.free) > 0) != (sl.at >= 0) {
			return fmt.Errorf("slab %d: %d free slots, but its place in the list is %d", ref, len(sl.free), sl.at)
		}
	}
	if live != s.live || pend != uint64(len(s.waits.entries)) {
		return fmt.Errorf("slots of %d bytes: %d live and %d pending, counted %d and %d", s.size, live, pend, s.live, len(s.waits.entries))
	}
	return nil
}
