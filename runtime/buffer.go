package runtime

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/migration"
	"godwit/subbuffer"
)

// Flags say how kernels and the host may use a buffer; see subbuffer.Flags.
type Flags = subbuffer.Flags

// Flags of buffers: how kernels access them, what memory the host has, and how
// the host accesses them. They are OpenCL's, bit for bit.
const (
	ReadWrite = subbuffer.ReadWrite
	WriteOnly = subbuffer.WriteOnly
	ReadOnly  = subbuffer.ReadOnly

	UseHostPtr   = subbuffer.UseHostPtr
	AllocHostPtr = subbuffer.AllocHostPtr
	CopyHostPtr  = subbuffer.CopyHostPtr

	HostWriteOnly = subbuffer.HostWriteOnly
	HostReadOnly  = subbuffer.HostReadOnly
	HostNoAccess  = subbuffer.HostNoAccess
)

// root is the content that buffers and sub-buffers are views of.
//
// Life: made by CreateBuffer with one reference; each Buffer, sub-buffers
// included, holds one; with the last, the planner forgets it and its blocks are
// freed after the last points that touch them.
type root struct {
	id        mem.BufferID         // immutable
	name      string               // immutable
	size      uint64               // bytes, immutable
	user      bool                 // immutable: the host's block is the caller's memory (UseHostPtr)
	byRange   bool                 // immutable: devices may store parts of it
	blocks    []blocks             // protected by c.mu; of memories that have had some, by these
	few       [2]blocks            // protected by c.mu; where blocks are, of few memories
	locked    *locked              // protected by c.mu; nil where the host's block is not page-locked
	backed    bool                 // protected by c.mu: it was locked for what is written back
	tenant    *Tenant              // immutable; nil where it is nobody's
	svm       *svmRoot             // immutable; nil where it is no shared virtual memory
	last      mem.Point            // protected by c.mu: of the command that freed it, where it is
	hint      mem.Hint             // protected by c.mu: of how long its blocks will live
	pins      map[mem.MemoryID]int // protected by c.mu: how often its block there is pinned
	views     int                  // protected by c.mu: live Buffers, mappings, and roots whose size buffer it is
	count     *root                // protected by c.mu: its size buffer, of which it holds a view; nil where it has none
	onRelease []func()             // protected by c.mu
	gone      *countdown           // protected by c.mu: calls onRelease; nil until a view with callbacks is released
	maps      []*mapRecord         // protected by c.mu: oldest first
	slot      *slot                // immutable; nil where it is a buffer
	replay    uint64               // protected by c.mu: the last that was to use it, by Context.replaySeq
	dropped   bool                 // protected by c.mu
}

// lent reports whether the host's block is memory that no layer of the host's
// resource has heard of.
func (r *root) lent() bool { return r.user || r.locked != nil }

// Buffer is a buffer or a sub-buffer. It belongs to a context, not to a device:
// it has one latest content, which any number of memories may hold. Bytes that
// were never written have no defined content.
type Buffer struct {
	c    *Context       // immutable
	root *root          // immutable
	view subbuffer.View // immutable
	refs int            // protected by c.mu; 0 is released

	onRelease []func() // protected by c.mu: of a view of bytes that are not its own
}

// CreateBuffer makes a buffer of size bytes. Zero flags are ReadWrite. Where
// host is not nil it must have size bytes, which are the first content:
//
//   - they are copied to the host's memory before the call returns (CopyHostPtr,
//     and also without it), or
//   - with UseHostPtr they are the host's memory of the buffer, used in place by
//     devices that share it, and left to the context until the buffer and all
//     that uses it are gone. Map the buffer to see its content in them. Where
//     they are shared virtual memory (SVMBytes), coarse-grained or fine, the
//     buffer is a view of that: one content for buffer and pointer.
//
// AllocHostPtr takes the host's memory at once, page-locked where a device of the
// context has memory of its own and can move bytes from and to such memory by itself
// (devices.PageLocker). No other storage is taken before the first use.
//
// It fails with mem.ErrInvalidSize where size is zero or, of a buffer that is stored whole
// (Options.WholeBelow), no device of the context could hold it (then it is a
// *resource.OutOfMemory, too), mem.ErrInvalidValue where flags contradict,
// mem.ErrInvalidHostPtr where host is too short, too long, or missing though
// flags speak of it, and mem.ErrNoHostMemory where the host has no room.
func (c *Context) CreateBuffer(size uint64, flags Flags, host []byte) (*Buffer, error) {
	return c.CreateNamedBuffer("", size, flags, host)
}

