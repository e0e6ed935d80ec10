package mover

import (
	"context"
	"sync"

	"godwit/devices"
	"godwit/mem"
)

// Hand is the program's end of a copy between its memory and a block that can be called off. The device's queue moves
// the bytes to or from staging, which the ring gets once the copy may begin, as any; who waits for the copy moves them between there and the
// program's memory himself (Wait), or lanes do. So a copy that a library was given needs nothing of the program's any more, and once
// Wait has returned nobody touches the program's memory.
//
// Life: waiting (no staging yet) -> carrying (its waiter has the ring) -> over. Its waiter may leave at any time: of a
// copy to the program the rest is then dropped, and the command ends well; one from the program fails with why he left.
type Hand struct {
	m     *Mover        // immutable
	told  chan struct{} // capacity 1: look again
	lanes bool          // immutable: lanes touch the program's memory
	into  bool          // immutable: a block

	mu   sync.RWMutex // held, shared, by lanes while they touch the program's memory; a leaf
	x    *ring        // protected by mu: has its staging, and nobody to carry it out yet
	left error        // protected by mu: why nobody waits any more
}

// Hand returns what a copy into a block, or out of one, is waited for by. Where lanes is set they touch the program's
// memory, as Bytes has it; else its waiter does.
func (m *Mover) Hand(into, lanes bool) *Hand {
	h, _ := m.hands.Get().(*Hand)
	if h == nil {
		h = &Hand{m: m, told: make(chan struct{}, 1)}
	}
	h.into, h.lanes, h.left = into, lanes, nil
	return h
}

// Wait waits for p, the end of the command that h's copy carries out, and does the waiter's part of the copy. If ctx ends before, it returns
// ctx's error, and nobody touches the program's memory any more. h is the mover's again.
func (h *Hand) Wait(ctx context.Context, p mem.Point) error {
	if done, err := p.Notify(h); done {
		h.m.hands.Put(h)
		return err
	}
	for {
		select {
		case <-h.told:
		case <-ctx.Done():
			if !p.Reached() {
				h.Leave(ctx.Err())
				return ctx.Err()
			}
		}
		if x := h.take(); x != nil {
			if err := h.carry(ctx, x); err != nil {
				return err
			}
		}
		if p.Reached() {
			h.m.hands.Put(h)
			return p.Err()
		}
	}
}

// PointReached implements mem.Waiter: the command has ended.
func (h *Hand) PointReached(mem.Point, error) { h.tell() }

func (h *Hand) tell() {
	select {
	case h.told <- struct{}{}:
	default:
	}
}

// give hands a ring that has its staging to the waiter, or ends it where he has left.
func (h *Hand) give(x *ring) {
	h.mu.Lock()
	left := h.left
	if left == nil {
		h.x = x
	}
	h.mu.Unlock()
	if left == nil {
		h.tell()
		return
	}
	h.drop(x, left)
}

// take takes the ring that was given, if one was.
func (h *Hand) take() *ring {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.x
	h.x = nil
	return x
}

// Leave has nobody touch the program's memory from here on. Wait does so; who cannot call Wait does it himself.
func (h *Hand) Leave(why error) {
	h.mu.Lock()
	h.left = why
	x := h.x
	h.x = nil
	h.mu.Unlock()
	if x != nil {
		h.drop(x, why)
	}
}

// drop ends a ring whose waiter has left.
func (h *Hand) drop(x *ring, why error) {
	if h.into {
		x.fail(why)
	}
	x.settle()
}

// over reports whether the waiter has left, and how a copy ends then that has not begun.
func (h *Hand) over() (left bool, err error) {
	if h == nil {
		return false, nil
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.into {
		err = h.left
	}
	return h.left != nil, err
}

// touch copies between staging and the program's memory, unless its waiter has left.
func (h *Hand) touch(dst, src []byte) bool {
	if h == nil {
		copy(dst, src)
		return true
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.left == nil {
		copy(dst, src)
	}
	return h.left == nil
}

// carry moves the bytes of a ring, chunk by chunk, until it has ended or ctx has, whose error it returns; what is
// under way then ends beside.
func (h *Hand) carry(ctx context.Context, x *ring) error {
	defer x.settle()
	a, slots := x.dsts[0], min(uint64(x.slots()), chainSlots)
	chunks := (x.size + x.chunk - 1) / x.chunk
	var legs [chainSlots]mem.Point
	for begun, done := uint64(0), uint64(0); done < chunks; done++ {
		for ; begun < min(done+slots, chunks); begun++ {
			p, err := h.leg(x, begun, begun%slots)
			if err != nil {
				x.fail(err)
				return nil
			}
			a.watch(p)
			legs[begun%slots] = p
		}
		p := legs[done%slots]
		if err := x.m.Wait(ctx, p); !p.Reached() {
			if h.into {
				x.fail(err)
			}
			h.Leave(err)
			return err
		}
		if !p.Succeeded() {
			return nil // the destination knows
		}
		if !h.into {
			copy(x.ends(done, done%slots))
		}
	}
	return nil
}

// leg has chunk k moved by way of a slot.
func (h *Hand) leg(x *ring, k, slot uint64) (mem.Point, error) {
	user, staged := x.ends(k, slot)
	q, block := x.m.mems[x.src.Memory].out, &x.src
	if h.into {
		copy(staged, user)
		q, block = x.m.mems[x.dsts[0].dst.Memory].in, &x.dsts[0].dst
	}
	dst, src := devices.Loc{Bytes: staged}, x.m.loc(block, k*x.chunk)
	if h.into {
		dst, src = src, dst
	}
	return x.m.submitLeg(q, dst, src, uint64(len(staged)), nil, nil, nil)
}

// ends are chunk k of the program's memory, and the slot of staging that it goes by.
func (x *ring) ends(k, slot uint64) (user, staged []byte) {
	off := k * x.chunk
	n := min(x.chunk, x.size-off)
	user = x.src.Bytes
	if user == nil {
		user = x.dsts[0].dst.Bytes
	}
	return user[off : off+n], x.staging[0].bytes[slot*x.chunk : slot*x.chunk+n]
}
