package bound

import (
	"cmp"
	"maps"
	"slices"

	"godwit/mem"
)

// Timed is a command of a round, with what it takes by itself.
type Timed struct {
	Queue    int   // commands of one queue come one after the other; negative: of none that is in order
	After    []int // earlier commands of the round that it waits for
	Takes    int64 // nanoseconds
	Accesses []mem.Access
}

// Copied is what a copy takes by itself, in nanoseconds: how long it holds what copies into its memory have one at
// a time, such as its device's only engine for that, and how much more until it ends.
type Copied struct{ Holds, Rest int64 }

// CriticalPath is how long a round of commands takes that is repeated for ever, in nanoseconds, where links and engines
// carry any number of copies at once: no way to copy is faster. A command follows those before it in
// its queue and in its wait list. It reads a version once that is on its memory: from where it is first, and as
// soon as users of the one before have left that memory. It writes where the version before is read no more. copied says what
// a copy takes by itself; what several copies hold that one command needs they have one after the other. Chains lead on into the next round, so it is the growth of the longest over
// some rounds, as by a recurrence over (max, +) (Baccelli and others, Synchronization and Linearity, 1992).
func CriticalPath(store func(mem.MemoryID) mem.MemoryID, commands []Timed, copied func(from, to mem.MemoryID, bytes uint64) Copied) float64 {
	p := newPace(store, commands, copied)
	const half = 16
	var middle, last int64
	for turn := range 2 * half {
		if turn == half {
			middle = last
		}
		for k := range commands {
			last = max(last, p.run(k))
		}
	}
	return float64(last-middle) / half
}

// pace is how far a repeated round has come.
type pace struct {
	store    func(mem.MemoryID) mem.MemoryID
	commands []Timed
	copied   func(from, to mem.MemoryID, bytes uint64) Copied
	pieces   map[mem.BufferID][]stretch // in order, cut where some access begins or ends
	queues   map[int]int64              // until when they run
	ended    []int64                    // commands
	version  int
	arrivals []arrival // of the command under way
}

// arrival is a copy for a command.
type arrival struct {
	to   mem.MemoryID
	from int64 // it can begin
	Copied
}

// stretch is some bytes that are used alike.
type stretch struct {
	mem.Range
	version int                    // 0 is what was there before the first round: everywhere
	held    map[mem.MemoryID]int64 // since when each memory has it
	used    map[mem.MemoryID]int64 // until when each memory's bytes are used
}

func newPace(store func(mem.MemoryID) mem.MemoryID, commands []Timed, copied func(from, to mem.MemoryID, bytes uint64) Copied) *pace {
	p := &pace{store, commands, copied, make(map[mem.BufferID][]stretch), make(map[int]int64), make([]int64, len(commands)), 0, nil}
	ends := make(map[mem.BufferID][]uint64)
	for i := range commands {
		for _, a := range commands[i].Accesses {
			ends[a.Buffer] = append(ends[a.Buffer], a.Range.Start, a.Range.End)
		}
	}
	for id, list := range ends {
		slices.Sort(list)
		list = slices.Compact(list)
		for i := 1; i < len(list); i++ {
			p.pieces[id] = append(p.pieces[id], stretch{mem.Range{Start: list[i-1], End: list[i]}, 0, nil, make(map[mem.MemoryID]int64)})
		}
	}
	return p
}

// of are the pieces of an access.
func (p *pace) of(a *mem.Access) []stretch {
	all := p.pieces[a.Buffer]
	at := func(off uint64) int {
		i, _ := slices.BinarySearchFunc(all, off, func(x stretch, off uint64) int { return int(int64(x.Start - off)) })
		return i
	}
	return all[at(a.Range.Start):at(a.Range.End)]
}

// run runs command k, and returns when it ends.
func (p *pace) run(k int) (end int64) {
	c := &p.commands[k]
	if c.Queue >= 0 {
		end = p.queues[c.Queue]
	}
	for _, i := range c.After {
		end = max(end, p.ended[i])
	}
	p.arrivals = p.arrivals[:0]
	for i := range c.Accesses {
		a := &c.Accesses[i]
		m := p.store(a.Memory)
		if a.Mode.Reads() {
			end = max(end, p.bring(p.of(a), m))
		}
		if a.Mode.Writes() {
			for _, x := range p.of(a) {
				end = max(end, x.used[m])
			}
		}
	}
	end = max(end, p.arrived()) + c.Takes
	p.version++
	for i := range c.Accesses {
		a := &c.Accesses[i]
		m, pieces := p.store(a.Memory), p.of(a)
		for j := range pieces {
			x := &pieces[j]
			x.used[m] = max(x.used[m], end)
			if a.Mode.Writes() {
				x.version, x.held = p.version, map[mem.MemoryID]int64{m: end}
			}
		}
	}
	if p.ended[k] = end; c.Queue >= 0 {
		p.queues[c.Queue] = end
	}
	return end
}

// bring copies to a memory what it lacks of some pieces, neighbours of one version at once, and returns since when it has all of them.
func (p *pace) bring(pieces []stretch, m mem.MemoryID) (at int64) {
	for i := 0; i < len(pieces); {
		x := &pieces[i]
		since, there := x.held[m]
		n := i + 1
		if x.version > 0 && !there {
			for n < len(pieces) && pieces[n].version == x.version && maps.EqualFunc(pieces[n].held, x.held, func(_, _ int64) bool { return true }) {
				n++
			}
			since = p.copy(pieces[i:n], m)
		}
		at, i = max(at, since), n
	}
	return at
}

// arrived is when the copies for a command have ended at the earliest, where they hold one thing one after the other: in the
// order in which they can begin.
func (p *pace) arrived() (end int64) {
	slices.SortFunc(p.arrivals, func(a, b arrival) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from)) })
	for i := 0; i < len(p.arrivals); {
		to, free, rest := p.arrivals[i].to, int64(0), p.arrivals[i].Rest
		for ; i < len(p.arrivals) && p.arrivals[i].to == to; i++ {
			a := &p.arrivals[i]
			free, rest = max(free, a.from)+a.Holds, min(rest, a.Rest)
		}
		end = max(end, free+rest)
	}
	return end
}

// copy copies pieces of one version to a memory, from where they get there first.
func (p *pace) copy(pieces []stretch, m mem.MemoryID) (end int64) {
	var from mem.MemoryID
	bytes, free := pieces[len(pieces)-1].End-pieces[0].Start, int64(0)
	for i := range pieces {
		free = max(free, pieces[i].used[m])
	}
	var by arrival
	for h, since := range pieces[0].held {
		x := arrival{m, max(since, free), p.copied(h, m, bytes)}
		if at := x.from + x.Holds + x.Rest; end == 0 || at < end || at == end && h < from {
			from, end, by = h, at, x
		}
	}
	p.arrivals = append(p.arrivals, by)
	for i := range pieces {
		pieces[i].held[m] = end
		pieces[i].used[from] = max(pieces[i].used[from], end)
	}
	return end
}
