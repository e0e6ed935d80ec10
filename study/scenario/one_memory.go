package scenario

import (
	"slices"

	"godwit/internal/rangemap"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/machine"
)

// To the runtime the memories of all hosts of a machine are one. So the way is missing from the times of what a device
// of one host leaves in the host's memory and a device of another takes from there: which buffers these are is said.

// hostMemory follows what devices leave in the hosts' memories.
type hostMemory struct {
	m     *machine.Machine
	sizes map[mem.BufferID]uint64
	left  map[mem.BufferID]*rangemap.Map[int] // by bytes: the host whose device left them there, from 1; 0 is each host's own
}

// oneMemory lists the buffers of which bytes went from one host to another by a memory that they do not share.
func (r *runner) oneMemory(res *Result) (names []string) {
	if r.ranks == nil {
		return nil
	}
	h := &hostMemory{r.model.machine, make(map[mem.BufferID]uint64), make(map[mem.BufferID]*rangemap.Map[int])}
	for i, id := range r.ids {
		h.sizes[id] = r.s.Buffers[i].Size
	}
	for _, i := range r.order() {
		rec := res.records[i]
		if rec == nil {
			continue
		}
		for _, id := range h.command(rec) {
			if name := r.x.names[id]; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// command follows a command, and returns the buffers of which its copies took what another host's device left.
func (h *hostMemory) command(c *record) (taken []mem.BufferID) {
	for i := range c.Evictions {
		taken = append(taken, h.copied(c.Evictions[i].Backs)...)
	}
	taken = append(taken, h.copied(c.Steps)...)
	for i := range c.Accesses {
		if a := &c.Accesses[i]; a.Mode.Writes() && h.left[a.Buffer] != nil {
			h.left[a.Buffer].Set(a.Range, 0)
		}
	}
	return taken
}

func (h *hostMemory) copied(steps []trace.StepRecord) (taken []mem.BufferID) {
	for i := range steps {
		s := &steps[i]
		switch left := h.left[s.Buffer]; {
		case s.To == mem.Host && s.From != mem.Host:
			if left == nil {
				m := rangemap.Make(h.sizes[s.Buffer], 0)
				left, h.left[s.Buffer] = &m, &m
			}
			left.Set(s.Range, h.m.HostOf(int(s.From))+1)
		case s.From == mem.Host && left != nil:
			for _, host := range left.In(s.Range) {
				if *host != 0 && *host != h.m.HostOf(int(s.To))+1 {
					taken = append(taken, s.Buffer)
				}
			}
		}
	}
	return taken
}
