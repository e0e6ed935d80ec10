package runtime

import (
	"errors"
	"fmt"
	"sync"

	"godwit/devices"
	"godwit/mem"
	"godwit/subbuffer"
	"godwit/svm"
)

// Shared virtual memory. Every allocation is a root buffer like any other: its
// content migrates by ranges, and its host block is the drivers' view of a block
// of the context's arena (package svm). What is special:
//
//   - A pointer is looked up in the arena and becomes (root, range) before there
//     is an access, so the planner knows no pointers. A buffer made over one
//     (UseHostPtr with bytes of SVMBytes) is a view of the same root.
//   - Kernels see the pointer, wherever the device's block is (devices.ArgSVM).
//   - Coarse grain: the host touches the user's view only while mapped; rights
//     are given by the map's command when it runs, and taken by the unmap's. Commands may not use what the host has mapped.
//   - Fine grain: the host's block is the only one. Devices that share the host's
//     memory use it in place; on others such a pointer is an error.
//   - Devices whose kernels follow pointers in this process (SVMCaps.InPlace, such
//     as PoCL's cpu devices) have no copy of coarse-grained memory either: one
//     address cannot be two memories there. What they do to it they do on the
//     host's memory, and nothing moves between them. Their launches are lent the
//     host's view of the bytes for as long as they are under way.
//
// Life of an allocation: SVMAlloc -> SVMFree or EnqueueSVMFree, after which no
// enqueue takes the pointer -> its buffers released, its last commands ended: the
// addresses go back to the arena. Where there is no arena yet, no device has been
// asked to keep its addresses free.

// Pointer is an address of shared virtual memory.
type Pointer = svm.Pointer

// SVMFlags say how a block of shared virtual memory is used.
type SVMFlags = svm.Flags

// SVMFineGrain and SVMAtomics are for SVMAlloc, besides ReadWrite, WriteOnly and
// ReadOnly.
const (
	SVMFineGrain = svm.FineGrain
	SVMAtomics   = svm.Atomics
)

// svmRoot is what a root has that is an allocation of shared virtual memory.
type svmRoot struct {
	p     Pointer    // immutable
	flags SVMFlags   // immutable
	arena *svm.Arena // immutable
	buf   *Buffer    // immutable: the allocation itself as a view; released by a free

	once sync.Once
	err  error // set by once
}

// free makes the pointer stale in the arena, once.
func (s *svmRoot) free(by string) error {
	s.once.Do(func() { s.err = s.arena.Free(s.p, by) })
	return s.err
}

func (s *svmRoot) fine() bool { return s.flags&SVMFineGrain != 0 }

// openArena makes the context's arena. c.mu is held.
func (c *Context) openArena() error {
	if c.arena != nil {
		return nil
	}
	a, err := svm.New(svm.Options{Name: c.name, Size: c.opts.SVMSize, Watch: c.opts.SVMWatch, Trusted: c.opts.SVMTrusted})
	if err != nil {
		return err
	}
	for i := range c.mems {
		if c.mems[i].info.SVM.Coarse {
			err = errors.Join(err, c.mems[i].dev.ReserveSVM(a.Bounds()))
		}
	}
	if err != nil {
		return errors.Join(err, a.Close())
	}
	c.arena = a
	return nil
}

// svmDevice fails with mem.ErrInvalidOperation where kernels of a device cannot
// have pointers of shared virtual memory, or of fine grain.
func (m *memory) svmDevice(fine bool) error {
	switch {
	case !m.info.SVM.Coarse:
		return devices.NoSVM(&m.info)
	case fine && !m.info.SVM.Fine:
		return fmt.Errorf("device %s has no fine-grained shared virtual memory: %w", m.info.Name, mem.ErrInvalidOperation)
	}
	return nil
}

// SVMAlloc gives size bytes of shared virtual memory at a multiple of align, a
// power of two (0: the device's own). Zero flags are ReadWrite. What it holds is
// undefined. Coarse-grained memory is address space until it is used: the host
// may touch it only while it is mapped. It is freed by SVMFree or
// EnqueueSVMFree.
//
// It fails with mem.ErrInvalidOperation where no device of the context has
// shared virtual memory as flags ask for, mem.ErrInvalidSize where size is zero
// or more than some such device takes, mem.ErrInvalidValue where flags contradict
// or align is no power of two, and mem.ErrNoHostMemory where there is no room.
func (c *Context) SVMAlloc(size, align uint64, flags SVMFlags) (Pointer, error) {
	return c.SVMAllocNamed("", size, align, flags)
}

