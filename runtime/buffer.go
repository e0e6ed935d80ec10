package runtime

import (
	"errors"
	"fmt"
	"math"

	"godwit/mem"
	"godwit/migration"
	"godwit/subbuffer"
	"godwit/trace"
)

// Flags say how kernels may use a buffer; see subbuffer.Flags.
type Flags = subbuffer.Flags

// Access flags of buffers.
const (
	ReadWrite = subbuffer.ReadWrite
	WriteOnly = subbuffer.WriteOnly
	ReadOnly  = subbuffer.ReadOnly
)

// root is the content that buffers and sub-buffers are views of.
//
// Life: made by CreateBuffer with one reference; each Buffer, sub-buffers
// included, holds one; with the last, the planner forgets it and its blocks are
// freed after the last points that touch them.
type root struct {
	id     mem.BufferID // immutable
	name   string       // immutable
	size   uint64       // bytes, immutable
	blocks []mem.Block  // protected by c.mu; by memory, zero where it has none
	views  int          // protected by c.mu: live Buffers of it
}

// Buffer is a buffer or a sub-buffer. It belongs to a context, not to a device:
// it has one latest content, which any number of memories may hold. Bytes that
// were never written have no defined content.
type Buffer struct {
	c    *Context       // immutable
	root *root          // immutable
	view subbuffer.View // immutable
	refs int            // protected by c.mu; 0 is released
}

// CreateBuffer makes a buffer of size bytes. Zero flags are ReadWrite. Where
// init is not nil it must have size bytes; they are copied to the host's memory
// before the call returns and move to devices when commands read them there. No
// other storage is taken before the first use.
//
// It fails with mem.ErrInvalidSize where size is zero or no device of the
// context could hold it, mem.ErrInvalidValue where flags contradict,
// mem.ErrInvalidHostPtr where init is too short or too long, and
// mem.ErrNoHostMemory where the host has no room for init.
func (c *Context) CreateBuffer(size uint64, flags Flags, init []byte) (*Buffer, error) {
	return c.CreateNamedBuffer("", size, flags, init)
}

// CreateNamedBuffer is CreateBuffer with a name for errors, leaks and traces.
func (c *Context) CreateNamedBuffer(name string, size uint64, flags Flags, init []byte) (*Buffer, error) {
	view, err := subbuffer.Whole(0, size, flags)
	if err != nil {
		return nil, err
	}
	if largest := c.largestBuffer(); size > largest {
		return nil, fmt.Errorf("buffer of %d bytes: no device of context %s takes more than %d: %w", size, c.name, largest, mem.ErrInvalidSize)
	}
	if init != nil && uint64(len(init)) != size {
		return nil, fmt.Errorf("buffer of %d bytes with %d bytes of content: they must be as many: %w", size, len(init), mem.ErrInvalidHostPtr)
	}
	c.lock()
	defer c.unlock()
	if c.closed {
		return nil, fmt.Errorf("buffer of %d bytes: context %s: %w", size, c.name, errContextClosed)
	}
	r := &root{name: name, size: size, blocks: make([]mem.Block, len(c.mems)), views: 1}
	var valid mem.MemorySet
	if init != nil {
		if err := c.initialise(r, init); err != nil {
			return nil, err
		}
		valid = mem.SetOf(mem.Host)
	}
	if r.id, err = c.planner.CreateWith(size, valid); err != nil {
		return nil, errors.Join(err, c.freeRoot(r))
	}
	view.Root = r.id
	c.roots[r.id] = r
	if c.opts.Trace != nil {
		created := trace.BufferRecord{Buffer: r.id, Name: name, Size: size}
		if init != nil {
			created.Version = c.planner.Version()
		}
		c.opts.Trace.Buffer(&created)
	}
	return &Buffer{c: c, root: r, view: view, refs: 1}, nil
}

// largestBuffer is the size in bytes of the largest buffer that some device can
// hold.
func (c *Context) largestBuffer() uint64 {
	var largest uint64
	for i := range c.mems[1:] {
		largest = max(largest, c.mems[i+1].maxBuffer())
	}
	return largest
}

// maxBuffer is the size in bytes of the largest buffer that m can hold.
func (m *memory) maxBuffer() uint64 {
	switch {
	case m.info.MaxAlloc != 0:
		return m.info.MaxAlloc
	case m.info.GlobalMemory != 0:
		return m.info.GlobalMemory
	}
	return math.MaxInt64
}

// Sub makes a sub-buffer: size bytes at origin of b, sharing b's content. Zero
// flags are b's. b may be released before it. It fails with
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
	c.lock()
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

func (r *root) label() string {
	if r.name != "" {
		return r.name
	}
	return fmt.Sprintf("#%d", r.id)
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
	if err := b.made(); err != nil {
		return nil, err
	}
	b.c.lock()
	defer b.c.unlock()
	if err := b.live(); err != nil {
		return nil, err
	}
	return b.c.planner.Segments(b.root.id)
}

// Retain adds a reference, for code that shares a buffer by counting.
func (b *Buffer) Retain() error {
	if err := b.made(); err != nil {
		return err
	}
	b.c.lock()
	defer b.c.unlock()
	if err := b.live(); err != nil {
		return err
	}
	b.refs++
	return nil
}

// Release gives a reference up. With the last, b must not be used any more;
// with the last of a root buffer and its sub-buffers, its storage is freed once
// the commands that use it have ended. It fails with mem.ErrInvalidBuffer where
// b was released already.
func (b *Buffer) Release() error {
	if err := b.made(); err != nil {
		return err
	}
	c := b.c
	c.lock()
	defer c.unlock()
	if err := b.live(); err != nil {
		return err
	}
	b.refs--
	if b.refs > 0 {
		return nil
	}
	b.root.views--
	if b.root.views > 0 {
		return nil
	}
	return c.drop(b.root)
}
