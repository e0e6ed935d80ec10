package page

import (
	"maps"
	"slices"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// A Builder that is told of what goes on for long keeps its last events. What it forgets leaves its effect: on who holds
// what, and how full memories are.

// Keep has the builder keep so many of the last events at least, and twice as many at most.
func (b *Builder) Keep(most int) { b.most = most }

// forgotten is the writer of bytes whose event is not kept.
const forgotten = -2

// Copy is the builder as it is, to have its Run made beside it.
func (b *Builder) Copy() *Builder {
	c := *b
	c.points, c.ends, c.lanes = maps.Clone(b.points), maps.Clone(b.ends), maps.Clone(b.lanes)
	c.run.Events, c.run.Lanes = slices.Clone(b.run.Events), slices.Clone(b.run.Lanes)
	c.run.Buffers = slices.Clone(b.run.Buffers) // they are given places
	for i := range c.run.Lanes {
		l := &c.run.Lanes[i]
		l.Items, l.Levels = slices.Clone(l.Items), slices.Clone(l.Levels)
	}
	c.latest = nil
	for i := range b.latest {
		m := rangemap.Make(b.latest[i].Size(), content{})
		for r, v := range b.latest[i].All() {
			m.Set(r, *v)
		}
		c.latest = append(c.latest, m)
	}
	return &c
}

// forget forgets the first n events. What a Copy shares is replaced, and not changed.
func (b *Builder) forget(n int32) {
	r := &b.run
	for i := range n {
		if p := b.of[i]; !b.ended(i) {
			b.ends[p] = End{Ended: b.now} // as far as anybody will see
		}
		b.resolve(i)
	}
	cut := r.Events[n].Queued
	b.settle(n, cut)
	for _, p := range b.of[:n] {
		delete(b.ends, p)
		delete(b.points, p)
	}
	r.Events, b.of, b.waits = slices.Clone(r.Events[n:]), slices.Clone(b.of[n:]), slices.Clone(b.waits[n:])
	for p := range b.points {
		b.points[p] -= n
	}
	maps.DeleteFunc(b.ends, func(p mem.Point, e End) bool { return b.Event(p) < 0 && e.Ended < cut })
	r.Uses = later(r.Uses, n, func(u *use) *int32 { return &u.Event })
	for i := range r.Lanes {
		l := &r.Lanes[i]
		l.Items = later(l.Items, n, func(x *Item) *int32 { return &x.Event })
		if k := slices.IndexFunc(l.Levels, func(v level) bool { return v.At > cut }); k > 1 {
			l.Levels = slices.Clone(l.Levels[k-1:])
		} else if k < 0 && len(l.Levels) > 1 {
			l.Levels = slices.Clone(l.Levels[len(l.Levels)-1:])
		}
	}
	b.dropBuffers()
	b.dropLanes()
}

// later are those of a list whose events are kept, under their new numbers.
func later[T any](list []T, n int32, event func(*T) *int32) (out []T) {
	for _, x := range list {
		if e := event(&x); *e >= n {
			*e -= n
			out = append(out, x)
		}
	}
	return out
}

// settle takes the changes of the first n events, and of buffers before a time, as what was from the start.
func (b *Builder) settle(n int32, cut int64) {
	b.latest = b.unwritten()
	var keep []change
	for _, i := range b.inTime() {
		c := &b.changes[i]
		if c.event >= n || c.event < 0 && c.at >= cut {
			continue
		}
		at := b.time(i)
		b.latest[c.buffer].Update(c.r, func(_ mem.Range, was content) content {
			now := b.changed(c, was)
			if now.since = at; now.writer >= 0 {
				now.writer = forgotten
			}
			return now
		})
	}
	for _, c := range b.changes {
		if c.event < 0 && c.at >= cut {
			keep = append(keep, c)
		} else if c.event >= n {
			c.event -= n
			keep = append(keep, c)
		}
	}
	b.changes = keep
}

// renumber gives those of n that are used their places without the others, -1 to those.
func renumber(n int, used func(i int32) bool) (to []int32) {
	k := int32(0)
	for i := range int32(n) {
		if used(i) {
			to = append(to, k)
			k++
		} else {
			to = append(to, -1)
		}
	}
	return to
}

// kept are those of a list that have a place.
func kept[T any](list []T, to []int32) (out []T) {
	for i := range list {
		if to[i] >= 0 {
			out = append(out, list[i])
		}
	}
	return out
}

// dropBuffers forgets released buffers that nothing names.
func (b *Builder) dropBuffers() {
	r, used := &b.run, make(map[int32]bool)
	for _, at := range b.buffers {
		used[at] = true
	}
	for i := range r.Events {
		used[r.Events[i].Buffer] = true
	}
	for i := range r.Uses {
		used[r.Uses[i].Buffer] = true
	}
	for i := range b.changes {
		used[b.changes[i].buffer] = true
	}
	to := renumber(len(r.Buffers), func(i int32) bool { return used[i] })
	moved := func(at *int32) {
		if *at >= 0 {
			*at = to[*at]
		}
	}
	r.Buffers, b.latest = kept(r.Buffers, to), kept(b.latest, to)
	for id, at := range b.buffers {
		b.buffers[id] = to[at]
	}
	for i := range r.Events {
		moved(&r.Events[i].Buffer)
	}
	for i := range r.Uses {
		moved(&r.Uses[i].Buffer)
	}
	for i := range b.changes {
		moved(&b.changes[i].buffer)
	}
	blocks := make(map[block][]mem.Range)
	for k, v := range b.blocks {
		if moved(&k.buffer); len(v) > 0 {
			blocks[k] = v
		}
	}
	b.blocks = blocks
}

// dropLanes forgets lanes, but of memories, in which nothing is.
func (b *Builder) dropLanes() {
	r, used := &b.run, make(map[int32]bool)
	for i := range r.Events {
		used[r.Events[i].home] = true
	}
	to := renumber(len(r.Lanes), func(i int32) bool {
		return used[i] || r.Lanes[i].Group == memoryLanes || len(r.Lanes[i].Items) > 0
	})
	r.Lanes = kept(r.Lanes, to)
	for key, at := range b.lanes {
		if b.lanes[key] = to[at]; to[at] < 0 {
			delete(b.lanes, key)
		}
	}
	for i := range r.Events {
		r.Events[i].home = to[r.Events[i].home]
	}
	for i := range b.memory {
		b.memory[i] = int(to[b.memory[i]])
	}
}
