package scenario

import (
	"sync"

	"godwit/mem"
	"godwit/trace"
)

// recorder keeps what the runtime tells: a trace.CommandSink.
type recorder struct {
	mu          sync.Mutex
	buffers     []trace.BufferRecord                 // protected by mu
	told        sync.Cond                            // a completion has come; its L is mu
	commands    map[uint64]*trace.CommandRecord      // protected by mu
	completions map[mem.Point]trace.CompletionRecord // protected by mu
}

func newRecorder() *recorder {
	r := &recorder{
		commands:    make(map[uint64]*trace.CommandRecord),
		completions: make(map[mem.Point]trace.CompletionRecord),
	}
	r.told.L = &r.mu
	return r
}

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
	r.commands[c.ID] = &k
}

// Completed implements trace.CommandSink.
func (r *recorder) Completed(c *trace.CompletionRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.completions[c.Point] = *c
	r.told.Broadcast()
}

// failed reports whether a point was reached by a failure.
func (r *recorder) failed(p mem.Point) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.completions[p].Err != nil
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
	return r.commands[id]
}

// ended returns how a point ended that has: the record may come a moment after
// those that wait for the point have gone on.
func (r *recorder) ended(p mem.Point) trace.CompletionRecord {
	if !p.Reached() {
		return trace.CompletionRecord{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if c, ok := r.completions[p]; ok {
			return c
		}
		r.told.Wait()
	}
}
