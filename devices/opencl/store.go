//go:build cgo

package opencl

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"godwit/bufalloc"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/nvlink"
	"godwit/internal/storage"
	"godwit/mem"
)

// Where blocks are.
//
// OpenCL buffers have no addresses, so a block's address is made up: the index
// of its object plus one in the high bits, the byte's offset in the block in the
// low ones. An object is a block's cl_mem, in one of three forms:
//
// Whole: a cl_mem of its own. The form where memory is shared with the host,
// and creating a buffer costs little more than malloc.
//
// Direct: the same, in memory of this process's (direct.go).
//
// Carved: a chunk of a slab, which is one large cl_mem, perhaps a direct one. The form of discrete
// devices, where creating and first touching a buffer costs tens of
// microseconds and more. No command ever names the slab: each uses a cl
// sub-buffer of it, of the whole block (made on first use) or of the part that a
// kernel argument names (made on first use, kept with the block). Sub-buffers of
// sub-buffers do not exist in OpenCL; parts too are made from the slab.
//
// Drivers allocate on first use, in a command, where running out is an ugly
// failure. So a fresh cl_mem of a discrete device is touched by its device at
// once, in bytes at its end that belong to no block. A platform with a worker has no
// such device, and may be a checker, which is to see blocks as long as they are.

const (
	objectShift = 44  // bits of offset in an address: blocks of at most 16 TiB
	touchPad    = 256 // bytes at the end of what is touched
)

// part is a cached sub-buffer: size bytes at off of the block.
type part struct {
	off, size uint64
	mem       ocl.Mem
	made      uint64 // in which order sub-buffers were made
}

type object struct {
	live    bool
	yielded bool // carved: the bytes are the slab's again, see reuse.go
	size    uint64
	slab    *slab          // carved
	chunk   bufalloc.Chunk // carved
	off     uint64         // carved: bytes into the slab
	base    ocl.Mem        // whole: the block's own
	memory  uintptr        // direct, or carved of such a slab: where the bytes are
	parts   []part         // sub-buffers; carved: what transfers use is one of the whole block
	images  []*image       // that it keeps, the last used last
}

// store implements storage.Store for a device. Lock order: Blocks' lock, mu.
type store struct {
	dev   *Device
	carve atomic.Bool // new blocks are carved out of slabs; never taken back

	mu       sync.Mutex
	slabSize uint64         // protected by mu
	claims   claims         // protected by mu
	engine   *nvlink.Engine // protected by mu: makes the windows that slabs are; nil where they are none
	gpu      int            // protected by mu: the engine's index of the device
	objects  []object       // protected by mu
	free     []uint32       // protected by mu
	slabs    []*slab        // protected by mu
	reserved uint64         // protected by mu: bytes of all cl_mems
	given    uint64         // protected by mu: bytes of blocks
	caches   uint64         // protected by mu: bytes of images beside blocks
	most     uint64         // protected by mu: what reserved can be at most, as far as is known
	ended    time.Time      // protected by mu: when a window last did
	late     bool           // protected by mu: the last slab could not be made, perhaps because that one's bytes are yet to come
	made     uint64         // protected by mu: sub-buffers, ever
	scratch  []ocl.Mem      // protected by mu

	chunks []bufalloc.Chunk // protected by mu: scratch of Fits
	holes  []mem.Range      // protected by mu: scratch of Fits
}

func newStore(d *Device, carve bool, slabSize uint64) *store {
	slabSize = cmp.Or(slabSize, min(256<<20, max(16<<20, d.info.GlobalMemory/64)))
	if d.info.MaxAlloc != 0 {
		slabSize = min(slabSize, d.info.MaxAlloc)
	}
	s := &store{dev: d, slabSize: slabSize, most: math.MaxUint64}
	s.carve.Store(carve)
	return s
}

// claims are what contexts take of a device at most.
type claims struct {
	any     int    // contexts that may take all
	bytes   uint64 // of those that have a cap
	largest uint64 // block, ever
}

// Claim implements devices.Claimed. Where blocks are carved, and all contexts have caps, the library is asked for
// these and one block.
func (d *Device) Claim(bytes uint64) (end func()) {
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes == 0 {
		s.claims.any++
		return func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.claims.any--
		}
	}
	s.claims.bytes += bytes
	if d.carves {
		s.carve.Store(true)
		s.slabSize = min(s.slabSize, padded(bytes, true))
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.claims.bytes -= bytes
	}
}

