package mover

import (
	"errors"
	"fmt"
	"math/bits"

	"godwit/devices"
	"godwit/mem"
)

// Staging memory is kept by power-of-two class. A transfer takes up to a ring
// of slots of one class when it starts and returns them when it is done; what
// is idle goes back to the resource only to make room for another class.

// chunkOf is the chunk size for a transfer: the pair's, but no more than a
// fourth of the range, so that legs can overlap. mu is held.
func (t *Transport) chunkOf(from, to devices.Device, size uint64) uint64 {
	most, tuned := t.chunks[[2]devices.Device{from, to}]
	if !tuned {
		most = t.opts.Chunk
	}
	const least = 64 << 10
	want := uint64(1) << bits.Len64(max(size/4, 1)-1)
	if size <= least {
		want = 1 << bits.Len64(size-1)
	} else {
		want = max(want, least)
	}
	return min(max(want, 4<<10), most)
}

// takeSlots gives x its slots. It returns false where it must wait for others
// to finish, and an error where waiting does not help. mu is held.
func (t *Transport) takeSlots(x *transfer) (bool, error) {
	class := bits.Len64(x.chunk) - 1
	want := int(min(uint64(t.opts.Ring), (x.size+x.chunk-1)/x.chunk))
	for len(x.slots) < want {
		if n := len(t.idle[class]); n > 0 {
			x.slots = append(x.slots, t.idle[class][n-1])
			t.idle[class] = t.idle[class][:n-1]
			t.stats.InFlight += x.chunk
			continue
		}
		s, ok, err := t.newSlot(x.chunk)
		if !ok {
			if len(x.slots) > 0 {
				return true, nil // a shorter ring will do
			}
			if err == nil && t.stats.InFlight == 0 {
				err = fmt.Errorf("transport %s: no staging memory for chunks of %d bytes: %w", t.opts.Name, x.chunk, mem.ErrNoHostMemory)
			}
			return false, err
		}
		x.slots = append(x.slots, s)
		t.stats.InFlight += x.chunk
	}
	return true, nil
}

// newSlot takes a slot from the resource, at the expense of idle ones of other
// classes where the budget or the resource requires it. mu is held.
func (t *Transport) newSlot(size uint64) (slot, bool, error) {
	if t.stats.Staging+size > t.opts.Budget {
		if err := t.freeIdle(t.opts.Budget - size); err != nil {
			return slot{}, false, err
		}
		if t.stats.Staging+size > t.opts.Budget {
			return slot{}, false, nil
		}
	}
	reqs, blocks := [1]mem.Request{{Size: size}}, [1]mem.Block{}
	out, err := t.opts.Staging.AllocAll(reqs[:], blocks[:])
	if err == nil && out != mem.Ready && t.stats.Staging > t.stats.InFlight {
		if err = t.freeIdle(0); err == nil {
			out, err = t.opts.Staging.AllocAll(reqs[:], blocks[:])
		}
	}
	if err != nil || out != mem.Ready {
		return slot{}, false, err
	}
	bytes, err := t.opts.View.View(blocks[0], 0, size)
	if err != nil {
		return slot{}, false, errors.Join(err, t.opts.Staging.FreeAfter(blocks[0], nil))
	}
	t.stats.Staging += size
	return slot{blocks[0], bytes}, true, nil
}

// freeIdle gives idle slots back until at most keep bytes are held. mu is held.
func (t *Transport) freeIdle(keep uint64) error {
	var errs error
	for class := range t.idle {
		for n := len(t.idle[class]); n > 0 && t.stats.Staging > keep; n-- {
			s := t.idle[class][n-1]
			t.idle[class] = t.idle[class][:n-1]
			t.stats.Staging -= s.block.Size
			errs = errors.Join(errs, t.opts.Staging.FreeAfter(s.block, nil))
		}
	}
	return errs
}

// dropSlots makes x's slots idle. mu is held.
func (t *Transport) dropSlots(x *transfer) {
	for _, s := range x.slots {
		class := bits.Len64(s.block.Size) - 1
		t.idle[class] = append(t.idle[class], s)
		t.stats.InFlight -= s.block.Size
	}
	clear(x.slots)
	x.slots = x.slots[:0]
}
