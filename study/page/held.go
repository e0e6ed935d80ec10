package page

import (
	"cmp"
	"slices"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// Who held the latest content of which bytes when: told from the trace anew. Changes are put in order of time; one that an
// earlier command made, in order of the plan, changes nothing of what a later one has written.

// changeKind is what happened to bytes.
type changeKind uint8

const (
	created changeKind = iota
	wrote              // memory has the latest
	arrived            // memory has it, too
	left               // memory has it no more
	gone               // so have all
)

// change is what happened to bytes of a buffer when an event ended, or at a time.
type change struct {
	event   int32 // -1 is none
	order   int   // in the plan
	at      int64
	kind    changeKind
	content bool // created with some
	buffer  int32
	r       mem.Range
	memory  mem.MemoryID
}

// change notes a change, in the order of the plan.
func (b *Builder) change(c change) {
	c.order = b.told
	b.told++
	b.changes = append(b.changes, c)
}

// content is what is latest of bytes, since a time.
type content struct {
	since  int64
	order  int // of the write, in the plan
	writer int32
	holds  mem.MemorySet
	any    bool // somebody wrote it
}

// holders makes the rectangles, in order of time, and the sets that they name.
func (b *Builder) holders() (out []held, sets []mem.MemorySet) {
	names := make(map[mem.MemorySet]int32)
	add := func(buffer int32, r mem.Range, c content, to int64) {
		if !c.any || to <= c.since {
			return
		}
		set, ok := names[c.holds]
		if !ok {
			set = int32(len(sets))
			names[c.holds], sets = set, append(sets, c.holds)
		}
		out = append(out, held{c.since, to, buffer, r, set, c.writer})
	}
	latest := b.unwritten()
	for _, i := range b.inTime() {
		c := &b.changes[i]
		latest[c.buffer].Update(c.r, func(r mem.Range, was content) content {
			now := b.changed(c, was)
			if now.holds == was.holds && now.writer == was.writer && now.any == was.any {
				return was
			}
			now.since = b.time(i)
			add(c.buffer, r, was, now.since)
			return now
		})
	}
	for i := range latest {
		for r, c := range latest[i].All() {
			add(int32(i), r, *c, b.run.End)
		}
	}
	slices.SortStableFunc(out, func(x, y held) int { return cmp.Compare(x.From, y.From) })
	return out, sets
}

// unwritten is what buffers hold before the first change that is kept.
func (b *Builder) unwritten() []rangemap.Map[content] {
	latest := slices.Clone(b.latest)
	for i := len(latest); i < len(b.run.Buffers); i++ {
		latest = append(latest, rangemap.Make(b.run.Buffers[i].Size, content{}))
	}
	return latest
}

// inTime are the changes that have come, in order of time, those of one time as they were planned.
func (b *Builder) inTime() []int {
	all := make([]int, 0, len(b.changes))
	for i := range b.changes {
		if c := &b.changes[i]; c.event < 0 || b.ended(c.event) {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(x, y int) int { return cmp.Compare(b.time(x), b.time(y)) })
	return all
}

// time is when a change came.
func (b *Builder) time(i int) int64 {
	if c := &b.changes[i]; c.event >= 0 {
		return b.run.Events[c.event].End
	} else if c.at > 0 {
		return c.at
	}
	return b.run.Begin
}

// changed is what bytes are after a change.
func (b *Builder) changed(c *change, was content) content {
	failed := c.event >= 0 && b.run.Events[c.event].Failed != ""
	if c.order < was.order && c.kind != gone {
		return was // it is of what has been written over
	}
	switch c.kind {
	case created:
		if c.content {
			return content{order: c.order, writer: -1, holds: mem.SetOf(mem.Host), any: true}
		}
	case wrote:
		now := content{order: c.order, writer: c.event, holds: mem.SetOf(c.memory), any: true}
		if failed {
			now.holds = mem.MemorySet{}
		}
		return now
	case arrived:
		if was.any && !failed {
			was.holds = was.holds.With(c.memory)
		}
	case left:
		was.holds = was.holds.Without(c.memory)
	case gone:
		return content{order: c.order}
	}
	return was
}
