package bufalloc

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"godwit/mem"
)

// Move is a proposal: copy Size bytes of a chunk to another place.
type Move struct {
	Chunk Chunk
	From  mem.Range // addresses of the bytes asked for
	To    mem.Range // as many; may overlap From, see Overlaps
}

// Overlaps reports whether source and destination share bytes. Such a move must
// be copied as if through a buffer (Go's copy, C's memmove), and once its copy
// has begun it cannot be aborted without losing content.
func (m Move) Overlaps() bool { return m.From.Overlaps(m.To) }

// Defrag moves chunks so that what is free becomes one large hole, bit by bit,
// and with the caller doing the copying. It follows the protocol of the Vulkan
// Memory Allocator's incremental defragmentation:
//
//	proposed --Commit--> the chunk is at To; From is free
//	proposed --Abort---> the chunk is at From; To is free; not proposed again
//
// While a move is proposed its chunk stays where it is and can be read, but not
// freed; To is taken. The region can be used between all calls: chunks may come
// and go, and Next looks at it afresh. A chunk keeps its value when it moves,
// its alignment too. Chunks taken by Reserve are never moved.
//
// How it chooses: the hole of the wanted size will be somewhere, and whatever is
// there now has to go. So Next looks for the window of that size that holds the
// fewest live bytes, which is also a lower bound for the bytes to be moved
// (Bound), and moves its chunks, the largest first, into the smallest holes
// outside that take them. When no hole takes any more of them, it makes larger
// holes first, by the moves that raise the sum of the squares of the holes most
// for a byte moved: small chunks between large holes go, and go where they fit
// tightly. What neither helps is slid to the low end of the window; where that
// is not enough, the same is done with the whole region.
//
// A Defrag belongs to its region's goroutine. Next is O(n log n) and allocates.
type Defrag struct {
	r     *Region
	goal  float64
	open  map[Chunk]openMove
	skip  map[Chunk]bool // aborted
	slide mem.Range      // window in which chunks are being slid; empty: none
	moved uint64
	holes []uint32 // by size, then address: scratch of Next
	cands []uint32 // scratch of Next
}

// openMove is a proposed move and the node that holds its destination, or as
// much of it as is not the chunk itself.
type openMove struct {
	Move
	held uint32
}

// Defrag returns a new pass over the region that ends when the largest hole is
// goal of all that is free, with 0 < goal <= 1. It fails with
// mem.ErrInvalidValue for another goal, and with mem.ErrInvalidOperation as
// Reserve does.
func (r *Region) Defrag(goal float64) (*Defrag, error) {
	if !(goal > 0 && goal <= 1) {
		return nil, fmt.Errorf("defragmentation to %v of what is free: want more than 0 and at most 1: %w", goal, mem.ErrInvalidValue)
	}
	if err := r.whole("defragmentation"); err != nil {
		return nil, err
	}
	return &Defrag{r: r, goal: goal, open: map[Chunk]openMove{}, skip: map[Chunk]bool{}}, nil
}

// Moved is the number of bytes in committed moves.
func (d *Defrag) Moved() uint64 { return d.moved }

// Open is the number of proposed moves.
func (d *Defrag) Open() int { return len(d.open) }

// Done reports whether the goal is reached.
func (d *Defrag) Done() bool {
	s := d.r.Stats()
	return float64(s.LargestFree) >= d.goal*float64(s.Free)
}

// Bound is the fewest bytes that have to be moved from here to the goal by any
// means besides those of open proposals, 0 where it is reached.
func (d *Defrag) Bound() uint64 {
	if d.Done() {
		return 0
	}
	_, cost := d.window()
	return cost
}

// Next appends proposals for moves of at most budget bytes in all to dst. None
// means that the goal is reached, that proposals are open on which the next
// depend, or that no chunk within the budget can be moved to any use. Every
// proposal must be committed or aborted.
func (d *Defrag) Next(dst []Move, budget uint64) []Move {
	if d.Done() {
		return dst
	}
	before := len(dst)
	if d.slide.Empty() && d.moved > d.r.s.Live {
		d.slide = d.r.Bounds() // sliding all would have cost less: it ends for certain
	}
	if d.slide.Empty() {
		w, _ := d.window()
		if dst = d.evacuate(dst, w, budget); len(dst) > before || len(d.open) > 0 {
			return dst
		}
		if dst = d.gather(dst, budget); len(dst) > before {
			return dst
		}
		d.slide = w
	}
	if len(d.open) > 0 {
		return dst
	}
	if dst = d.slideDown(dst, budget); len(dst) == before && d.slide != d.r.Bounds() {
		d.slide = d.r.Bounds()
		dst = d.slideDown(dst, budget)
	}
	if len(dst) == before {
		d.slide = mem.Range{}
	}
	return dst
}

