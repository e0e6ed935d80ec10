package eviction

import (
	"slices"

	"godwit/mem"
)

// Script is a future that was written down beforehand: what each command is going
// to access. Any number of goroutines may read it once it is complete.
type Script struct {
	store  func(mem.MemoryID) mem.MemoryID
	events map[mem.BufferID][]event // by command
}

// event is what a command does to a buffer on a memory.
type event struct {
	command       uint64
	memory        mem.MemoryID
	reads, writes bool
	ends          bool // the buffer, so that no memory needs it any more
}

// NewScript returns an empty script. store gives the one memory that stands for all
// that share its bytes (mem.Topology.Store); nil is that none do.
func NewScript(store func(mem.MemoryID) mem.MemoryID) *Script {
	if store == nil {
		store = func(m mem.MemoryID) mem.MemoryID { return m }
	}
	return &Script{store, make(map[mem.BufferID][]event)}
}

// Command says what command number n accesses. Numbers ascend.
func (s *Script) Command(n uint64, accesses []mem.Access) {
	for _, a := range accesses {
		s.events[a.Buffer] = append(s.events[a.Buffer], event{command: n, memory: s.store(a.Memory), reads: a.Mode.Reads(), writes: a.Mode.Writes()})
	}
}

// Release says that a buffer is released before command number n: its room comes back then.
func (s *Script) Release(n uint64, b mem.BufferID) {
	s.events[b] = append(s.events[b], event{command: n, writes: true, ends: true})
}

// horizon is how many uses of a buffer are looked at.
const horizon = 256

// Ahead is what NewBelady asks. Of a buffer of which commands use different parts it
// knows no more than that they use it.
func (s *Script) Ahead(b mem.BufferID, m mem.MemoryID, now uint64) Ahead {
	m = s.store(m)
	events := s.events[b]
	first, _ := slices.BinarySearchFunc(events, now, func(e event, n uint64) int {
		if e.command < n {
			return -1
		}
		return 1
	})
	v := view{memory: m, now: now - 1}
	for _, e := range events[first:min(len(events), first+horizon)] {
		if v.see(&e) {
			break
		}
	}
	return v.Ahead
}

// view makes an Ahead out of the events that come after command now.
type view struct {
	Ahead
	memory mem.MemoryID
	now    uint64
	gone   bool // the content is not what it is now
}

// see takes the next event, and reports whether all is known that is to be.
func (v *view) see(e *event) bool {
	if (e.memory == v.memory || e.ends) && v.Until == 0 {
		v.Until, v.Fetch = e.command-v.now, e.reads && !v.gone
	}
	v.Wanted = v.Wanted || e.memory != v.memory && e.reads && !v.gone
	v.gone = v.gone || e.writes
	return v.Until != 0 && (v.Wanted || v.gone)
}
