package bound

import (
	"maps"
	"math/big"
	"slices"

	"godwit/mem"
)

// The limit of bytes a round where memories are short, as a flow round a circle.
//
// What a command needs is there while it runs; all else that stays fits beside it. What a memory
// is left with stays through a gap, from one use to the next round the circle, or it is away, and
// then bytes move: claims, as the package comment has them. A schedule for ever that moves least,
// averaged over its rounds, lets a part of everything stay in each gap, and no more than there is
// room for: it is a solution of the linear program over one circle, whatever its period. So the
// program's least is no more than the limit. Its dual asks for a price of room at each command, and any
// prices prove a bound (problem.proven has the sum; here it goes round the circle).
//
// Without the room's total the program is a flow: what is room beside the needed goes from command
// to command, through what stays or past it. Round a circle more of it may go round than there is, so
// each turn has a price, too, which is searched for: the one at which as much goes round as there is room.

// WithinRound is how many bytes must move in a round of commands that is repeated for ever, on memories of these
// capacities in bytes, by MemoryID; 0, or none given, is no limit. Compulsory is what Round says; ByMemory is what is
// proven for each memory alone, and all together may be more (prices.go).
// Content has to be readable somewhere as long as nobody has overwritten it; but for that of transient
// buffers, which ends with the round, and before that where nobody reads it any more. Bytes that commands use alike stay, or leave, together.
func WithinRound(store func(mem.MemoryID) mem.MemoryID, capacity []uint64, transient func(mem.BufferID) bool, commands [][]mem.Access) Bound {
	out := Bound{Compulsory: Round(store, commands), ByMemory: make([]uint64, len(capacity))}
	pieces := piecesOf(store, commands)
	for m, c := range capacity {
		if id := mem.MemoryID(m); c > 0 && store(id) == id {
			out.ByMemory[m] = newCircle(id, c, transient, pieces).least()
			out.Capacity += out.ByMemory[m]
		}
	}
	all := newPriced(store, capacity, transient, len(commands), pieces).search()
	if n := uint64(all * (1 - 1e-9)); n > out.Compulsory+out.Capacity { // sums are rounded
		out.Capacity = n - out.Compulsory
	}
	return out
}

// piece is bytes of a buffer that commands use alike.
type piece struct {
	buffer mem.BufferID
	size   uint64
	uses   []pieceUse // ascending by command
}

type pieceUse struct {
	command       int
	memory        mem.MemoryID
	reads, writes bool
}

// piecesOf cuts buffers where accesses begin and end.
func piecesOf(store func(mem.MemoryID) mem.MemoryID, commands [][]mem.Access) (out []piece) {
	cuts := make(map[mem.BufferID][]uint64)
	for _, accs := range commands {
		for _, a := range accs {
			cuts[a.Buffer] = append(cuts[a.Buffer], a.Range.Start, a.Range.End)
		}
	}
	first := make(map[mem.BufferID]int)                // of the buffer's pieces
	for _, b := range slices.Sorted(maps.Keys(cuts)) { // the search's way, and so its end, depends on the order of pieces
		slices.Sort(cuts[b])
		cuts[b], first[b] = slices.Compact(cuts[b]), len(out)
		for i := 1; i < len(cuts[b]); i++ {
			out = append(out, piece{buffer: b, size: cuts[b][i] - cuts[b][i-1]})
		}
	}
	for i, accs := range commands {
		for _, a := range accs {
			from, _ := slices.BinarySearch(cuts[a.Buffer], a.Range.Start)
			to, _ := slices.BinarySearch(cuts[a.Buffer], a.Range.End)
			for k := first[a.Buffer] + from; k < first[a.Buffer]+to; k++ {
				out[k].use(pieceUse{i, store(a.Memory), a.Mode.Reads(), a.Mode.Writes()})
			}
		}
	}
	return slices.DeleteFunc(out, func(p piece) bool { return len(p.uses) == 0 })
}

