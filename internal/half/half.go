// Package half makes numbers of 16 bits (IEEE 754's binary16) of wider ones.
package half

import "math"

// Bits are those of the half that is nearest to f, of two such the even one.
func Bits(f float32) uint16 {
	bits := math.Float32bits(f)
	sign, abs := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case abs > 0x7f800000: // not a number
		return sign | 0x7e00
	case abs >= 0x477ff000: // rounds to infinity
		return sign | 0x7c00
	case abs < 0x38800000: // subnormal: the unit is 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(abs))*(1<<24)))
	}
	abs += 0xfff + abs>>13&1
	return sign | uint16((abs-0x38000000)>>13)
}
