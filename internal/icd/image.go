//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"cmp"
	"context"
	"slices"
	"unsafe"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// Images: clCreateImage and the commands on them, which are the runtime's (docs/design/images.md).

const (
	clImageFormatNotSupported      int32 = C.CL_IMAGE_FORMAT_NOT_SUPPORTED
	clInvalidImageFormatDescriptor int32 = C.CL_INVALID_IMAGE_FORMAT_DESCRIPTOR
	clInvalidImageSize             int32 = C.CL_INVALID_IMAGE_SIZE
	clInvalidImageDescriptor       int32 = C.CL_INVALID_IMAGE_DESCRIPTOR
	kernelFlags                          = accessFlags | C.CL_MEM_KERNEL_READ_AND_WRITE
	orders, formats                      = C.CL_R, C.CL_SNORM_INT8 // where OpenCL's numbers of channel orders and types begin
	lastOrder, lastFormat                = C.CL_ABGR, C.CL_UNORM_INT_101010_2
)

// images reports whether the device has images.
func (d *device) images() bool { return d.found.Images() }

// images reports whether some device of the context has images.
func (c *clContext) images() bool { return slices.ContainsFunc(c.devices, (*device).images) }

// formats lists the formats that all devices with images have, in the order of the first.
func (c *clContext) formats(flags uint64, typ uint32) (list [][2]uint32, err error) {
	first := true
	for _, d := range c.devices {
		if !d.images() {
			continue
		}
		its, err := c.opencl(d).ImageFormats(flags, typ)
		if err != nil {
			return nil, err
		}
		if first {
			list, first = slices.DeleteFunc(its, func(f [2]uint32) bool { return pixelSize(f) == 0 }), false
		} else {
			list = slices.DeleteFunc(list, func(f [2]uint32) bool { return !slices.Contains(its, f) })
		}
	}
	return list, nil
}

//export gwGetSupportedImageFormats
func gwGetSupportedImageFormats(h uintptr, flags uint64, typ, room uint32, list, num unsafe.Pointer) int32 {
	c, access := contexts.get(h), flags&kernelFlags
	switch {
	case c == nil:
		return clInvalidContext
	case flags&^(allocateFlags|kernelFlags) != 0, access&(access-1) != 0, list != nil && room == 0,
		typ < C.CL_MEM_OBJECT_IMAGE2D || typ > C.CL_MEM_OBJECT_IMAGE1D_BUFFER:
		return clInvalidValue
	}
	all, err := c.formats(flags, typ)
	if err != nil {
		return refusal(err)
	}
	if list != nil {
		copy(unsafe.Slice((*[2]uint32)(list), room), all)
	}
	if num != nil {
		*(*uint32)(num) = uint32(len(all))
	}
	return clSuccess
}

// imageDesc is what an image is made of.
type imageDesc = C.cl_image_desc

//export gwCreateImage
func gwCreateImage(ch uintptr, flags uint64, format, desc, host unsafe.Pointer) (uintptr, int32) {
	return createImage(ch, nil, flags, (*[2]uint32)(format), (*imageDesc)(desc), host)
}

//export gwCreateImageWithProperties
func gwCreateImageWithProperties(ch uintptr, properties unsafe.Pointer, flags uint64, format, desc, host unsafe.Pointer) (uintptr, int32) {
	var all []uint64
	if properties != nil {
		if *(*uint64)(properties) != 0 { // OpenCL knows none
			return 0, clInvalidProperty
		}
		all = []uint64{0}
	}
	return createImage(ch, all, flags, (*[2]uint32)(format), (*imageDesc)(desc), host)
}

//export gwCreateImage2D
func gwCreateImage2D(ch uintptr, flags uint64, format unsafe.Pointer, width, height, row uint64, host unsafe.Pointer) (uintptr, int32) {
	return createImage(ch, nil, flags, (*[2]uint32)(format), &imageDesc{image_type: devices.Image2D,
		image_width: C.size_t(width), image_height: C.size_t(height), image_row_pitch: C.size_t(row)}, host)
}