// use adds what a command does; of one command and memory there is one use, which reads before it writes.
func (p *piece) use(u pieceUse) {
	for i := len(p.uses) - 1; i >= 0 && p.uses[i].command == u.command; i-- {
		if o := &p.uses[i]; o.memory == u.memory {
			o.reads, o.writes = o.reads || u.reads, o.writes || u.writes
			return
		}
	}
	p.uses = append(p.uses, u)
}

// circle is one memory round the circle.
type circle struct {
	at     []int   // the commands that use it; they are its clock, which goes on from one round to the next
	room   []int64 // beside each of these
	gaps   []gap   // from is below len(at), to at most a round later
	claims []owed
	costs  []uint64  // by gap
	flow   *network  // node i is where command i begins, counted from first
	first  int       // so that the last of the clock is one with the least room, which no arc of the line stands for
	past   int       // the arc that goes past all that stays, over that command
	chords []int     // by gap
	turn   int64     // the price of a turn
	prices []int64   // by command
	over   int64     // bytes that go round beyond the room, at these
	away   []float64 // by gap: the part of its piece that is not kept
}

// owed is bytes to be moved unless a piece stays through all of some gaps, shared out among these.
type owed struct {
	bytes  uint64
	gaps   []int
	shares []uint64
}

func newCircle(m mem.MemoryID, capacity uint64, transient func(mem.BufferID) bool, pieces []piece) *circle {
	c := new(circle)
	for _, p := range pieces {
		for _, u := range p.uses {
			if u.memory == m {
				c.at = append(c.at, u.command)
			}
		}
	}
	slices.Sort(c.at)
	c.at = slices.Compact(c.at)
	c.room = slices.Repeat([]int64{int64(capacity)}, len(c.at))
	for i := range pieces {
		c.claim(&pieces[i], m, transient(pieces[i].buffer))
	}
	unit := uint64(0)
	for _, g := range c.gaps {
		unit = gcd(g.size, unit)
	}
	for i, r := range c.room { // pieces stay whole: only multiples of the unit do
		if c.room[i] = max(0, r); unit > 0 {
			c.room[i] -= c.room[i] % int64(unit)
		}
	}
	c.costs, c.prices, c.away = make([]uint64, len(c.gaps)), make([]int64, len(c.at)), make([]float64, len(c.gaps))
	return c
}

// stop is where the memory uses a piece, or where content of it that is only there is overwritten elsewhere.
type stop struct {
	before, after int32 // by the memory's clock: of a use of its own, after is the command behind it
	use           int   // number of the use, or of the other's
	own           bool
	gap           int // that begins here; -1 is none
}

// claim adds the gaps of a piece, and what is owed for them.
func (c *circle) claim(p *piece, m mem.MemoryID, transient bool) {
	stops := c.stops(p, m)
	for i := range stops {
		s, next := &stops[i], &stops[(i+1)%len(stops)]
		if s.own {
			c.room[s.before] -= int64(p.size)
		}
		to := next.before
		if i == len(stops)-1 {
			to += int32(len(c.at))
		}
		if s.gap = -1; s.after < to {
			s.gap = len(c.gaps)
			c.gaps = append(c.gaps, gap{s.after, to, p.size})
		}
	}
	for i := range stops {
		s, next := &stops[i], &stops[(i+1)%len(stops)]
		if !s.own {
			continue
		}
		if next.own && p.uses[next.use].reads && (!transient || i < len(stops)-1 && p.writtenBefore(next.use)) {
			c.owe(p.size, stops, i, i+1)
		}
		if p.uses[s.use].writes {
			c.owe(p.size, stops, i, p.back(stops, i, m, transient))
		}
	}
}

// writtenBefore reports whether a use before number i of the round writes.
func (p *piece) writtenBefore(i int) bool {
	return slices.ContainsFunc(p.uses[:i], func(u pieceUse) bool { return u.writes })
}

