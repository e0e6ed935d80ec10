package svm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"unsafe"

	"godwit/bufalloc"
	"godwit/mem"
)

// Pointer is an address of shared virtual memory: the host's, and every
// device's. 0 is the null pointer.
type Pointer uint64

// String is p in hexadecimal.
func (p Pointer) String() string { return fmt.Sprintf("%#x", uint64(p)) }

// Flags say how a block is used. The bits are OpenCL's cl_svm_mem_flags.
type Flags uint64

// Access flags are for kernels; at most one may be given, none is ReadWrite.
const (
	ReadWrite Flags = 1 << 0  // CL_MEM_READ_WRITE
	WriteOnly Flags = 1 << 1  // CL_MEM_WRITE_ONLY
	ReadOnly  Flags = 1 << 2  // CL_MEM_READ_ONLY
	FineGrain Flags = 1 << 10 // CL_MEM_SVM_FINE_GRAIN_BUFFER: the host may touch it at any time
	Atomics   Flags = 1 << 11 // CL_MEM_SVM_ATOMICS: only with FineGrain
)

// Check fails with mem.ErrInvalidValue where flags are unknown or contradict.
func (f Flags) Check() error {
	if unknown := f &^ (ReadWrite | WriteOnly | ReadOnly | FineGrain | Atomics); unknown != 0 {
		return fmt.Errorf("svm flags %#x: bits %#x are not known: %w", uint64(f), uint64(unknown), mem.ErrInvalidValue)
	}
	if a := f & (ReadWrite | WriteOnly | ReadOnly); a&(a-1) != 0 {
		return fmt.Errorf("svm flags %#x: read-write, write-only and read-only exclude each other: %w", uint64(f), mem.ErrInvalidValue)
	}
	if f&Atomics != 0 && f&FineGrain == 0 {
		return fmt.Errorf("svm flags %#x: atomics need fine grain: %w", uint64(f), mem.ErrInvalidValue)
	}
	return nil
}

// Errors of the registry.
var (
	// ErrNotSVM: the address is in no block of the arena.
	ErrNotSVM = mem.Sentinel("not a pointer of shared virtual memory", mem.InvalidValue)
	// ErrFreed: the address was in a block that has been freed.
	ErrFreed = mem.Sentinel("shared virtual memory used after it was freed", mem.InvalidValue)
	// ErrMapped: a map is in the way, or there is none. It is for whoever says which maps there may be.
	ErrMapped = mem.Sentinel("map state of shared virtual memory", mem.InvalidOperation)
)

// Options describe an arena; zero values are defaults.
type Options struct {
	Name string // for errors; "svm"
	Size uint64 // bytes of address space, rounded up to pages; 64 GiB. Memory is taken when touched.
	// Trusted leaves the host all rights to blocks that are live: no touch outside
	// a map is caught, but then rights, which cost 100 ns for each page that is in
	// use, are changed by allocations and frees only.
	Trusted bool
	// Watch, where not nil, is given a table from which a signal handler can
	// explain touches from C.
	Watch Watch
}

// Block is a live allocation, as it was when it was looked up.
type Block struct {
	Start Pointer
	Size  uint64 // bytes
	Flags Flags
	Gen   uint64 // told from every other block that was ever there
}

// Contains reports whether size bytes at p lie in b.
func (b Block) Contains(p Pointer, size uint64) bool {
	off := uint64(p - b.Start)
	return p >= b.Start && off <= b.Size && size <= b.Size-off
}

// Arena is a range of addresses for shared virtual memory.
type Arena struct {
	name   string   // immutable
	page   uint64   // immutable, bytes
	base   uint64   // immutable: the first address
	file   *os.File // immutable
	user   []byte   // immutable: the user's view, whose rights are changed under mu
	driver []byte   // immutable: the drivers' view
	table  *Table   // immutable; nil where nobody watches
	trust  bool     // immutable

	mu      sync.Mutex
	closed  bool                      // protected by mu
	region  *bufalloc.Region          // protected by mu
	blocks  map[bufalloc.Chunk]*block // protected by mu: live and freed, not yet resting
	gen     uint64                    // protected by mu
	resting []rest                    // protected by mu: oldest first
	rested  uint64                    // protected by mu: bytes resting
	past    history                   // protected by mu
}