//export gwCreateImage3D
func gwCreateImage3D(ch uintptr, flags uint64, format unsafe.Pointer, width, height, depth, row, slice uint64, host unsafe.Pointer) (uintptr, int32) {
	return createImage(ch, nil, flags, (*[2]uint32)(format), &imageDesc{image_type: devices.Image3D,
		image_width: C.size_t(width), image_height: C.size_t(height), image_depth: C.size_t(depth), image_row_pitch: C.size_t(row), image_slice_pitch: C.size_t(slice)}, host)
}

// shapeOf is the shape that a format and a description ask for, with their pitches.
func shapeOf(f [2]uint32, d *imageDesc) devices.Image {
	s := devices.Image{Type: uint32(d.image_type), Order: f[0], Format: f[1], Pixel: pixelSize(f)}
	w, h := uint64(d.image_width), uint64(d.image_height)
	switch s.Type {
	case devices.Image1DArray:
		s.Sides, s.Row = [3]uint64{w, uint64(d.image_array_size)}, uint64(max(d.image_slice_pitch, d.image_row_pitch))
	case devices.Image2D:
		s.Sides, s.Row = [3]uint64{w, h}, uint64(d.image_row_pitch)
	case devices.Image2DArray:
		s.Sides, s.Row, s.Slice = [3]uint64{w, h, uint64(d.image_array_size)}, uint64(d.image_row_pitch), uint64(d.image_slice_pitch)
	case devices.Image3D:
		s.Sides, s.Row, s.Slice = [3]uint64{w, h, uint64(d.image_depth)}, uint64(d.image_row_pitch), uint64(d.image_slice_pitch)
	default:
		s.Sides = [3]uint64{w}
	}
	return s
}

// createImage makes an image.
func createImage(ch uintptr, properties []uint64, flags uint64, f *[2]uint32, d *imageDesc, host unsafe.Pointer) (uintptr, int32) {
	c := contexts.get(ch)
	if c == nil {
		return 0, clInvalidContext
	}
	if st := c.checkImage(flags, f, d, host); st != clSuccess {
		return 0, st
	}
	m, shape := &memObject{c: c, flags: flags &^ C.CL_MEM_KERNEL_READ_AND_WRITE, properties: properties}, shapeOf(*f, d)
	if of := over(d); of != 0 {
		if m.parent = mems.get(of); m.parent == nil || m.parent.c != c {
			return 0, clInvalidImageDescriptor
		}
		if st := m.parent.mayHave(&shape); st != clSuccess {
			return 0, st
		}
	}
	err := shape.Fill()
	switch {
	case err != nil, m.parent != nil && shape.Size() > m.parent.size:
		complain(err)
		return 0, clInvalidImageDescriptor
	case m.parent == nil && c.tooLarge(shape.Size(), m.flags):
		return 0, clInvalidImageSize
	}
	if m.parent != nil {
		m.image, err = m.parent.run.Image(shape, runtime.Flags(m.flags))
	} else {
		m.image, err = c.newImage(shape, m.flags, host)
	}
	if err != nil {
		return 0, refusal(err)
	}
	m.run, m.size, m.flags = m.image.Buffer, m.image.Size(), uint64(m.image.View().Flags)
	if flags&C.CL_MEM_USE_HOST_PTR != 0 {
		m.host = uintptr(host)
	}
	parent := uintptr(0)
	if m.parent != nil {
		parent, m.host = m.parent.self, m.parent.host
		retain(parent)
	} else {
		retain(c.self)
	}
	return mems.add(m, &m.self, m.size, m.flags, uint64(c.self), uint64(parent), 0)
}

// views are the orders of channels that an image may have over one of another order: which, and over which.
var views = map[[2]uint32]bool{
	{C.CL_sRGBA, C.CL_RGBA}: true, {C.CL_RGBA, C.CL_sRGBA}: true, {C.CL_sBGRA, C.CL_BGRA}: true, {C.CL_BGRA, C.CL_sBGRA}: true, {C.CL_DEPTH, C.CL_R}: true,
}

