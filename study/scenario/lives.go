package scenario

import "godwit/mem"

// lives are the hints that the runtime is given of how long each root's blocks
// live, since a scenario says it beforehand: a buffer to the end of the run,
// shared virtual memory to its free. Where nothing is freed before the end there is
// nothing to place by, and no root has one.
//
// A root takes device memory at its first use on the device and gives it back at
// its free; a hint counts how often that happens in between, in the memory of the
// device that used the root first.
func (s *Scenario) lives() []mem.Hint {
	out := make([]mem.Hint, len(s.Buffers))
	clock := make(map[string]uint64)            // by device: blocks taken and given back so far
	born := make([]map[string]uint64, len(out)) // by root and device: the clock then
	home := make([]string, len(out))            // by root: the device that used it first
	frees := false
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.Kind == opFree {
			for _, p := range c.Places {
				if home[p.Buffer] != "" {
					out[p.Buffer] = mem.Lives(clock[home[p.Buffer]] - born[p.Buffer][home[p.Buffer]])
					frees = true
				}
				for device := range born[p.Buffer] {
					clock[device]++
				}
			}
			continue
		}
		if !c.queued() {
			continue
		}
		device := s.Queues[c.Queue].Device
		for _, u := range s.uses(c) {
			if _, has := born[u.buffer][device]; has {
				continue
			}
			if home[u.buffer] == "" {
				born[u.buffer], home[u.buffer] = make(map[string]uint64), device
			}
			born[u.buffer][device] = clock[device]
			clock[device]++
		}
	}
	for i := range out {
		switch {
		case !frees:
			out[i] = 0
		case out[i] == 0:
			out[i] = mem.Kept
		}
	}
	return out
}