// limit is how many bytes of cl_mems there are at most; 0 is no limit. Where all contexts have caps it is these, and one block,
// since blocks of several sizes leave holes. mu is held.
func (s *store) limit() uint64 {
	all := s.dev.info.GlobalMemory
	if c := &s.claims; c.any == 0 && c.bytes > 0 && s.carve.Load() {
		if n := c.bytes + padded(c.largest, true); all == 0 || n < all {
			return n
		}
	}
	return all
}

// Take implements storage.Store.
func (s *store) Take(reqs []mem.Request, at []storage.Place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = false
	return storage.TakeEach(reqs, at, s.takeOne, func(p storage.Place, _ uint64) { s.giveOne(p.Key) })
}

// takeOne places one block. mu is held.
func (s *store) takeOne(size, align uint64) (storage.Place, bool) {
	if s.dev.lost.Load() || size >= 1<<objectShift || s.dev.info.MaxAlloc != 0 && size > s.dev.info.MaxAlloc {
		return storage.Place{}, false
	}
	o, ok := object{live: true, size: size}, false
	s.claims.largest = max(s.claims.largest, size)
	if s.carve.Load() {
		ok = s.carveOut(&o, size, align)
	} else {
		o.base, o.memory = s.create(size, s.dev.isDiscrete())
		ok = o.base != 0
	}
	if !ok {
		return storage.Place{}, false
	}
	s.given += size
	var i uint32
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
		o.parts, o.images = s.objects[i].parts[:0], s.objects[i].images[:0]
		s.objects[i] = o
	} else {
		i = uint32(len(s.objects))
		s.objects = append(s.objects, o)
	}
	return storage.Place{Addr: uint64(i+1) << objectShift, Key: uint64(i)}, true
}

// padded is the size of a cl_mem for size bytes of blocks.
func padded(size uint64, touched bool) uint64 {
	if !touched {
		return size
	}
	return (size+touchPad-1)/touchPad*touchPad + touchPad
}

// within reports whether a cl_mem of n bytes is within the device's memory. mu is held.
func (s *store) within(n uint64) bool {
	limit := s.limit()
	return limit == 0 || n <= limit && s.reserved <= limit-n
}

// create makes a cl_mem, of a direct device in memory of ours, or returns 0 if there is no room. mu is held.
func (s *store) create(size uint64, touched bool) (m ocl.Mem, memory uintptr) {
	n := padded(size, touched)
	if !s.within(n) {
		return 0, 0
	}
	var st ocl.Status
	s.dev.host.do(func() {
		if s.dev.direct {
			m, memory = s.dev.host.context.NewDirectBuffer(n)
		} else if m, st = s.dev.host.context.NewBuffer(n); st == 0 {
			st = s.dev.host.shadow.fresh(s.dev.service, m)
		}
		if st == 0 && touched {
			st = m.Touch(s.dev.service, n-touchPad)
		}
	})
	if m != 0 && s.dev.sees(st) != 0 {
		ocl.ReleaseMems(m)
		m = 0
	}
	if m != 0 {
		s.reserved += n
	}
	return m, memory
}

// Give implements storage.Store.
func (s *store) Give(p storage.Place, _ uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveOne(p.Key)
}

// subBuffers appends o's sub-buffers in the order in which they are to be
// released: the last one made first (quirks.go).
func (o *object) subBuffers(dst []ocl.Mem) []ocl.Mem {
	for i := len(o.parts) - 1; i >= 0; i-- {
		dst = append(dst, o.parts[i].mem)
	}
	return dst
}

// giveOne frees the object with an index. mu is held.
func (s *store) giveOne(key uint64) {
	o := &s.objects[key]
	if !o.yielded {
		s.given -= o.size
		if o.slab != nil {
			_ = o.slab.region.Free(o.chunk) // live by construction; Check would tell
		}
	}
	s.dropImages(o)
	s.scratch = o.subBuffers(s.scratch[:0])
	if o.slab != nil {
		o.slab.live--
		if o.yielded {
			o.slab.yields--
		}
		s.scratch = o.slab.releasable(s.scratch)
	}
	ocl.ReleaseMems(s.scratch...)
	if o.slab == nil { // its memory, where it is ours, goes with it
		s.reserved -= padded(o.size, s.dev.isDiscrete())
		ocl.ReleaseMems(o.base)
	}
	*o = object{parts: o.parts[:0], images: o.images[:0]}
	s.free = append(s.free, uint32(key))
}