// mayHave tests whether an image of a shape may be over a memory object. Over an image, which is to be a 2D one, it has the same sides, pitch and type of channels.
func (m *memObject) mayHave(s *devices.Image) int32 {
	if m.image == nil {
		return clSuccess
	}
	of := m.image.Shape()
	s.Row = cmp.Or(s.Row, of.Row)
	switch {
	case s.Type != devices.Image2D, of.Type != devices.Image2D, s.Sides[0] != of.Sides[0], s.Sides[1] != of.Sides[1], s.Row != of.Row:
		return clInvalidImageDescriptor
	case s.Format != of.Format, s.Order != of.Order && !views[[2]uint32{s.Order, of.Order}]:
		return clInvalidImageFormatDescriptor
	}
	return clSuccess
}

// newImage makes an image of its own: over the program's memory with the pitches that this has, else without, of what is there.
func (c *clContext) newImage(s devices.Image, flags uint64, host unsafe.Pointer) (*runtime.Image, error) {
	var content []byte
	if host != nil {
		content = bytesAt(host, s.Size())
	}
	if flags&C.CL_MEM_COPY_HOST_PTR != 0 {
		from := s
		s.Row, s.Slice = 0, 0
		_ = s.Fill() // as before
		content = packed(content, &from, s.Size())
	}
	return c.run.CreateImage("", s, runtime.Flags(flags), content)
}

// packed is an image's bytes without those between rows and slices.
func packed(b []byte, s *devices.Image, size uint64) []byte {
	if size == s.Size() {
		return b
	}
	out := make([]byte, 0, size)
	for z := range s.Sides[2] {
		for y := range s.Sides[1] {
			out = append(out, b[z*s.Slice+y*s.Row:][:s.Sides[0]*s.Pixel]...)
		}
	}
	return out
}

// checkImage tests what an image is to be made of, in OpenCL's order.
func (c *clContext) checkImage(flags uint64, f *[2]uint32, d *imageDesc, host unsafe.Pointer) int32 {
	access := flags & kernelFlags
	switch wants := flags&(C.CL_MEM_USE_HOST_PTR|C.CL_MEM_COPY_HOST_PTR) != 0; {
	case flags&^(allocateFlags|kernelFlags) != 0, access&(access-1) != 0:
		return clInvalidValue
	case f == nil, f[0] < orders || f[0] > lastOrder, f[1] < formats || f[1] > lastFormat:
		return clInvalidImageFormatDescriptor
	case d == nil, d.num_mip_levels != 0, d.num_samples != 0, d.image_type < devices.Image2D, d.image_type > devices.Image1DBuffer,
		host == nil && (d.image_row_pitch != 0 || d.image_slice_pitch != 0) && over(d) == 0, (over(d) != 0) != (d.image_type == devices.Image1DBuffer) && d.image_type != devices.Image2D:
		return clInvalidImageDescriptor
	case wants != (host != nil):
		return clInvalidHostPtr
	case !c.images():
		return clInvalidOperation
	}
	all, err := c.formats(flags&kernelFlags, uint32(d.image_type))
	if err != nil {
		return refusal(err)
	}
	if !slices.Contains(all, *f) {
		return clImageFormatNotSupported
	}
	if s := shapeOf(*f, d); !slices.ContainsFunc(c.devices, func(d *device) bool { return d.images() && d.takes(&s) }) {
		return clInvalidImageSize
	}
	return clSuccess
}

// over is the memory object that an image is to be over; 0 is none.
func over(d *imageDesc) uintptr { return *(*uintptr)(unsafe.Pointer(&d.anon0)) }

