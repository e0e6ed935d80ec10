package devices

import (
	"fmt"
	"slices"

	"godwit/mem"
)

// Image is the shape that bytes of a block have as an image. Its numbers are OpenCL's.
type Image struct {
	Type          uint32    // cl_mem_object_type: CL_MEM_OBJECT_IMAGE2D, ...
	Order, Format uint32    // cl_channel_order, cl_channel_type
	Sides         [3]uint64 // pixels, rows, slices; what an array is of is its last side, and sides that there are not are 1
	Pixel         uint64    // bytes
	Row, Slice    uint64    // pitches in bytes, of the second and the third side
}

// The types of images.
const (
	Image2D       = 0x10F1
	Image3D       = 0x10F2
	Image2DArray  = 0x10F3
	Image1D       = 0x10F4
	Image1DArray  = 0x10F5
	Image1DBuffer = 0x10F6
)

// imageSides is how many sides there are of each type.
var imageSides = map[uint32]int{Image1D: 1, Image1DBuffer: 1, Image2D: 2, Image1DArray: 2, Image3D: 3, Image2DArray: 3}

// Fill fills in what is zero: sides that there are not, and pitches of rows and slices that touch. It fails with mem.ErrInvalidValue
// where there is no such type, or pitches are shorter, or no multiples: of the pixel, and of the row.
func (m *Image) Fill() error {
	n := imageSides[m.Type]
	if n == 0 || m.Pixel == 0 || slices.Contains(m.Sides[:n], 0) {
		return fmt.Errorf("image of type %#x, sides %v, pixels of %d bytes: there is none such: %w", m.Type, m.Sides, m.Pixel, mem.ErrInvalidValue)
	}
	for i := n; i < 3; i++ {
		m.Sides[i] = 1
	}
	row, ok := mulAdd(m.Sides[0], m.Pixel, 0)
	if m.Row == 0 {
		m.Row = row
	}
	slice, ok2 := mulAdd(m.Sides[1], m.Row, 0)
	if m.Slice == 0 {
		m.Slice = slice
	}
	_, ok3 := mulAdd(m.Sides[2], m.Slice, 0)
	if !ok || !ok2 || !ok3 || m.Row < row || m.Row%m.Pixel != 0 || m.Slice < slice || m.Slice%m.Row != 0 {
		return fmt.Errorf("image of %v pixels of %d bytes with pitches of %d and %d: a row is to hold the pixels, and a slice the rows, a whole number each: %w",
			m.Sides, m.Pixel, m.Row, m.Slice, mem.ErrInvalidValue)
	}
	return nil
}

// Size is how many bytes the image has, the last row's pitch among them.
func (m *Image) Size() uint64 { return m.Sides[2] * m.Slice }

// Within fails with mem.ErrInvalidValue where a region, in pixels, is empty or leaves the image.
func (m *Image) Within(origin, region [3]uint64) error {
	for i, n := range m.Sides {
		if region[i] == 0 || origin[i] > n || region[i] > n-origin[i] {
			return fmt.Errorf("region %v at %v of an image of %v: %w", region, origin, m.Sides, mem.ErrInvalidValue)
		}
	}
	return nil
}

// Sampler is how kernels look at images between and beside their pixels. Its numbers are OpenCL's.
type Sampler struct {
	Normalized         bool
	Addressing, Filter uint32 // cl_addressing_mode, cl_filter_mode
}

// Rank is how many sides the image has.
func (m *Image) Rank() int { return imageSides[m.Type] }

// IsArray reports whether the last side is of an array.
func (m *Image) IsArray() bool { return m.Type == Image1DArray || m.Type == Image2DArray }
