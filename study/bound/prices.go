package bound

import (
	"math"
	"math/bits"
	"slices"

	"godwit/mem"
)

// What a round moves, with a price on room in all memories together.
//
// A flow (circle.go) sees one memory. So what one writes and another reads next costs no more than its arrival there, though
// neither may have room for it in between, and it goes by way of the host. Here each piece of a buffer finds, alone, the
// cheapest way through the round: where its latest content lies behind each command that uses it. It pays for each
// copy its bytes, and for staying beside each command of a short memory the price of the room that it takes there. A
// schedule for ever takes no more room at any command than there is, so no schedule moves less than
//
//	sum over pieces of the cheapest way - sum over commands of room x price,
//
// whatever the prices are (Held and Karp: The Traveling-Salesman Problem and Minimum Spanning Trees, 1970, call them
// multipliers). Room has two prices. One is for bytes. The other is for blocks of the size that most bytes are in: of
// these no more stay than fit whole (a rounding cut, as Chvatal and Gomory have them); and nothing stays beside a command
// that leaves less than its size. Prices are searched for by the subgradient: what is wanted of the room by more than there is becomes dearer.

// mostMembers is of how many memories the ways of a piece are looked at together; where more use one, each is by itself, and
// nothing is charged for writing back.
const mostMembers = 4

// effort is how many steps from state to state a search takes, about.
const effort = 200_000_000

// priced is the question.
type priced struct {
	commands int
	sites    []site
	trails   []trail
}

// site is a memory of limited capacity.
type site struct {
	at    []int   // the commands that use it, ascending
	large float64 // bytes
	rows  [2]row  // by bytes, and by blocks of the large size
}

// row is one kind of room.
type row struct {
	room, price []float64 // by command that uses the memory: beside what that needs
	load, way   []float64 // what the cheapest ways take, and where the search goes
	sum         []float64 // prices of the commands before one, for two rounds; or loads
}

// trail is what becomes of a piece, from a command on behind which it is in certain places.
type trail struct {
	size    float64
	members []member // bit k of a state is member k; the bit behind them is any memory that is not short
	shared  bool     // others that are no members use it too
	events  []event  // the first begins it
	best    [][]step // by event and state
}

// member is a memory that uses a piece: a site, or -1.
type member struct {
	site   int
	rate   [2]float64 // what the piece takes of its rows
	closed []int      // how many commands, before one of two rounds, have no room for the piece
}

// event is a command that uses a piece, counted on into the next round.
type event struct {
	command       int
	reads, writes uint32 // members; others are written to as any that is not short
	dead          bool   // nobody needs what is there before it
}

// step is the cheapest way to a state: from another, with members that stay, or one that gives it to another at a command.
type step struct {
	cost            float64
	from, kept      uint32
	giver, receiver int
	at              int // 0 is that none does
}

func newPriced(store func(mem.MemoryID) mem.MemoryID, capacity []uint64, transient func(mem.BufferID) bool, commands int, pieces []piece) *priced {
	p, of := &priced{commands: commands}, make(map[mem.MemoryID]int)
	for m, c := range capacity {
		if id := mem.MemoryID(m); c > 0 && store(id) == id {
			of[id] = len(p.sites)
			p.sites = append(p.sites, newSite(id, c, commands, pieces))
		}
	}
	for i := range pieces {
		p.follow(&pieces[i], of, transient(pieces[i].buffer))
	}
	for i := range p.sites {
		p.round(i)
	}
	return p
}

func newSite(m mem.MemoryID, capacity uint64, commands int, pieces []piece) (s site) {
	needed := make(map[int]float64)
	for _, p := range pieces {
		for _, u := range p.uses {
			if u.memory == m {
				needed[u.command] += float64(p.size)
			}
		}
	}
	for at := range needed {
		s.at = append(s.at, at)
	}
	slices.Sort(s.at)
	for i := range s.rows {
		r := &s.rows[i]
		r.price, r.load, r.way, r.sum = make([]float64, len(s.at)), make([]float64, len(s.at)), make([]float64, len(s.at)), make([]float64, 2*commands+1)
		for _, at := range s.at {
			r.room = append(r.room, max(0, float64(capacity)-needed[at]))
		}
	}
	return s
}