// imageLimits are the parameters of devices that limit the sides of images, by type.
var imageLimits = map[uint32][]uint32{
	devices.Image1D:       {C.CL_DEVICE_IMAGE2D_MAX_WIDTH},
	devices.Image1DBuffer: {C.CL_DEVICE_IMAGE_MAX_BUFFER_SIZE},
	devices.Image2D:       {C.CL_DEVICE_IMAGE2D_MAX_WIDTH, C.CL_DEVICE_IMAGE2D_MAX_HEIGHT},
	devices.Image1DArray:  {C.CL_DEVICE_IMAGE2D_MAX_WIDTH, C.CL_DEVICE_IMAGE_MAX_ARRAY_SIZE},
	devices.Image2DArray:  {C.CL_DEVICE_IMAGE2D_MAX_WIDTH, C.CL_DEVICE_IMAGE2D_MAX_HEIGHT, C.CL_DEVICE_IMAGE_MAX_ARRAY_SIZE},
	devices.Image3D:       {C.CL_DEVICE_IMAGE3D_MAX_WIDTH, C.CL_DEVICE_IMAGE3D_MAX_HEIGHT, C.CL_DEVICE_IMAGE3D_MAX_DEPTH},
}

// takes reports whether the device has images of such sides.
func (d *device) takes(s *devices.Image) bool {
	for i, what := range imageLimits[s.Type] {
		if most := sizeT(d.found.Query(what)); s.Sides[i] == 0 || s.Sides[i] > most {
			return false
		}
	}
	return true
}

// sizeT is an answer of a size_t.
func sizeT(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return *(*uint64)(unsafe.Pointer(&b[0]))
}

// imageFacts are what images answer, in OpenCL's words: sides and pitches that a type has not are 0.
var imageFacts = facts[memObject]{
	C.CL_IMAGE_FORMAT:       func(m *memObject) any { s := m.image.Shape(); return [2]uint32{s.Order, s.Format} },
	C.CL_IMAGE_ELEMENT_SIZE: func(m *memObject) any { return m.image.Shape().Pixel },
	C.CL_IMAGE_ROW_PITCH:    func(m *memObject) any { row, _ := pitches(m.image.Shape()); return row },
	C.CL_IMAGE_SLICE_PITCH:  func(m *memObject) any { _, slice := pitches(m.image.Shape()); return slice },
	C.CL_IMAGE_WIDTH:        func(m *memObject) any { return m.image.Shape().Sides[0] },
	C.CL_IMAGE_HEIGHT:       func(m *memObject) any { return side(m, 1, devices.Image2D, devices.Image3D, devices.Image2DArray) },
	C.CL_IMAGE_DEPTH:        func(m *memObject) any { return side(m, 2, devices.Image3D) },
	C.CL_IMAGE_ARRAY_SIZE: func(m *memObject) any {
		return side(m, 1, devices.Image1DArray) + side(m, 2, devices.Image2DArray)
	},
	C.CL_IMAGE_BUFFER: func(m *memObject) any {
		if m.parent == nil {
			return uintptr(0)
		}
		return m.parent.self
	},
	C.CL_IMAGE_NUM_MIP_LEVELS: func(*memObject) any { return uint32(0) },
	C.CL_IMAGE_NUM_SAMPLES:    func(*memObject) any { return uint32(0) },
}

// side is a side of an image that is of one of some types, else 0.
func side(m *memObject, i int, of ...uint32) uint64 {
	if s := m.image.Shape(); slices.Contains(of, s.Type) {
		return s.Sides[i]
	}
	return 0
}

// pitches are a shape's as OpenCL has them: images of a 1D array are slices.
func pitches(s devices.Image) (row, slice uint64) {
	switch s.Type {
	case devices.Image1DArray:
		return s.Sides[0] * s.Pixel, s.Row
	case devices.Image2DArray, devices.Image3D:
		return s.Row, s.Slice
	}
	return s.Row, 0
}

//export gwGetImageInfo
func gwGetImageInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	if m := mems.get(h); m == nil || m.image == nil {
		return clInvalidMemObject
	}
	return mems.info(h, imageFacts, what, room, value, sizeRet)
}

// imageUse is what a command does with a part of an image.
type imageUse struct {
	q              *queue
	m              *memObject
	origin, region [3]uint64
	wait           []runtime.Event
}

