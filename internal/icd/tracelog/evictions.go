package tracelog

import (
	"fmt"

	"godwit/mem"
	"godwit/mem/trace"
)

// needed is how many bytes had to move for a command with memory without limits, and
// tells the account of it. c.log.mu is held.
func (c *sink) needed(r *trace.CommandRecord) (bytes uint64) {
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Late && s.Count != 0 {
			for _, id := range []mem.BufferID{s.Buffer, s.Count} {
				c.counted[id] = true
				c.account.Free(id)
			}
		}
	}
	before := c.account.Compulsory()
	_ = c.account.Command(r.Accesses) // of buffers that there are, as the planner has found
	for i := range r.Steps {
		if s := &r.Steps[i]; s.RideAlong > 0 {
			c.account.Along(s.Buffer, s.Range, s.To)
		}
	}
	bytes = c.account.Compulsory() - before
	if len(c.counted) == 0 {
		return bytes
	}
	rest := trace.CommandRecord{Steps: r.Steps}
	for _, u := range r.Accesses {
		if c.counted[u.Buffer] {
			rest.Accesses = append(rest.Accesses, u)
		}
	}
	return bytes + c.ledger.Needed(&rest, nil)
}

// evictions counts the blocks that went for a command, and the copies that wrote
// them back. c.log.mu is held.
func (c *sink) evictions(r *trace.CommandRecord) {
	l := c.log
	if len(r.Evictions) > 0 && !c.evicted {
		c.evicted = true
		l.short = append(l.short, c)
	}
	for i := range r.Evictions {
		v := &r.Evictions[i]
		if !v.Stayed() {
			l.sum.Evictions++
		}
		l.sum.BytesEvicted += v.Range.Size()
		l.sum.BytesDropped += v.Dropped
		l.sum.BytesWrittenBack += v.Fresh - v.Dropped
		c.blocks(v.Blocks)
		for j := range v.Backs {
			c.step(&v.Backs[j], true)
		}
	}
	for i := range r.Evictions {
		v := &r.Evictions[i]
		if v.Stayed() {
			continue
		}
		c.ledger.Evicted(v.Buffer, v.Memory, v.Range)
		if a := c.buffers[v.Buffer]; a != nil && v.Policy != trace.ByRegrow {
			c.unstored(a, v.Memory, v.Range)
		}
	}
}

// chosen says by whom a block was chosen, and why.
func chosen(policy, why string) string {
	if why == "" {
		return policy
	}
	return policy + ": " + why
}

// describeEvictions collects a line for each block that goes for a command.
func (c *sink) describeEvictions(r *trace.CommandRecord) {
	l := c.log
	for i := range r.Evictions {
		v := &r.Evictions[i]
		content := "it holds nothing that is up to date"
		switch back := v.Fresh - v.Dropped; {
		case v.Stayed():
			content = "a write-back was refused, so that it stays"
		case back > 0:
			content = fmt.Sprintf("of %s no other copy is known to be whole yet, and they are written back to %s", mem.FormatBytes(back), c.names[v.To])
		case v.Dropped > 0:
			content = "its content is elsewhere, too"
		}
		l.line = fmt.Appendf(l.line, "\n    evict %s from %s: room is needed; %s; %s", c.place(v.Buffer, v.Range), c.names[v.Memory], chosen(v.Policy, v.Why), content)
		for j := range v.Backs {
			s := &v.Backs[j]
			l.line = fmt.Appendf(l.line, "\n    copy %s, %s → %s%s: written back", c.place(s.Buffer, s.Range), c.names[s.From], c.names[s.To], way(s))
		}
	}
}
