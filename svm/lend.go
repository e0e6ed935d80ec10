package svm

import (
	"fmt"

	"godwit/mem"
)

// Lends: devices whose kernels run in this process use the user's view, because
// a pointer is an address there. So while a launch is under way, what it may
// reach has all rights, whatever the host has mapped: a touch of the host's
// outside a map is not caught meanwhile. Arena is the devices.SVMSpace of its
// addresses.

// Lend gives the process all rights to size bytes at addr, which must lie in one
// live block, until Return. A free of the block meanwhile leaves them. Its errors
// are Lookup's, and mem.ErrInvalidValue where the bytes leave the block.
func (a *Arena) Lend(addr, size uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.find(Pointer(addr))
	if err != nil {
		return err
	}
	if size == 0 || !b.Contains(Pointer(addr), size) {
		return fmt.Errorf("lend of %d bytes at %#x of %s: it must be some bytes of it: %w", size, addr, b.label(), mem.ErrInvalidValue)
	}
	r := mem.Range{Start: addr, End: addr + size}
	for i := range b.lends {
		if b.lends[i].r == r {
			b.lends[i].n++
			return nil
		}
	}
	b.lends = append(b.lends, lend{r, 1})
	if err := a.refresh(b, r); err != nil {
		b.lends = b.lends[:len(b.lends)-1]
		return err
	}
	return nil
}

// Return ends one Lend of the same bytes.
func (a *Arena) Return(addr, size uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.at(Pointer(addr))
	if b == nil {
		return
	}
	r := mem.Range{Start: addr, End: addr + size}
	for i := range b.lends {
		if b.lends[i].r != r {
			continue
		}
		if b.lends[i].n--; b.lends[i].n > 0 {
			return
		}
		last := len(b.lends) - 1
		b.lends[i] = b.lends[last]
		b.lends = b.lends[:last]
		_ = a.refresh(b, r) // it stays readable: only a mistake would tell
		return
	}
}