// useImage resolves what commands on images begin with. room is for the wait list.
func useImage(qh, mh uintptr, origin, region unsafe.Pointer, room []runtime.Event, n uint32, list unsafe.Pointer) (u imageUse, st int32) {
	u.q, u.m, u.wait, st = useObject(qh, mh, room, n, list)
	if st == clSuccess {
		st = u.q.isImage(u.m)
	}
	switch {
	case st != clSuccess:
	case origin == nil || region == nil:
		st = clInvalidValue
	default:
		u.origin, u.region = triple(origin), triple(region)
	}
	return u, st
}

// isImage tests that a memory object is an image and that the queue's device has some.
func (q *queue) isImage(m *memObject) int32 {
	switch {
	case m.image == nil:
		return clInvalidMemObject
	case !q.d.images():
		return clInvalidOperation
	}
	return clSuccess
}

// host is the program's memory of a region, with its pitches.
func (u *imageUse) host(row, slice uint64, p unsafe.Pointer) ([]byte, uint64, uint64, int32) {
	s := u.m.image.Shape()
	if p == nil || slice != 0 && s.Rank() == 1 || slice != 0 && s.Type == devices.Image2D || row != 0 && row < u.region[0]*s.Pixel {
		return nil, 0, 0, clInvalidValue
	}
	if s.Type == devices.Image1DArray {
		row, slice = max(row, slice), 0
	}
	sides := u.region
	sides[0] *= s.Pixel
	size, err := runtime.Box{Row: row, Slice: slice}.Extent(sides)
	if err != nil || size >= 1<<62 { // or it reaches beyond all addresses
		complain(err)
		return nil, 0, 0, clInvalidValue
	}
	return bytesAt(p, size), row, slice, clSuccess
}

//export gwEnqueueReadImage
func gwEnqueueReadImage(qh, mh uintptr, blocking uint32, origin, region unsafe.Pointer, row, slice uint64, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	return transferImage(C.CL_COMMAND_READ_IMAGE, qh, mh, blocking, origin, region, row, slice, p, n, list, out)
}

//export gwEnqueueWriteImage
func gwEnqueueWriteImage(qh, mh uintptr, blocking uint32, origin, region unsafe.Pointer, row, slice uint64, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	return transferImage(C.CL_COMMAND_WRITE_IMAGE, qh, mh, blocking, origin, region, row, slice, p, n, list, out)
}

// transferImage reads or writes an image.
func transferImage(typ uint32, qh, mh uintptr, blocking uint32, origin, region unsafe.Pointer, row, slice uint64, p unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	u, st := useImage(qh, mh, origin, region, w[:0], n, list)
	if st != clSuccess {
		return st
	}
	data, row, slice, st := u.host(row, slice, p)
	if st != clSuccess {
		return st
	}
	var run runtime.Event
	var err error
	if typ == C.CL_COMMAND_READ_IMAGE {
		run, err = u.q.run.EnqueueReadImage(context.Background(), u.m.image, u.origin, u.region, data, row, slice, u.wait...)
	} else {
		run, err = u.q.run.EnqueueWriteImage(context.Background(), u.m.image, u.origin, u.region, data, row, slice, u.wait...)
	}
	return u.q.accepted(run, err, typ, blocking != 0, out)
}

//export gwEnqueueCopyImage
func gwEnqueueCopyImage(qh, sh, dh uintptr, from, to, region unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	u, st := useImage(qh, sh, from, region, w[:0], n, list)
	if st != clSuccess {
		return st
	}
	dst, st := u.q.object(dh)
	if st == clSuccess {
		st = u.q.isImage(dst)
	}
	switch {
	case st != clSuccess:
		return st
	case to == nil:
		return clInvalidValue
	}
	run, err := u.q.run.EnqueueCopyImage(context.Background(), u.m.image, dst.image, u.origin, triple(to), u.region, u.wait...)
	return u.q.accepted(run, err, C.CL_COMMAND_COPY_IMAGE, false, out)
}

