package network

import "math/bits"

// wide is a natural number of 128 bits.
type wide struct{ hi, lo uint64 }

// product is a * b.
func product(a, b uint64) (w wide) {
	w.hi, w.lo = bits.Mul64(a, b)
	return w
}

func (w wide) more(than wide) bool { return w.hi > than.hi || w.hi == than.hi && w.lo > than.lo }

func (w *wide) add(x wide) {
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, x.lo, 0)
	w.hi, _ = bits.Add64(w.hi, x.hi, carry)
}

// sub takes away x, which is not more.
func (w *wide) sub(x wide) {
	var borrow uint64
	w.lo, borrow = bits.Sub64(w.lo, x.lo, 0)
	w.hi, _ = bits.Sub64(w.hi, x.hi, borrow)
}

// over is w / d rounded up, or Never where that is no uint64 or d is 0.
func (w wide) over(d uint64) uint64 {
	if w.hi >= d {
		return Never
	}
	q, r := bits.Div64(w.hi, w.lo, d)
	if r > 0 && q < Never {
		q++
	}
	return q
}

// whole is w / d rounded down, at most all ones.
func (w wide) whole(d uint64) uint64 {
	if w.hi >= d {
		return ^uint64(0)
	}
	q, _ := bits.Div64(w.hi, w.lo, d)
	return q
}

// beyond is w - x, at least 0.
func (w wide) beyond(x wide) wide {
	if !w.more(x) {
		return wide{}
	}
	w.sub(x)
	return w
}
