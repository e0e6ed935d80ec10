package trace

import (
	"cmp"
	"slices"
	"sync"
)

// Recorder is a CommandSink that keeps everything, for explanations, timelines
// and tests. Safe for use from many goroutines.
type Recorder struct {
	mu          sync.Mutex
	buffers     []BufferRecord     // protected by mu
	commands    []CommandRecord    // protected by mu
	completions []CompletionRecord // protected by mu
}

var _ CommandSink = (*Recorder)(nil)

// Ends implements CommandSink: all.
func (r *Recorder) Ends() Ends { return AllEnds }

// Buffer implements CommandSink.
func (r *Recorder) Buffer(b *BufferRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buffers = append(r.buffers, *b)
}

// Command implements CommandSink.
func (r *Recorder) Command(c *CommandRecord) {
	kept := c.Clone()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands = append(r.commands, kept)
}

// Completed implements CommandSink.
func (r *Recorder) Completed(c *CompletionRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.completions = append(r.completions, *c)
}

// Buffers returns the creations and releases so far, in order.
func (r *Recorder) Buffers() []BufferRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.buffers)
}

// Commands returns the commands so far, in enqueue order.
func (r *Recorder) Commands() []CommandRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.commands)
}

// CommandsFrom is Commands without the first n.
func (r *Recorder) CommandsFrom(n int) []CommandRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.commands[min(n, len(r.commands)):])
}

// Completions returns the ends so far, in the order in which they were told.
func (r *Recorder) Completions() []CompletionRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.completions)
}

// BytesMoved is how many bytes the accepted steps bring to their destinations
// because a command needed them. Late steps count once they have ended.
func (r *Recorder) BytesMoved() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var n uint64
	for _, c := range r.commands {
		for _, s := range c.Steps {
			if !s.Point.IsZero() && !s.Late {
				n += s.Range.Size() - s.RideAlong
			}
		}
	}
	for _, e := range r.completions {
		if e.Step >= 0 && r.late(e) {
			n += e.Moved.Size()
		}
	}
	return n
}

// late reports whether the step that ended is late. mu is held.
func (r *Recorder) late(e CompletionRecord) bool {
	i, ok := slices.BinarySearchFunc(r.commands, e.Command, func(c CommandRecord, id uint64) int { return cmp.Compare(c.ID, id) })
	return ok && r.commands[i].Steps[e.Step].Late
}
