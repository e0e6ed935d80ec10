package bufalloc

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"godwit/mem"
)

// Options are a Region's fixed properties. The zero value is a good default.
type Options struct {
	// Strategy places the chunks; the zero value is Fit.
	Strategy Strategy
	// Granularity in bytes: sizes are rounded up to a multiple of it, and every
	// chunk is aligned to it at least. A power of two up to 16 MiB; 0 means 1.
	Granularity uint64
	// MaxChunks is the greatest number of live chunks; 0 means as many as fit
	// (1,023 under the PoCL strategies, as there).
	MaxChunks int
	// Chunks is the number of live chunks to set bookkeeping aside for, 47 bytes
	// each, so that it does not grow, and with it no operation is slow, up to
	// there. Where holes are nearly half as many or more, it grows by an eighth.
	Chunks int
	// Plan is a recorded run: what is as in it is placed by it, what is not where it
	// does the plan no harm, and by Fit's rules where the run has left the plan. It is passed
	// over where Fit alone serves the recorded run in such a region; to know that,
	// NewRegion replays it. For Fit alone. nil is none.
	Plan *Plan
}

// Region manages the addresses [base, base+size). It belongs to one goroutine
// at a time.
type Region struct {
	base, size uint64 // immutable
	granule    uint64 // immutable
	strategy   Strategy
	maxChunks  int    // immutable
	quick      uint64 // sizes up to it take the short way through Alloc
	searched   uint64 // sizes from there up to it that of allocSearched
	nodes      []node // see node for the first two
	spare      uint32 // unused nodes, linked by next
	salt       uint32 // immutable: where generations started
	gen        uint32 // of the newest chunk
	bins       *bins  // holes under Fit and GoodFit, else nil
	placer     placer // holes under the others, else nil
	wide       []uint64
	index      *addrIndex // live chunks by address, once somebody has asked
	s          Stats
	wastes     bool      // immutable: slack is kept in wide
	grid       bool      // immutable: chunks cannot be cut anywhere (see Strategy)
	watched    bool      // frees take the long way: there is an index, a plan, or lives
	hint       mem.Hint  // of the request in progress
	follow     *follower // the place in the plan; nil where none is followed
	lives      *lives    // what is known of chunks' lives under Fit; nil before the first hint
}

// NewRegion returns a region of size bytes at base with nothing allocated. It
// fails with mem.ErrInvalidSize where size is 0 or more than 2^63, and with
// mem.ErrInvalidValue where base+size overflows or an option breaks its rule.
func NewRegion(base, size uint64, o Options) (*Region, error) {
	strategy, known := o.Strategy.info()
	switch {
	case size == 0 || size > 1<<63:
		return nil, fmt.Errorf("region of %d bytes: want 1 to 2^63: %w", size, mem.ErrInvalidSize)
	case size > math.MaxUint64-base:
		return nil, fmt.Errorf("region of %d bytes at %#x: its end overflows 64 bits: %w", size, base, mem.ErrInvalidValue)
	case !known:
		return nil, fmt.Errorf("region with %v: no such strategy: %w", o.Strategy, mem.ErrInvalidValue)
	case o.Granularity != 0 && (!mem.IsPow2(o.Granularity) || o.Granularity > slackMax+1):
		return nil, fmt.Errorf("granularity %d: want a power of two up to %d: %w", o.Granularity, slackMax+1, mem.ErrInvalidValue)
	case o.Plan != nil && o.Strategy != Fit:
		return nil, fmt.Errorf("a plan under %v: what it does not place is placed by %v: %w", o.Strategy, Fit, mem.ErrInvalidValue)
	case o.MaxChunks < 0 || o.Chunks < 0:
		return nil, fmt.Errorf("limit of %d chunks, room for %d: neither can be negative: %w", o.MaxChunks, o.Chunks, mem.ErrInvalidValue)
	}
	r := &Region{base: base, size: size, strategy: o.Strategy, granule: max(o.Granularity, 1), maxChunks: o.MaxChunks, salt: rand.Uint32()}
	if r.maxChunks == 0 {
		r.maxChunks = defaultMaxChunks(o.Strategy)
	}
	r.gen = r.salt & genMask
	// Holes are about a third of the chunks, rarely half (Knuth's fifty-percent
	// rule): 47 bytes a chunk.
	r.nodes = make([]node, 2, min(o.Chunks+o.Chunks*15/32+4, maxNodes))
	r.setStrategy(strategy)
	if o.Plan != nil {
		r.setPlan(o.Plan)
	}
	r.Reset()
	return r, nil
}

