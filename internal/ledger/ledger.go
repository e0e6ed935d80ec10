// Package ledger keeps the books of a context from its trace: who wrote each byte
// of each buffer last, which memories hold that, and how many bytes each command
// needed that were not where it needed them. It asks the planner nothing, so that a
// wrong plan shows as a contradiction. The explanations of scenarios and of
// libgodwit.so, and their lower bounds, are read from it; random histories hold its
// bound against package oracle's, which counts bytes one by one.
// Both count what is brought to the memory of a command, under the rule that it runs there, and nothing of what
// reads and writes of user memory then carry to and from the host.
//
// It is told of commands in enqueue order, and of each in this order: Needed, then
// Brought for each step, then Wrote. State is kept in ranges: what has one writer
// and one set of holders is one entry.
package ledger

import (
	"iter"

	"godwit/internal/rangemap"
	"godwit/mem"
	"godwit/mem/trace"
)

// Content is who wrote bytes last, and the memories that hold what was written.
type Content[W comparable] struct {
	Writer W // the zero value is nobody
	Valid  mem.MemorySet
}

// Ledger has a context's buffers. W names writers. Not safe for concurrent use.
type Ledger[W comparable] struct {
	store   func(mem.MemoryID) mem.MemoryID
	buffers map[mem.BufferID]*account[W]
	sizes   map[mem.BufferID]int // size buffers: how many buffers' counts are there
}

// account is what is known of one buffer.
type account[W comparable] struct {
	latest rangemap.Map[Content[W]]
	held   map[mem.MemoryID]*rangemap.Map[W] // the writer of what it holds; nil is nothing
	mapped []mem.Range                       // by the host for writing

	count mem.BufferID                         // its size buffer, or 0
	part  map[mem.MemoryID]*rangemap.Map[part] // what is held as far as a count says
}

// part says of held bytes whether a count had a say when they were brought.
type part uint8

const (
	whole   part = iota
	carried      // below the count, so that they are there whatever the next count is
	beyond       // as good as there until the count gets another value
)

// New returns an empty ledger. store gives the one memory that stands for all that
// share its bytes (mem.Topology.Store); nil is that none do.
func New[W comparable](store func(mem.MemoryID) mem.MemoryID) *Ledger[W] {
	if store == nil {
		store = func(m mem.MemoryID) mem.MemoryID { return m }
	}
	return &Ledger[W]{store: store, buffers: make(map[mem.BufferID]*account[W]), sizes: make(map[mem.BufferID]int)}
}

// Create opens a buffer's account. by is who wrote the content it begins with,
// which is on the host; the zero value says that it has none.
func (l *Ledger[W]) Create(id mem.BufferID, size uint64, by W) {
	var none W
	a := &account[W]{latest: rangemap.Make(size, Content[W]{}), held: make(map[mem.MemoryID]*rangemap.Map[W])}
	if by != none {
		a.latest.Set(mem.Range{End: size}, Content[W]{by, mem.SetOf(mem.Host)})
		a.set(mem.Host, mem.Range{End: size}, by)
	}
	l.buffers[id] = a
}

// Release closes a buffer's account.
func (l *Ledger[W]) Release(id mem.BufferID) {
	l.CountBy(id, 0)
	delete(l.buffers, id)
}

// Segments yields the runs of bytes of r that have one content.
func (l *Ledger[W]) Segments(id mem.BufferID, r mem.Range) iter.Seq2[mem.Range, Content[W]] {
	return func(yield func(mem.Range, Content[W]) bool) {
		if a := l.buffers[id]; a != nil {
			a.latest.In(r)(func(at mem.Range, c *Content[W]) bool { return yield(at, *c) })
		}
	}
}

// Held yields the runs of bytes of r by the writer of what a memory holds of them,
// stale or not; the zero value is nothing.
func (l *Ledger[W]) Held(id mem.BufferID, m mem.MemoryID, r mem.Range) iter.Seq2[mem.Range, W] {
	return func(yield func(mem.Range, W) bool) {
		m = l.store(m)
		if a := l.buffers[id]; a == nil || a.held[m] == nil {
			var none W
			yield(r, none)
		} else {
			a.held[m].In(r)(func(at mem.Range, by *W) bool { return yield(at, *by) })
		}
	}
}

// Brought notes that a copy has brought what it was to bring. counted says how many
// bytes of the buffer a late copy found to matter; known is false where nobody can
// say yet.
func (l *Ledger[W]) Brought(s *trace.StepRecord, counted uint64, known bool) {
	a := l.buffers[s.Buffer]
	if a == nil {
		return
	}
	to := l.store(s.To)
	if !s.Late || s.Count == 0 {
		a.hold(to, s.Range)
		a.setPart(to, s.Range, whole)
		return
	}
	if !known {
		counted = 0
	}
	at := min(max(counted, s.Range.Start), s.Range.End)
	beyondIt := mem.Range{Start: at, End: s.Range.End}
	had := a.carriedBefore(to, beyondIt)
	a.hold(to, s.Range)
	a.setPart(to, mem.Range{Start: s.Range.Start, End: at}, carried)
	a.setPart(to, beyondIt, beyond)
	for _, r := range had {
		a.setPart(to, r, carried)
	}
}