// fixed reports whether chunk i cannot be moved now.
func (d *Defrag) fixed(i uint32) bool {
	n := &d.r.nodes[i]
	return n.b >= moving || len(d.skip) > 0 && d.skip[Chunk{i, n.a}]
}

// window is the run of nodes, as large as the wanted hole, with the fewest
// bytes in chunks that have to be copied (no slack), and these bytes. It
// contains no chunk that is fixed but for those about to leave; empty where
// there is no such run.
func (d *Defrag) window() (w mem.Range, least uint64) {
	r := d.r
	want := uint64(math.Ceil(d.goal * float64(r.s.free(r.size)))) // as Done counts
	lo, cost := r.nodes[anchor].next, uint64(0)
	for hi := lo; hi != anchor; hi = r.nodes[hi].next {
		n := &r.nodes[hi]
		if n.live() && d.fixed(hi) && !d.leaving(hi) {
			lo, cost = n.next, 0
			continue
		}
		cost += d.cost(hi)
		for lo != hi && n.end()-r.nodes[lo].end() >= want {
			cost -= d.cost(lo)
			lo = r.nodes[lo].next
		}
		if start := r.nodes[lo].addr; n.end()-start >= want && (w.Empty() || cost < least) {
			w, least = mem.Range{Start: start, End: n.end()}, cost
		}
	}
	return w, least
}

// leaving reports whether node i is a chunk that this pass has proposed to move.
func (d *Defrag) leaving(i uint32) bool {
	if len(d.open) == 0 {
		return false
	}
	_, ok := d.open[Chunk{i, d.r.nodes[i].a}]
	return ok
}

// cost is the bytes to be copied, and not proposed yet, to empty node i.
func (d *Defrag) cost(i uint32) uint64 {
	if n := &d.r.nodes[i]; n.live() && !d.leaving(i) {
		return n.size - d.r.slack(i)
	}
	return 0
}

// evacuate proposes moves out of the window.
func (d *Defrag) evacuate(dst []Move, w mem.Range, budget uint64) []Move {
	r := d.r
	d.holes, d.cands = d.holes[:0], d.cands[:0]
	for i := r.nodes[anchor].next; i != anchor; i = r.nodes[i].next {
		switch n, in := &r.nodes[i], w.Contains(mem.Range{Start: r.nodes[i].addr, End: r.nodes[i].end()}); {
		case !n.live() && !in:
			d.holes = append(d.holes, i)
		case n.live() && in && !d.fixed(i):
			d.cands = append(d.cands, i)
		}
	}
	slices.SortFunc(d.holes, d.bySize)
	slices.SortFunc(d.cands, func(a, b uint32) int { return d.bySize(b, a) })
	for _, i := range d.cands {
		n := &r.nodes[i]
		if n.size > budget {
			continue
		}
		align := d.align(i)
		k := d.smallest(n.size, func(h uint32) bool { return holds(&r.nodes[h], n.size, align) })
		if k < 0 {
			continue
		}
		budget -= n.size
		h := d.takeHole(k)
		addr := r.nodes[h].addr + -r.nodes[h].addr&(align-1)
		held := d.hold(h, addr, n.size)
		dst = append(dst, d.propose(i, held, addr))
	}
	return dst
}

func (d *Defrag) bySize(a, b uint32) int {
	m, n := &d.r.nodes[a], &d.r.nodes[b]
	return cmp.Or(cmp.Compare(m.size, n.size), cmp.Compare(m.addr, n.addr))
}

// align is the alignment that chunk i was asked for with.
func (d *Defrag) align(i uint32) uint64 { return 1 << (d.r.nodes[i].b >> alignBit & 63) }

// smallest is the place in d.holes of the smallest hole that holds size bytes and is ok,
// or -1.
func (d *Defrag) smallest(size uint64, ok func(h uint32) bool) int {
	ns := d.r.nodes
	k, _ := slices.BinarySearchFunc(d.holes, size, func(h uint32, size uint64) int {
		return cmp.Or(cmp.Compare(ns[h].size, size), 1)
	})
	for ; k < len(d.holes); k++ {
		if ok(d.holes[k]) {
			return k
		}
	}
	return -1
}

// takeHole takes a hole off the list.
func (d *Defrag) takeHole(k int) (hole uint32) {
	hole = d.holes[k]
	d.holes = slices.Delete(d.holes, k, k+1)
	return hole
}

// hold takes [addr, addr+size) of hole h for a move. What is left behind goes
// back on the list of holes.
func (d *Defrag) hold(h uint32, addr, size uint64) uint32 {
	r := d.r
	h = r.carve(h, addr, size)
	r.take(h)
	for _, i := range []uint32{r.nodes[h].prev, r.nodes[h].next} {
		if !r.nodes[i].live() {
			k, found := slices.BinarySearchFunc(d.holes, i, d.bySize)
			if !found {
				d.holes = slices.Insert(d.holes, k, i)
			}
		}
	}
	return h
}