// CreateNamedBuffer is CreateBuffer with a name for errors, leaks and traces.
func (c *Context) CreateNamedBuffer(name string, size uint64, flags Flags, host []byte) (*Buffer, error) {
	return c.create(name, size, flags, host, nil, false)
}

// CreateWhole is CreateNamedBuffer for a buffer of which devices store all or nothing, however large it is (Options.WholeBelow):
// one that grows, or of which any part may be wanted next.
func (c *Context) CreateWhole(name string, size uint64, flags Flags, host []byte) (*Buffer, error) {
	return c.create(name, size, flags, host, nil, true)
}

// create is CreateNamedBuffer or CreateWhole, for a buffer of a tenant's, if not nil.
func (c *Context) create(name string, size uint64, flags Flags, host []byte, of *Tenant, whole bool) (b *Buffer, err error) {
	view, err := subbuffer.Whole(size, flags)
	if err != nil {
		return nil, err
	}
	byRange := !whole && c.byRange(size, flags)
	if err := c.checkSize(size, byRange); err != nil {
		return nil, err
	}
	switch {
	case host == nil && flags&(UseHostPtr|CopyHostPtr) != 0:
		return nil, fmt.Errorf("buffer of %d bytes, flags %#x, without host memory: %w", size, uint64(flags), mem.ErrInvalidHostPtr)
	case host != nil && uint64(len(host)) != size:
		return nil, fmt.Errorf("buffer of %d bytes with %d bytes of content: they must be as many: %w", size, len(host), mem.ErrInvalidHostPtr)
	}
	var pages *locked
	if flags&AllocHostPtr != 0 {
		pages = c.locks.take(size, c.mems[mem.Host].info.BaseAlign)
	}
	if pages != nil {
		copy(pages.Bytes, host)
		defer func() { // also where a hook panics
			if b != nil {
				c.locks.given(nil)
			} else {
				pages.free()
			}
		}()
	}
	return c.createBuffer(name, view, host, pages, of, byRange)
}

// createBuffer makes a buffer; pages is its memory on the host, if not nil.
func (c *Context) createBuffer(name string, view subbuffer.View, host []byte, pages *locked, of *Tenant, byRange bool) (*Buffer, error) {
	size, flags := view.Range.Size(), view.Flags
	if err := c.begin("buffer"); err != nil {
		return nil, err
	}
	defer c.unlock()
	if of != nil && of.closed {
		return nil, fmt.Errorf("buffer of tenant %s, which was closed: %w", of, mem.ErrInvalidOperation)
	}
	if flags&UseHostPtr != 0 {
		if b, ok, err := c.aliasSVM(view, host); ok {
			if err == nil && of != nil {
				b.refs = 0
				return nil, errors.Join(fmt.Errorf("buffer of tenant %s over shared virtual memory, which is nobody's: %w", of, mem.ErrInvalidOperation), c.unview(b.root))
			}
			return b, err
		}
	}
	r := &root{tenant: of, name: name, size: size, user: flags&UseHostPtr != 0, locked: pages, views: 1}
	r.byRange = byRange
	if err := c.initialise(r, flags, host); err != nil {
		return nil, err
	}
	if err := c.register(r, host != nil); err != nil {
		return nil, errors.Join(err, c.freeRoot(r))
	}
	if of != nil {
		of.buffers++
	}
	if c.stamper != nil && host != nil {
		c.stamper.Created(r.onHost(), r.id, host)
	}
	return &Buffer{c: c, root: r, view: view, refs: 1}, nil
}