//export gwEnqueueCopyImageToBuffer
func gwEnqueueCopyImageToBuffer(qh, sh, dh uintptr, origin, region unsafe.Pointer, off uint64, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	u, st := useImage(qh, sh, origin, region, w[:0], n, list)
	if st != clSuccess {
		return st
	}
	dst, st := u.q.buffer(dh)
	if st != clSuccess {
		return st
	}
	run, err := u.q.run.EnqueueCopyImageToBuffer(context.Background(), u.m.image, dst.run, u.origin, u.region, off, u.wait...)
	return u.q.accepted(run, err, C.CL_COMMAND_COPY_IMAGE_TO_BUFFER, false, out)
}

//export gwEnqueueCopyBufferToImage
func gwEnqueueCopyBufferToImage(qh, sh, dh uintptr, off uint64, origin, region unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	u, st := useImage(qh, dh, origin, region, w[:0], n, list)
	if st != clSuccess {
		return st
	}
	src, st := u.q.buffer(sh)
	if st != clSuccess {
		return st
	}
	run, err := u.q.run.EnqueueCopyBufferToImage(context.Background(), src.run, u.m.image, off, u.origin, u.region, u.wait...)
	return u.q.accepted(run, err, C.CL_COMMAND_COPY_BUFFER_TO_IMAGE, false, out)
}

//export gwEnqueueFillImage
func gwEnqueueFillImage(qh, mh uintptr, color, origin, region unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	var w waits
	u, st := useImage(qh, mh, origin, region, w[:0], n, list)
	switch {
	case st != clSuccess:
		return st
	case color == nil:
		return clInvalidValue
	}
	run, err := u.q.run.EnqueueFillImage(context.Background(), u.m.image, u.m.pixel(color), u.origin, u.region, u.wait...)
	return u.q.accepted(run, err, C.CL_COMMAND_FILL_IMAGE, false, out)
}

//export gwEnqueueMapImage
func gwEnqueueMapImage(qh, mh uintptr, blocking uint32, flags uint64, origin, region, rowRet, sliceRet unsafe.Pointer, n uint32, list, out unsafe.Pointer) (unsafe.Pointer, int32) {
	var w waits
	u, st := useImage(qh, mh, origin, region, w[:0], n, list)
	if st != clSuccess {
		return nil, st
	}
	row, slice := pitches(u.m.image.Shape())
	if flags == 0 { // as with others: the program may do what the image lets it
		flags = u.m.anyMap()
	}
	if flags&^mapFlags != 0 || rowRet == nil || slice != 0 && sliceRet == nil {
		return nil, clInvalidValue
	}
	mapped, run, err := u.q.run.EnqueueMapImage(context.Background(), u.m.image, u.origin, u.region, runtime.MapFlags(flags), u.wait...)
	at, st := u.q.mapped(u.m, mapped, run, err, C.CL_COMMAND_MAP_IMAGE, blocking != 0, out)
	if st == clSuccess {
		if *(*uint64)(rowRet) = row; sliceRet != nil {
			*(*uint64)(sliceRet) = slice
		}
	}
	return at, st
}

// imageNames are what OpenCL C calls images, by type.
var imageNames = map[uint32]string{
	devices.Image1D: "image1d", devices.Image1DBuffer: "image1d_buffer", devices.Image1DArray: "image1d_array",
	devices.Image2D: "image2d", devices.Image2DArray: "image2d_array", devices.Image3D: "image3d",
}

// setImage makes an image an argument that is to be one.
func (k *kernel) setImage(i int, m *memObject) int32 {
	s, info := m.image.Shape(), &k.info[i]
	name := imageNames[s.Type]
	if s.Order == C.CL_DEPTH {
		name += "_depth"
	}
	unlike := uint64(C.CL_MEM_READ_ONLY)
	if info.Access == mem.Read {
		unlike = C.CL_MEM_WRITE_ONLY
	}
	if info.Image && (info.Type != name+"_t" || m.flags&unlike != 0) {
		return clInvalidArgValue
	}
	return k.keep(i, runtime.Img(m.image))
}
