package eviction

import (
	"slices"

	"godwit/mem"
)

// Script is a Future that was written down beforehand: what each command is going
// to access. It is read by any number of goroutines once it is complete.
type Script struct {
	topo   *mem.Topology
	events map[mem.BufferID][]event // by command
}

// event is what a command does to a buffer on a store.
type event struct {
	command       uint64
	store         mem.MemoryID
	reads, writes bool
}

// NewScript returns an empty one for memories of this topology.
func NewScript(topo *mem.Topology) *Script {
	return &Script{topo, make(map[mem.BufferID][]event)}
}

// Command says what command number n accesses. Numbers ascend.
func (s *Script) Command(n uint64, accesses []mem.Access) {
	for _, a := range accesses {
		e := event{n, s.topo.Store(a.Memory), a.Mode.Reads(), a.Mode.Writes()}
		events := s.events[a.Buffer]
		if last := len(events) - 1; last >= 0 && events[last].command == n && events[last].store == e.store {
			events[last].reads, events[last].writes = events[last].reads || e.reads, events[last].writes || e.writes
			continue
		}
		s.events[a.Buffer] = append(events, e)
	}
}

// horizon is how many uses of a buffer are looked at.
const horizon = 256

// Ahead implements Future. Of a buffer of which commands use different parts it
// knows no more than that they use it.
func (s *Script) Ahead(b mem.BufferID, m mem.MemoryID, now uint64) (a Ahead) {
	m = s.topo.Store(m)
	events := s.events[b]
	first, _ := slices.BinarySearchFunc(events, now, func(e event, n uint64) int {
		if e.command < n {
			return -1
		}
		return 1
	})
	same := true // the content is what it is now
	for _, e := range events[first:min(len(events), first+horizon)] {
		if e.store == m && a.Next == 0 {
			a.Next, a.Fetch = e.command, same && e.reads
		}
		if e.store != m && same && e.reads {
			a.Wanted = true
		}
		same = same && !e.writes
		if a.Next != 0 && (a.Wanted || !same) {
			break
		}
	}
	return a
}