// stops are those of a piece, in the order of the round.
func (c *circle) stops(p *piece, m mem.MemoryID) (stops []stop) {
	for i, u := range p.uses {
		k, _ := slices.BinarySearch(c.at, u.command)
		switch {
		case u.memory == m:
			stops = append(stops, stop{before: int32(k), after: int32(k + 1), use: i, own: true})
		case u.writes:
			stops = append(stops, stop{before: int32(k), after: int32(k), use: i})
		}
	}
	return stops
}

// back is the stop until which what stop i writes has to be kept, or written back, counted on into the next round. It is i
// where nothing is owed: another memory reads it, or nobody needs it.
func (p *piece) back(stops []stop, i int, m mem.MemoryID, transient bool) int {
	n, last := len(p.uses), i
	for k, at := stops[i].use+1, i; ; k++ {
		u := &p.uses[k%n]
		if transient && k >= n {
			return last
		}
		if u.memory != m && u.reads {
			return i
		}
		if u.memory == m || u.writes {
			at++
		}
		if u.memory == m && u.reads {
			last = at
		}
		if u.writes {
			if transient {
				return last
			}
			return at
		}
	}
}

// owe adds bytes to be moved unless a piece stays from one stop to another, which are counted on into the next round.
func (c *circle) owe(bytes uint64, stops []stop, from, to int) {
	o := owed{bytes: bytes}
	var weights []float64
	for i := from; i < to; i++ {
		if g := stops[i%len(stops)].gap; g >= 0 {
			o.gaps, weights = append(o.gaps, g), append(weights, float64(c.gaps[g].to-c.gaps[g].from))
		}
	}
	if len(o.gaps) > 0 {
		o.shares = portions(bytes, weights)
		c.claims = append(c.claims, o)
	}
}

// least is a lower bound on the bytes a round that move since the memory is short. Shares go where
// pieces are away: in one best schedule, or in the mix of several. Either may get stuck, seldom both.
func (c *circle) least() uint64 {
	if len(c.claims) == 0 {
		return 0
	}
	c.unroll()
	first := make([][]uint64, len(c.claims))
	for i, o := range c.claims {
		first[i] = slices.Clone(o.shares)
	}
	best := c.ascend(false)
	for i, o := range c.claims {
		copy(o.shares, first[i])
	}
	return max(best, c.ascend(true))
}

// ascend improves the shares round by round.
func (c *circle) ascend(mixed bool) (best uint64) {
	for r, last := 0, 0; r < 4*rounds && r-last <= 4*patience && c.flow.pivots < pivots; r++ {
		if r > 0 {
			c.share(2 / float64(r+2))
		}
		clear(c.costs)
		for _, o := range c.claims {
			for k, g := range o.gaps {
				c.costs[g] += o.shares[k]
			}
		}
		if n := c.search(mixed); n > best {
			best, last = n, r
		}
	}
	return best
}

// unroll makes the flow.
func (c *circle) unroll() {
	n := len(c.at)
	least := slices.Min(c.room)
	c.first = (slices.Index(c.room, least) + 1) % n
	var amounts []int64
	for i := range n - 1 {
		amounts = append(amounts, c.room[(c.first+i)%n]-least)
	}
	c.flow = newNetwork(amounts)
	c.past = c.flow.chord(int32(n-1), 0, unlimited, 0)
	for _, g := range c.gaps {
		c.chords = append(c.chords, c.flow.chord(c.node(g.from), c.node(g.to), int64(g.size), 0))
	}
}

// node is where a command begins.
func (c *circle) node(command int32) int32 {
	n := int32(len(c.at))
	return (command - int32(c.first) + n) % n
}

// crosses reports whether a gap has in it the command that no arc of the line stands for.
func (c *circle) crosses(g gap) bool { return c.node(g.to) <= c.node(g.from) }

