package bufalloc

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// history is fuzz input read as a sequence of numbers; zeros after its end.
type history struct{ b []byte }

func (h *history) next(n int) uint64 {
	var w [8]byte
	h.b = h.b[copy(w[:n], h.b):]
	return binary.LittleEndian.Uint64(w[:])
}

// FuzzRegion runs one history through every strategy, each against the naive
// allocator and with Check after every step. The first bytes choose the
// region's base and granularity, then four bytes are an operation.
func FuzzRegion(f *testing.F) {
	for seed := range uint64(4) {
		b := make([]byte, 120)
		rng := rand.NewChaCha8([32]byte{byte(seed)})
		_, _ = rng.Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h := history{b[:min(len(b), 403)]}
		base, granule := h.next(2), uint64(1)<<(h.next(1)%10)
		ops := h.b
		for _, s := range Strategies() {
			h := history{ops}
			p := newPair(newRegion(t, base, 1<<15, Options{Strategy: s, Granularity: granule}))
			for len(h.b) > 0 {
				op, a, c := h.next(1), h.next(2), h.next(1)
				if err := p.step(byte(op), a, c); err != nil {
					t.Fatalf("%v: %v", s, err)
				}
			}
		}
	})
}

// FuzzDefrag runs a history with defragmentation in between on real bytes.
func FuzzDefrag(f *testing.F) {
	f.Add([]byte("fill, free some, and move what is left together"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, granule uint8) {
		h := history{b[:min(len(b), 600)]}
		a := newArena(t, 4096, 1<<13, Options{Granularity: 1 << (granule % 8)})
		for len(h.b) > 0 {
			switch op, x := h.next(1), h.next(2); op % 8 {
			case 0, 1, 2, 3:
				a.alloc(1+x%1500, 1<<(op>>3%6), x)
			case 7:
				defragment(t, a, rand.New(rand.NewPCG(x, 1)), op&8 != 0)
			default:
				if len(a.keys) > 0 {
					a.free(int(x) % len(a.keys))
				}
			}
			a.verify()
		}
	})
}
