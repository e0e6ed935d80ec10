package bufalloc

import (
	"math"
	"math/bits"
	"slices"

	"godwit/mem"
)

// A region with a plan places the calls of a run where the plan has them, and what the
// plan does not have where it does the plan the least harm; docs/design/plans.md says why.
//
// Which item of the plan a call is, an edit distance says: row[k] is what it costs to
// make of the calls so far those of the plan up to item at-band+k, where calls were added,
// left out or changed in size (P. Sellers, "The theory and computation of evolutionary
// distances", J. Algorithms 1980, on a band). While fewer than
// half of the last 64 calls are placed as planned the plan counts for nothing, and the last 8 sizes are looked up in it.

const (
	band    = 32       // how many calls a run may be before or behind the plan's
	settled = 2 * band // calls as planned in a row after which no row is kept

	skipped = 4 // costs: a call of the plan was left out
	resized = 4 // one has another size, within an eighth
	added   = 5 // one is not the plan's
	strange = skipped + added
	far     = math.MaxUint16 / 2

	believed = 32   // of the last 64 calls so many must have been placed as planned
	regained = 40   // so many have, where a run has just been found again
	reach    = 4096 // calls of the plan that what has no known life is held against
	looks    = 8192 // and items at most
)

// PlanStats says what a plan was worth, in chunks since Reset.
type PlanStats struct {
	Followed bool   `json:"followed"` // false: Fit alone serves the recorded run in such a region, and all of this is 0
	Planned  uint64 `json:"planned"`  // placed where the plan says
	Taken    uint64 `json:"taken"`    // of the plan's size, but something lay there
	Resized  uint64 `json:"resized"`  // of another size
	Added    uint64 `json:"added"`    // not in the plan
	Left     uint64 `json:"left"`     // placed by Fit alone, since the run had left the plan
	Found    uint64 `json:"found"`    // times that a run was found again
}

// PlanStats returns the figures of the region's plan so far; zero without one.
func (r *Region) PlanStats() PlanStats {
	if r.follow == nil {
		return PlanStats{}
	}
	return r.follow.s
}

// Rewind says that a run of the plan's program begins anew, as Reset does; what is live
// stays. For programs that make the recorded run again and again in one region.
func (r *Region) Rewind() {
	if f := r.follow; f != nil {
		f.position = position{sure: settled, recent: math.MaxUint64}
	}
}

// follower is a region's place in its plan.
type follower struct {
	plan    *Plan
	granule uint64
	s       PlanStats
	holes   byAddress
	free    []mem.Range // scratch

	position
	was      position  // before the call in progress
	counting PlanStats // as was
}

type position struct {
	at     int    // items of the plan behind the run
	sure   int    // calls as planned in a row; with `settled` the row says nothing
	recent uint64 // a bit for each of the last calls: placed as planned
	sum    uint64 // of the last sizes
	row    [2*band + 1]uint16
}

// setPlan has the region follow the plan, unless it is not needed.
func (r *Region) setPlan(p *Plan) {
	if !p.servedByFit(r.size, r.granule) {
		r.follow = &follower{plan: p, granule: r.granule}
		r.watched = true
	}
}

func (f *follower) reset(r *Region) {
	f.holes.reset(cap(r.nodes))
	f.s = PlanStats{Followed: true}
	r.Rewind()
}

// size is that of item j as the region rounds it.
func (f *follower) size(j int) uint64 {
	return (f.plan.items[j].size + f.granule - 1) &^ (f.granule - 1)
}

// find places a call: 0 leaves it to Fit.
func (f *follower) find(r *Region, size, align uint64) (uint32, uint64) {
	f.was, f.counting = f.position, f.s
	j, same := f.step(size)
	if j >= 0 && f.size(j) >= size {
		addr := r.base + f.plan.items[j].offset
		if i := f.holes.at(r.nodes, addr); i != 0 && r.nodes[i].end()-addr >= size && addr&(align-1) == 0 {
			f.s.Planned++
			f.recent |= 1
			return i, addr
		}
	}
	if bits.OnesCount64(f.recent) < believed {
		f.s.Left++
		return 0, 0
	}
	until := f.at + reach
	if j >= 0 {
		until = min(until, f.plan.items[j].until)
	}
	switch {
	case j < 0:
		f.s.Added++
	case same:
		f.s.Taken++
	default:
		f.s.Resized++
	}
	return f.spare(r, size, align, until)
}

// refused takes back what find noted of a call that found no room: it is made again, or not at all.
func (f *follower) refused() { f.position, f.s = f.was, f.counting }

// step takes note of a call and returns which item it is, -1 for none, and whether it has
// the item's size.
func (f *follower) step(size uint64) (j int, same bool) {
	f.recent <<= 1
	f.sum = roll(f.sum, size)
	if f.sure == settled {
		if f.at < len(f.plan.items) && f.size(f.at) == size {
			f.at++
			return f.at - 1, true
		}
		f.begin()
	}
	if bits.OnesCount64(f.recent) < believed {
		if at, ok := f.plan.find(f.sum, f.at); ok {
			f.at, f.recent = at, math.MaxUint64>>(64-regained)
			f.s.Found++
			f.begin()
			return at - 1, true
		}
	}
	return f.extend(size)
}