// SVMAllocNamed is SVMAlloc with a name for errors, leaks and traces.
func (c *Context) SVMAllocNamed(name string, size, align uint64, flags SVMFlags) (Pointer, error) {
	if err := flags.Check(); err != nil {
		return 0, err
	}
	if err := c.svmSize(size, flags); err != nil {
		return 0, err
	}
	if align == 0 {
		align = 128
	}
	if err := c.begin("svm block"); err != nil {
		return 0, err
	}
	defer c.unlock()
	if err := c.openArena(); err != nil {
		return 0, err
	}
	p, err := c.arena.Alloc(size, align, flags, name)
	if err != nil {
		return 0, err
	}
	if name == "" {
		name = fmt.Sprintf("svm:%v", p)
	}
	r := &root{name: name, size: size, user: true, views: 1}
	r.svm = &svmRoot{p: p, flags: flags, arena: c.arena}
	if err := c.registerSVM(r); err != nil {
		return 0, errors.Join(err, c.freeRoot(r))
	}
	return p, nil
}

// SetSVMHint is Buffer.SetHint for a block of shared virtual memory. It fails as
// SVMFree does.
func (c *Context) SetSVMHint(p Pointer, h mem.Hint) error {
	if err := c.call(); err != nil {
		return err
	}
	defer c.unlock()
	r, err := c.svmStart(p)
	if err == nil {
		r.hint = h
	}
	return err
}

// svmSize checks a size against the devices that could use it.
func (c *Context) svmSize(size uint64, flags SVMFlags) error {
	var why error
	var largest uint64
	for i := range c.mems[1:] {
		m := &c.mems[i+1]
		if err := m.svmDevice(flags&SVMFineGrain != 0); err != nil {
			why = errors.Join(why, err)
			continue
		}
		if flags&SVMAtomics != 0 && !m.info.SVM.Atomics {
			why = errors.Join(why, fmt.Errorf("device %s has no atomics on shared virtual memory: %w", m.info.Name, mem.ErrInvalidOperation))
			continue
		}
		largest = max(largest, m.largest)
	}
	if largest == 0 {
		return fmt.Errorf("svm block of %d bytes, flags %#x: no device of context %s can use it: %w", size, uint64(flags), c.name, why)
	}
	if size == 0 || size > largest {
		return fmt.Errorf("svm block of %d bytes: it must have 1 to %d: %w", size, largest, mem.ErrInvalidSize)
	}
	return nil
}

// registerSVM makes the root of a new block known, with its host memory. c.mu is
// held.
func (c *Context) registerSVM(r *root) error {
	s := r.svm
	bytes, err := c.arena.Bytes(s.p, r.size)
	if err != nil {
		return err
	}
	b, err := c.host.Adopt(bytes, uint64(s.p))
	if err != nil {
		return err
	}
	r.on(mem.Host).Set(mem.Range{End: r.size}, b)
	if err := c.register(r, false); err != nil {
		return err
	}
	view, err := subbuffer.Whole(r.size, subbuffer.Flags(s.flags&svm.ReadOnly)) // nobody asks the view for more
	if err != nil {
		return err
	}
	s.buf = &Buffer{c: c, root: r, view: view, refs: 1}
	c.svmRoots[s.p] = r
	clear(c.svmSeen[:])
	return nil
}

// svmAt finds the allocation that p points into, and how far. c.mu is held.
func (c *Context) svmAt(p Pointer) (r *root, off uint64, err error) {
	if c.arena == nil {
		return nil, 0, fmt.Errorf("%v: context %s has allocated no shared virtual memory: %w", p, c.name, svm.ErrNotSVM)
	}
	seen := &c.svmSeen[uint64(p)>>12%uint64(len(c.svmSeen))]
	if r = *seen; r != nil && p >= r.svm.p && uint64(p-r.svm.p) < r.size {
		return r, uint64(p - r.svm.p), nil
	}
	b, err := c.arena.Lookup(p)
	if err != nil {
		return nil, 0, err
	}
	r = c.svmRoots[b.Start]
	if r == nil {
		return nil, 0, fmt.Errorf("%v: its free has been enqueued: %w", p, svm.ErrFreed)
	}
	*seen = r
	return r, uint64(p - b.Start), nil
}

// SVMBytes is size bytes of shared virtual memory as the host sees them. Touching
// coarse-grained ones outside a map is a fault: see SVMGuard. Given to
// CreateBuffer with UseHostPtr, the buffer and the pointer are one content. It
// fails with svm.ErrNotSVM and svm.ErrFreed where p is no pointer (any more), and
// mem.ErrInvalidValue where the bytes leave its block.
func (c *Context) SVMBytes(p Pointer, size uint64) ([]byte, error) {
	if err := c.call(); err != nil {
		return nil, err
	}
	defer c.unlock()
	if _, _, err := c.svmAt(p); err != nil {
		return nil, err
	}
	return c.arena.User(p, size)
}

