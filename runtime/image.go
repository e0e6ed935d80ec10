package runtime

import (
	"context"
	"fmt"

	"godwit/devices"
	"godwit/mem"
)

// Image is a buffer whose bytes have the shape of an image (docs/design/images.md). All that can be done with a buffer can be done with
// its bytes, too, and a range of them may be mapped.
type Image struct {
	*Buffer
	shape devices.Image // immutable
}

// CreateImage makes an image. Pitches that are zero are those of rows and slices that touch; others say where they are, as in host.
// Flags and host, and the errors, are those of CreateBuffer; mem.ErrInvalidValue also where there is no such shape.
func (c *Context) CreateImage(name string, shape devices.Image, flags Flags, host []byte) (*Image, error) {
	if err := shape.Fill(); err != nil {
		return nil, err
	}
	b, err := c.CreateNamedBuffer(name, shape.Size(), flags, host)
	if err != nil {
		return nil, err
	}
	return &Image{b, shape}, nil
}

// Image makes an image over the first bytes of a buffer or sub-buffer, whose content it shares. The flags are those of Sub. The buffer may
// be released before it.
func (b *Buffer) Image(shape devices.Image, flags Flags) (*Image, error) {
	if err := shape.Fill(); err != nil {
		return nil, err
	}
	if err := b.made(); err != nil {
		return nil, err
	}
	view, err := b.view.Part(shape.Size(), flags)
	if err != nil {
		return nil, err
	}
	if err := b.c.call(); err != nil {
		return nil, err
	}
	defer b.c.unlock()
	if err := b.live(); err != nil {
		return nil, err
	}
	b.root.views++
	return &Image{&Buffer{c: b.c, root: b.root, view: view, refs: 1}, shape}, nil
}

// Shape is the image's, with its pitches.
func (m *Image) Shape() devices.Image { return m.shape }

// Img is an image, whole, used as the kernel's access qualifier and the image's flags declare: read where either says so, else read
// and written. A launch refuses nil, which is no buffer with a shape.
func Img(m *Image) Arg {
	if m == nil {
		return Buf(nil)
	}
	return Arg{kind: devices.ArgBuffer, set: true, buf: m.Buffer, whole: true, image: &m.shape}
}

// Sampler is a sampler.
func Sampler(s devices.Sampler) Arg { return Arg{kind: devices.ArgSampler, set: true, sampler: s} }

// box is where a region, in pixels, lies, and how many bytes it has in a row.
func (m *Image) box(origin, region [3]uint64) (Box, [3]uint64, error) {
	if m == nil || m.Buffer == nil {
		return Box{}, region, fmt.Errorf("no image: %w", mem.ErrInvalidBuffer)
	}
	s := &m.shape
	err := s.Within(origin, region)
	origin[0], region[0] = origin[0]*s.Pixel, region[0]*s.Pixel
	return Box{Origin: origin, Row: s.Row, Slice: s.Slice}, region, err
}

// EnqueueReadImage copies a region of m, in pixels, to data, whose pitches are in bytes; those that are zero are of rows and slices that touch. Errors
// are EnqueueReadRect's.
func (q *Queue) EnqueueReadImage(ctx context.Context, m *Image, origin, region [3]uint64, data []byte, row, slice uint64, wait ...Event) (Event, error) {
	at, sides, err := m.box(origin, region)
	if err != nil {
		return Event{}, err
	}
	return q.EnqueueReadRect(ctx, m.Buffer, at, data, Box{Row: row, Slice: slice}, sides, wait...)
}

// EnqueueWriteImage copies data to a region of m, as EnqueueReadImage has it.
func (q *Queue) EnqueueWriteImage(ctx context.Context, m *Image, origin, region [3]uint64, data []byte, row, slice uint64, wait ...Event) (Event, error) {
	at, sides, err := m.box(origin, region)
	if err != nil {
		return Event{}, err
	}
	return q.EnqueueWriteRect(ctx, m.Buffer, at, data, Box{Row: row, Slice: slice}, sides, wait...)
}

