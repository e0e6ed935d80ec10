package bufalloc

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
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

// FuzzExactStrategiesAgree: allocating into the same live set, the exact
// strategies agree on whether there is room at all; here the set is forced to be
// the same by reserving, in the others, the place that the first one chose.
func FuzzExactStrategiesAgree(f *testing.F) {
	f.Add([]byte("allocate and free, allocate and free"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := history{b[:min(len(b), 2000)]}
		exact := []Strategy{Fit, BestFit, Tight, Wasteful}
		regions := make([]*Region, len(exact))
		for i, s := range exact {
			regions[i] = newRegion(t, 4096, 1<<14, Options{Strategy: s})
		}
		var held [][4]Chunk
		for step := 0; len(h.b) > 0; step++ {
			op, size, align := h.next(1), 1+h.next(2)%4096, uint64(1)<<(h.next(1)%8)
			if op%5 < 2 && len(held) > 0 {
				k := int(size) % len(held)
				for i, r := range regions {
					require.NoError(t, r.Free(held[k][i]))
				}
				held[k] = held[len(held)-1]
				held = held[:len(held)-1]
				continue
			}
			first := step % len(exact)
			c, err := regions[first].Alloc(size, align)
			var got [4]Chunk
			for i, r := range regions {
				if i == first {
					got[i] = c
					continue
				}
				if err != nil {
					_, e := r.Alloc(size, align)
					require.ErrorIs(t, e, mem.ErrNoMemory, "%v failed, %v did not", exact[first], exact[i])
					continue
				}
				x, _ := regions[first].Range(c)
				var e error
				got[i], e = r.Reserve(x.Start, size)
				require.NoError(t, e)
			}
			if err == nil {
				held = append(held, got)
			}
			for _, r := range regions {
				require.NoError(t, r.Check())
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
