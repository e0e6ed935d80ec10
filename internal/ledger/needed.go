package ledger

import (
	"slices"

	"godwit/internal/rangemap"
	"godwit/mem"
	"godwit/mem/trace"
)

// Needed is how many bytes had to move for a command: those that it reads, that
// have content, and that its memory does not hold, each once. No planner that
// decides at enqueue can move fewer. counted says how many bytes of its buffer a late
// copy found to matter, and whether that is known yet; where it is not, or is nil, all
// do.
func (l *Ledger[W]) Needed(c *trace.CommandRecord, counted func(*trace.StepRecord) (bytes uint64, known bool)) (bytes uint64) {
	reads := make([]read, 0, 8)
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Late {
			l.CountBy(s.Buffer, s.Count)
		}
		if s.Late && s.Count != 0 { // the count is read, on the host
			reads = append(reads, read{s.Count, countRange, l.store(mem.Host)})
		}
	}
	for _, u := range c.Accesses {
		if u.Mode.Reads() {
			reads = append(reads, read{u.Buffer, u.Range, l.store(u.Memory)})
		}
	}
	for i, u := range reads {
		a := l.buffers[u.buffer]
		if a == nil {
			continue
		}
		limit := a.latest.Size()
		for j := range c.Steps {
			s := &c.Steps[j]
			if s.Late && s.Count != 0 && s.Buffer == u.buffer && l.store(s.To) == u.memory && counted != nil {
				if n, known := counted(s); known {
					limit = min(limit, n)
				}
			}
		}
		u.bytes.End = min(u.bytes.End, limit)
		a.lacks(u.memory, u.memory == l.store(mem.Host), u.bytes, func(r mem.Range) {
			bytes += r.Size() - met(reads[:i], u, r)
		})
	}
	return bytes
}

// read is what a command reads, with the memory that stands for those of its bytes.
type read struct {
	buffer mem.BufferID
	bytes  mem.Range
	memory mem.MemoryID
}

// lacks yields the runs of bytes of r that have content which m does not hold.
func (a *account[W]) lacks(m mem.MemoryID, host bool, r mem.Range, yield func(mem.Range)) {
	if r.Empty() {
		return
	}
	var none W
	for segment, c := range a.latest.In(r) {
		if c.Writer == none || c.Valid.Has(m) {
			continue
		}
		for rest := segment; !rest.Empty(); {
			at := a.uniform(m, host, rest)
			if !a.stillHolds(m, at.Start, c.Writer) && !(host && a.isMapped(at.Start)) {
				yield(at)
			}
			rest.Start = at.End
		}
	}
}

// uniform is the beginning of r of which all bytes are held, brought and mapped alike.
func (a *account[W]) uniform(m mem.MemoryID, host bool, r mem.Range) mem.Range {
	if a.held[m] != nil {
		r.End = min(r.End, a.held[m].Get(r.Start).Range.End)
	}
	if a.part[m] != nil {
		r.End = min(r.End, a.part[m].Get(r.Start).Range.End)
	}
	for _, mapped := range a.mapped {
		for _, end := range []uint64{mapped.Start, mapped.End} {
			if host && end > r.Start && end < r.End {
				r.End = end
			}
		}
	}
	return r
}

// stillHolds reports whether m, which does not count as holding a byte, has what by
// wrote there all the same: a count that is no more in force did not leave it out.
func (a *account[W]) stillHolds(m mem.MemoryID, off uint64, by W) bool {
	if a.held[m] == nil || a.part[m] == nil {
		return false
	}
	return a.held[m].Get(off).Value == by && a.part[m].Get(off).Value == carried
}

func (a *account[W]) isMapped(off uint64) bool {
	return slices.ContainsFunc(a.mapped, func(r mem.Range) bool { return r.Start <= off && off < r.End })
}

// met is how many bytes of r an earlier read of the same command has brought to the
// same memory.
func met(earlier []read, u read, r mem.Range) (bytes uint64) {
	if !slices.ContainsFunc(earlier, func(e read) bool { return e.buffer == u.buffer && e.memory == u.memory }) {
		return 0
	}
	seen := rangemap.Make(r.End, false)
	for _, e := range earlier {
		if e.buffer == u.buffer && e.memory == u.memory {
			if part := e.bytes.Intersect(r); !part.Empty() {
				seen.Set(part, true)
			}
		}
	}
	for at, yes := range seen.All() {
		if *yes {
			bytes += at.Size()
		}
	}
	return bytes
}
