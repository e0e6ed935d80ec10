package migration

import (
	"cmp"
	"fmt"
	"slices"

	"godwit/eviction"
	"godwit/mem"
)

// Eviction: blocks leave a memory that is short, so that what a plan wants fits
// there. The planner says which and how: it is told what fits and what must stay (Room),
// and which of the others is dearest (eviction.Policy). It changes nothing; whoever
// carries the Eviction out
//
//  1. gets the storage that the write-backs need, all or none,
//  2. submits the write-backs and commits each (CommitStep of Eviction.Backs),
//  3. takes each victim out (Evicted), and frees its block after the points that are
//     left (Points, asked before).
//
// Stopping before 3 is no error and needs no undoing: a write-back that was accepted
// makes a good copy.
//
// C10. What leaves is dropped where another memory holds it wholly, and
//
//   - by a point that has succeeded; or
//   - the copy was made of what that memory holds still, and so is not better, and is lost with
//     it. A memory on which a command wrote this content is one, however that ends, since all
//     others have it from there; or
//   - that memory's copy is being made of the one that leaves: it is the write-back.
//
// All else is written back first, also where another memory holds
// it by a mere promise: that promise may be broken, and the bytes were good. A write-back
// is a step: who reads its copy waits for it, and where it fails the bytes that are valid
// nowhere else any more are poisoned with its cause (Fail). A victim's space is given
// again together with the points of all that use it, the write-back's among them.
//
// In one Eviction a buffer's blocks leave one memory only: none is what another's content
// counts on, or where it is written back to.

// Eviction is what has to leave. One can be filled again and again, and then allocates
// nothing; the slices are valid until it is filled again.
type Eviction struct {
	Victims []Victim
	// Backs are the write-backs, and the storage that they need: a plan without a
	// command.
	Backs Plan
	// Stays says, where there is not enough that may go, what keeps the rest.
	Stays []stay
	// Asked says that nobody is going to carry it out: the order in which blocks would leave stays as it was.
	Asked bool
	// Told has victims say why (Victim.Why, Next). It changes nothing of who leaves.
	Told bool

	tried []Victim
}

// Victim is a block that leaves.
type Victim struct {
	eviction.Candidate
	To      mem.MemoryID // where what must be written back goes; it counts where Back is not 0
	Score   float64      // the policy's
	From, N int          // its steps: Backs.Steps[From:From+N]
	Part    bool         // of a block that stays until another takes its place (Regrow)
	Why     string       // what Score comes of, where Eviction.Told
	Next    *Victim      // the block that would have gone next, if one was near; it stays
}

// Dropped is how many bytes leave without being moved: another memory holds them.
func (v *Victim) Dropped() uint64 { return v.Fresh - v.Back }

// stay is a block that does not leave, and why.
type stay struct {
	Buffer mem.BufferID
	Memory mem.MemoryID
	Range  mem.Range // of the buffer
	Why    eviction.Why
	// At is where that keeps it which hangs on something (eviction.Hangs, OnCall): Memory,
	// or the memory that its bytes would be written back to.
	At mem.MemoryID
}

// Room is what the planner is told of memories. It is asked only within Evict, and must
// only look.
type Room interface {
	// Fits reports whether what the plan wants on m would fit there if the victims'
	// blocks were free.
	Fits(m mem.MemoryID, victims []Victim) bool
	// Takes reports whether m has room for what is written back, over and above what
	// the plan and wants need there, and nothing is made to leave for it.
	Takes(m mem.MemoryID, wants []Want, more Want) bool
	// Stays says what keeps a block that the planner does not know, such as a pin, where
	// victims are going already.
	Stays(v Victim, victims []Victim) eviction.Why
	// Hangs says whether a point ends only once the program does something: Hangs,
	// OnCall, or Goes.
	Hangs(p mem.Point) eviction.Why
}

// putBacks is how often Evict asks whether some victims may stay after all.
const putBacks = 16