// block is a live or freed block.
type block struct {
	Block
	chunk bufalloc.Chunk
	name  string
	maps  []*Map // live ones, oldest first
	lends []lend // to kernels that use the user's view
	freed bool
	slots []uint32 // of the table
}

// lend is addresses that kernels may touch, n times over.
type lend struct {
	r mem.Range
	n int
}

// rest is a range of addresses that is not given out for a while.
type rest struct {
	chunk bufalloc.Chunk
	size  uint64 // bytes, whole pages
}

// Rights of pages, in the system's own bits.
const (
	noRights = 0
	mayRead  = 1 << 0
	mayWrite = 1 << 1
)

// New reserves an arena. It fails with mem.ErrNoHostMemory where the system has
// no such range, and with errors.ErrUnsupported on systems other than Unix ones.
func New(o Options) (*Arena, error) {
	a := &Arena{name: o.Name, page: uint64(os.Getpagesize()), blocks: make(map[bufalloc.Chunk]*block), trust: o.Trusted}
	if a.name == "" {
		a.name = "svm"
	}
	if o.Size == 0 {
		o.Size = 64 << 30
	}
	size, ok := mem.AlignUp(o.Size, a.page)
	if !ok || size > math.MaxInt64 {
		return nil, fmt.Errorf("arena %s of %d bytes: too large for this system: %w", a.name, o.Size, mem.ErrInvalidSize)
	}
	var err error
	if a.file, err = memoryFile(size); errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("arena %s: %w: %w", a.name, err, mem.ErrInvalidOperation)
	} else if err != nil {
		return nil, fmt.Errorf("arena %s of %s: %w: %w", a.name, mem.FormatBytes(size), err, mem.ErrNoHostMemory)
	}
	fail := func(err error) (*Arena, error) {
		return nil, errors.Join(fmt.Errorf("arena %s of %s: %w: %w", a.name, mem.FormatBytes(size), err, mem.ErrNoHostMemory), a.unmap())
	}
	if a.user, err = mapView(a.file, int(size), noRights); err != nil {
		return fail(err)
	}
	if a.driver, err = mapView(a.file, int(size), mayRead|mayWrite); err != nil {
		return fail(err)
	}
	a.base = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(a.user))))
	if a.region, err = bufalloc.NewRegion(a.base, size, bufalloc.Options{Granularity: a.page}); err != nil {
		return fail(err)
	}
	if o.Watch != nil {
		if a.table, err = newTable(a.name, a.Bounds(), o.Watch); err != nil {
			return nil, errors.Join(err, a.unmap())
		}
	}
	return a, nil
}

// unmap gives both views and the file back.
func (a *Arena) unmap() error {
	var errs []error
	for _, view := range [][]byte{a.user, a.driver} {
		if view != nil {
			errs = append(errs, unmapView(view))
		}
	}
	return errors.Join(append(errs, a.file.Close())...)
}

// Close gives the arena back. What is still allocated there is gone, and
// touching it crashes: callers free and report leaks first. Closing twice fails
// with mem.ErrClosed.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("arena %s: %w", a.name, mem.ErrClosed)
	}
	a.closed = true
	return errors.Join(a.table.close(), a.unmap())
}

// Bounds is the range of the arena's addresses.
func (a *Arena) Bounds() mem.Range {
	return mem.Range{Start: a.base, End: a.base + uint64(len(a.user))}
}

// Holds reports whether p is an address of the arena, allocated or not.
func (a *Arena) Holds(p Pointer) bool { return uint64(p)-a.base < uint64(len(a.user)) }

