package svm

import (
	"errors"
	"fmt"
	"slices"
)

// Check tests the arena's invariants:
//
//   - bufalloc's own, and that its chunks are the blocks and the resting ranges,
//     each once, blocks at their chunk's address and of its size;
//   - resting bytes add up, and are at most a quarter of the arena;
//   - maps lie in their live block, and none is gone; freed blocks have none;
//   - lends lie in their block, and each range is there once.
func (a *Arena) Check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	errs := []error{a.region.Check()}
	if n, want := a.region.Stats().Live, len(a.blocks)+len(a.resting); a.live() != want {
		errs = append(errs, fmt.Errorf("%d chunks (%d bytes), %d blocks and %d resting", a.live(), n, len(a.blocks), len(a.resting)))
	}
	for c, b := range a.blocks {
		r, err := a.region.Range(c)
		if err != nil || b.chunk != c || r != b.whole() {
			errs = append(errs, fmt.Errorf("%s lies at %v of %v: %w", b.label(), r, c, errors.Join(err)))
		}
		errs = append(errs, b.check())
	}
	var rested uint64
	for _, r := range a.resting {
		rested += r.size
		if _, err := a.region.Range(r.chunk); err != nil || a.blocks[r.chunk] != nil {
			errs = append(errs, fmt.Errorf("%v rests and is a block, or is none (%v)", r.chunk, err))
		}
	}
	if rested != a.rested || rested > uint64(len(a.user))/4 {
		errs = append(errs, fmt.Errorf("%d bytes rest, counted %d, at most %d", rested, a.rested, len(a.user)/4))
	}
	return errors.Join(errs...)
}

// live is the number of live chunks. mu is held.
func (a *Arena) live() int {
	n := 0
	for s := range a.region.Walk() {
		if !s.Chunk.IsZero() {
			n++
		}
	}
	return n
}

// check tests a block's maps.
func (b *block) check() error {
	if b.freed && len(b.maps) > 0 {
		return fmt.Errorf("%s is freed and has %d maps", b.label(), len(b.maps))
	}
	for i, l := range b.lends {
		if l.n <= 0 || !b.whole().Contains(l.r) || slices.ContainsFunc(b.lends[:i], func(o lend) bool { return o.r == l.r }) {
			return fmt.Errorf("lend %d of %s: %v, %d times", i, b.label(), l.r, l.n)
		}
	}
	for _, m := range b.maps {
		if m.b != b || m.gone || !b.whole().Contains(m.r) {
			return fmt.Errorf("map %v of %s: gone %t", m.r, b.label(), m.gone)
		}
	}
	return nil
}
