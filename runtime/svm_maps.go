package runtime

import (
	"errors"
	"fmt"
	"slices"

	"godwit/mem"
	"godwit/svm"
)

// What is mapped of an allocation of shared virtual memory. The arena knows the
// host's rights; this knows at which point each map ends, and tells the planner
// when one that writes is no more. A map ends by its unmap, with its pointer, or
// by being abandoned; the planner hears of each (C11).

// svmMapping is a map that was accepted.
type svmMapping struct {
	m  *svm.Map
	at mem.Point // of its command
}

// mapped is the point of a map's command. Context.mu is held.
func (s *svmRoot) mapped(m *svm.Map) mem.Point {
	for i := range s.maps {
		if s.maps[i].m == m {
			return s.maps[i].at
		}
	}
	return mem.Point{}
}

// rangeOf is what a map maps of the root.
func (s *svmRoot) rangeOf(m *svm.Map) mem.Range {
	r := m.Range()
	return mem.Range{Start: r.Start - uint64(s.p), End: r.End - uint64(s.p)}
}

// unmappedSVM forgets a map. c.mu is held.
func (c *Context) unmappedSVM(r *root, m *svm.Map) error {
	s := r.svm
	i := slices.IndexFunc(s.maps, func(o svmMapping) bool { return o.m == m })
	if i < 0 {
		return fmt.Errorf("unmap of %v of %s: it is mapped no more: %w", m.Range(), r.label(), svm.ErrMapped)
	}
	at := s.maps[i].at
	s.maps = slices.Delete(s.maps, i, i+1)
	if m.Flags().Writes() {
		return c.planner.Unmapped(r.id, s.rangeOf(m), at)
	}
	return nil
}

// endMaps forgets all maps of an allocation that is freed. c.mu is held.
func (c *Context) endMaps(r *root) (err error) {
	for len(r.svm.maps) > 0 {
		err = errors.Join(err, c.unmappedSVM(r, r.svm.maps[0].m))
	}
	return err
}

// collectMapped lists what a free ends, which the host may write until then: as an
// unmap of each map would. c.mu is held.
func (c *Context) collectMapped(r *root) {
	for _, m := range r.svm.maps {
		if m.m.Flags().Writes() && (!m.at.Reached() || m.at.Succeeded()) {
			c.scratch.accs = append(c.scratch.accs, mem.Access{Buffer: r.id, Range: r.svm.rangeOf(m.m), Mode: mem.Write, Memory: mem.Host})
		}
	}
}

// svmFreeWaits are those of a free besides the planner's: maps for writing. Where one
// fails, so does the free, and nobody knows what the bytes hold. c.mu is held.
func (c *Context) svmFreeWaits(in *borrowed) {
	for _, u := range in.svm {
		for _, m := range u.buf.root.svm.maps {
			if m.m.Flags().Writes() && !m.at.Reached() {
				c.scratch.user = append(c.scratch.user, mem.Wait{Point: m.at, Kind: mem.Data})
			}
		}
	}
}

// abandonSVM gives up a map whose pointer nobody was given: as Mapping.Abandon.
func (c *Context) abandonSVM(m *svm.Map) error {
	if err := c.call(); err != nil {
		return err
	}
	defer c.unlock()
	if err := m.Leave(); err != nil {
		return err // unmapped meanwhile, or freed
	}
	err := m.Drop("a map that was given up")
	if r := c.svmRoots[m.Block().Start]; r != nil { // else its free has been enqueued
		err = errors.Join(err, c.unmappedSVM(r, m))
	}
	return err
}