// Evict fills dst with what has to leave the memories of short so that what plan wants
// there fits, and reports whether there is enough that may; at least so many blocks from
// each. The cheapest go first: by the policy, then the lowest ID. Of those that turn out
// not to help, the dearest stay. Where there is not enough, dst has no victims and
// Stays says why not. Nothing changes. What the plan uses stays; where old is set, but for
// the blocks that are to be exchanged for larger ones (Want): then the plan has to be made
// again.
func (p *Planner) Evict(dst *Eviction, plan *Plan, short []mem.MemoryID, least int, old bool, policy eviction.Policy, room Room) bool {
	p.begin(dst)
	p.markInUse(plan, old)
	ok := policy != nil
	for _, m := range short {
		if ok = ok && p.evictFrom(dst, m, short, least, policy, room); !ok {
			break
		}
	}
	if !ok {
		for _, m := range short {
			p.stays(dst, m, short, room)
		}
		dst.Victims = dst.Victims[:0]
		dst.Backs.reset()
		return false
	}
	p.planBacks(dst)
	return true
}

// begin empties dst for a new eviction.
func (p *Planner) begin(dst *Eviction) {
	dst.Victims, dst.Stays = dst.Victims[:0], dst.Stays[:0]
	dst.Backs.reset()
	p.evictions++
}

// markInUse marks the blocks that a plan uses, wherever they are, for the current eviction.
func (p *Planner) markInUse(plan *Plan, old bool) {
	for _, a := range plan.Accesses {
		p.mark(p.buffers[uint32(a.Buffer)], a.Range)
	}
	for _, n := range plan.spans { // a round's are more than what its entry accesses
		for k := range p.blocksIn(p.buffers[uint32(n.Buffer)].at(n.Memory), n.Range) {
			k.inUse = p.evictions
		}
	}
	for i := range plan.Storage { // counts, too
		w := &plan.Storage[i]
		p.mark(p.buffers[uint32(w.Buffer)], w.Range)
	}
	for i := 0; old && i < len(plan.Storage); i++ {
		w := &plan.Storage[i]
		for k := range p.blocksIn(p.buffers[uint32(w.Buffer)].at(w.Memory), w.Range) {
			k.inUse = 0
		}
	}
}

// mark marks the blocks that hold some of r, on all memories, as in use.
func (p *Planner) mark(b *buffer, r mem.Range) {
	for i := range b.stores {
		for k := range p.blocksIn(&b.stores[i], r) {
			k.inUse = p.evictions
		}
	}
}

// evictFrom adds victims on one memory.
func (p *Planner) evictFrom(dst *Eviction, m mem.MemoryID, short []mem.MemoryID, least int, policy eviction.Policy, room Room) bool {
	if m == mem.Host {
		return false
	}
	r := p.inOrder(m, policy, dst.Asked)
	defer r.restore()
	first := len(dst.Victims)
	for ask := 1; ; {
		v, ok := p.next(r)
		if ok {
			if p.mayLeave(dst, &v, short, room) != eviction.Goes {
				continue
			}
			dst.Victims = append(dst.Victims, v)
		}
		n := len(dst.Victims) - first
		if ok && (n < least || n < ask) {
			continue
		}
		if n >= least && room.Fits(m, dst.Victims[first:]) {
			break
		}
		if !ok {
			r.asking = false
			return false
		}
		if ask++; n >= 16 { // seldom, where there are many
			ask = n + n/4
		}
	}
	if dst.Told {
		p.tell(dst.Victims[first:], r, room)
	}
	r.asking = false
	dst.keep(first, least, func(victims []Victim) bool { return room.Fits(m, victims) })
	p.wantsOf(dst)
	return true
}

// wantsOf lists the storage that the write-backs need to the victims that are left.
func (p *Planner) wantsOf(dst *Eviction) {
	dst.Backs.Storage = dst.Backs.Storage[:0]
	for i := range dst.Victims {
		if v := &dst.Victims[i]; v.Back > 0 {
			p.wantBack(dst, v)
		}
	}
}

// wantBack lists the storage that a victim's write-back needs, if there is none.
func (p *Planner) wantBack(dst *Eviction, v *Victim) {
	b := p.buffers[uint32(v.Buffer)]
	if w := b.backWant(v, v.To); !b.inBlocks(v.To, v.Range) && !slices.Contains(dst.Backs.Storage, w) {
		dst.Backs.Storage = append(dst.Backs.Storage, w)
	}
}

// backWant is the storage that a victim's write-back to a memory needs.
func (b *buffer) backWant(v *Victim, to mem.MemoryID) Want {
	r := b.round(to, v.Range)
	return Want{Buffer: v.Buffer, Memory: to, Range: r, Span: r}
}

// inBlocks reports whether blocks of a memory hold all of r.
func (b *buffer) inBlocks(m mem.MemoryID, r mem.Range) bool {
	s := b.at(m)
	if s == nil {
		return false
	}
	for _, i := range s.blocks.In(r) {
		if *i == 0 {
			return false
		}
	}
	return true
}

