package storage

import (
	"cmp"
	"fmt"
	"slices"
)

// checkEntries is the part of Check that concerns Blocks itself. mu is held.
func (m *Blocks) checkEntries() error {
	var live, pending uint64
	blocks, free := 0, 0
	var used []*entry
	for i := range m.entries {
		e := &m.entries[i]
		switch e.state {
		case entryFree:
			free++
			if e.pins != 0 || e.size != 0 {
				return fmt.Errorf("free entry %d has %d pins and %d bytes", i, e.pins, e.size)
			}
			continue
		case entryLive:
			live += e.size
			blocks++
		case entryPending:
			if e.again == no {
				pending += e.size
			}
		case entryDying:
			if e.pins <= 0 {
				return fmt.Errorf("entry %d waits for pins but has %d", i, e.pins)
			}
		}
		if e.again != no && e.state != entryPending && e.state != entryDying {
			return fmt.Errorf("entry %d is live, and its bytes have been given again", i)
		}
		if e.user == nil && e.again == no { // a user's buffers may overlap
			used = append(used, e)
		}
	}
	if live != m.stats.Live || pending != m.stats.Pending || blocks != m.stats.Blocks {
		return fmt.Errorf("entries hold %d bytes live in %d blocks and %d pending, the figures say %d in %d and %d",
			live, blocks, pending, m.stats.Live, m.stats.Blocks, m.stats.Pending)
	}
	if m.stats.Allocs-m.stats.Frees < uint64(blocks) {
		return fmt.Errorf("%d allocations less %d frees leave fewer than the %d live blocks", m.stats.Allocs, m.stats.Frees, blocks)
	}
	listed := make(map[uint32]bool)
	for _, i := range m.free {
		if listed[i] || m.entries[i].state != entryFree {
			return fmt.Errorf("entry %d in the free list twice or while in use", i)
		}
		listed[i] = true
	}
	if len(m.free) != free {
		return fmt.Errorf("%d entries are free, %d are listed", free, len(m.free))
	}
	slices.SortFunc(used, func(a, b *entry) int { return cmp.Compare(a.Addr, b.Addr) })
	for i := 1; i < len(used); i++ {
		if a, b := used[i-1], used[i]; a.Addr+a.size > b.Addr {
			return fmt.Errorf("blocks %#x of %d bytes and %#x of %d bytes overlap", a.Addr, a.size, b.Addr, b.size)
		}
	}
	if len(m.waiting) == 0 && pending != 0 {
		return fmt.Errorf("%d bytes pending, but nothing waits", pending)
	}
	return nil
}
