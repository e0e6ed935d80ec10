package storage

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"unsafe"

	"godwit/mem"
)

// hostStore takes blocks from the operating system, outside the Go heap.
//
// Assumptions: buffers are mostly large, but there may be a hundred thousand
// small ones, and a process may have only some 65,000 mappings. So blocks up
// to 64 KiB are pieces of 256 KiB slabs, one power-of-two class a slab; larger
// ones are mappings of their own, which the collector never sees and which go
// back to the system when freed.
type hostStore struct {
	limit  uint64 // bytes that may be mapped; 0 is unlimited
	sparse bool   // little of it is touched: it need not be there
	inUse  uint64 // bytes of mappings
	given  uint64 // bytes of blocks, rounded as the store rounds them
	slabs  map[uint64]*slab
	free   [maxClass + 1][]uint64 // addresses by class, classes 2^8 to 2^16
	lock   *locker                // immutable; nil where mappings are not locked
}

type slab struct {
	class int
	live  int
}

const (
	slabSize   = 256 << 10
	minClass   = 8
	maxClass   = 16
	hugeEnough = 4 << 20 // mappings from this size on ask for huge pages

	keyLarge = math.MaxUint64 // key of a mapping of its own; else the class
)

// pageSize is the system's: 4 KiB mostly, 16 KiB on a Mac, 64 KiB on some servers.
var pageSize = uint64(os.Getpagesize())

// NewHost returns a resource whose blocks are host memory outside the
// Go heap; a block's Addr is its address in the process. limit bounds the
// bytes taken from the system; 0 is unlimited. Blocks are zeroed when they come
// from the system, and hold anything when they are reused.
func NewHost(name string, limit uint64) *Host {
	return &Host{NewHostBlocks(name, 128, limit)}
}

// NewHostBlocks is the Blocks of a NewHost, aligned to align at least.
func NewHostBlocks(name string, align, limit uint64) *Blocks {
	return NewBlocks(name, align, &hostStore{limit: limit, slabs: make(map[uint64]*slab)})
}

// NewSparseHost is a NewHost whose blocks may be larger than this computer's memory, as long
// as little of them is touched.
func NewSparseHost(name string) *Host {
	return &Host{NewBlocks(name, 128, &hostStore{sparse: true, slabs: make(map[uint64]*slab)})}
}

// Blank is addresses for content that nobody is to touch: where somebody does, memory is taken.
// Each who asks is given the same. The zero value has none.
type Blank struct{ pieces [][]byte } // the largest last

// Bytes is size bytes of addresses, until Close. It fails with mem.ErrNoMemory where the system
// has not so many.
func (b *Blank) Bytes(size uint64) ([]byte, error) {
	if n := len(b.pieces); n > 0 && uint64(len(b.pieces[n-1])) >= size {
		return b.pieces[n-1][:size], nil
	}
	length, ok := mem.AlignUp(size, pageSize)
	if !ok || length > math.MaxInt64 {
		return nil, fmt.Errorf("%s of addresses: %w", mem.FormatBytes(size), mem.ErrNoMemory)
	}
	addr, err := mapPages(length, pageSize, true)
	if err != nil {
		return nil, fmt.Errorf("%s of addresses: %w: %w", mem.FormatBytes(size), err, mem.ErrNoMemory)
	}
	b.pieces = append(b.pieces, BytesAt(addr, length))
	return BytesAt(addr, length)[:size], nil
}

// Close gives the addresses back.
func (b *Blank) Close() error {
	var errs []error
	for _, p := range b.pieces {
		errs = append(errs, unmapPages(uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))), uint64(len(p))))
	}
	return errors.Join(errs...)
}

// Host is a mem.Resource of host memory and a Viewer of its blocks.
type Host struct{ *Blocks }

// View implements Viewer.
func (m *Host) View(b mem.Block, off, size uint64) ([]byte, error) {
	addr, err := m.Address(b, off, size)
	if err != nil {
		return nil, err
	}
	return BytesAt(addr, size), nil
}

// BytesAt returns the size bytes of the process at addr, which must be
// outside the Go heap.
func BytesAt(addr, size uint64) []byte {
	a := uintptr(addr) // no collector moves or frees what is there
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&a)), size)
}

func classOf(size, align uint64) int {
	return max(bits.Len64(max(size, align)-1), minClass)
}

// Take implements Store.
func (s *hostStore) Take(reqs []mem.Request, at []Place) bool {
	return TakeEach(reqs, at, s.take, s.Give)
}

func (s *hostStore) take(size, align uint64) (Place, bool) {
	if max(size, align) <= 1<<maxClass {
		return s.takeSmall(classOf(size, align))
	}
	length, ok := mem.AlignUp(size, pageSize)
	if !ok {
		return Place{}, false
	}
	addr, ok := s.mmapAligned(length, max(align, pageSize))
	if !ok {
		return Place{}, false
	}
	s.given += length
	return Place{Addr: addr, Key: keyLarge}, true
}

// mmapAligned maps length bytes at a multiple of align.
func (s *hostStore) mmapAligned(length, align uint64) (uint64, bool) {
	if length > math.MaxInt64-align || (s.limit != 0 && length > s.limit-min(s.inUse, s.limit)) {
		return 0, false
	}
	addr, err := mapPages(length, align, s.sparse)
	if err != nil {
		return 0, false
	}
	if length >= hugeEnough {
		wantHugePages(addr, length)
	}
	s.inUse += length
	if s.lock != nil {
		s.lock.mapped(addr, length)
	}
	return addr, true
}