// empty reports whether no block of a memory holds any of r.
func (p *Planner) empty(b *buffer, m mem.MemoryID, r mem.Range) bool {
	for range p.blocksIn(b.at(m), r) {
		return false
	}
	return true
}

// keep takes victims from number first on back that need not go: large parts of the
// dearest first.
func (e *Eviction) keep(first, least int, fits func([]Victim) bool) {
	asked := 0
	for size := (len(e.Victims) - first) / 2; size > 0; size /= 2 {
		for at := len(e.Victims) - size; at >= first && asked < putBacks; at -= size {
			if len(e.Victims)-first-size < least {
				break
			}
			e.tried = append(append(e.tried[:0], e.Victims[first:at]...), e.Victims[at+size:]...)
			asked++
			if fits(e.tried) {
				e.Victims = append(e.Victims[:first], e.tried...)
			}
		}
	}
}

// victim is a block as one that may leave.
func (p *Planner) victim(k *block) Victim { return Victim{Candidate: *p.candidate(k)} }

// id names a buffer, given its index.
func (b *buffer) id(index uint32) mem.BufferID {
	return mem.BufferID(b.generation)<<32 | mem.BufferID(index)
}

// seconds is the time of a copy between two memories, 0 where it is not known.
func (p *Planner) seconds(from, to mem.MemoryID, bytes uint64) float64 {
	if bytes == 0 {
		return 0
	}
	path := p.path(from, to, 1<<20, mem.Plain)
	t, _ := path.Time(bytes)
	return t
}

// worth is how many bytes of a range are valid in a store, and how many of these no other
// holds for certain.
func (b *buffer) worth(s *store, in mem.Range) (fresh, back uint64) {
	for r, v := range b.content.In(in) {
		if !v.valid.Has(s.memory) {
			continue
		}
		fresh += r.Size()
		if v.valid == mem.SetOf(s.memory) {
			back += r.Size()
			continue
		}
		for rest := r; !rest.Empty(); rest.Start = r.End {
			if r = rest; !b.certain(&r, v.valid, s.memory) {
				back += r.Size()
			}
		}
	}
	return fresh, back
}

// certain reports whether some memory of valid but m holds the start of r wholly, and no
// worse than m does (C10), and cuts r to where that is so, or is not.
func (b *buffer) certain(r *mem.Range, valid mem.MemorySet, m mem.MemoryID) bool {
	whole := *r
	own := b.at(m).hazards.Get(whole.Start)
	for i := range b.stores {
		s := &b.stores[i]
		if s.memory == m || !valid.Has(s.memory) {
			continue
		}
		at := s.hazards.Get(whole.Start)
		h := &at.Value
		end, ok := min(whole.End, at.Range.End), !h.step || h.writer.Succeeded()
		if !ok {
			end = min(end, own.Range.End)
			ok = own.Value.from == originOf(s.memory) || h.from == originOf(m) && !h.writer.Reached()
		}
		if s.held != nil {
			c := s.held.Get(whole.Start)
			end, ok = min(end, c.Range.End), ok && c.Value == nil
		}
		if r.End = min(r.End, end); ok {
			r.End = end
			return true
		}
	}
	return false
}

// mayLeave says what keeps a candidate, and where it is written back to.
func (p *Planner) mayLeave(dst *Eviction, v *Victim, short []mem.MemoryID, room Room) eviction.Why {
	b := p.buffers[uint32(v.Buffer)]
	if b.leaving == p.evictions && b.leavingFrom != v.Memory {
		return eviction.Leaving
	}
	if why := p.keeps(b, v, dst.Victims, room); why != eviction.Goes {
		return why
	}
	if v.Back > 0 {
		if s := b.at(v.Memory); s.held != nil && b.partlyBack(s, v.Range) {
			return eviction.Counted
		}
		if why := p.destination(dst, b, v, short, room); why != eviction.Goes {
			return why
		}
	}
	b.leaving, b.leavingFrom = p.evictions, v.Memory
	return eviction.Goes
}

