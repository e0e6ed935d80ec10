package scenario

import (
	"godwit/eviction"
	"godwit/mem"
)

// policy is the scenario's; nil is the runtime's default, and "none".
func (r *runner) policy() (eviction.Policy, error) {
	return eviction.Foreseen(r.s.Policy, func() eviction.Policy { return eviction.NewBelady(r.foresee()) })
}

// caps are what the memory of real devices, and of a machine's, is to hold at most, in bytes; 0
// is all that it can. Simulated ones are made with what they hold.
func (r *runner) caps() []uint64 {
	out := make([]uint64, 1+len(r.s.Devices)) // the host's first
	for i := range r.s.Devices {
		if d := &r.s.Devices[i]; d.Driver == realDriver || r.opt.Machine != nil {
			out[i+1] = d.Memory
		}
	}
	return out
}

// future is what the scenario's commands are going to access. Buffers are known by
// their index + 1, and commands by theirs, too: whatever number the runtime gives
// them, the one that is being enqueued is the next.
type future struct {
	r      *runner
	script *eviction.Script
	index  map[mem.BufferID]mem.BufferID // of those that have been looked for
}

// foresee writes the scenario's commands down.
func (r *runner) foresee() *future {
	f := &future{r: r, script: eviction.NewScript(nil), index: make(map[mem.BufferID]mem.BufferID)}
	for i := range r.s.Commands {
		f.script.Command(uint64(i+1), r.s.accesses(&r.s.Commands[i]))
	}
	return f
}

// Ahead is what eviction.NewBelady asks.
func (f *future) Ahead(b mem.BufferID, m mem.MemoryID, _ uint64) eviction.Ahead {
	index, ok := f.index[b]
	for i := 0; !ok && i < len(f.r.ids); i++ {
		if f.r.ids[i] == b {
			index, ok = mem.BufferID(i+1), true
			f.index[b] = index
		}
	}
	return f.script.Ahead(index, m, uint64(len(f.r.events)+1))
}

// accesses are a command's, with buffers by index + 1.
func (s *Scenario) accesses(c *command) (out []mem.Access) {
	for _, u := range s.uses(c) {
		for _, m := range c.kind().memories(s, c) {
			out = append(out, mem.Access{Buffer: mem.BufferID(u.buffer + 1), Range: u.r, Mode: u.mode, Memory: m})
		}
	}
	return out
}

// memory is the memory of a device, or the host's.
func (s *Scenario) memory(name string) mem.MemoryID {
	for i := range s.Devices {
		if s.Devices[i].Name == name {
			return mem.MemoryID(i + 1)
		}
	}
	return mem.Host
}
