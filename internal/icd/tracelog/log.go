// Package tracelog writes down what runtime contexts do, for people: a line for
// every command, one for every copy it needed with the reason, and a summary
// that sets the bytes moved beside the fewest possible. libgodwit.so hangs it
// into each context it makes where GODWIT_TRACE, GODWIT_SUMMARY or GODWIT_RECORD is set.
//
// Its account of who wrote which bytes and where they are valid is its own: it
// is told what each command accesses and which copies were made, and asks the
// planner nothing, so that the lower bound is an independent one.
//
// Lock order: the runtime calls a sink under its context's planner lock; Log.mu
// is below it, and nothing is called while it is held but the writer and pictures, whose lock is a leaf.
package tracelog

import (
	"fmt"
	"io"
	"sync"

	"godwit/internal/ledger"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/bound"
	"godwit/study/page"
)

// Log collects the records of all contexts of a process. Safe for concurrent
// use.
type Log struct {
	mu       sync.Mutex
	w        io.Writer        // nil writes no lines; immutable, written to with mu held
	line     []byte           // protected by mu
	err      error            // the writer's first; protected by mu
	contexts int              // ever made; protected by mu
	buffers  int              // ever made; protected by mu
	pending  pending          // protected by mu
	short    []*sink          // contexts in which a memory was short; protected by mu
	sum      tally            // protected by mu
	clock    string           // that pictures are by; "" where none are wanted; protected by mu
	last     bool             // pictures keep the last alone; protected by mu
	pictures []*page.Recorder // protected by mu
}

// New returns an empty log that writes its lines to w, each command's in one
// Write, so that a program that dies leaves all of them; with a nil w it only
// counts.
func New(w io.Writer) *Log { return &Log{w: w, sum: newTally()} }

// Context returns a sink for a new runtime context whose memories have these
// names, the host's first, and capacities in bytes, 0 where there is no limit. Memories
// are taken to share no bytes.
func (l *Log) Context(memories []string, capacity []uint64) trace.CommandSink {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contexts++
	c := &sink{
		account: bound.New(mem.NewTopology(memories[1:]...), capacity, 0), counted: make(map[mem.BufferID]bool),
		log: l, number: l.contexts, names: memories,
		buffers: make(map[mem.BufferID]*account), ledger: ledger.New[writer](nil), late: make(map[mem.Point]lateStep),
	}
	l.line = fmt.Appendf(l.line[:0], "context %d:", c.number)
	for i, name := range memories {
		l.line = fmt.Appendf(l.line, " %d %s", i, name)
		l.sum.device(name, i)
	}
	l.write()
	l.begin(c, capacity)
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
	command uint64
	what    string // "fill", or a kernel's name
}

// initial wrote the content that a buffer was created with.
var initial = writer{what: "the initial content"}

// account is what is known of a buffer besides what the ledger has.
type account struct {
	BufferUse
	blocks map[mem.MemoryID][]mem.Range // apart from one another
}

// sink is one context's. Its methods are called under that context's planner
// lock, except Completed.
type sink struct {
	log    *Log     // immutable
	number int      // immutable
	names  []string // by MemoryID, immutable

	// Protected by log.mu.
	buffers map[mem.BufferID]*account
	ledger  *ledger.Ledger[writer]
	late    map[mem.Point]lateStep // not ended
	account *bound.Account         // what had to move
	counted map[mem.BufferID]bool  // buffers of which a count says how many bytes matter, and those with counts: not in account
	evicted bool                   // in log.short
	picture *page.Recorder         // nil where none is wanted; set before the sink is anybody's
}

// lateStep is a copy whose extent shows when it has ended: it is counted as a whole
// until then.
type lateStep struct {
	bytes   uint64 // planned
	counted uint64 // of them: without those that ride along
	link    *LinkUse
	of      *account
}

// Ends implements trace.CommandSink: lines tell what failed when it does; a summary looks by
// itself, now and then.
func (c *sink) Ends() trace.Ends {
	if c.log.w == nil && c.picture == nil {
		return trace.LateEnds
	}
	return trace.AllEnds
}

// Buffer implements trace.CommandSink.
func (c *sink) Buffer(b *trace.BufferRecord) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.Released {
		if a := c.buffers[b.Buffer]; a != nil {
			l.sum.keep(a)
			for m := range a.blocks {
				c.unstored(a, m, mem.Range{End: a.Size})
			}
			delete(c.buffers, b.Buffer)
			c.ledger.Release(b.Buffer)
			c.account.Release(b.Buffer)
			if c.picture != nil {
				c.picture.Buffer(b)
			}
			delete(c.counted, b.Buffer)
		}
		return
	}
	l.buffers++
	a := &account{BufferUse: BufferUse{Name: b.Name, Size: b.Size}}
	if a.Name == "" {
		a.Name = fmt.Sprintf("buffer %d", l.buffers)
	}
	var by writer
	if b.Version != 0 {
		by = initial
	}
	c.ledger.Create(b.Buffer, b.Size, by)
	_ = c.account.Create(b.Buffer, b.Size, b.Version != 0) // of an ID and a size that the runtime has checked
	c.buffers[b.Buffer] = a
	if c.picture != nil {
		named := *b
		named.Name = a.Name
		c.picture.Buffer(&named)
	}
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
	l.line = l.line[:0]
	if l.w != nil {
		c.describe(r, what)
	}
	if c.picture != nil {
		c.picture.Command(r)
	}
	c.evictions(r)
	if r.Err == nil || len(r.Regrows) > 0 {
		c.blocks(r.Blocks)
	}
	for i := range r.Regrows {
		l.sum.BytesRegrown += r.Regrows[i].Range.Size()
	}
	if r.Err == nil {
		l.sum.Compulsory += c.needed(r)
	}
	for i := range r.Steps {
		c.step(&r.Steps[i], r.Err == nil)
	}
	if r.Err == nil {
		c.ledger.Wrote(writer{r.ID, what}, r.Accesses, false)
		l.look(r.Point)
	}
	l.write()
}

// step counts a copy and notes its effect. accepted tells whether its command
// was; the steps of a refused one count where they were submitted.
func (c *sink) step(s *trace.StepRecord, accepted bool) {
	a := c.buffers[s.Buffer]
	if a == nil || s.Point.IsZero() {
		return
	}
	planned := s.Range.Size() - s.RideAlong
	link := c.log.sum.link(c.names[s.From], c.names[s.To], s.Way.String())
	c.log.sum.copied(link, planned, s.RideAlong, a)
	if !accepted {
		c.log.sum.Compulsory += planned
	}
	c.log.look(s.Point)
	if s.Late {
		c.late[s.Point] = lateStep{s.Range.Size(), planned, link, a}
	}
	c.ledger.Brought(s, 0, false)
}

// Completed implements trace.CommandSink.
func (c *sink) Completed(r *trace.CompletionRecord) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.picture != nil {
		c.picture.Completed(r)
	}
	if late, ok := c.late[r.Point]; ok {
		delete(c.late, r.Point)
		if n := r.Moved.Size(); r.Err == nil && n < late.bytes {
			l.sum.less(late, min(late.bytes-n, late.counted))
		}
	}
	if r.Err == nil || l.w == nil {
		return
	}
	l.sum.Failed++
	l.line = fmt.Appendf(l.line[:0], "%s#%d ended in an error: %v", c.prefix(), r.Command, r.Err)
	l.write()
}