// EnqueueCopyImage copies a region of src, in pixels, to dst, on the queue's device. The formats are to be the same, or it fails with ErrImageFormat; else the
// errors are EnqueueCopyRect's.
func (q *Queue) EnqueueCopyImage(ctx context.Context, src, dst *Image, from, to, region [3]uint64, wait ...Event) (Event, error) {
	s, sides, err := src.box(from, region)
	if err != nil {
		return Event{}, err
	}
	d, _, err := dst.box(to, region)
	if err != nil {
		return Event{}, err
	}
	if a, b := &src.shape, &dst.shape; a.Order != b.Order || a.Format != b.Format {
		return Event{}, fmt.Errorf("copy of an image of format %#x, %#x to one of %#x, %#x: %w", a.Order, a.Format, b.Order, b.Format, ErrImageFormat)
	}
	return q.EnqueueCopyRect(ctx, src.Buffer, dst.Buffer, s, d, sides, wait...)
}

// ErrImageFormat says that two images have not the same format.
var ErrImageFormat = mem.Sentinel("image formats differ", mem.ImageFormatMismatch)

// EnqueueCopyImageToBuffer copies a region of src, in pixels, to off of dst, where rows and slices touch. Errors are EnqueueCopyRect's.
func (q *Queue) EnqueueCopyImageToBuffer(ctx context.Context, src *Image, dst *Buffer, origin, region [3]uint64, off uint64, wait ...Event) (Event, error) {
	at, sides, err := src.box(origin, region)
	if err != nil {
		return Event{}, err
	}
	return q.EnqueueCopyRect(ctx, src.Buffer, dst, at, Box{Origin: [3]uint64{off}}, sides, wait...)
}

// EnqueueCopyBufferToImage copies what is at off of src, where rows and slices touch, to a region of dst, in pixels.
func (q *Queue) EnqueueCopyBufferToImage(ctx context.Context, src *Buffer, dst *Image, off uint64, origin, region [3]uint64, wait ...Event) (Event, error) {
	at, sides, err := dst.box(origin, region)
	if err != nil {
		return Event{}, err
	}
	return q.EnqueueCopyRect(ctx, src, dst.Buffer, Box{Origin: [3]uint64{off}}, at, sides, wait...)
}

// EnqueueFillImage gives each pixel of a region the bytes of pixel. Where rows do not touch it fills a buffer on the device, as large as the region, and
// copies that: its room is to be found, too.
func (q *Queue) EnqueueFillImage(ctx context.Context, m *Image, pixel []byte, origin, region [3]uint64, wait ...Event) (Event, error) {
	at, sides, err := m.box(origin, region)
	if err != nil {
		return Event{}, err
	}
	if uint64(len(pixel)) != m.shape.Pixel {
		return Event{}, fmt.Errorf("fill with %d bytes: a pixel has %d: %w", len(pixel), m.shape.Pixel, mem.ErrInvalidValue)
	}
	first := at.Origin[0] + at.Origin[1]*at.Row + at.Origin[2]*at.Slice
	if r := rowsOf(first, sides, at.Row, at.Slice); r.len() == 1 {
		return q.EnqueueFill(ctx, m.Buffer, pixel, first, r.size, wait...)
	}
	if err := q.made(); err != nil {
		return Event{}, err
	}
	size := sides[0] * sides[1] * sides[2]
	full, err := q.c.CreateNamedBuffer("fill", size, 0, nil)
	if err != nil {
		return Event{}, err
	}
	defer func() { _ = full.Release() }() // ours: it cannot fail
	filled, err := q.EnqueueFill(ctx, full, pixel, 0, size, wait...)
	if err != nil {
		return Event{}, err
	}
	defer func() { _ = filled.Release() }() // ours: it cannot fail
	return q.EnqueueCopyRect(ctx, full, m.Buffer, Box{}, at, sides, filled)
}

// EnqueueMapImage maps a region of m, in pixels: the mapping begins with its first one, and has the image's pitches. It is one of all bytes from the first
// to the last, as EnqueueMap has it; where the region has not all of these, they are kept, whatever flags say.
func (q *Queue) EnqueueMapImage(ctx context.Context, m *Image, origin, region [3]uint64, flags MapFlags, wait ...Event) (Mapping, Event, error) {
	at, sides, err := m.box(origin, region)
	if err != nil {
		return Mapping{}, Event{}, err
	}
	b, err := at.bound("map", sides)
	if err != nil {
		return Mapping{}, Event{}, err
	}
	if r := rowsOf(b.first, sides, b.row, b.slice); r.len() > 1 && flags == MapInvalidate {
		flags = MapWrite
	}
	return q.EnqueueMap(ctx, m.Buffer, b.first, b.span, flags, wait...)
}
