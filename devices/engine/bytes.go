package engine

import (
	"godwit/devices"
)

// CopyRect copies a rectangle between two byte slices, each starting at the
// rectangle's first byte. The slices must hold what the rectangle reaches.
func CopyRect(dst, src []byte, r *devices.Rect) {
	for p := range r.Rows() {
		copy(dst[p.Dst:p.Dst+p.Size], src[p.Src:p.Src+p.Size])
	}
}

// FillBytes repeats pattern over dst, whose length must be a multiple of it.
func FillBytes(dst, pattern []byte) {
	if len(pattern) == 1 && pattern[0] == 0 {
		clear(dst)
		return
	}
	// Doubling: each copy is as long as what is already filled, up to a piece
	// that stays in the cache.
	const piece = 32 << 10
	n := copy(dst, pattern)
	for n < len(dst) {
		n += copy(dst[n:], dst[:min(n, piece)])
	}
}