// propose marks chunk i and its destination.
func (d *Defrag) propose(i, held uint32, addr uint64) Move {
	r := d.r
	n := &r.nodes[i]
	n.b |= moving
	size := n.size - r.slack(i)
	m := Move{Chunk{i, n.a}, mem.Range{Start: n.addr, End: n.addr + size}, mem.Range{Start: addr, End: addr + size}}
	d.open[m.Chunk] = openMove{m, held}
	return m
}

// slideDown proposes to move the first chunk of the window that has a hole in
// front of it to that hole's start: one at a time, because the next slides
// into what this one leaves.
func (d *Defrag) slideDown(dst []Move, budget uint64) []Move {
	r := d.r
	for i := r.nodes[anchor].next; i != anchor; i = r.nodes[i].next {
		n := &r.nodes[i]
		h := n.prev
		if !n.live() || n.size > budget || r.nodes[h].live() || d.fixed(i) {
			continue
		}
		if r.nodes[h].addr < d.slide.Start || n.end() > d.slide.End {
			continue
		}
		align := d.align(i)
		addr := r.nodes[h].addr + -r.nodes[h].addr&(align-1)
		if addr >= n.addr {
			continue
		}
		r.remove(h)
		r.take(h)
		return append(dst, d.propose(i, h, addr))
	}
	return dst
}

// take makes node h, in no order, the held end of a proposed move: a chunk
// without an owner. The figures count its bytes as live.
func (r *Region) take(h uint32) {
	r.enlive(h, r.nodes[h].size, 1)
	r.nodes[h].b |= moving
}

// Commit says that a proposed move's bytes have been copied: the chunk is at To
// from now on. It fails with mem.ErrInvalidOperation where the move is not
// proposed (any more).
func (d *Defrag) Commit(m Move) error {
	o, err := d.close(m, "commit")
	if err != nil {
		return err
	}
	r, i, j := d.r, m.Chunk.index, o.held
	d.moved += m.From.Size()
	if r.index != nil {
		r.index.drop(r.nodes[i].addr)
	}
	if r.nodes[i].prev == j {
		r.slid(i, j, m.To.Start)
	} else {
		r.release(r.trade(i, j))
	}
	r.s.HighWater = max(r.s.HighWater, r.nodes[i].end()-r.base)
	if r.index != nil {
		r.index.add(r.nodes[i].addr, i)
	}
	return nil
}

// Abort takes a proposal back: the chunk stays, and is not proposed again by
// this pass. It fails as Commit does.
func (d *Defrag) Abort(m Move) error {
	o, err := d.close(m, "abort")
	if err != nil {
		return err
	}
	d.skip[m.Chunk] = true
	d.r.release(o.held)
	return nil
}

func (d *Defrag) close(m Move, verb string) (openMove, error) {
	o, ok := d.open[m.Chunk]
	if !ok || o.Move != m {
		return o, fmt.Errorf("%s of the move of %v from %v to %v: not proposed, or closed already: %w", verb, m.Chunk, m.From, m.To, mem.ErrInvalidOperation)
	}
	delete(d.open, m.Chunk)
	d.r.nodes[m.Chunk.index].b &^= moving
	return o, nil
}

// release makes held node j a hole again.
func (r *Region) release(j uint32) {
	r.nodes[j].b &^= moving
	r.free(j)
	r.s.Allocs--
	r.s.Frees--
}

// trade lets chunk i and held node j, which are of one size, change places. It
// returns j's index afterwards.
func (r *Region) trade(i, j uint32) uint32 {
	x := r.newNode()
	n, h := r.nodes[i], r.nodes[j]
	r.nodes[x] = node{addr: n.addr, size: n.size, a: h.a, b: h.b}
	if r.index != nil {
		r.index.drop(h.addr)
		r.index.add(n.addr, x)
	}
	r.linkAfter(x, i)
	r.nodes[n.prev].next, r.nodes[x].prev = x, n.prev
	// i is out; into j's place with it.
	h = r.nodes[j]
	r.nodes[i].prev, r.nodes[i].next, r.nodes[i].addr = h.prev, h.next, h.addr
	r.nodes[h.prev].next, r.nodes[h.next].prev = i, i
	r.dropNode(j)
	return x
}

// slid moves chunk i down to addr, into held node j right before it. What j was
// becomes free behind the chunk, and in front of it where addr is not j's.
func (r *Region) slid(i, j uint32, addr uint64) {
	gap := r.nodes[i].addr - addr
	front := addr - r.nodes[j].addr
	x := r.newNode()
	r.nodes[x] = node{addr: addr + r.nodes[i].size, size: gap}
	r.linkAfter(x, i)
	r.nodes[i].addr = addr
	r.s.Live -= gap
	if front == 0 {
		r.s.Allocs--
		if r.index != nil {
			r.index.drop(r.nodes[j].addr)
		}
		r.unlink(j)
	} else {
		r.nodes[j].size = front
		r.release(j)
	}
	r.settle(x)
}