// begin makes the row of a run that has been as planned so far.
func (f *follower) begin() {
	f.sure = 0
	for k := range f.row {
		f.row[k] = uint16(max(k-band, band-k)) * skipped
	}
}

// extend makes the row of one call more, and says what the cheapest way there makes of it.
func (f *follower) extend(size uint64) (j int, same bool) {
	least, best := uint16(far), band
	j = -1
	diagonal := uint16(far) // row[k-1] before this call
	for k := range f.row {
		before := f.row[k]
		cost, is := before+added, -1
		at := f.at - band + k // items behind the run, if it is here
		switch {
		case at < 0 || at > len(f.plan.items):
			cost = far
		case at > 0 && k > 0:
			if x, ok := f.change(at-1, size); diagonal+x <= cost {
				cost, is = diagonal+x, at-1
				if !ok {
					is = -1
				}
			}
			if f.row[k-1]+skipped < cost {
				cost, is = f.row[k-1]+skipped, -1
			}
		}
		cost = min(cost, far)
		exact := is >= 0 && f.size(is) == size
		if cost < least || cost == least && exact && !same {
			least, best, j, same = cost, k, is, exact
		}
		diagonal, f.row[k] = before, cost
	}
	f.slide(best-band, least)
	if f.sure++; !same || best != band+1 {
		f.sure = 0
	}
	return j, same
}

// change is what it costs to take a call of that size for item j; ok is false where it
// rather is another call in its place.
func (f *follower) change(j int, size uint64) (cost uint16, ok bool) {
	planned := f.size(j)
	off := max(planned, size) / 8
	switch {
	case planned == size:
		return 0, true
	case planned-size+off <= 2*off:
		return resized, true
	}
	return strange, false
}

// slide puts the place d items further on into the middle of the row, and makes least 0.
func (f *follower) slide(d int, least uint16) {
	was := f.row
	f.at += d
	for k := range f.row {
		f.row[k] = far
		if from := k + d; from >= 0 && from < len(was) {
			f.row[k] = was[from] - least
		}
	}
}

// spare is a place for what the plan has no place for: one that the plan does not need
// before the chunk is freed, by the number of calls until then, or else one that it needs
// for nothing large. The items of the plan are held against the holes, the largest first;
// what is left, or was left last, is taken from the high end of the smallest.
func (f *follower) spare(r *Region, size, align uint64, until int) (uint32, uint64) {
	f.free = f.holes.roomy(r.nodes, f.holes.root, size, align, f.free[:0])
	if len(f.free) == 0 {
		return 0, 0
	}
	last := f.free[0]
	left := looks
	for c := len(f.plan.bySize) - 1; c >= 0; c-- {
		list := f.plan.bySize[c]
		k, _ := slices.BinarySearch(list, f.at)
		for ; k < len(list) && list[k] < until && left > 0 && len(f.free) > 0; k++ {
			left--
			lo := r.base + f.plan.items[list[k]].offset
			last = f.cut(mem.Range{Start: lo, End: lo + f.size(list[k])}, size, align, last)
		}
	}
	if len(f.free) > 0 {
		last = f.free[0]
	}
	for _, x := range f.free {
		if x.Size() < last.Size() {
			last = x
		}
	}
	addr := (last.End - size) &^ (align - 1)
	return f.holes.at(r.nodes, addr), addr
}

// cut takes an item's bytes out of the free ranges, and what becomes too small. It returns
// the last that was cut, as it was before.
func (f *follower) cut(x mem.Range, size, align uint64, last mem.Range) mem.Range {
	for i := 0; i < len(f.free); i++ {
		h := f.free[i]
		if !h.Overlaps(x) {
			continue
		}
		last = h
		low, high := mem.Range{Start: h.Start, End: max(h.Start, x.Start)}, mem.Range{Start: min(h.End, x.End), End: h.End}
		switch lows, highs := roomIn(low, size, align), roomIn(high, size, align); {
		case lows && highs:
			f.free[i] = low
			f.free = append(f.free, high) // in no order from here on
		case lows:
			f.free[i] = low
		case highs:
			f.free[i] = high
		default:
			n := len(f.free) - 1
			f.free[i] = f.free[n]
			f.free = f.free[:n]
			i--
		}
	}
	return last
}

func roomIn(x mem.Range, size, align uint64) bool {
	return holds(&node{addr: x.Start, size: x.Size()}, size, align)
}

// at is the hole that holds the address, or 0.
func (x *byAddress) at(ns []node, addr uint64) uint32 {
	i := x.root
	for i != 0 {
		switch n := &ns[i]; {
		case addr < n.addr:
			i = x.t[i].left
		case addr >= n.end():
			i = x.t[i].right
		default:
			return i
		}
	}
	return 0
}

// roomy appends the holes below i that hold size bytes at a multiple of align, by address.
func (x *byAddress) roomy(ns []node, i uint32, size, align uint64, out []mem.Range) []mem.Range {
	if i == 0 || x.t[i].most < size {
		return out
	}
	out = x.roomy(ns, x.t[i].left, size, align, out)
	if n := &ns[i]; holds(n, size, align) {
		out = append(out, mem.Range{Start: n.addr, End: n.end()})
	}
	return x.roomy(ns, x.t[i].right, size, align, out)
}