func defaultMaxChunks(s Strategy) int {
	if s == PoCLTight || s == PoCLWasteful {
		return poclMaxChunks
	}
	return maxNodes/2 - 128
}

func (r *Region) setStrategy(s strategy) {
	r.grid = s.grid
	switch r.strategy {
	case Fit, GoodFit:
		r.bins = &bins{fit: r.strategy == Fit}
	case Tight, Wasteful:
		r.placer = &firstFit{tailFirst: r.strategy == Wasteful}
	case Buddy:
		r.placer, r.wastes = &buddy{}, true
	case PowerOfTwo:
		r.placer, r.wastes = &pools{}, true
	case PoCLTight, PoCLWasteful:
		r.placer, r.wastes = &pocl{firstFit{tailFirst: r.strategy == PoCLWasteful}}, true
	default:
		r.placer = &placed{p: s.open()}
	}
}

// Reset frees every chunk at once and forgets the statistics. Chunks from
// before are stale afterwards.
func (r *Region) Reset() {
	r.nodes, r.spare = r.nodes[:2], 0
	r.nodes[0] = node{addr: r.base + r.size - 1}
	r.nodes[anchor] = node{prev: anchor, next: anchor, a: liveBit}
	r.s = Stats{}
	clear(r.wide)
	if r.bins != nil {
		r.bins.reset(r.size)
		r.setQuick()
	} else {
		r.placer.reset(r)
	}
	if r.index != nil {
		r.index.clear()
	}
	if r.lives != nil {
		r.lives.reset()
	}
	if r.follow != nil {
		r.follow.reset(r)
	}
	h := r.newNode()
	r.nodes[h] = node{addr: r.base, size: r.size}
	r.linkAfter(h, anchor)
	r.insert(h)
}

// Base is the region's first address.
func (r *Region) Base() uint64 { return r.base }

// Size is the region's size in bytes.
func (r *Region) Size() uint64 { return r.size }

// Bounds is the region's addresses.
func (r *Region) Bounds() mem.Range { return mem.Range{Start: r.base, End: r.base + r.size} }

// Strategy is the strategy given at creation.
func (r *Region) Strategy() Strategy { return r.strategy }

// Granularity is the granularity in bytes, at least 1.
func (r *Region) Granularity() uint64 { return r.granule }

// setQuick says which requests take the short way through Alloc: those of Fit
// that are not searched for.
func (r *Region) setQuick() {
	r.quick, r.searched = 0, 0
	if r.strategy == Fit && r.lives == nil && r.follow == nil && r.bins.few > r.granule {
		r.quick, r.searched = r.bins.few-r.granule, r.size
	}
}

func (r *Region) insert(i uint32) {
	if r.follow != nil {
		r.follow.holes.insert(r.nodes, i)
	}
	if r.bins != nil {
		r.bins.insert(r.nodes, i)
		return
	}
	r.placer.insert(r, i)
}

func (r *Region) remove(i uint32) {
	if r.follow != nil {
		r.follow.holes.remove(r.nodes, i)
	}
	if r.bins != nil {
		r.bins.remove(r.nodes, i)
		return
	}
	r.placer.remove(r, i)
}