// Alloc gives a block of size bytes at a multiple of align, a power of two (0:
// a page; smaller ones are fulfilled by pages too). Its bytes are zero. name is
// for errors. It fails with mem.ErrInvalidSize where size
// is 0, mem.ErrInvalidValue for other alignments and bad flags, and
// mem.ErrNoHostMemory where there is no room.
func (a *Arena) Alloc(size, align uint64, f Flags, name string) (Pointer, error) {
	if err := f.Check(); err != nil {
		return 0, err
	}
	if size == 0 {
		return 0, fmt.Errorf("svm block of 0 bytes: it must have at least one: %w", mem.ErrInvalidSize)
	}
	if align == 0 {
		align = 1
	}
	if !mem.IsPow2(align) {
		return 0, fmt.Errorf("svm block with alignment %d: it must be a power of two: %w", align, mem.ErrInvalidValue)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, fmt.Errorf("arena %s: %w", a.name, mem.ErrClosed)
	}
	c, err := a.take(size, align)
	if err != nil {
		return 0, fmt.Errorf("svm block of %d bytes at a multiple of %d in arena %s: %v: %w", size, align, a.name, err, mem.ErrNoHostMemory)
	}
	addr, err := a.region.Addr(c)
	if err != nil {
		return 0, err
	}
	a.gen++
	b := &block{Block: Block{Start: Pointer(addr), Size: size, Flags: f, Gen: a.gen}, chunk: c, name: name}
	if a.open(b) {
		if err := a.protect(b.whole(), mayRead|mayWrite); err != nil {
			return 0, errors.Join(err, a.region.Free(c))
		}
	}
	a.blocks[c] = b
	a.tell(b)
	return b.Start, nil
}

// take finds addresses, waking resting ones where it must. mu is held.
func (a *Arena) take(size, align uint64) (bufalloc.Chunk, error) {
	for {
		c, err := a.region.Alloc(size, align)
		if err == nil || !errors.Is(err, mem.ErrNoMemory) || len(a.resting) == 0 {
			return c, err
		}
		if err := a.wake(); err != nil {
			return bufalloc.Chunk{}, err
		}
	}
}

// wake makes the addresses that have rested longest reusable. mu is held.
func (a *Arena) wake() error {
	r := a.resting[0]
	a.resting = a.resting[1:]
	a.rested -= r.size
	return a.region.Free(r.chunk)
}

// whole is the addresses of a block.
func (b *block) whole() mem.Range {
	return mem.Range{Start: uint64(b.Start), End: uint64(b.Start) + b.Size}
}

// label names a block in errors.
func (b *block) label() string {
	name := ""
	if b.name != "" {
		name = " " + b.name
	}
	return fmt.Sprintf("svm block%s [%#x, +%d)", name, uint64(b.Start), b.Size)
}

// Lookup finds the live block that p points into, at its start or inside. It
// fails with ErrFreed, and says who freed it, where p points into one that is
// gone, and with ErrNotSVM.
func (a *Arena) Lookup(p Pointer) (Block, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.find(p)
	if err != nil {
		return Block{}, err
	}
	return b.Block, nil
}

// find is Lookup. mu is held.
func (a *Arena) find(p Pointer) (*block, error) {
	if b := a.at(p); b != nil && !b.freed {
		return b, nil
	}
	if e, ok := a.past.at(p, freedEntry); ok {
		return nil, fmt.Errorf("%v: %v: %w", p, e, ErrFreed)
	}
	return nil, fmt.Errorf("%v: %w", p, ErrNotSVM)
}

// at finds the live or freed block that p points into, or nil. mu is held.
func (a *Arena) at(p Pointer) *block {
	if a.closed || !a.Holds(p) {
		return nil
	}
	c, ok := a.region.Lookup(uint64(p))
	if !ok {
		return nil
	}
	if b := a.blocks[c]; b != nil && b.Contains(p, 1) {
		return b
	}
	return nil
}

// Bytes is the drivers' view of size bytes at p, which must lie in one live
// block. The slice is outside the Go heap and must not be used once the block
// was given to Recycle. Its errors are Lookup's, and mem.ErrInvalidValue where
// the bytes leave the block.
func (a *Arena) Bytes(p Pointer, size uint64) ([]byte, error) {
	return a.slice(a.driver, p, size)
}

// User is the user's view of size bytes at p, as Bytes. Touching it outside a
// map is a fault: see Guard.
func (a *Arena) User(p Pointer, size uint64) ([]byte, error) {
	return a.slice(a.user, p, size)
}

func (a *Arena) slice(view []byte, p Pointer, size uint64) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.find(p)
	if err != nil {
		return nil, err
	}
	if !b.Contains(p, size) {
		return nil, fmt.Errorf("%d bytes at %v leave %s: %w", size, p, b.label(), mem.ErrInvalidValue)
	}
	off := uint64(p) - a.base
	return view[off : off+size : off+size], nil
}

// PointerTo is the address of a slice of the user's view; ok is false where data
// is other memory, or empty.
func (a *Arena) PointerTo(data []byte) (p Pointer, ok bool) {
	p = Pointer(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
	return p, len(data) > 0 && a.Holds(p)
}
