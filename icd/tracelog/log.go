// Package tracelog writes down what runtime contexts do, for people: a line for
// every command, one for every copy it needed with the reason, and a summary
// that sets the bytes moved beside the fewest possible. libgodwit.so hangs it
// into each context it makes where GODWIT_TRACE or GODWIT_SUMMARY is set.
//
// Its account of who wrote which bytes and where they are valid is its own: it
// is told what each command accesses and which copies were made, and asks the
// planner nothing, so that the lower bound is an independent one.
//
// Lock order: the runtime calls a sink under its context's planner lock; Log.mu
// is below it, and nothing is called while it is held but the writer.
package tracelog

import (
	"fmt"
	"io"
	"sync"

	"godwit/mem"
	"godwit/mem/rangemap"
	"godwit/trace"
)

// Log collects the records of all contexts of a process. Safe for concurrent
// use.
type Log struct {
	mu       sync.Mutex
	w        io.Writer // nil writes no lines; protected by mu
	line     []byte    // protected by mu
	err      error     // the writer's first; protected by mu
	contexts int       // ever made; protected by mu
	buffers  int       // ever made; protected by mu
	sum      tally     // protected by mu
}

// New returns an empty log that writes its lines to w, each command's in one
// Write, so that a program that dies leaves all of them; with a nil w it only
// counts.
func New(w io.Writer) *Log { return &Log{w: w, sum: newTally()} }

// Context returns a sink for a new runtime context whose memories have these
// names, the host's first.
func (l *Log) Context(memories []string) trace.CommandSink {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contexts++
	c := &sink{log: l, number: l.contexts, names: memories, buffers: make(map[mem.BufferID]*account)}
	l.line = fmt.Appendf(l.line[:0], "context %d:", c.number)
	for i, name := range memories {
		l.line = fmt.Appendf(l.line, " %d %s", i, name)
		l.sum.device(name, i)
	}
	l.write()
	return c
}

// Err is the first error of writing lines.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// write writes the line collected. l.mu is held.
func (l *Log) write() {
	if l.w == nil || l.err != nil {
		return
	}
	l.line = append(l.line, '\n')
	_, l.err = l.w.Write(l.line)
}

// writer is who wrote bytes last.
type writer struct {
	command uint64 // 0 is nobody
	what    string // "fill", or a kernel's name; "" for the content a buffer was created with
}

// state is who wrote bytes last, and which memories hold them.
type state struct {
	by    writer
	valid mem.MemorySet
}

// account is what is known of a buffer.
type account struct {
	name   string
	bytes  rangemap.Map[state]
	stored mem.MemorySet // memories with storage for it
	moved  flow
}

// sink is one context's. Its methods are called under that context's planner
// lock, except Completed.
type sink struct {
	log     *Log     // immutable
	number  int      // immutable
	names   []string // by MemoryID, immutable
	buffers map[mem.BufferID]*account
}

// Buffer implements trace.CommandSink.
func (c *sink) Buffer(b *trace.BufferRecord) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.Released {
		if a := c.buffers[b.Buffer]; a != nil {
			l.sum.keep(a)
			for m := range a.stored.All() {
				l.sum.stored(c.names[m], -int64(a.bytes.Size()))
			}
			delete(c.buffers, b.Buffer)
		}
		return
	}
	l.buffers++
	a := &account{name: b.Name}
	if a.name == "" {
		a.name = fmt.Sprintf("buffer %d", l.buffers)
	}
	var s state
	if b.Version != 0 {
		s.valid = mem.SetOf(mem.Host)
	}
	a.bytes = rangemap.Make(b.Size, s)
	c.buffers[b.Buffer] = a
	l.sum.live[a] = struct{}{}
}

// Command implements trace.CommandSink.
func (c *sink) Command(r *trace.CommandRecord) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	what := r.Op
	if r.Kernel != "" {
		what = r.Kernel
	}
	l.sum.command(r)
	for _, b := range r.Blocks {
		if a := c.buffers[b.Buffer]; a != nil && !a.stored.Has(b.Memory) && r.Err == nil {
			a.stored = a.stored.With(b.Memory)
			l.sum.stored(c.names[b.Memory], int64(b.Bytes))
		}
	}
	l.line = l.line[:0]
	if l.w != nil {
		c.describe(r, what)
	}
	if r.Err == nil {
		l.sum.LowerBound += c.least(r.Accesses)
	}
	for i := range r.Steps {
		c.step(&r.Steps[i], r.Err == nil)
	}
	if r.Err == nil {
		for _, u := range r.Accesses {
			if a := c.buffers[u.Buffer]; a != nil && u.Mode.Writes() {
				a.bytes.Set(u.Range, state{writer{r.ID, what}, mem.SetOf(u.Memory)})
			}
		}
	}
	l.write()
}

// least is how many bytes a command reads that its memory does not hold, each
// counted once. The account is as it was before the command.
func (c *sink) least(accesses []mem.Access) (total uint64) {
	for i, u := range accesses {
		a := c.buffers[u.Buffer]
		if a == nil || !u.Mode.Reads() {
			continue
		}
		a.bytes.Overlap(u.Range, func(part mem.Range, s state) bool {
			if !s.valid.Empty() && !s.valid.Has(u.Memory) {
				total += part.Size() - counted(accesses[:i], u, part)
			}
			return true
		})
	}
	return total
}

// counted is how many bytes of part an earlier read of the same command has
// brought to the same memory.
func counted(earlier []mem.Access, u mem.Access, part mem.Range) uint64 {
	seen := rangemap.Make(part.End, false)
	for _, e := range earlier {
		if e.Buffer == u.Buffer && e.Memory == u.Memory && e.Mode.Reads() {
			seen.Set(e.Range.Intersect(part), true)
		}
	}
	var n uint64
	for r, yes := range seen.All() {
		if yes {
			n += r.Size()
		}
	}
	return n
}

// step counts a copy and notes its effect. accepted tells whether its command
// was; the steps of a refused one count where they were submitted.
func (c *sink) step(s *trace.StepRecord, accepted bool) {
	a := c.buffers[s.Buffer]
	if a == nil || s.Point.IsZero() {
		return
	}
	c.log.sum.step(s, c.names[s.From], c.names[s.To], &a.moved)
	if !accepted {
		c.log.sum.LowerBound += s.Range.Size() - s.RideAlong
	}
	a.bytes.Update(s.Range, func(_ mem.Range, b state) state {
		b.valid = b.valid.With(s.To)
		return b
	})
}

// Completed implements trace.CommandSink.
func (c *sink) Completed(r *trace.CompletionRecord) {
	if r.Err == nil {
		return
	}
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum.Failed++
	l.line = fmt.Appendf(l.line[:0], "%s#%d ended in an error: %v", c.prefix(), r.Command, r.Err)
	l.write()
}
