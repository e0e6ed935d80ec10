//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"encoding/binary"
	"math"
	"unsafe"

	"godwit/internal/half"
)

// Pixels: what formats have in memory.

// channels are the channels of each order, by their place in a colour: red, green, blue, alpha.
var channels = map[uint32]string{
	C.CL_R: "r", C.CL_A: "a", C.CL_RG: "rg", C.CL_RA: "ra", C.CL_RGB: "rgb", C.CL_RGBA: "rgba", C.CL_BGRA: "bgra", C.CL_ARGB: "argb", C.CL_ABGR: "abgr",
	C.CL_INTENSITY: "r", C.CL_LUMINANCE: "r", C.CL_DEPTH: "r", C.CL_sRGBA: "rgba", C.CL_sBGRA: "bgra",
}

// packedFormats are the bits of each channel, of types that pack three into a word, the first in the highest.
var packedFormats = map[uint32][3]uint{C.CL_UNORM_SHORT_565: {5, 6, 5}, C.CL_UNORM_SHORT_555: {5, 5, 5}, C.CL_UNORM_INT_101010: {10, 10, 10}}

// channelBytes are the bytes of a channel of each other type.
var channelBytes = map[uint32]uint64{
	C.CL_SNORM_INT8: 1, C.CL_SNORM_INT16: 2, C.CL_UNORM_INT8: 1, C.CL_UNORM_INT16: 2, C.CL_SIGNED_INT8: 1, C.CL_SIGNED_INT16: 2, C.CL_SIGNED_INT32: 4,
	C.CL_UNSIGNED_INT8: 1, C.CL_UNSIGNED_INT16: 2, C.CL_UNSIGNED_INT32: 4, C.CL_HALF_FLOAT: 2, C.CL_FLOAT: 4,
}

// pixelSize is how many bytes a pixel has, a power of two; 0 where the format is not done.
func pixelSize(f [2]uint32) uint64 {
	n := uint64(len(channels[f[0]]))
	if _, ok := packedFormats[f[1]]; ok && n == 3 {
		if f[1] == C.CL_UNORM_INT_101010 {
			return 4
		}
		return 2
	}
	if n == 3 {
		return 0
	}
	return n * channelBytes[f[1]]
}

// pixel is the bytes of a pixel of a colour: four floats, or four integers where the format's type is one.
func (m *memObject) pixel(color unsafe.Pointer) (b []byte) {
	s := m.image.Shape()
	if s.Order == C.CL_DEPTH {
		return channel(nil, s.Format, *(*uint32)(color))
	}
	words := *(*[4]uint32)(color)
	if s.Order == C.CL_sRGBA || s.Order == C.CL_sBGRA {
		for i := range words[:3] {
			words[i] = math.Float32bits(toSRGB(math.Float32frombits(words[i])))
		}
	}
	at := map[rune]int{'r': 0, 'g': 1, 'b': 2, 'a': 3}
	if bits, ok := packedFormats[s.Format]; ok {
		word := uint64(0)
		for i, n := range bits {
			word = word<<n | uint64(norm(words[i], 0, float64(uint64(1)<<n-1)))
		}
		return binary.LittleEndian.AppendUint64(nil, word)[:s.Pixel]
	}
	for _, c := range channels[s.Order] {
		b = channel(b, s.Format, words[at[c]])
	}
	return b
}

// channel appends one channel.
func channel(b []byte, format, word uint32) []byte {
	le := binary.LittleEndian
	switch format {
	case C.CL_SNORM_INT8:
		return append(b, byte(int8(norm(word, -1, 127))))
	case C.CL_SNORM_INT16:
		return le.AppendUint16(b, uint16(int16(norm(word, -1, 32767))))
	case C.CL_UNORM_INT8:
		return append(b, byte(norm(word, 0, 255)))
	case C.CL_UNORM_INT16:
		return le.AppendUint16(b, uint16(norm(word, 0, 65535)))
	case C.CL_HALF_FLOAT:
		return le.AppendUint16(b, half.Bits(math.Float32frombits(word)))
	case C.CL_SIGNED_INT8:
		return append(b, byte(max(-128, min(int32(word), 127))))
	case C.CL_SIGNED_INT16:
		return le.AppendUint16(b, uint16(max(-32768, min(int32(word), 32767))))
	case C.CL_UNSIGNED_INT8:
		return append(b, byte(min(word, 255)))
	case C.CL_UNSIGNED_INT16:
		return le.AppendUint16(b, uint16(min(word, 65535)))
	}
	return le.AppendUint32(b, word)
}

// norm is a float from least to 1 as an integer of which most is 1, rounded to even; not a number is 0.
func norm(word uint32, least, most float64) int64 {
	f := float64(math.Float32frombits(word))
	if math.IsNaN(f) {
		return 0
	}
	return int64(math.RoundToEven(max(least, min(f, 1)) * most))
}

// toSRGB is a linear colour as sRGB has it: OpenCL C's specification, 8.3.1.3.
func toSRGB(c float32) float32 {
	switch x := float64(c); {
	case !(x > 0): // not a number, too
		return 0
	case x < 0.0031308:
		return float32(12.92 * x)
	case x < 1:
		return float32(1.055*math.Pow(x, 1/2.4) - 0.055)
	}
	return 1
}
