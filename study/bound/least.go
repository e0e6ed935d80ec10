package bound

import (
	"math/big"
	"math/bits"
	"slices"
)

// scale is how many units of price make a byte.
const scale = 1 << 20

// The claims on several gaps are shared out anew for so many rounds at most; for
// no more where the last few have proven nothing new, or the flows of all windows
// have taken so many pivots (a million take some seconds).
const (
	rounds   = 32
	patience = 6
	pivots   = 1 << 20
)

// least is a lower bound, in bytes, on what has to be moved since the memory is
// short, for what was collected, and how many pivots that took: once there are that
// many, it is improved no more.
func (m *memory) least(enough int) (best uint64, took int) {
	gaps, claims := m.gaps()
	if len(gaps) == 0 {
		return 0, 0
	}
	p := newProblem(m, gaps, claims)
	best = p.round()
	last := 0
	for r := 1; r < rounds && r-last <= patience && p.flow.pivots < enough && p.several(); r++ {
		p.share(2 / float64(r+2))
		if n := p.round(); n > best {
			best, last = n, r
		}
	}
	return best, p.flow.pivots
}

// roomForAll reports whether all blocks fit together.
func (m *memory) roomForAll() bool {
	var sum uint64
	for _, b := range m.blocks {
		sum += b.size
	}
	return sum <= m.capacity
}

// problem is what it costs where blocks of one memory do not stay.
type problem struct {
	gaps   []gap // with from and to as indexes of ends
	claims []claim
	shares [][]uint64 // by claim: the bytes that count at each of its gaps
	costs  []uint64   // by gap: the bytes that count there
	room   []uint64   // by piece of time between two ends: bytes left beside what is needed, at least
	flow   *network
	chords []int // by gap
	prices []int64
}

func newProblem(m *memory, gaps []gap, claims []claim) *problem {
	p := &problem{gaps: gaps, claims: claims, costs: make([]uint64, len(gaps)), chords: make([]int, len(gaps))}
	var ends []int32
	var total, unit uint64
	for _, g := range gaps {
		ends = append(ends, g.from, g.to)
		total += g.size
		unit = gcd(g.size, unit)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	for i := range ends[:len(ends)-1] {
		room := total
		for _, w := range m.working[ends[i]:ends[i+1]] {
			if w <= m.capacity { // else the capacity is not what was said
				room = min(room, m.capacity-w)
			}
		}
		p.room = append(p.room, room-room%unit) // blocks stay whole: only multiples of the unit do
	}
	amounts := make([]int64, len(p.room))
	for i, r := range p.room {
		amounts[i] = int64(r)
	}
	p.flow, p.prices = newNetwork(amounts), make([]int64, len(p.room))
	for i := range gaps {
		g := &gaps[i]
		from, _ := slices.BinarySearch(ends, g.from)
		to, _ := slices.BinarySearch(ends, g.to)
		g.from, g.to = int32(from), int32(to)
		p.chords[i] = p.flow.chord(g.from, g.to, int64(g.size), 0)
	}
	for _, c := range claims {
		p.shares = append(p.shares, p.byLength(c))
	}
	return p
}

func gcd(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// several reports whether there is a claim on several gaps.
func (p *problem) several() bool {
	return slices.ContainsFunc(p.claims, func(c claim) bool { return c.last-c.first > 1 })
}

// byLength shares a claim out by how long its gaps are.
func (p *problem) byLength(c claim) []uint64 {
	weights := make([]float64, c.last-c.first)
	for i := range weights {
		g := &p.gaps[c.first+i]
		weights[i] = float64(g.to - g.from)
	}
	return portions(c.bytes, weights)
}

// portions cuts bytes by weights, of which one at least is above 0.
func portions(bytes uint64, weights []float64) []uint64 {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	out, left := make([]uint64, len(weights)), bytes
	for i, w := range weights {
		out[i] = min(left, uint64(float64(bytes)*(w/sum)))
		left -= out[i]
	}
	out[slices.Index(weights, slices.Max(weights))] += left
	return out
}

// share moves a part of what each claim counts to those of its gaps in which the
// block was away: it is to be paid where that happens.
func (p *problem) share(part float64) {
	for i, c := range p.claims {
		if c.last-c.first < 2 {
			continue
		}
		weights, away := make([]float64, c.last-c.first), 0.0
		for k := range weights {
			g := c.first + k
			weights[k] = 1 - float64(p.flow.arcs[p.chords[g]].flow)/float64(p.gaps[g].size)
			away += weights[k]
		}
		if away == 0 {
			continue
		}
		for k := range weights {
			weights[k] = part*weights[k]/away + (1-part)*float64(p.shares[i][k])/float64(c.bytes)
		}
		p.shares[i] = portions(c.bytes, weights)
	}
}

// round finds the best blocks to keep for the shares as they are, and returns what
// its prices prove.
func (p *problem) round() uint64 {
	clear(p.costs)
	for i, c := range p.claims {
		for k, s := range p.shares[i] {
			p.costs[c.first+k] += s
		}
	}
	for i, g := range p.gaps {
		p.flow.reprice(p.chords[i], saving(p.costs[i], g.size))
	}
	p.flow.solve()
	for i := range p.prices {
		p.prices[i] = max(0, p.flow.tree[i].price-p.flow.tree[i+1].price)
	}
	return p.proven()
}

// saving is cost / size, in units of price.
func saving(cost, size uint64) int64 {
	hi, lo := bits.Mul64(cost, scale)
	q, _ := bits.Div64(hi, lo, size) // cost is at most a few times size
	return int64(q)
}

// proven is the lower bound that the prices prove, whatever found them. A price is
// what a byte of room is worth in a piece of time. Who keeps a block through a gap
// saves its cost and takes room worth size x prices; all that is kept takes no
// more than the room there is. So no choice costs less than
//
//	sum over gaps of min(cost, size x prices in it) - sum over pieces of room x price.
func (p *problem) proven() uint64 {
	before := make([]int64, len(p.prices)+1) // sums
	var total, x, y big.Int
	for i, price := range p.prices {
		before[i+1] = before[i] + price
		total.Sub(&total, x.Mul(x.SetUint64(p.room[i]), y.SetInt64(price)))
	}
	for i, g := range p.gaps {
		x.Mul(x.SetUint64(p.costs[i]), y.SetUint64(scale))
		var worth big.Int
		worth.Mul(worth.SetUint64(g.size), y.SetInt64(before[g.to]-before[g.from]))
		if worth.Cmp(&x) < 0 {
			total.Add(&total, &worth)
		} else {
			total.Add(&total, &x)
		}
	}
	if total.Sign() <= 0 {
		return 0
	}
	total.Add(&total, x.SetUint64(scale-1)) // bytes are whole
	return total.Rsh(&total, 20).Uint64()
}
