package scenario

import (
	"slices"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// homes says where bytes were written last, by the commands read so far: what a read without a queue asks.
type homes struct {
	done int                                 // commands that it knows
	on   map[int]*rangemap.Map[mem.MemoryID] // by root
}

// queueOf is the own queue of the memory where most of a place's bytes were written last.
func (h *homes) queueOf(s *Scenario, p place) int {
	if h.on == nil {
		h.on = make(map[int]*rangemap.Map[mem.MemoryID])
	}
	for ; h.done < len(s.Commands); h.done++ {
		c := &s.Commands[h.done]
		if c.kind().traits().unqueued || !c.queued() {
			continue
		}
		for _, u := range s.uses(c) {
			if u.mode.Writes() {
				h.of(s, u.buffer).Set(u.r, c.kind().memories(s, c)[0])
			}
		}
	}
	bytes := make([]uint64, len(s.Devices)+1)
	for r, m := range h.of(s, p.Buffer).In(p.Range) {
		bytes[*m] += r.Size()
	}
	name := "host"
	if m := slices.Index(bytes, slices.Max(bytes)); m > 0 {
		name = s.Devices[m-1].Name
	}
	return slices.IndexFunc(s.Queues, func(q queueDecl) bool { return q.Device == name && !q.OutOfOrder })
}

func (h *homes) of(s *Scenario, buffer int) *rangemap.Map[mem.MemoryID] {
	if h.on[buffer] == nil {
		m := rangemap.Make(s.Buffers[buffer].Size, mem.MemoryID(mem.Host))
		h.on[buffer] = &m
	}
	return h.on[buffer]
}
