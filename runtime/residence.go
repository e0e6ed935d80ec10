package runtime

import (
	"context"
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/eviction"
	"godwit/internal/resource"
	"godwit/mem"
)

// Where blocks are, as far as a program wants a say: Pin keeps one, Drop gives one up,
// and EnqueueMigrate brings content before it is needed (a prefetch).

// Pin keeps b's block on a device of the context, if there is one or once there is, from
// being evicted for others' sake, until as many calls of Unpin. Its buffer counts: a
// sub-buffer pins all of it. It takes no storage (Queue.EnqueueMigrate does). It fails
// with mem.ErrInvalidDevice and mem.ErrInvalidBuffer.
func (b *Buffer) Pin(d devices.Device) error {
	return b.onMemory("pin", d, func(r *root, m mem.MemoryID) error {
		if r.pins == nil {
			r.pins = make(map[mem.MemoryID]int)
		}
		r.pins[m]++
		return nil
	})
}

// Unpin ends one Pin. It fails like it, and with mem.ErrInvalidOperation where there was
// none.
func (b *Buffer) Unpin(d devices.Device) error {
	return b.onMemory("unpin", d, func(r *root, m mem.MemoryID) error {
		if r.pins[m] == 0 {
			return fmt.Errorf("unpin of buffer %s on %s: it is not pinned: %w", r.label(), b.c.topo.Name(m), mem.ErrInvalidOperation)
		}
		r.pins[m]--
		return nil
	})
}

// Drop gives b's blocks on a device of the context up, all of its buffer's: what nobody
// else holds is written back first, and commands that use the block end first; nothing
// waits for either. A later use there brings the content again. Where there is no block
// nothing happens. It fails like Pin; with mem.ErrInvalidOperation, naming the reason,
// where the block must stay; and with mem.ErrNoMemory where no memory has room for what
// must be written back.
func (b *Buffer) Drop(d devices.Device) error {
	var pages backPages
	defer pages.free()
	for {
		err := b.drop(d, &pages)
		var room *errRoom
		if !errors.As(err, &room) {
			return err
		}
		pages.lock(b.c, room.lock)
	}
}

// drop is Drop with page-locked memory for what is written back; it fails with an *errRoom
// where more of that is needed.
func (b *Buffer) drop(d devices.Device, pages *backPages) error {
	return b.onMemory("drop", d, func(r *root, m mem.MemoryID) error {
		c := b.c
		m = c.topo.Store(m)
		c.evicting.plan, c.evicting.pages = nil, pages
		if !r.stored(m) {
			return nil
		}
		c.scratch.wants, c.scratch.transfer.For = c.scratch.wants[:0], nil
		why, err := c.planner.EvictBlocks(&c.evicting.ev, r.id, m, evictRoom{c})
		switch {
		case err != nil:
			return err
		case why == eviction.NoRoom:
			return fmt.Errorf("drop of buffer %s on %s: %v: %w", r.label(), c.topo.Name(m), why, mem.ErrNoMemory)
		case why != eviction.Goes:
			return fmt.Errorf("drop of buffer %s on %s: %v: %w", r.label(), c.topo.Name(m), why, mem.ErrInvalidOperation)
		}
		if err := c.carryOut(); err != nil {
			return fmt.Errorf("drop of buffer %s on %s: %w", r.label(), c.topo.Name(m), err)
		}
		return nil
	})
}

// onMemory has f look at b's root under the planner lock.
func (b *Buffer) onMemory(verb string, d devices.Device, f func(*root, mem.MemoryID) error) error {
	if err := b.made(); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	m, err := b.c.Memory(d)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	if err := b.c.begin(verb); err != nil {
		return err
	}
	defer b.c.unlock()
	if err := b.live(); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return f(b.root, m)
}

// shortage asks the program for room, once for each command, and reports whether to try
// again. No locks are held.
func (c *Context) shortage(ctx context.Context, err error, asked *bool) bool {
	var why *resource.OutOfMemory
	if !errors.As(err, &why) {
		return false
	}
	c.room.shortages.Add(1)
	if c.opts.OnShortage == nil || *asked || why.Hopeless || !c.asking.CompareAndSwap(false, true) {
		return false
	}
	defer c.asking.Store(false)
	*asked = true
	return c.opts.OnShortage(ctx, why)
}