// follow adds the trail of a piece, or one for each memory where it is of use to look at each by itself.
func (p *priced) follow(of *piece, sites map[mem.MemoryID]int, transient bool) {
	var ids []mem.MemoryID
	written := false
	for _, u := range of.uses {
		written = written || u.writes
		if !slices.Contains(ids, u.memory) {
			ids = append(ids, u.memory)
		}
	}
	if written && len(ids) <= mostMembers {
		p.add(of, ids, sites, transient)
		return
	}
	for i := range ids { // what nobody writes is always elsewhere, too
		p.add(of, ids[i:i+1], sites, transient)
	}
}

// add adds a trail of some memories.
func (p *priced) add(of *piece, ids []mem.MemoryID, sites map[mem.MemoryID]int, transient bool) {
	t := trail{size: float64(of.size)}
	for _, id := range ids {
		m := member{site: -1}
		if s, ok := sites[id]; ok {
			m.site = s
		}
		t.members = append(t.members, m)
	}
	var events []event
	for _, u := range of.uses {
		k := slices.Index(ids, u.memory)
		if k < 0 {
			k, t.shared = len(ids), true
		}
		if n := len(events); n == 0 || events[n-1].command != u.command {
			events = append(events, event{command: u.command, dead: transient})
		}
		e := &events[len(events)-1]
		if u.reads && k < len(ids) {
			e.reads |= 1 << k
		}
		if u.writes {
			e.writes |= 1 << k
		}
		e.dead = e.dead && e.reads == 0
	}
	t.shared = t.shared || !slices.ContainsFunc(events, func(e event) bool { return e.writes != 0 })
	first := slices.IndexFunc(events, func(e event) bool { return e.writes != 0 || t.shared && !transient && e.reads != 0 })
	if first < 0 {
		return
	}
	t.events = slices.Clone(events[first:])
	for _, e := range events[:first+1] {
		if e.command += p.commands; !transient {
			t.events = append(t.events, e)
		}
	}
	for range t.events {
		t.best = append(t.best, make([]step, 2*t.elsewhere()))
	}
	p.trails = append(p.trails, t)
}

// elsewhere is the bit of memories that are not short.
func (t *trail) elsewhere() uint32 { return 1 << len(t.members) }

// round rounds what room site n has to what whole pieces may take of it.
func (p *priced) round(n int) {
	s, unit, bytes := &p.sites[n], uint64(0), make(map[float64]float64)
	p.each(n, func(t *trail, _ *member) {
		if s.meets(t, p.commands) {
			unit = gcd(uint64(t.size), unit)
			bytes[t.size] += t.size
		}
	})
	most := 0.0
	for size, sum := range bytes {
		if sum > most || sum == most && size > s.large {
			most, s.large = sum, size
		}
	}
	for i, of := range [...]float64{float64(unit), s.large} {
		for k, room := range s.rows[i].room {
			if of > 0 {
				s.rows[i].room[k] = math.Floor(room/of) * of
			}
		}
	}
	closed := make(map[float64][]int)
	p.each(n, func(t *trail, m *member) {
		if m.rate[0] = t.size; s.large > 0 {
			m.rate[1] = math.Floor(t.size/s.large) * s.large
		}
		if closed[t.size] == nil {
			closed[t.size] = s.closedTo(t.size, p.commands)
		}
		m.closed = closed[t.size]
	})
}

// closedTo counts the commands that have no room for so many bytes.
func (s *site) closedTo(size float64, commands int) []int {
	count := make([]int, 2*commands+1)
	for k, at := range s.at {
		if s.rows[0].room[k] < size {
			count[at+1], count[at+commands+1] = 1, 1
		}
	}
	for i := 1; i < len(count); i++ {
		count[i] += count[i-1]
	}
	return count
}

// each calls do for the trails of site n.
func (p *priced) each(n int, do func(*trail, *member)) {
	for i := range p.trails {
		for k := range p.trails[i].members {
			if m := &p.trails[i].members[k]; m.site == n {
				do(&p.trails[i], m)
			}
		}
	}
}

// meets reports whether some command of the site lies between two events of a trail.
func (s *site) meets(t *trail, commands int) bool {
	for i, e := range t.events[1:] {
		for _, off := range [...]int{0, commands} {
			k, _ := slices.BinarySearch(s.at, t.events[i].command+1-off)
			if k < len(s.at) && s.at[k]+off < e.command {
				return true
			}
		}
	}
	return false
}

