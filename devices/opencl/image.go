//go:build cgo

package opencl

import (
	"slices"
	"sync"
	"sync/atomic"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Images: OpenCL's over or beside the bytes of a block (docs/design/images.md). The block's object keeps the last that were used.

// image is an image of a block; immutable but for refs.
type image struct {
	off   uint64 // bytes into the block
	shape devices.Image
	mem   ocl.Mem
	size  uint64       // bytes of its own: it is a cache; 0 is over the block's
	refs  atomic.Int32 // records that use it, and the block that keeps it; rises under the store's mu
}

// mostImages is how many images a block keeps that nothing uses.
const mostImages = 4

// release ends a use.
func (m *image) release() {
	if m.refs.Add(-1) == 0 {
		ocl.ReleaseMems(m.mem)
	}
}

// Images reports whether the device has images: whether the library says so, and works with ours.
func (f Found) Images() bool {
	return f.device.ID.Uint(infoImages) != 0 && !quirksOf(f.Info.Platform).oneThread
}

// ImageFormats are OpenCL's formats, order and type of each, for images of a type with some cl_mem_flags.
func (d *Device) ImageFormats(flags uint64, typ uint32) ([][2]uint32, error) {
	list, st := d.host.context.ImageFormats(flags, typ)
	return list, statusError(st, "device %s: formats of images of type %#x", d.name, typ)
}

// imageOf returns the image of a block at addr, made where the block keeps none, and where its bytes are. The caller is to release it.
func (s *store) imageOf(addr uint64, shape *devices.Image) (m *image, at place, err error) {
	if at, err = s.resolve(addr, shape.Size(), shape.Type == devices.Image1DBuffer); err != nil {
		return nil, at, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, off, err := s.at(addr)
	if err != nil {
		return nil, at, err
	}
	if s.dev.host.quirks.subRectsCrash && o.slab != nil {
		at.mem, at.off = o.slab.mem, o.off+off
	}
	i := slices.IndexFunc(o.images, func(m *image) bool { return m.off == off && m.shape == *shape })
	if i >= 0 {
		m = o.images[i]
		o.images = slices.Delete(o.images, i, i+1)
	} else {
		s.dropUnused(o, mostImages-1)
		if m, err = s.newImage(shape, at); err != nil {
			return nil, at, err
		}
		m.off = off
	}
	o.images = append(o.images, m) // the last used is the last
	m.refs.Add(1)
	return m, at, nil
}

// newImage makes an image over or beside what is at a place. mu is held.
func (s *store) newImage(shape *devices.Image, at place) (*image, error) {
	m := &image{shape: *shape}
	m.refs.Store(1)
	like := ocl.ImageShape{Type: shape.Type, Order: shape.Order, Format: shape.Format, Sides: shape.Sides, Row: shape.Row, Slice: shape.Slice,
		Array: shape.IsArray(), Rank: shape.Rank()}
	var st ocl.Status
	if shape.Type == devices.Image1DBuffer && at.off == 0 { // of a buffer OpenCL has them, by itself
		if m.mem, _ = s.dev.host.context.NewImage(&like, 0, at.mem); m.mem != 0 {
			return m, nil
		}
	}
	if shape.Type == devices.Image1DBuffer {
		like.Type = devices.Image1D // of a sub-buffer there may be none, and the one passes for the other
	}
	if at.memory == 0 {
		m.size = shape.Pixel * shape.Sides[0] * shape.Sides[1] * shape.Sides[2]
	}
	made := func() bool {
		st = ocl.Status(mem.MemObjectAllocationFailure)
		if m.size == 0 || s.within(m.size) {
			m.mem, st = s.dev.host.context.NewImage(&like, at.memory, 0)
		}
		return m.mem != 0
	}
	if !made() && (s.trim(0) == 0 || !made()) {
		return nil, statusError(s.dev.sees(st), "device %s: image of %v pixels of format %#x, %#x", s.dev.name, shape.Sides, shape.Order, shape.Format)
	}
	s.reserved += m.size
	s.caches += m.size
	return m, nil
}

// dropImages has a block keep none: its commands have ended, or are the library's. mu is held.
func (s *store) dropImages(o *object) {
	for _, m := range o.images {
		s.drop(m)
	}
	clear(o.images)
}

// dropUnused has a block keep so many images at most, but for those in use: the last used are kept. mu is held.
func (s *store) dropUnused(o *object, keep int) {
	for i := 0; i < len(o.images) && len(o.images) > keep; {
		if m := o.images[i]; m.refs.Load() > 1 {
			i++
		} else {
			s.drop(m)
			o.images = slices.Delete(o.images, i, i+1)
		}
	}
}

// drop ends a block's use of an image. mu is held.
func (s *store) drop(m *image) {
	m.release()
	s.reserved -= m.size
	s.caches -= m.size
}

// image encodes an argument that is an image.
func (r *record) image(a *devices.Arg, reads bool) error {
	addr, err := r.q.dev.memory.Address(a.Block, a.Off, a.Size)
	if err != nil {
		return err
	}
	m, at, err := r.q.dev.store.imageOf(addr, a.Image)
	if err != nil {
		return err
	}
	r.images = append(r.images, m)
	if m.size == 0 {
		r.args = ocl.AppendMem(r.args, m.mem)
		return nil
	}
	s := a.Image
	r.cmd.Cached = 1
	r.args = ocl.AppendCache(r.args, ocl.Cache{Image: m.mem, Buffer: at.mem, Off: at.off, Sides: s.Sides, Pixel: s.Pixel, Row: s.Row, Slice: s.Slice, Back: !reads})
	return nil
}

// imageInPlace encodes an argument that is an image of bytes at an address of this process's: one for this launch, since these are no block of the device's.
func (r *record) imageInPlace(shape *devices.Image, addr uint64) error {
	s := r.q.dev.store
	s.mu.Lock()
	m, err := s.newImage(shape, place{memory: addr})
	s.mu.Unlock()
	if err != nil {
		return err
	}
	r.images = append(r.images, m)
	r.args = ocl.AppendMem(r.args, m.mem)
	return nil
}

// samplers are a host's, made on first use and kept: there are 20.
type samplers struct {
	mu  sync.Mutex
	all map[devices.Sampler]ocl.Sampler // protected by mu
}

func (h *host) sampler(s devices.Sampler) (ocl.Sampler, error) {
	h.samplers.mu.Lock()
	defer h.samplers.mu.Unlock()
	if made := h.samplers.all[s]; made != 0 {
		return made, nil
	}
	made, st := h.context.NewSampler(s.Normalized, s.Addressing, s.Filter)
	if made == 0 {
		return 0, statusError(st, "sampler %+v", s)
	}
	if h.samplers.all == nil {
		h.samplers.all = make(map[devices.Sampler]ocl.Sampler)
	}
	h.samplers.all[s] = made
	return made, nil
}

// close releases all.
func (s *samplers) close() {
	for _, made := range s.all {
		made.Release()
	}
}
