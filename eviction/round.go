package eviction

import (
	"math"
	"slices"

	"godwit/mem"
)

// Round is the policy of commands that are repeated for ever: belady, where what comes next
// goes round a circle. Writing back counts also where another memory reads the content later: it is written to
// the host mostly, and from there it has to go on. Time counts by its square root: of the powers tried (1/4, 1/2, 3/4, 1, 2, 8)
// that moved least (tests/graphs.TestLessMemoryThanData). Of a block that no command of the round uses it guesses that it is needed
// when as much time has gone by as since its last use, and the round has ended.
type Round struct {
	commands uint64
	store    func(mem.MemoryID) mem.MemoryID
	events   map[mem.BufferID][]event // ascending by command
	at       uint64                   // the command that is being planned
}

// NewRound returns the policy of a round of so many commands, of which nothing is known yet. store is as for NewScript.
func NewRound(commands int, store func(mem.MemoryID) mem.MemoryID) *Round {
	return &Round{commands: uint64(commands), store: store, events: make(map[mem.BufferID][]event)}
}

// Command says what command n of the round, from 0, does to a buffer. Numbers ascend.
func (r *Round) Command(n int, a mem.Access) {
	r.events[a.Buffer] = append(r.events[a.Buffer], event{command: uint64(n), memory: r.store(a.Memory), reads: a.Mode.Reads(), writes: a.Mode.Writes()})
}

// At says which command is planned from now on.
func (r *Round) At(n int) { r.at = uint64(n) }

// Name is "belady".
func (r *Round) Name() string { return Belady }

// Score is seconds, or bytes where times are not known, for a byte's room.
func (r *Round) Score(now uint64, c *Candidate) float64 {
	a, known := r.ahead(c)
	if !known {
		return price(c, true, true) / math.Sqrt(float64(r.commands+now-c.Used))
	}
	until := float64(a.Until)
	if a.Until == 0 {
		until = math.MaxUint32
	}
	return price(c, true, a.Fetch) / math.Sqrt(until)
}

// ahead is what becomes of a block as the round goes on; known is false where no command of it uses the buffer.
func (r *Round) ahead(c *Candidate) (a Ahead, known bool) {
	events := r.events[c.Buffer]
	if len(events) == 0 {
		return a, false
	}
	m := r.store(c.Memory)
	v := view{memory: m, now: r.at - 1}
	first, _ := slices.BinarySearchFunc(events, r.at, func(e event, n uint64) int {
		if e.command < n {
			return -1
		}
		return 1
	})
	for i := range min(len(events), horizon) {
		e := events[(first+i)%len(events)]
		if first+i >= len(events) {
			e.command += r.commands
		}
		if v.see(&e) {
			break
		}
	}
	return v.Ahead, true
}
