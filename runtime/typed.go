package runtime

import (
	"context"
	"fmt"
	"math/bits"
	"unsafe"

	"godwit/mem"
)

// Element is what typed slices of a buffer's content hold, in the host's byte order.
type Element interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~int | ~uint | ~float32 | ~float64
}

// BytesOf are the bytes of a slice, in place: what EnqueueWrite and EnqueueRead take.
func BytesOf[T Element](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(sizeOf[T]()))
}

func sizeOf[T Element]() uint64 { return uint64(unsafe.Sizeof(*new(T))) }

// bytesIn are n elements of T in bytes.
func bytesIn[T Element](what string, n uint64) (uint64, error) {
	over, size := bits.Mul64(n, sizeOf[T]())
	if over != 0 {
		return 0, fmt.Errorf("%s %d of %T: more bytes than 64 bits count: %w", what, n, *new(T), mem.ErrInvalidValue)
	}
	return size, nil
}

// CreateBufferOf is Context.CreateBuffer with n elements of T instead of bytes; host, where
// it is not nil, has as many.
func CreateBufferOf[T Element](c *Context, n uint64, flags Flags, host []T) (*Buffer, error) {
	size, err := bytesIn[T]("buffer with elements", n)
	if err != nil {
		return nil, err
	}
	return c.CreateBuffer(size, flags, BytesOf(host))
}

// WriteSlice is Queue.Write of elements of T; at is the first one's place in b, in elements.
func WriteSlice[T Element](ctx context.Context, q *Queue, b *Buffer, at uint64, data []T, wait ...Event) error {
	off, err := bytesIn[T]("write at element", at)
	if err != nil {
		return err
	}
	return q.Write(ctx, b, off, BytesOf(data), wait...)
}

// ReadSlice is Queue.Read of elements of T; at is the first one's place in b, in elements.
func ReadSlice[T Element](ctx context.Context, q *Queue, b *Buffer, at uint64, data []T, wait ...Event) error {
	off, err := bytesIn[T]("read at element", at)
	if err != nil {
		return err
	}
	return q.Read(ctx, b, off, BytesOf(data), wait...)
}

// numeral is what is known of a number: of an argument by how it was made, of a
// kernel's parameter by its type.
type numeral uint8

const (
	anyNumber numeral = iota // also what is no number
	integer
	float
)

func (n numeral) String() string {
	return [...]string{"a value", "an integer", "a floating-point number"}[n]
}

// numeralOf is what values of an OpenCL C type are; vectors and structures may be anything.
func numeralOf(typ string) numeral {
	switch typ {
	case "float", "double", "half":
		return float
	case "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "size_t":
		return integer
	}
	return anyNumber
}