// keeps says what keeps a block, but for where it could be written back to.
func (p *Planner) keeps(b *buffer, v *Victim, victims []Victim, room Room) eviction.Why {
	s := b.at(v.Memory)
	switch k := p.blockAt(s, v.Range.Start); {
	case k != nil && k.inUse == p.evictions:
		return eviction.InUse
	case v.Memory == mem.Host:
		return eviction.InPlace
	case b.host != nil:
		if b.host.retire(); len(b.host.maps)+len(b.host.undos) > 0 {
			return eviction.Mapped
		}
	}
	if why := room.Stays(*v, victims); why != eviction.Goes {
		return why
	}
	return p.hangs(s, v.Range, room)
}

// hangs says whether somebody who uses bytes of a store hangs on something.
func (p *Planner) hangs(s *store, r mem.Range, room Room) eviction.Why {
	for _, h := range s.hazards.In(r) {
		p.stepWaits.reset()
		p.using = s.order(p.using[:0], 0, h, &p.stepWaits)
		for _, w := range p.using {
			if why := room.Hangs(w.Point); why != eviction.Goes {
				return why
			}
		}
	}
	return eviction.Goes
}

// partlyBack reports whether a store holds only partly what would be written back.
func (b *buffer) partlyBack(s *store, in mem.Range) bool {
	for part, c := range s.held.In(in) {
		if *c == nil {
			continue
		}
		if _, back := b.worth(s, part); back > 0 {
			return true
		}
	}
	return false
}

// destination finds where a victim's bytes are written back to in the shortest time
// there and back: where the buffer is stored, or a memory that is not short and takes it.
// Where times are not known, the first that stores it, the host first, else the first that
// takes it. Where there is none it says why: NoRoom, unless the buffer is stored somewhere
// and what uses it there hangs on something.
func (p *Planner) destination(dst *Eviction, b *buffer, v *Victim, short []mem.MemoryID, room Room) eviction.Why {
	best, bestTime, found, none := mem.MemoryID(0), 0.0, false, eviction.NoRoom
	for _, stored := range []bool{true, false} {
		for d := range mem.MemoryID(p.topo.Len()) {
			if d == v.Memory || p.topo.Store(d) != d {
				continue
			}
			w := b.backWant(v, d)
			has := b.inBlocks(d, v.Range)
			switch {
			case stored != has:
				continue
			case has:
				if why := p.hangs(b.at(d), v.Range, room); why != eviction.Goes {
					if none != eviction.OnCall { // which ends by itself
						none, v.To = why, d
					}
					continue
				}
			case !has && !p.empty(b, d, w.Range):
				continue
			}
			back := mem.Range{Start: v.Range.Start, End: v.Range.Start + v.Back}
			there, known := p.time(b, v.Memory, d, back)
			again, _ := p.time(b, d, v.Memory, back)
			if found && !(known && there+again < bestTime) {
				continue
			}
			if !stored && !slices.Contains(dst.Backs.Storage, w) && (slices.Contains(short, d) || !room.Takes(d, dst.Backs.Storage, w)) {
				continue
			}
			if bestTime = there + again; !known {
				bestTime = 0
			}
			best, found = d, true
		}
	}
	if !found {
		return none
	}
	v.To = best
	p.wantBack(dst, v)
	return eviction.Goes
}

// writeBack plans the steps of one victim.
func (p *Planner) writeBack(dst *Plan, v *Victim) {
	v.From = len(dst.Steps)
	if v.Back == 0 {
		v.N = 0
		return
	}
	b := p.buffers[uint32(v.Buffer)]
	from, to := b.at(v.Memory), b.at(v.To)
	dst.groups = append(dst.groups, group{v.Buffer, v.To, v.Range.End, len(dst.Steps)})
	for r, held := range b.content.In(v.Range) {
		for rest := r; !rest.Empty() && held.valid.Has(v.Memory); rest.Start = r.End {
			if r = rest; b.certain(&r, held.valid, v.Memory) {
				continue
			}
			for off := r.Start; off < r.End; {
				st := dst.step()
				st.Buffer, st.From, st.To, st.legs = v.Buffer, v.Memory, v.To, p.legs(v.Memory, v.To)
				st.Reason = Reason{held.version, held.version, held.valid, forWriteBack}
				st.Range = mem.Range{Start: off, End: r.End}
				p.gate(dst, st, from, to)
				st.to = int32(len(dst.arena))
				off = st.Range.End
				dst.add(st)
			}
		}
	}
	v.N = len(dst.Steps) - v.From
}