// carriedBefore is what of r a memory has although a count leaves it out: copies under
// larger counts have brought it.
func (a *account[W]) carriedBefore(m mem.MemoryID, r mem.Range) (out []mem.Range) {
	if a.part[m] == nil {
		return nil
	}
	for rest := r; !rest.Empty(); {
		c := a.latest.Get(rest.Start)
		at := a.uniform(m, false, c.Range.Intersect(rest))
		if a.stillHolds(m, at.Start, c.Value.Writer) {
			out = append(out, at)
		}
		rest.Start = at.End
	}
	return out
}

// Wrote notes what a command wrote. Of one that failed nobody has what it was to
// write.
func (l *Ledger[W]) Wrote(by W, accesses []mem.Access, failed bool) {
	for _, u := range accesses {
		a := l.buffers[u.Buffer]
		if a == nil || !u.Mode.Writes() {
			continue
		}
		if failed {
			a.latest.Set(u.Range, Content[W]{Writer: by})
			continue
		}
		m := l.store(u.Memory)
		a.latest.Set(u.Range, Content[W]{by, mem.SetOf(m)})
		a.set(m, u.Range, by)
		for m := range a.part {
			a.setPart(m, u.Range, whole)
		}
		l.recount(u.Buffer, u.Range)
	}
}

// Evicted notes that a memory gave up its block of these bytes, after what was
// written back. It returns the bytes of content that nobody holds any more, which is
// none where the planner did right.
func (l *Ledger[W]) Evicted(id mem.BufferID, m mem.MemoryID, r mem.Range) (lost uint64) {
	a := l.buffers[id]
	if a == nil {
		return 0
	}
	m = l.store(m)
	a.latest.Update(r, func(at mem.Range, c Content[W]) Content[W] {
		if c.Valid.Has(m) && c.Valid.Len() == 1 {
			lost += at.Size()
		}
		c.Valid = c.Valid.Without(m)
		return c
	})
	a.setPart(m, r, whole)
	return lost
}

// Mapped notes that the host has mapped bytes for writing: until Unmapped none of
// them has to come to the host.
func (l *Ledger[W]) Mapped(id mem.BufferID, r mem.Range) {
	if a := l.buffers[id]; a != nil {
		a.mapped = append(a.mapped, r)
		l.recount(id, r)
	}
}

// Unmapped ends a map for writing of exactly these bytes.
func (l *Ledger[W]) Unmapped(id mem.BufferID, r mem.Range) {
	a := l.buffers[id]
	for i := range a.mapped {
		if a.mapped[i] == r {
			a.mapped = append(a.mapped[:i], a.mapped[i+1:]...)
			return
		}
	}
}

// CountBy makes size the size buffer of a buffer; 0 takes it away.
func (l *Ledger[W]) CountBy(id, size mem.BufferID) {
	if a := l.buffers[id]; a != nil && a.count != size {
		if l.sizes[a.count]--; l.sizes[a.count] <= 0 {
			delete(l.sizes, a.count)
		}
		if a.count = size; size != 0 {
			l.sizes[size]++
		}
		a.recount()
	}
}

// countRange is where a size buffer has the count.
var countRange = mem.Range{End: 8}

// recount notes that r of a buffer may hold another count from now on: it was
// written, or the host has mapped it for writing.
func (l *Ledger[W]) recount(id mem.BufferID, r mem.Range) {
	if !r.Overlaps(countRange) || len(l.sizes) == 0 || l.sizes[id] == 0 {
		return
	}
	for _, a := range l.buffers {
		if a.count == id {
			a.recount()
		}
	}
}

// recount takes those that hold bytes partly from those that hold them.
func (a *account[W]) recount() {
	for m, part := range a.part {
		for r, v := range part.All() {
			if *v == whole {
				continue
			}
			a.latest.Update(r, func(_ mem.Range, c Content[W]) Content[W] {
				c.Valid = c.Valid.Without(m)
				return c
			})
		}
	}
}

// set notes that what memory m holds of r is by's.
func (a *account[W]) set(m mem.MemoryID, r mem.Range, by W) {
	if a.held[m] == nil {
		var none W
		made := rangemap.Make(a.latest.Size(), none)
		a.held[m] = &made
	}
	a.held[m].Set(r, by)
}

// hold notes that memory m holds the latest content of r.
func (a *account[W]) hold(m mem.MemoryID, r mem.Range) {
	for at, c := range a.latest.In(r) {
		a.set(m, at, c.Writer)
	}
	a.latest.Update(r, func(_ mem.Range, c Content[W]) Content[W] {
		c.Valid = c.Valid.With(m)
		return c
	})
}

func (a *account[W]) setPart(m mem.MemoryID, r mem.Range, v part) {
	if r.Empty() || a.part[m] == nil && v == whole {
		return
	}
	if a.part == nil {
		a.part = make(map[mem.MemoryID]*rangemap.Map[part])
	}
	if a.part[m] == nil {
		made := rangemap.Make(a.latest.Size(), whole)
		a.part[m] = &made
	}
	a.part[m].Set(r, v)
}
