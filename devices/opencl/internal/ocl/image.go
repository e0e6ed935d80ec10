//go:build cgo

package ocl

// #include "calls.h"
import "C"

import "unsafe"

// Sampler is a cl_sampler.
type Sampler uintptr

// ImageShape is the shape of an image, in OpenCL's numbers: sides that there are not are 1.
type ImageShape struct {
	Type, Order, Format uint32
	Sides               [3]uint64 // pixels, rows, slices
	Row, Slice          uint64    // pitches in bytes, of memory
	Array               bool      // its last side, of Rank many, is what it is an array of
	Rank                int
}

// NewImage makes an image: over memory of this process's or over a buffer, whichever is not 0, or of its own.
func (c Context) NewImage(s *ImageShape, memory uint64, buffer Mem) (Mem, Status) {
	format := C.cl_image_format{C.cl_channel_order(s.Order), C.cl_channel_type(s.Format)}
	d := C.cl_image_desc{image_type: C.cl_mem_object_type(s.Type), image_width: C.size_t(s.Sides[0])}
	sides := []*C.size_t{&d.image_width, &d.image_height, &d.image_depth}[:s.Rank]
	if s.Array {
		sides[s.Rank-1] = &d.image_array_size
	}
	for i, at := range sides {
		*at = C.size_t(s.Sides[i])
	}
	*(*C.cl_mem)(unsafe.Pointer(&d.anon0)) = buffer.c()
	flags := C.cl_mem_flags(C.CL_MEM_READ_WRITE)
	if memory != 0 {
		flags |= C.CL_MEM_USE_HOST_PTR
		switch {
		case s.Array && s.Rank == 2: // what OpenCL has of a row's pitch is of no use there
			d.image_slice_pitch = C.size_t(s.Row)
		case s.Rank > 1:
			d.image_row_pitch = C.size_t(s.Row)
			if s.Rank > 2 {
				d.image_slice_pitch = C.size_t(s.Slice)
			}
		}
	}
	var st C.cl_int
	m := C.clCreateImage(c.ID.c(), flags, &format, &d, handle[unsafe.Pointer](memory), &st)
	return handle[Mem](m), Status(st)
}

// NewSampler makes a sampler.
func (c Context) NewSampler(normalized bool, addressing, filter uint32) (Sampler, Status) {
	var st C.cl_int
	s := C.clCreateSampler(c.ID.c(), C.cl_bool(truth(normalized)), C.cl_addressing_mode(addressing), C.cl_filter_mode(filter), &st)
	return handle[Sampler](s), Status(st)
}

// Release gives the sampler up.
func (s Sampler) Release() { C.clReleaseSampler(handle[C.cl_sampler](s)) }

// ImageFormats are the formats of images that there are, order and type of each.
func (c Context) ImageFormats(flags uint64, typ uint32) ([][2]uint32, Status) {
	if flags == 0 { // says the same to OpenCL, but not to all who have it
		flags = C.CL_MEM_READ_WRITE
	}
	var n C.cl_uint
	st := C.clGetSupportedImageFormats(c.ID.c(), C.cl_mem_flags(flags), C.cl_mem_object_type(typ), 0, nil, &n)
	list := make([][2]uint32, n)
	if st == 0 && n > 0 {
		st = C.clGetSupportedImageFormats(c.ID.c(), C.cl_mem_flags(flags), C.cl_mem_object_type(typ), n, (*C.cl_image_format)(unsafe.Pointer(&list[0])), nil)
	}
	return list, Status(st)
}