// search looks for the price of a turn that proves most.
func (c *circle) search(mixed bool) (best uint64) {
	try := func(turn int64) (more bool) {
		more = c.price(turn)
		best = max(best, c.proven())
		return more
	}
	step := c.turn>>8 + 1
	low, high := c.turn, c.turn
	if try(c.turn) {
		for high += step; high < 1<<40 && try(high); step *= 2 {
			low, high = high, high+2*step
		}
	} else {
		for low = max(0, low-step); low > 0 && !try(low); step *= 2 {
			low, high = max(0, low-2*step), low
		}
	}
	for high-low > 1+high>>16 {
		if middle := low + (high-low)/2; try(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	c.turn = high
	c.mix(low, high, mixed)
	return best
}

// mix notes how much of each gap's piece is away in a best schedule for the shares as they are: one at the higher price of
// a turn, or that mix of it with one at the lower with which as much goes round as there is room for.
func (c *circle) mix(low, high int64, mixed bool) {
	c.price(low)
	over := c.over
	for i := range c.gaps {
		c.away[i] = float64(c.flow.arcs[c.chords[i]].flow)
	}
	c.price(high)
	part := 0.0
	if mixed && over > 0 && c.over <= 0 {
		part = float64(-c.over) / float64(over-c.over)
	}
	for i, g := range c.gaps {
		kept := part*c.away[i] + (1-part)*float64(c.flow.arcs[c.chords[i]].flow)
		c.away[i] = 1 - kept/float64(g.size)
	}
}

// price finds the prices of room for the shares as they are and a price of a turn, and reports whether more
// goes round than there is room for.
func (c *circle) price(turn int64) bool {
	c.flow.reprice(c.past, -turn)
	for i, g := range c.gaps {
		saves := saving(c.costs[i], g.size)
		if c.crosses(g) {
			saves -= turn
		}
		c.flow.reprice(c.chords[i], saves)
	}
	c.flow.solve()
	n, tree := len(c.at), c.flow.tree
	for i := range n {
		y := tree[i].price - tree[(i+1)%n].price
		if i == n-1 {
			y += turn
		}
		c.prices[(c.first+i)%n] = max(0, y)
	}
	round := c.flow.arcs[c.past].flow
	for i, g := range c.gaps {
		if c.crosses(g) {
			round += c.flow.arcs[c.chords[i]].flow
		}
	}
	c.over = round - c.room[(c.first+n-1)%n]
	return c.over > 0
}

// share moves a part of what each claim counts to those of its gaps in which its piece is away.
func (c *circle) share(part float64) {
	for _, o := range c.claims {
		weights, away := make([]float64, len(o.gaps)), 0.0
		for k, g := range o.gaps {
			weights[k] = c.away[g]
			away += weights[k]
		}
		if len(o.gaps) < 2 || away == 0 {
			continue
		}
		for k := range weights {
			weights[k] = part*weights[k]/away + (1-part)*float64(o.shares[k])/float64(o.bytes)
		}
		copy(o.shares, portions(o.bytes, weights))
	}
}

// proven is what the prices prove (problem.proven), in whole bytes a round.
func (c *circle) proven() uint64 {
	n := len(c.prices)
	before := make([]int64, 2*n+1) // sums
	var total, x, y big.Int
	for i := range 2 * n {
		before[i+1] = before[i] + c.prices[i%n]
	}
	for i, price := range c.prices {
		total.Sub(&total, x.Mul(x.SetInt64(c.room[i]), y.SetInt64(price)))
	}
	for i, g := range c.gaps {
		owed := new(big.Int).Lsh(x.SetUint64(c.costs[i]), 20) // scale
		worth := new(big.Int).Mul(x.SetUint64(g.size), y.SetInt64(before[g.to]-before[g.from]))
		if worth.Cmp(owed) < 0 {
			owed = worth
		}
		total.Add(&total, owed)
	}
	if total.Sign() <= 0 {
		return 0
	}
	return total.Rsh(&total, 20).Uint64()
}