func (r *Region) find(size, align uint64) (i uint32, addr, take uint64) {
	if r.follow != nil {
		if i, addr = r.follow.find(r, size, align); i != 0 {
			return i, addr, size
		}
	}
	if r.hint != 0 && r.strategy == Fit {
		if i, addr = r.findByLife(size, align); i != 0 {
			return i, addr, size
		}
	}
	if r.bins != nil {
		i, addr = r.bins.find(r, size, align)
		return i, addr, size
	}
	return r.placer.find(r, size, align)
}

// alloc places a chunk and returns its node, or 0. The request is valid.
func (r *Region) alloc(size, align uint64) uint32 {
	if size > r.size || r.chunks() >= r.maxChunks || len(r.nodes) > maxNodes-128 {
		return 0
	}
	need := (size + r.granule - 1) &^ (r.granule - 1)
	i, addr, take := r.find(need, align)
	if i == 0 {
		if r.follow != nil {
			r.follow.refused()
		}
		return 0
	}
	i = r.carve(i, addr, take)
	r.enlive(i, size, align)
	return i
}

// carve takes hole i out of the order and cuts it to [addr, addr+take); what is
// left in front and behind goes back as holes.
func (r *Region) carve(i uint32, addr, take uint64) uint32 {
	r.remove(i)
	if front := addr - r.nodes[i].addr; front > 0 {
		r.insert(r.cutFront(i, front))
	}
	if r.nodes[i].size > take {
		r.insert(r.cutBack(i, take))
	}
	return i
}

// enlive makes node i, in no order, a chunk for which size bytes at a multiple
// of align were asked.
func (r *Region) enlive(i uint32, size, align uint64) {
	r.gen = (r.gen + 1) & genMask
	n := &r.nodes[i]
	slack := n.size - size
	n.a, n.b = liveBit|r.gen, uint32(bits.Len64(align-1))<<alignBit
	if r.wastes {
		r.setWide(i, slack)
	} else {
		n.b |= uint32(slack)
	}
	s := &r.s
	s.Allocs++
	s.Live += size
	s.Slack += slack
	s.PeakLive = max(s.PeakLive, s.Live)
	s.HighWater = max(s.HighWater, n.end()-r.base)
	if r.index != nil {
		r.index.add(n.addr, i)
	}
	if r.lives != nil {
		r.lives.begin(i, r.hint, r.clock())
	}
}

// slack is the bytes of chunk i beyond those asked for.
func (r *Region) slack(i uint32) uint64 {
	if r.wastes {
		return r.wide[i]
	}
	return uint64(r.nodes[i].b & slackMax)
}

func (r *Region) setWide(i uint32, slack uint64) {
	for len(r.wide) <= int(i) {
		r.wide = append(r.wide, 0)
	}
	r.wide[i] = slack
}

// free makes chunk i a hole, or part of one.
func (r *Region) free(i uint32) {
	n := &r.nodes[i]
	slack := r.slack(i)
	r.s.Frees++
	r.s.Live -= n.size - slack
	r.s.Slack -= slack
	if r.index != nil {
		r.index.drop(n.addr)
	}
	if r.lives != nil {
		r.lives.end(i, r.clock())
	}
	n.a, n.b = 0, 0
	r.settle(i)
}

// chunks is the number of live chunks.
func (r *Region) chunks() int { return int(r.s.Allocs - r.s.Frees) }

// settle merges node i, a hole in no order, with its neighbours and puts the
// result into the order.
func (r *Region) settle(i uint32) {
	for {
		p, n := r.nodes[i].prev, r.nodes[i].next
		switch {
		case !r.nodes[p].live() && r.joins(p, i):
			r.remove(p)
			r.nodes[i].addr = r.nodes[p].addr
			r.nodes[i].size += r.nodes[p].size
			r.unlink(p)
		case !r.nodes[n].live() && r.joins(i, n):
			r.remove(n)
			r.nodes[i].size += r.nodes[n].size
			r.unlink(n)
		default:
			r.insert(i)
			return
		}
	}
}

func (r *Region) joins(i, j uint32) bool { return r.placer == nil || r.placer.joins(r, i, j) }
