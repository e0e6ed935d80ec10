package svm

import (
	"errors"
	"fmt"

	"godwit/mem"
)

// Free makes the pointer p of a block stale: nothing finds it any more, its maps
// are dropped and the user's view of it has no rights. by says who did it, for
// those who use it afterwards. The drivers' view stays until Recycle. It fails
// with Lookup's errors, and mem.ErrInvalidValue where p points inside a block.
func (a *Arena) Free(p Pointer, by string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.find(p)
	if err != nil {
		return err
	}
	if b.Start != p {
		return fmt.Errorf("free of %v, inside %s: give the pointer that was allocated: %w", p, b.label(), mem.ErrInvalidValue)
	}
	maps := b.maps
	b.maps, b.freed = nil, true
	if err := a.refresh(b, b.whole()); err != nil {
		b.maps, b.freed = maps, false
		return errors.Join(err, a.refresh(b, b.whole()))
	}
	for _, m := range maps {
		m.gone = true
	}
	a.past.add(entry{kind: freedEntry, r: b.whole(), gen: b.Gen, block: b.label(), by: by})
	a.tell(b)
	return nil
}

// Recycle gives the memory of the freed block at p back, once nothing uses the drivers'
// view of it any more. Its addresses rest before they are given out again. It
// fails with mem.ErrInvalidOperation where there is none (any more).
func (a *Arena) Recycle(p Pointer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("arena %s: %w", a.name, mem.ErrClosed)
	}
	b := a.at(p)
	if b == nil || !b.freed {
		return fmt.Errorf("recycle of %v, where no svm block is freed: %w", p, mem.ErrInvalidOperation)
	}
	if len(b.lends) > 0 {
		return fmt.Errorf("recycle of %s, which kernels use: %w", b.label(), mem.ErrInvalidOperation)
	}
	delete(a.blocks, b.chunk)
	a.tellGone(b)
	size, _ := mem.AlignUp(b.Size, a.page)
	err := discard(a.file, a.driver, uint64(b.Start)-a.base, size)
	a.resting = append(a.resting, rest{b.chunk, size})
	a.rested += size
	for a.rested > uint64(len(a.user))/4 {
		err = errors.Join(err, a.wake())
	}
	return err
}
