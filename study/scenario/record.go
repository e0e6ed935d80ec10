package scenario

import (
	"sync"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/profile"
)

// record is what is kept of a command's trace.CommandRecord, whose fields it has: there may be a million.
type record struct {
	ID        uint64
	Memory    mem.MemoryID
	Op        string
	Accesses  []mem.Access
	Evictions []trace.EvictionRecord
	Blocks    []trace.BlockRecord
	Regrows   []trace.StepRecord
	Steps     []trace.StepRecord
	Waits     []mem.Wait // like those of steps only where recorder.waits
	Point     mem.Point
	Enqueued  int64
	Done      int64
}

// released is a root buffer that went before the command of that ID.
type released struct {
	id     mem.BufferID
	before uint64
}

// end is what is kept of a trace.CompletionRecord.
type end struct {
	Started, Ended int64
	Moved          mem.Range
	*endDetail     // nil where nothing has ended
}

// endDetail is what most ends have none of: they share plainEnd.
type endDetail struct {
	Err   error
	Count uint64
}

var plainEnd = new(endDetail)

// recorder keeps what the runtime tells: a trace.CommandSink.
type recorder struct {
	waits    bool // immutable: what commands and copies waited for is kept
	mu       sync.Mutex
	buffers  []trace.BufferRecord // protected by mu
	gone     []released           // in order; only where waits; protected by mu
	told     sync.Cond            // a completion has come; its L is mu
	commands []*record            // by ID; protected by mu
	// What was evicted for a command that had to wait for the room, and was then tried again.
	tried       record              // protected by mu
	completions profile.Points[end] // protected by mu
	stopped     bool                // protected by mu: nothing is kept any more
}

func newRecorder(waits bool) *recorder {
	r := &recorder{waits: waits}
	r.told.L = &r.mu
	return r
}

// Ends implements trace.CommandSink: all.
func (r *recorder) Ends() trace.Ends { return trace.AllEnds }

// Buffer implements trace.CommandSink.
func (r *recorder) Buffer(b *trace.BufferRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !b.Released:
		r.buffers = append(r.buffers, *b)
	case r.waits && !r.stopped:
		r.gone = append(r.gone, released{b.Buffer, uint64(len(r.commands))})
	}
}

// Command implements trace.CommandSink. The record's slices are its caller's.
func (r *recorder) Command(c *trace.CommandRecord) {
	k := r.keep(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Err != nil {
		r.tried.Evictions = append(r.tried.Evictions, k.Evictions...)
		r.tried.Regrows = append(r.tried.Regrows, k.Regrows...)
	} else {
		k.Evictions = append(r.tried.Evictions, k.Evictions...)
		k.Regrows = append(r.tried.Regrows, k.Regrows...)
		r.tried = record{}
	}
	if !r.stopped {
		for uint64(len(r.commands)) <= c.ID {
			r.commands = append(r.commands, nil)
		}
		r.commands[c.ID] = k
	}
}

// keep copies what is kept of a record.
func (r *recorder) keep(c *trace.CommandRecord) *record {
	few := *c
	few.Stored = nil
	if !r.waits {
		few.Waits = nil
	}
	few = few.Clone()
	bare := func(steps []trace.StepRecord) {
		for i := range steps {
			steps[i].Why = ""
			if !r.waits {
				steps[i].Waits = nil
			}
		}
	}
	bare(few.Steps)
	bare(few.Regrows)
	for i := range few.Evictions {
		bare(few.Evictions[i].Backs)
	}
	return &record{few.ID, few.Memory, few.Op, few.Accesses, few.Evictions, few.Blocks, few.Regrows, few.Steps, few.Waits, few.Point, few.Enqueued, few.Done}
}

// Completed implements trace.CommandSink.
func (r *recorder) Completed(c *trace.CompletionRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		e := end{c.Started, c.Ended, c.Moved, plainEnd}
		if c.Err != nil || c.Count != 0 {
			e.endDetail = &endDetail{c.Err, c.Count}
		}
		r.completions.Put(c.Point, e)
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
			if e, ok := r.endOf(steps[i].Point); ok && e.Err == nil {
				copies++
				moved += e.Moved.Size() - steps[i].RideAlong
				rode += steps[i].RideAlong
			}
		}
	}
	for _, c := range r.commands {
		if c == nil {
			continue
		}
		if e, ok := r.endOf(c.Point); ok && e.Err == nil {
			commands++
		}
		count(c.Steps)
		for i := range c.Evictions {
			count(c.Evictions[i].Backs)
		}
	}
	r.commands, r.completions = nil, profile.Points[end]{}
	return commands, copies, moved, rode
}

// failed reports whether a point was reached by a failure.
func (r *recorder) failed(p mem.Point) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, _ := r.endOf(p)
	return e.Err != nil
}

// endOf is how a point ended, and whether it has. mu is held, or nobody tells any more.
func (r *recorder) endOf(p mem.Point) (e end, ok bool) {
	if e = r.completions.At(p); e.endDetail == nil {
		return end{endDetail: plainEnd}, false
	}
	return e, true
}

// last is the buffer that was made last.
func (r *recorder) last() mem.BufferID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buffers[len(r.buffers)-1].Buffer
}

// command returns the record of a command, or nil.
func (r *recorder) command(id uint64) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id < uint64(len(r.commands)) {
		return r.commands[id]
	}
	return nil
}

// ended returns how a point ended that has: the record may come a moment after
// those that wait for the point have gone on. Of others, and of no point, it is empty.
func (r *recorder) ended(p mem.Point) end {
	if p.IsZero() || !p.Reached() {
		return end{endDetail: plainEnd}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if e, ok := r.endOf(p); ok {
			return e
		}
		r.told.Wait()
	}
}

// sink is whom the runtime tells.
func (r *runner) sink() trace.CommandSink {
	if r.opt.Plain {
		return nil
	}
	memories, capacity := []trace.CommandMemory{{Name: "host"}}, []uint64{0}
	if r.model != nil {
		memories[0].Capacity = r.model.machine.Host.Memory
	}
	for i, name := range r.names[1:] {
		memories, capacity = append(memories, trace.CommandMemory{Name: name, Capacity: r.capacity(i)}), append(capacity, r.capacity(i))
	}
	sinks := []trace.CommandSink{r.rec}
	if r.opt.Watch != nil {
		sinks = append(sinks, r.opt.Watch(r.clock(), r.names, capacity))
	}
	if r.opt.Record != nil {
		sinks = append(sinks, r.opt.Record.Context(memories, r.s.WholeBelow))
	}
	return trace.Tee(sinks...)
}
