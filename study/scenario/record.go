package scenario

import (
	"sync"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/profile"
)

// recorder keeps what the runtime tells: a trace.CommandSink.
type recorder struct {
	mu       sync.Mutex
	buffers  []trace.BufferRecord   // protected by mu
	told     sync.Cond              // a completion has come; its L is mu
	commands []*trace.CommandRecord // by ID; protected by mu
	// What was evicted for a command that had to wait for the room, and was then tried again.
	tried       trace.CommandRecord                    // protected by mu
	completions profile.Points[trace.CompletionRecord] // protected by mu
	stopped     bool                                   // protected by mu: nothing is kept any more
}

func newRecorder() *recorder {
	r := &recorder{}
	r.told.L = &r.mu
	return r
}

// Ends implements trace.CommandSink: all.
func (r *recorder) Ends() trace.Ends { return trace.AllEnds }

// Buffer implements trace.CommandSink.
func (r *recorder) Buffer(b *trace.BufferRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !b.Released {
		r.buffers = append(r.buffers, *b)
	}
}

// Command implements trace.CommandSink. The record's slices are its caller's.
func (r *recorder) Command(c *trace.CommandRecord) {
	k := c.Clone()
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.Err != nil {
		r.tried.Evictions = append(r.tried.Evictions, k.Evictions...)
		r.tried.Regrows = append(r.tried.Regrows, k.Regrows...)
	} else {
		k.Evictions = append(r.tried.Evictions, k.Evictions...)
		k.Regrows = append(r.tried.Regrows, k.Regrows...)
		r.tried = trace.CommandRecord{}
	}
	if !r.stopped {
		for uint64(len(r.commands)) <= c.ID {
			r.commands = append(r.commands, nil)
		}
		r.commands[c.ID] = &k
	}
}

// Completed implements trace.CommandSink.
func (r *recorder) Completed(c *trace.CompletionRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.completions.Put(c.Point, *c)
		r.told.Broadcast()
	}
}

// stop has nothing more be kept, and returns what has ended without an error: how many
// commands, how many copies, and the bytes these moved, apart from those that nobody
// needed.
func (r *recorder) stop() (commands, copies int, moved, rode uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	count := func(steps []trace.StepRecord) {
		for i := range steps {
			if end := r.completions.At(steps[i].Point); !end.Point.IsZero() && end.Err == nil {
				copies++
				moved += end.Moved.Size() - steps[i].RideAlong
				rode += steps[i].RideAlong
			}
		}
	}
	for _, c := range r.commands {
		if c == nil {
			continue
		}
		if end := r.completions.At(c.Point); !end.Point.IsZero() && end.Err == nil {
			commands++
		}
		count(c.Steps)
		for i := range c.Evictions {
			count(c.Evictions[i].Backs)
		}
	}
	r.commands, r.completions = nil, profile.Points[trace.CompletionRecord]{}
	return commands, copies, moved, rode
}

// failed reports whether a point was reached by a failure.
func (r *recorder) failed(p mem.Point) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.completions.At(p).Err != nil
}

// last is the buffer that was made last.
func (r *recorder) last() mem.BufferID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buffers[len(r.buffers)-1].Buffer
}

// command returns the record of a command, or nil.
func (r *recorder) command(id uint64) *trace.CommandRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id < uint64(len(r.commands)) {
		return r.commands[id]
	}
	return nil
}

// ended returns how a point ended that has: the record may come a moment after
// those that wait for the point have gone on. Of others, and of no point, it is empty.
func (r *recorder) ended(p mem.Point) trace.CompletionRecord {
	if p.IsZero() || !p.Reached() {
		return trace.CompletionRecord{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if c := r.completions.At(p); !c.Point.IsZero() {
			return c
		}
		r.told.Wait()
	}
}

// sink is whom the runtime tells.
func (r *runner) sink() trace.CommandSink {
	if r.opt.Plain {
		return nil
	}
	if r.opt.Record == nil {
		return r.rec
	}
	memories := []trace.CommandMemory{{Name: "host"}}
	if r.model != nil {
		memories[0].Capacity = r.model.machine.Host.Memory
	}
	for i, name := range r.names[1:] {
		memories = append(memories, trace.CommandMemory{Name: name, Capacity: r.capacity(i)})
	}
	return trace.Tee(r.rec, r.opt.Record.Context(memories, r.s.WholeBelow))
}