// register tells planner and trace of a new root. c.mu is held.
func (c *Context) register(r *root, content bool) error {
	var valid mem.MemorySet
	if content {
		valid = mem.SetOf(mem.Host)
	}
	var err error
	if r.id, err = c.planner.Create(r.size, valid); err != nil {
		return err
	}
	if r.tenant != nil {
		if err := c.planner.Rank(r.id, r.tenant.o.Priority); err != nil {
			return err
		}
	}
	if r.byRange {
		if err := c.planner.ByRange(r.id, c.align); err != nil {
			return err
		}
	}
	if r.stored(mem.Host) {
		if err := c.planner.Stored(migration.Want{Buffer: r.id, Memory: mem.Host}, c.classOf(r)); err != nil {
			return err
		}
	}
	c.roots[r.id] = r
	if c.opts.Trace != nil {
		created := trace.BufferRecord{Buffer: r.id, Name: r.name, Size: r.size, Whole: !r.byRange && c.byRange(r.size, 0), Tenant: r.tenant.record()}
		if content {
			created.Version = c.planner.Version()
		}
		if c.hooks.buffer(&created); c.hooks.failed.Load() != nil {
			delete(c.roots, r.id)
			return errors.Join(errHookPanicked, c.planner.Release(r.id))
		}
	}
	return nil
}

// errHookPanicked undoes what a hook panicked in; nobody sees it, since unlock panics.
var errHookPanicked = errors.New("a hook panicked")

// byRange reports whether devices may store parts of a buffer, as wide as commands reach.
func (c *Context) byRange(size uint64, flags Flags) bool {
	return size >= c.opts.WholeBelow && flags&UseHostPtr == 0
}

// CheckSize fails with mem.ErrInvalidSize as CreateBuffer does where nothing could store a
// buffer of that size: of one that is stored in parts, each command says how much of it is
// needed at once.
func (c *Context) CheckSize(size uint64, flags Flags) error {
	return c.checkSize(size, c.byRange(size, flags))
}

func (c *Context) checkSize(size uint64, byRange bool) error {
	var largest uint64
	for i := range c.mems[1:] {
		largest = max(largest, c.mems[i+1].largest)
	}
	if byRange {
		largest = math.MaxInt64
	}
	if size > largest {
		return fmt.Errorf("buffer of %d bytes: no device of context %s takes more than %d: %w: %w", size, c.name, largest, mem.ErrInvalidSize, c.tooLarge(size, largest))
	}
	return nil
}

// tooLarge is the certificate for a buffer that not even the memory which takes the largest
// can hold.
func (c *Context) tooLarge(size, largest uint64) error {
	c.lock()
	defer c.unlock()
	m := 1 + slices.IndexFunc(c.mems[1:], func(m memory) bool { return m.largest == largest })
	why := c.certify(mem.MemoryID(m), size, mem.Exhausted, nil)
	why.Hopeless = true
	return why
}

