package runtime

import (
	"errors"
	"slices"

	"godwit/mem"
	"godwit/migration"
)

// Page-locked storage for write-backs. What is written back to the host goes to memory that
// is page-locked for the context's devices, where they are behind a bus: so what comes and
// goes does so at the bus's speed in both directions, without staging. It is not for small
// blocks, nor for more than Options.LockedBacks in all. To lock pages takes a while (10 ms for
// 64 MiB on NVIDIA's OpenCL), once for each buffer, since its storage stays. It does not
// happen under the planner lock, under which other threads' enqueues wait: an enqueue that
// needs such storage fails with an *errRoom that says so, gets it without the lock, and is
// planned again. What it then does not need is given back.

const (
	leastLocked    = 1 << 20  // bytes from which on storage is page-locked
	mostLocked     = 16 << 30 // bytes in all, by default
	lockRounds     = 4        // times that one enqueue is planned again for it
	lockRoundBytes = 1 << 30  // of one round
)

// backPages is page-locked memory that one enqueue got for its write-backs. It is the
// enqueue's while the planner lock is not held.
type backPages struct {
	ready  []*locked // in no use yet
	rounds int
	enough bool // ordinary memory will do from now on
}

// errPages is why an enqueue is planned again. Only a trace has it, of a try in which blocks
// had left or been exchanged before.
var errPages = errors.New("planned again, once storage for a write-back is page-locked")

// lock gets memory of such sizes. It is called without the planner lock.
func (b *backPages) lock(c *Context, sizes []uint64) {
	b.rounds++
	b.enough = b.rounds >= lockRounds
	for _, size := range sizes {
		pages := c.locks.take(size, c.mems[mem.Host].info.BaseAlign)
		if pages == nil {
			b.enough = true
			return
		}
		b.ready = append(b.ready, pages)
	}
}

// free gives back what was not needed. It is called without the planner lock.
func (b *backPages) free() {
	if b == nil {
		return
	}
	for _, l := range b.ready {
		l.free()
	}
	b.ready = nil
}

// ofSize is the index of memory of a size, -1 where there is none.
func ofSize(ready []*locked, size uint64) int {
	return slices.IndexFunc(ready, func(l *locked) bool { return uint64(len(l.Bytes)) == size })
}

// lockedWant reports whether a write-back's storage is to be page-locked, where so many
// bytes are. c.mu is held.
func (c *Context) lockedWant(w migration.Want, already uint64) bool {
	most := c.opts.LockedBacks
	if most == 0 {
		most = mostLocked
	}
	return c.locks.from != nil && c.lockable(w) && c.roots[w.Buffer].size <= most-min(most, already)
}

// lockable reports whether storage is worth locking: what tells by itself, as virtual time's, is asked for such. c.mu is held.
func (c *Context) lockable(w migration.Want) bool {
	r := c.roots[w.Buffer]
	return w.Memory == mem.Host && r.size >= leastLocked && r.svm == nil
}

// missingPages lists the sizes of what has to be page-locked for write-backs, and has not
// been. c.mu is held.
func (c *Context) missingPages(wants []migration.Want) (sizes []uint64) {
	var ready []*locked
	if p := c.evicting.pages; p != nil && p.enough {
		return nil
	} else if p != nil {
		ready = slices.Clone(p.ready)
	}
	total, now := c.evicting.locked, uint64(0)
	for _, w := range wants {
		if !c.lockedWant(w, total) {
			continue
		}
		size := c.roots[w.Buffer].size
		total += size
		if i := ofSize(ready, size); i >= 0 {
			ready = slices.Delete(ready, i, i+1)
		} else if now += size; now <= lockRoundBytes || len(sizes) == 0 {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// lockedStorage takes page-locked storage for a write-back, and reports whether there was
// any. c.mu is held.
func (c *Context) lockedStorage(w migration.Want) bool {
	e, r := &c.evicting, c.roots[w.Buffer]
	if e.pages == nil || !c.lockedWant(w, e.locked) {
		return false
	}
	i := ofSize(e.pages.ready, r.size)
	if i < 0 {
		return false
	}
	pages := e.pages.ready[i]
	b, err := c.host.Adopt(pages.Bytes, uint64(r.id))
	if err != nil {
		return false
	}
	e.pages.ready = slices.Delete(e.pages.ready, i, i+1)
	c.locks.given(nil)
	r.locked, r.backed = pages, true
	r.on(mem.Host).Set(mem.Range{End: r.size}, b)
	e.locked += r.size
	if err := c.planner.Stored(migration.Want{Buffer: r.id, Memory: mem.Host}, c.classOf(r)); err != nil {
		panic("runtime: the planner wants storage that it does not know: " + err.Error())
	}
	return true
}

// unlockStorage gives page-locked storage of lockedStorage back after the points. c.mu is
// held.
func (c *Context) unlockStorage(r *root, after []mem.Point) {
	if r.backed {
		c.evicting.locked -= r.size
		r.backed = false
	}
	r.locked.freeAfter(after)
	r.locked = nil
}