// unmapBlock gives back a mapping that mmapAligned made.
func (s *hostStore) unmapBlock(addr, length uint64) {
	s.inUse -= length
	if s.lock != nil {
		s.lock.unmapped(addr, length)
	}
	// Only a range that is not mapped can make it fail.
	if err := unmapPages(addr, length); err != nil {
		panic(fmt.Sprintf("devices: unmapping %d bytes at %#x: %v", length, addr, err))
	}
}

func (s *hostStore) takeSmall(class int) (Place, bool) {
	if len(s.free[class]) == 0 && !s.addSlab(class) {
		return Place{}, false
	}
	n := len(s.free[class]) - 1
	addr := s.free[class][n]
	s.free[class] = s.free[class][:n]
	s.slabs[addr&^(slabSize-1)].live++
	s.given += 1 << class
	return Place{Addr: addr, Key: uint64(class)}, true
}

// addSlab maps a slab at a multiple of its size and lists its pieces.
func (s *hostStore) addSlab(class int) bool {
	base, ok := s.mmapAligned(slabSize, slabSize)
	if !ok {
		return false
	}
	s.slabs[base] = &slab{class: class}
	for a := base + slabSize; a > base; a -= 1 << class { // lowest address on top
		s.free[class] = append(s.free[class], a-1<<class)
	}
	return true
}

// Give implements Store.
func (s *hostStore) Give(p Place, size uint64) {
	if p.Key != keyLarge {
		s.slabs[p.Addr&^(slabSize-1)].live--
		s.free[p.Key] = append(s.free[p.Key], p.Addr)
		s.given -= 1 << p.Key
		return
	}
	length, _ := mem.AlignUp(size, pageSize)
	s.given -= length
	s.unmapBlock(p.Addr, length)
}

// Limits implements Store.
func (s *hostStore) Limits() (capacity, largest uint64) {
	if s.limit == 0 {
		return 0, 0
	}
	return s.limit, s.limit - s.inUse
}

// Fits implements Store: by bytes as the store rounds them, since pieces of slabs go
// back to the system only with the last of their slab.
func (s *hostStore) Fits(reqs []mem.Request, gone []Gone) bool {
	if s.limit == 0 {
		return true
	}
	room := s.limit - s.inUse
	for _, g := range gone {
		if g.Key == keyLarge {
			length, _ := mem.AlignUp(g.Size, pageSize)
			room += length
		}
	}
	for _, r := range reqs {
		length, ok := mem.AlignUp(r.Size, pageSize)
		if !ok || length > room && !s.piece(r, gone) {
			return false
		}
		room -= min(room, length)
	}
	return true
}

// piece reports whether a request is served from a slab that there is, or would be if
// gone had been given back.
func (s *hostStore) piece(r mem.Request, gone []Gone) bool {
	if max(r.Size, r.Align) > 1<<maxClass {
		return false
	}
	class := classOf(r.Size, r.Align)
	return len(s.free[class]) > 0 || slices.ContainsFunc(gone, func(g Gone) bool { return g.Key == uint64(class) })
}

// Cached implements Store: what lies free in slabs, and what sizes were
// rounded up by.
func (s *hostStore) Cached() uint64 { return s.inUse - s.given }

// Trim implements Store: it unmaps slabs without a live block.
func (s *hostStore) Trim(keep uint64) uint64 {
	before := s.inUse
	for base, sl := range s.slabs {
		if sl.live > 0 || s.Cached() <= keep {
			continue
		}
		s.free[sl.class] = slices.DeleteFunc(s.free[sl.class], func(a uint64) bool { return a&^(slabSize-1) == base })
		delete(s.slabs, base)
		s.unmapBlock(base, slabSize)
	}
	return before - s.inUse
}

// Check implements Store: every piece of every slab is live or listed free once.
func (s *hostStore) Check() error {
	if s.given > s.inUse || (s.limit != 0 && s.inUse > s.limit) {
		return fmt.Errorf("%d bytes given of %d mapped, limit %d", s.given, s.inUse, s.limit)
	}
	type pieces struct {
		*slab
		free int
		seen [slabSize >> minClass / 64]uint64 // a bit for each smallest piece
	}
	all := make(map[uint64]*pieces)
	for base, sl := range s.slabs {
		all[base] = &pieces{slab: sl}
	}
	for class, list := range s.free {
		var p *pieces
		var at uint64 // of p; neighbours in the list are mostly of one slab
		for _, a := range list {
			if base := a &^ (slabSize - 1); p == nil || base != at {
				p, at = all[base], base
			}
			if p == nil || p.class != class || a&(1<<class-1) != 0 {
				return fmt.Errorf("free piece %#x of class %d has no slab of that class", a, class)
			}
			bit := (a - at) >> minClass
			if p.seen[bit/64]&(1<<(bit%64)) != 0 {
				return fmt.Errorf("free piece %#x of class %d is listed twice", a, class)
			}
			p.seen[bit/64] |= 1 << (bit % 64)
			p.free++
		}
	}
	for base, p := range all {
		if p.free+p.live != slabSize>>p.class {
			return fmt.Errorf("slab %#x of class %d: %d free + %d live pieces are not all of it", base, p.class, p.free, p.live)
		}
	}
	return nil
}