// Sub makes a sub-buffer: size bytes at origin of b, sharing b's content. Zero
// flags, and those of each kind that are not given, are b's. b may be released before it. It fails with
// mem.ErrInvalidBuffer where b was released or is a sub-buffer,
// mem.ErrInvalidSize and mem.ErrInvalidValue where the range is empty, leaves b
// or flags permit what b's forbid, and mem.ErrMisaligned where origin is aligned
// for no device of the context; commands on a device for which it is not
// aligned fail with that too.
func (b *Buffer) Sub(origin, size uint64, flags Flags) (*Buffer, error) {
	if err := b.made(); err != nil {
		return nil, err
	}
	view, err := b.view.Of(origin, size, flags)
	if err != nil {
		return nil, err
	}
	c := b.c
	for i := range c.mems[1:] {
		if err = view.CheckAlign(c.mems[i+1].info.BaseAlign); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if err := c.call(); err != nil {
		return nil, err
	}
	defer c.unlock()
	if err := b.live(); err != nil {
		return nil, err
	}
	b.root.views++
	return &Buffer{c: c, root: b.root, view: view, refs: 1}, nil
}

// made fails where b is nil, or no buffer that CreateBuffer or Sub made.
func (b *Buffer) made() error {
	if b == nil || b.root == nil {
		return fmt.Errorf("nil buffer: %w", mem.ErrInvalidBuffer)
	}
	return nil
}

// enter begins a call about b, which must be live: it takes the planner lock, and keeps it
// where it does not fail.
func (b *Buffer) enter() error {
	if err := b.made(); err != nil {
		return err
	}
	if err := b.c.call(); err != nil {
		return err
	}
	err := b.live()
	if err == nil && b.root.slot != nil {
		err = b.root.unbound()
	}
	if err != nil {
		b.c.unlock()
	}
	return err
}

// unusable is why a command cannot use what was released, or a slot.
func (r *root) unusable() error {
	if r.slot != nil {
		return r.unbound()
	}
	return fmt.Errorf("buffer %s was released: %w", r.label(), mem.ErrInvalidBuffer)
}

// unbound is why a slot cannot be used as a buffer.
func (r *root) unbound() error {
	return fmt.Errorf("buffer %s is of a recording, which only its commands can use: %w", r.label(), mem.ErrInvalidBuffer)
}

// live fails where b was released. c.mu is held.
func (b *Buffer) live() error {
	if b.refs == 0 {
		return fmt.Errorf("buffer %s was released: %w", b.label(), mem.ErrInvalidBuffer)
	}
	return nil
}

// label names b in errors.
func (b *Buffer) label() string {
	if b.view.Sub {
		return fmt.Sprintf("%s%v", b.root.label(), b.view.Range)
	}
	return b.root.label()
}

// String names the buffer: by its name, or its number in traces; of a sub-buffer with its bytes.
func (b *Buffer) String() string {
	if b.made() != nil {
		return "no buffer"
	}
	return b.label()
}

func (r *root) label() string {
	if r.name != "" {
		return r.name
	}
	return fmt.Sprintf("#%v", r.id)
}

// Size is the number of bytes in b.
func (b *Buffer) Size() uint64 { return b.view.Size() }

// View is the range of the root buffer that b shows.
func (b *Buffer) View() subbuffer.View { return b.view }

// ID names b's root buffer, as in traces.
func (b *Buffer) ID() mem.BufferID { return b.root.id }

// Name is the name given at creation, which sub-buffers share.
func (b *Buffer) Name() string { return b.root.name }

// Segments is the table of b's root buffer: which bytes are fresh where.
func (b *Buffer) Segments() ([]migration.Segment, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.c.unlock()
	return b.c.planner.Segments(b.root.id)
}

// SetHint says how long the buffer will live, for the blocks that it will take from
// now on: device memory is placed beside what dies at the same time. It counts for
// the whole of the buffer that b is, or is a view of. A wrong hint costs room and
// nothing else. It fails with mem.ErrInvalidBuffer for a released buffer.
func (b *Buffer) SetHint(h mem.Hint) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.c.unlock()
	b.root.hint = h
	return nil
}

// Retain adds a reference, for code that shares a buffer by counting.
func (b *Buffer) Retain() error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.c.unlock()
	b.refs++
	return nil
}

// Release gives a reference up. With the last, b must not be used any more;
// with the last of a root buffer and its sub-buffers, its storage is freed once
// the commands that use it have ended. Memory that the caller lent (UseHostPtr) is
// the caller's again then: Release waits for copies of the runtime's own that touch it,
// such as an eviction's, but for none that hangs on a user event or a host call. It
// fails with mem.ErrInvalidBuffer where b was released already.
func (b *Buffer) Release() error {
	if err := b.enter(); err != nil {
		return err
	}
	c := b.c
	defer c.bufferEnded()
	defer c.unlock()
	b.refs--
	if b.refs > 0 {
		return nil
	}
	if len(b.onRelease) > 0 {
		c.viewReleased(b)
	}
	return c.unview(b.root)
}

// unview gives a view of a root up; with the last, the root goes. c.mu is held.
func (c *Context) unview(r *root) error {
	if r.views--; r.views > 0 {
		return nil
	}
	return c.drop(r)
}