// at finds the object at an address, and how far into it that is; nil where there is none. mu is held.
func (s *store) at(addr uint64) (*object, uint64, error) {
	i, off := addr>>objectShift-1, addr&(1<<objectShift-1)
	if i >= uint64(len(s.objects)) || !s.objects[i].live {
		return nil, 0, fmt.Errorf("device %s: no block at %#x: %w", s.dev.name, addr, mem.ErrInvalidBuffer)
	}
	return &s.objects[i], off, nil
}

// place is where OpenCL has a part of a block.
type place struct {
	mem    ocl.Mem
	off    uint64
	memory uint64 // the part's address in this process, where it has one
}

// resolve returns where size bytes at addr are. A kernel argument must have a cl_mem that starts
// there (exact); its offset must then keep the device's alignment.
func (s *store) resolve(addr, size uint64, exact bool) (p place, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, off, err := s.at(addr)
	if err != nil {
		return p, err
	}
	if o.memory != 0 {
		p.memory = uint64(o.memory) + off
	}
	switch {
	case o.slab == nil && (!exact || off == 0 && size == o.size):
		p.mem, p.off = o.base, off
	case exact:
		p.mem, err = s.partOf(o, off, size)
	default:
		p.mem, err = s.partOf(o, 0, o.size)
		p.off = off
	}
	return p, err
}

// partOf returns a sub-buffer of a part of a block. mu is held.
func (s *store) partOf(o *object, off, size uint64) (ocl.Mem, error) {
	for _, p := range o.parts {
		if p.off == off && p.size == size {
			return p.mem, nil
		}
	}
	if off%s.dev.info.BaseAlign != 0 {
		return 0, fmt.Errorf("device %s: kernel argument at offset %d of its block: this device needs multiples of %d: %w",
			s.dev.name, off, s.dev.info.BaseAlign, mem.ErrMisaligned)
	}
	parent, at := o.base, off
	if o.slab != nil {
		parent, at = o.slab.mem, o.off+off
	}
	h, st := parent.SubBuffer(at, size)
	if s.dev.sees(st) != 0 {
		return 0, statusError(st, "device %s: sub-buffer of %d bytes at %d", s.dev.name, size, at)
	}
	s.made++
	o.parts = append(o.parts, part{off, size, h, s.made})
	if o.slab != nil && o.slab.shared() {
		o.slab.subs = append(o.slab.subs, sub{mem: h, made: s.made, r: mem.Range{Start: at, End: at + size}})
	}
	return h, nil
}

// Limits implements storage.Store.
func (s *store) Limits() (capacity, largest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	capacity, largest = s.dev.info.GlobalMemory, s.room()
	for _, sl := range s.slabs {
		largest = max(largest, sl.region.Stats().LargestFree)
	}
	if s.dev.info.MaxAlloc != 0 {
		largest = min(largest, s.dev.info.MaxAlloc)
	}
	return capacity, largest
}

// Cached implements storage.Store.
func (s *store) Cached() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserved - s.given
}

// close releases what is left, once all blocks are given back.
func (s *store) close() { s.Trim(0) }

// Check implements storage.Store: figures agree with objects and slabs, and
// slabs are sound.
func (s *store) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var given, reserved, caches uint64
	live := make(map[*slab]int)
	for i := range s.objects {
		o := &s.objects[i]
		if !o.live {
			continue
		}
		if !o.yielded {
			given += o.size
		}
		for _, m := range o.images {
			caches += m.size
		}
		if o.slab != nil {
			live[o.slab]++
			continue
		}
		reserved += padded(o.size, s.dev.isDiscrete())
	}
	for _, sl := range s.slabs {
		reserved += sl.size
		if sl.live != live[sl] {
			return fmt.Errorf("slab of %d bytes counts %d blocks, %d lie in it", sl.size, sl.live, live[sl])
		}
		if err := sl.region.Check(); err != nil {
			return fmt.Errorf("slab of %d bytes: %w", sl.size, err)
		}
		delete(live, sl)
	}
	if len(live) > 0 {
		return fmt.Errorf("blocks lie in %d slabs that are gone", len(live))
	}
	if reserved += caches; given != s.given || reserved != s.reserved || caches != s.caches {
		return fmt.Errorf("%d bytes given and %d reserved, %d of them for images, but counted %d, %d and %d", s.given, s.reserved, s.caches, given, reserved, caches)
	}
	return nil
}