// between is the price of a member's room for the commands behind one, before another.
func (p *priced) between(m *member, from, to int) float64 {
	if m.site < 0 {
		return 0
	}
	if m.closed[to] > m.closed[from+1] {
		return math.Inf(1)
	}
	r := &p.sites[m.site].rows
	return m.rate[0]*(r[0].sum[to]-r[0].sum[from+1]) + m.rate[1]*(r[1].sum[to]-r[1].sum[from+1])
}

// cheapest finds the cheapest way of a trail at the prices.
func (p *priced) cheapest(t *trail) float64 {
	for _, steps := range t.best {
		for s := range steps {
			steps[s].cost = math.Inf(1)
		}
	}
	t.best[0][t.behind(0, t.events[0].reads)].cost = 0
	hold := make([]float64, len(t.members))
	for i := 1; i < len(t.events); i++ {
		for k := range hold {
			hold[k] = p.between(&t.members[k], t.events[i-1].command, t.events[i].command)
		}
		for s := range t.best[i-1] {
			for to := uint32(0); to < 2*t.elsewhere() && !math.IsInf(t.best[i-1][s].cost, 1); to++ {
				if st, ok := p.step(t, i, uint32(s), to, hold); ok && st.cost < t.best[i][t.behind(i, to)].cost {
					t.best[i][t.behind(i, to)] = st
				}
			}
		}
	}
	return t.last().cost
}

// last is the cheapest state at the end.
func (t *trail) last() *step {
	end := t.best[len(t.best)-1]
	best := &end[0]
	for i := range end {
		if end[i].cost < best.cost {
			best = &end[i]
		}
	}
	return best
}

// behind is where content is behind event i, if it was in s before.
func (t *trail) behind(i int, s uint32) uint32 {
	if e := &t.events[i]; e.writes != 0 {
		s = e.writes
	}
	if t.shared {
		s |= t.elsewhere()
	}
	return s
}

// step goes from state s behind an event to state to before event i.
func (p *priced) step(t *trail, i int, s, to uint32, hold []float64) (st step, ok bool) {
	e, elsewhere := &t.events[i], t.elsewhere()
	if to&e.reads != e.reads || to == 0 && !e.dead || s&elsewhere&^to != 0 {
		return st, false
	}
	st.from, st.cost = s, t.best[i-1][s].cost
	for m := to &^ (s & elsewhere); m != 0; m &= m - 1 { // each stays, or is brought
		if k := bits.TrailingZeros32(m); s>>k&1 == 1 && hold[k] <= t.size {
			st.kept |= 1 << k
			st.cost += hold[k]
		} else {
			st.cost += t.size
		}
	}
	if st.kept == 0 && to != 0 && to&elsewhere == 0 {
		p.cover(t, i, s, to, hold, &st)
	}
	return st, true
}

// cover has somebody hold the content from one event to the next, who would not by the price alone: one member, or one that gives it to another.
func (p *priced) cover(t *trail, i int, s, to uint32, hold []float64, st *step) {
	more := math.Inf(1)
	for m := s & to; m != 0; m &= m - 1 {
		if k := bits.TrailingZeros32(m); hold[k]-t.size < more {
			more, st.kept = hold[k]-t.size, 1<<k
		}
	}
	for a := s; a != 0; a &= a - 1 {
		for b := to; b != 0; b &= b - 1 {
			giver, receiver := bits.TrailingZeros32(a), bits.TrailingZeros32(b)
			if giver == receiver {
				continue
			}
			cost, at := p.hand(&t.members[giver], &t.members[receiver], t.events[i-1].command, t.events[i].command, more)
			if cost < more {
				more, st.kept, st.giver, st.receiver, st.at = cost, 0, giver, receiver, at
			}
		}
	}
	st.cost += more
}

// hand is the least price of one member's room up to a command and another's from there on; if it is below most.
func (p *priced) hand(a, b *member, from, to int, most float64) (cost float64, at int) {
	cost = math.Inf(1)
	for i := from + 1; i <= to; i++ {
		first := p.between(a, from, i)
		if first >= min(most, cost) {
			break
		}
		if c := first + p.between(b, i-1, to); c < cost {
			cost, at = c, i
		}
	}
	return cost, at
}