// Holds lists the blocks on a memory, the largest first, with what keeps each there from
// the command of a plan, or, where that is nil, from all. The slice is valid until the next
// call.
func (p *Planner) Holds(dst *Eviction, plan *Plan, m mem.MemoryID, room Room) []stay {
	if p.begin(dst); plan != nil {
		p.markInUse(plan, false)
	}
	p.stays(dst, m, []mem.MemoryID{m}, room)
	dst.Backs.reset()
	return dst.Stays
}

// stays appends what is on a memory, and why it does not go.
func (p *Planner) stays(dst *Eviction, m mem.MemoryID, short []mem.MemoryID, room Room) {
	first := len(dst.Stays)
	for _, i := range p.residents[m] {
		v := p.victim(&p.blocks[i])
		b := p.buffers[uint32(v.Buffer)]
		why, at := p.keeps(b, &v, nil, room), m
		if why == eviction.Goes {
			if s := b.at(m); v.Back > 0 && s.held != nil && b.partlyBack(s, v.Range) {
				why = eviction.Counted
			} else if v.Back > 0 {
				if why = p.destination(dst, b, &v, short, room); why != eviction.NoRoom {
					at = v.To
				}
			}
		}
		dst.Stays = append(dst.Stays, stay{v.Buffer, m, v.Range, why, at})
	}
	slices.SortFunc(dst.Stays[first:], func(a, b stay) int {
		return cmp.Or(-cmp.Compare(a.Range.Size(), b.Range.Size()), cmp.Compare(a.Buffer, b.Buffer), cmp.Compare(a.Range.Start, b.Range.Start))
	})
}

// EvictBlocks fills dst with what has to be done so that a buffer's blocks leave a memory,
// whatever room there is; where one cannot, it says why, and none does. Nothing changes.
func (p *Planner) EvictBlocks(dst *Eviction, id mem.BufferID, m mem.MemoryID, room Room) (eviction.Why, error) {
	p.begin(dst)
	b, m, err := p.where(id, m)
	if err != nil {
		return eviction.Foreign, err
	}
	for k := range p.blocksIn(b.at(m), mem.Range{End: b.content.Size()}) {
		if why := p.addVictim(dst, p.victim(k), room); why != eviction.Goes {
			return why, nil
		}
	}
	p.planBacks(dst)
	return eviction.Goes, nil
}

// addVictim adds a victim that has to leave; where it cannot, it says why, and none does.
func (p *Planner) addVictim(dst *Eviction, v Victim, room Room) eviction.Why {
	short := [1]mem.MemoryID{v.Memory}
	why := p.mayLeave(dst, &v, short[:], room)
	if why == eviction.Goes {
		dst.Victims = append(dst.Victims, v)
	} else {
		p.begin(dst)
	}
	return why
}

// planBacks plans the write-backs of all victims.
func (p *Planner) planBacks(dst *Eviction) {
	for i := range dst.Victims {
		p.writeBack(&dst.Backs, &dst.Victims[i])
	}
	dst.Backs.finish()
	p.Reroute(&dst.Backs)
	dst.Backs.edits = p.edits
}

// Evicted takes a victim out whose write-backs, if it needs any, have all been
// committed: its memory holds nothing of the victim's range any more. The caller asks for
// Points before, and frees the block after them. No unmap that may yet be taken back
// counts on its bytes (keeps). A victim whose bytes would be valid nowhere is a bug in the
// caller, and panics.
func (p *Planner) Evicted(v *Victim) {
	b, m, err := p.where(v.Buffer, v.Memory)
	if err != nil {
		panic(fmt.Sprintf("migration: a victim that is none: %v", err))
	}
	b.content.Update(v.Range, func(r mem.Range, c content) content {
		if c.valid = c.valid.Without(m); c.version > 0 && c.poison == nil && c.valid.Empty() {
			panic(fmt.Sprintf("migration: %s on %s: bytes %v of version %d leave, and are nowhere else", bufferName(v.Buffer), p.topo.Name(m), r, c.version))
		}
		return c
	})
	if !v.Part {
		p.vacate(b, m, v.Range)
		if v.Range.Size() > b.was.Size() {
			b.was = v.Range
		}
	}
	p.edits++
	p.stats.Evictions++
	p.stats.BytesEvicted += v.Range.Size()
	p.stats.BytesDropped += v.Dropped()
	p.stats.BytesWrittenBack += v.Back
}

// Clock is how many commands were committed that access something.
func (p *Planner) Clock() uint64 { return p.clock }
