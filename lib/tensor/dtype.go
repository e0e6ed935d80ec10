package tensor

import (
	"fmt"
	"math"
	"reflect"
	"strconv"

	"godwit/internal/half"
	"godwit/mem"
)

// Errors of this package.
var (
	ErrDType    = mem.Sentinel("element type not supported", mem.InvalidValue)
	ErrShape    = mem.Sentinel("shapes do not fit", mem.InvalidValue)
	ErrFeature  = mem.Sentinel("the device lacks a feature", mem.InvalidDevice)
	ErrReleased = mem.Sentinel("tensor was released before", mem.InvalidMemObject)
)

// Half is an IEEE 754 binary16 number.
type Half uint16

// Numeric is what slices of elements hold.
type Numeric interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | int | uint | float32 | float64 | Half
}

// DType is an element type.
type DType uint8

// The element types.
const (
	Invalid DType = iota
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float16
	Float32
	Float64
)

var dtypes = [...]struct {
	name string
	size int
}{{"invalid", 0}, {"int8", 1}, {"uint8", 1}, {"int16", 2}, {"uint16", 2}, {"int32", 4}, {"uint32", 4},
	{"int64", 8}, {"uint64", 8}, {"float16", 2}, {"float32", 4}, {"float64", 8}}

// String is the type's name, as NumPy has it.
func (d DType) String() string {
	if int(d) < len(dtypes) {
		return dtypes[d].name
	}
	return fmt.Sprintf("DType(%d)", uint8(d))
}

// Size is the number of bytes of an element, 0 where d is no type.
func (d DType) Size() int {
	if int(d) < len(dtypes) {
		return dtypes[d].size
	}
	return 0
}

// DTypeOf is the element type of a Go type. int and uint are the 64- or 32-bit ones
// of the machine.
func DTypeOf[T Numeric]() DType {
	t := reflect.TypeFor[T]()
	name := t.Kind().String()
	switch {
	case t == reflect.TypeFor[Half]():
		return Float16
	case name == "int" || name == "uint":
		name += strconv.Itoa(strconv.IntSize)
	}
	for d := range dtypes {
		if dtypes[d].name == name {
			return DType(d)
		}
	}
	return Invalid
}

// ToHalf rounds to the nearest Half, ties to even.
func ToHalf(f float32) Half { return Half(half.Bits(f)) }

// Float32 is h exactly.
func (h Half) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0:
		v := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