// carry adds to the loads what the cheapest way of a trail takes, as differences in the rows' sums.
func (p *priced) carry(t *trail) {
	st := t.last()
	for i := len(t.events) - 1; i > 0; i-- {
		from, to := t.events[i-1].command, t.events[i].command
		for k := range t.members {
			if st.kept>>k&1 == 1 {
				p.take(&t.members[k], from, to)
			}
		}
		if st.at > 0 {
			p.take(&t.members[st.giver], from, st.at)
			p.take(&t.members[st.receiver], st.at-1, to)
		}
		st = &t.best[i-1][st.from]
	}
}

func (p *priced) take(m *member, from, to int) {
	if m.site < 0 {
		return
	}
	for i := range p.sites[m.site].rows {
		sum := p.sites[m.site].rows[i].sum
		sum[from+1] += m.rate[i]
		sum[to] -= m.rate[i]
	}
}

// rows calls do for all kinds of room.
func (p *priced) rows(do func(s *site, r *row)) {
	for n := range p.sites {
		for i := range p.sites[n].rows {
			do(&p.sites[n], &p.sites[n].rows[i])
		}
	}
}

// value is what the prices prove. Loads are those of the cheapest ways.
func (p *priced) value() (v float64) {
	p.rows(func(s *site, r *row) {
		clear(r.sum)
		for k, at := range s.at {
			r.sum[at+1], r.sum[at+p.commands+1] = r.price[k], r.price[k]
			v -= r.price[k] * r.room[k]
		}
		accumulate(r.sum)
	})
	for i := range p.trails {
		v += p.cheapest(&p.trails[i])
	}
	p.rows(func(_ *site, r *row) { clear(r.sum) })
	for i := range p.trails {
		p.carry(&p.trails[i])
	}
	p.rows(func(s *site, r *row) {
		accumulate(r.sum)
		for k, at := range s.at {
			r.load[k] = r.sum[at] + r.sum[at+p.commands]
		}
	})
	return v
}

func accumulate(sum []float64) {
	for i := 1; i < len(sum); i++ {
		sum[i] += sum[i-1]
	}
}

// The search: steps are such that they would reach a value which is a part, gap, above the best one, if the way were straight
// (Polyak); the gap shrinks where nothing better was found for some steps. The way remembers half of where it went.
const (
	firstGap, lastGap = 0.2, 1e-4
	shrinks           = 1.2
	unlucky           = 40
	remembers         = 0.5
	dearest           = 4 // who does not stay pays its bytes at most twice
	mostSteps         = 6000
)

// search improves the prices, and returns the most that some prove.
func (p *priced) search() (best float64) {
	var kept [][]float64
	gap, idle := firstGap, 0
	for range min(mostSteps, effort/p.size()) {
		v := p.value()
		if idle++; v > best*(1+1e-6) {
			idle = 0
		}
		if v > best {
			best, kept = v, kept[:0]
			p.rows(func(_ *site, r *row) { kept = append(kept, slices.Clone(r.price)) })
		}
		if idle > unlucky && len(kept) > 0 {
			gap, idle = gap/shrinks, 0
			k := 0
			p.rows(func(_ *site, r *row) { copy(r.price, kept[k]); clear(r.way); k++ })
			v = p.value()
		}
		if gap < lastGap {
			break
		}
		p.improve(best*(1+gap) - v)
	}
	return best
}

// improve goes so far that the value would rise by more.
func (p *priced) improve(more float64) {
	norm := 0.0
	p.rows(func(_ *site, r *row) {
		for k := range r.way {
			r.way[k] = (1-remembers)*(r.load[k]-r.room[k]) + remembers*r.way[k]
			if r.price[k] > 0 || r.way[k] > 0 {
				norm += r.way[k] * r.way[k]
			}
		}
	})
	if norm == 0 {
		return
	}
	p.rows(func(_ *site, r *row) {
		for k := range r.way {
			r.price[k] = min(dearest, max(0, r.price[k]+more/norm*r.way[k]))
		}
	})
}

// size is how many steps from state to state a value takes.
func (p *priced) size() (n int) {
	for i := range p.trails {
		t := &p.trails[i]
		n += len(t.events) * int(t.elsewhere()*t.elsewhere())
	}
	return max(n, p.commands, 1)
}