// svmArena is the arena, nil where there is none yet.
func (c *Context) svmArena() (*svm.Arena, error) {
	if err := c.call(); err != nil {
		return nil, err
	}
	defer c.unlock()
	return c.arena, nil
}

// SVMGuard runs f, and makes a touch of shared virtual memory by f that the host
// has no right to an error: a *svm.Fault with the address, its block, and who
// freed or unmapped it. Go code on the calling goroutine only.
func (c *Context) SVMGuard(f func()) error {
	a, err := c.svmArena()
	if err != nil {
		return err
	}
	if a == nil {
		f()
		return nil
	}
	return a.Guard(f)
}

// SVMExplain says in a sentence what is at an address, and whether the host may
// touch it; where not, why.
func (c *Context) SVMExplain(p Pointer) string {
	a, err := c.svmArena()
	if err != nil {
		return err.Error()
	}
	if a == nil {
		return "the context has allocated no shared virtual memory"
	}
	return a.Explain(p)
}

// SVMFree frees a block of shared virtual memory, which commands enqueued before
// may still use. Its maps end, and what the host has written under them counts.
// Buffers made over it stay good. The null pointer
// is ignored. It fails with svm.ErrNotSVM and svm.ErrFreed where p is no pointer
// (any more), and mem.ErrInvalidValue where p points inside a block.
func (c *Context) SVMFree(p Pointer) error {
	if p == 0 {
		return nil
	}
	if err := c.call(); err != nil {
		return err
	}
	defer c.unlock()
	r, err := c.svmStart(p)
	if err != nil {
		return err
	}
	err = r.svm.free("SVMFree")
	for _, m := range r.maps { // from now on the host writes no more
		if m.flags.Writes() && m.point.Reached() && m.point.Succeeded() {
			err = errors.Join(err, c.planner.Written(r.id, mem.Host, m.r))
		}
	}
	return errors.Join(err, c.endMaps(r, mem.Point{}), c.dropSVM(r, mem.Point{}))
}

// svmStart finds the allocation that starts at p. c.mu is held.
func (c *Context) svmStart(p Pointer) (*root, error) {
	r, off, err := c.svmAt(p)
	if err == nil && off != 0 {
		err = fmt.Errorf("%v is byte %d of %s: give the pointer that was allocated: %w", p, off, r.label(), mem.ErrInvalidValue)
	}
	return r, err
}

// dropSVM ends the allocation, whose commands and the point at are the last that
// may use it. c.mu is held.
func (c *Context) dropSVM(r *root, at mem.Point) error {
	delete(c.svmRoots, r.svm.p)
	clear(c.svmSeen[:])
	r.svm.buf.refs = 0
	r.last = at
	return c.unview(r)
}

// recycle gives the addresses of r back to the arena once the points are reached. c.mu is held.
func (c *Context) recycle(r *root, after []mem.Point) {
	s := r.svm
	afterAll(append(after, r.last), func() {
		if s.free("the context") == nil {
			_ = s.arena.Recycle(s.p) // closed meanwhile: all is given back
		}
	})
}

// closeArena ends the arena, whose blocks have been freed. c.mu is held.
func (c *Context) closeArena() error {
	if c.arena == nil {
		return nil
	}
	return errors.Join(c.arena.Check(), c.arena.Close())
}

// svmMemory is the memory on which a use of shared virtual memory takes place: m,
// or the host's where it is fine-grained or the device uses it in place. It fails
// where the device cannot. c.mu is held.
func (c *Context) svmMemory(req *request, u use, m mem.MemoryID) (mem.MemoryID, error) {
	s := u.buf.root.svm
	if u.buf == s.buf || s.fine() {
		if err := c.mems[req.q.mem].svmDevice(s.fine()); err != nil {
			return 0, fmt.Errorf("%s: %w", u.buf.label(), err)
		}
	}
	if s.fine() {
		return mem.Host, nil
	}
	return c.storeOf(u.buf.root, c.topo.Store(m)), nil
}

// noConflict fails where the host has mapped bytes of an access to shared virtual
// memory. c.mu is held.
func noConflict(r *root, a *mem.Access) error {
	if r.svm.fine() {
		return nil
	}
	for _, m := range r.maps {
		if m.excludes(a.Range, a.Mode.Writes()) {
			return fmt.Errorf("%v of %s: the host has mapped %v: unmap it first: %w", a.Range, r.label(), m.r, svm.ErrMapped)
		}
	}
	return nil
}
