package replay

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"godwit/mem"
)

// The workloads W1 and W2: fixed-seed streams that several allocators have
// been measured on. Their random numbers come from splitmix64 (Steele, Lea,
// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), and
// sizes are log-uniform, rounded up to 256 bytes.
//
// The reference generator is in C; the streams here are the same, which a test
// holds to hashes. Sizes go through exp and log, where C libraries, Go and
// processors may differ in the last bit: that matters only where it carries a
// size over a whole byte just above a multiple of 256, about once in 10^12
// sizes, and never did in the 10^7 compared.

// splitmix is the state of a splitmix64 generator.
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// uniform is in [0, 1), with 53 random bits.
func (s *splitmix) uniform() float64 {
	return float64(s.next()>>11) * (1.0 / (1 << 53))
}

// logUniform draws a size in bytes between lo and hi, rounded up to 256.
func (s *splitmix) logUniform(lo, hi float64) uint64 {
	l := math.Log(lo)
	// The conversion keeps the product from being fused with the sum.
	v := math.Exp(l + float64(s.uniform()*(math.Log(hi)-l)))
	size := max(uint64(v), 1)
	return (size + workloadAlign - 1) &^ (workloadAlign - 1)
}

const (
	workloadAlign = 256
	w1Lo, w1Hi    = 256, 16 << 20
	w2Lo, w2Hi    = 4096, 64 << 20
	w2Kernels     = 64
	w2Depth       = 8  // commands in flight, w2FIFO and W2Mix
	w2MaxNest     = 32 // w2LIFO
	w2LongLived   = 24 // groups, W2Mix
)

// W1 is the steady state: n live chunks of 256 B to 16 MiB, then warm+pairs
// times free a random one and allocate another in its slot. Warm is the number
// of operations before the pairs that are to be measured. It fails with
// mem.ErrInvalidValue where n is 0 or more than 2^31 operations would result.
func W1(n, pairs, warm int, seed uint64) (*Stream, error) {
	if n < 1 || pairs < 0 || warm < 0 || n > 1<<30 || pairs > 1<<29 || warm > 1<<29 {
		return nil, fmt.Errorf("W1 of %d live chunks, %d pairs after %d: %w", n, pairs, warm, mem.ErrInvalidValue)
	}
	s := splitmix(seed)
	st := &Stream{Name: "W1-" + strconv.Itoa(n), Align: workloadAlign, Slots: n, Warm: n + 2*warm,
		Ops: make([]Op, 0, n+2*(pairs+warm))}
	for i := range n {
		st.Ops = append(st.Ops, Op{Size: s.logUniform(w1Lo, w1Hi), Slot: uint32(i)})
	}
	for range warm + pairs {
		k := uint32(s.next() % uint64(n))
		st.Ops = append(st.Ops, Op{Slot: k}, Op{Size: s.logUniform(w1Lo, w1Hi), Slot: k})
	}
	return st, st.seal()
}

// w2Kind is the order in which W2's commands finish.
type w2Kind string

// The kinds of W2.
const (
	w2FIFO w2Kind = "fifo" // the oldest of 8 in flight finishes first
	w2LIFO w2Kind = "lifo" // nested, a random walk of depth 0 to 32
	W2Mix  w2Kind = "mix"  // three quarters fifo, a quarter long-lived
)

// W2 is what kernels do: 64 kernels with 3 to 8 buffers of fixed sizes between
// 4 KiB and 64 MiB; each of the given number of groups is one launch, whose
// buffers come together and go together. It fails with mem.ErrInvalidValue for
// an unknown kind or a number of groups not in [0, 2^26].
func W2(kind w2Kind, groups int, seed uint64) (*Stream, error) {
	if groups < 0 || groups > 1<<26 {
		return nil, fmt.Errorf("W2 of %d groups: %w", groups, mem.ErrInvalidValue)
	}
	g := w2{s: splitmix(seed), st: &Stream{Name: "W2-" + string(kind), Align: workloadAlign}}
	g.kernels = make([][]uint64, w2Kernels)
	for i := range g.kernels {
		k := make([]uint64, 3+g.s.next()%6)
		for j := range k {
			k[j] = g.s.logUniform(w2Lo, w2Hi)
		}
		g.kernels[i] = k
	}
	switch kind {
	case w2FIFO:
		g.fifo(groups)
	case w2LIFO:
		g.lifo(groups)
	case W2Mix:
		g.mix(groups)
	default:
		return nil, fmt.Errorf("W2 %q: want fifo, lifo or mix: %w", kind, mem.ErrInvalidValue)
	}
	return g.st, g.st.seal()
}

// w2 is a W2 stream in the making.
type w2 struct {
	s       splitmix
	st      *Stream
	kernels [][]uint64
	free    []uint32   // slots freed, the last one is used first
	queue   [][]uint32 // groups in flight, oldest first
}

// launch allocates the buffers of a random kernel.
func (g *w2) launch() []uint32 {
	k := g.kernels[g.s.next()%w2Kernels]
	group := make([]uint32, 0, len(k))
	for _, size := range k {
		var slot uint32
		if n := len(g.free); n > 0 {
			slot, g.free = g.free[n-1], g.free[:n-1]
		} else {
			slot = uint32(g.st.Slots)
			g.st.Slots++
		}
		group = append(group, slot)
		g.st.Ops = append(g.st.Ops, Op{Size: size, Slot: slot})
	}
	return group
}

// finish frees a group, in reverse where rev.
func (g *w2) finish(group []uint32, rev bool) {
	if rev {
		slices.Reverse(group)
	}
	for _, slot := range group {
		g.st.Ops = append(g.st.Ops, Op{Slot: slot})
		g.free = append(g.free, slot)
	}
}

func (g *w2) finishOldest(rev bool) {
	g.finish(g.queue[0], rev)
	g.queue = g.queue[1:]
}

func (g *w2) fifo(groups int) {
	for range groups {
		g.queue = append(g.queue, g.launch())
		if len(g.queue) > w2Depth {
			g.finishOldest(false)
		}
	}
	for len(g.queue) > 0 {
		g.finishOldest(false)
	}
}

func (g *w2) lifo(groups int) {
	pop := func() {
		last := len(g.queue) - 1
		g.finish(g.queue[last], true)
		g.queue = g.queue[:last]
	}
	for i := 0; i < groups; {
		if len(g.queue) == 0 || (len(g.queue) < w2MaxNest && g.s.next()&1 == 1) {
			g.queue = append(g.queue, g.launch())
			i++
		} else {
			pop()
		}
	}
	for len(g.queue) > 0 {
		pop()
	}
}

func (g *w2) mix(groups int) {
	var long [][]uint32
	for range groups {
		if g.s.next()%4 != 0 {
			g.queue = append(g.queue, g.launch())
			if len(g.queue) > w2Depth {
				g.finishOldest(g.s.next()&1 == 1)
			}
			continue
		}
		long = append(long, g.launch())
		if len(long) > w2LongLived {
			k, last := g.s.next()%uint64(len(long)), len(long)-1
			long[k], long[last] = long[last], long[k]
			victim := long[last]
			long = long[:last]
			for a := len(victim); a > 1; a-- {
				j := g.s.next() % uint64(a)
				victim[a-1], victim[j] = victim[j], victim[a-1]
			}
			g.finish(victim, false)
		}
	}
	for len(g.queue) > 0 {
		g.finishOldest(false)
	}
	for _, group := range long {
		g.finish(group, false)
	}
}
