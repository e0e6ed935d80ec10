package migration

import (
	"cmp"
	"iter"
	"slices"

	"godwit/mem"
)

// Run is commands of a round that follow each other on an in-order queue and that the queue may be given as one: with one
// list of waits, which is its first command's, and one end, which is its last one's. Nothing else in a steady round waits
// for what is between: a run is cut before a command that waits for another queue or a copy, and behind
// one that another queue, or a copy, waits for, of this round or the next.
type Run struct {
	Commands []int // ascending
	own      needs
}

// A run has at most mostRun commands, and at most as many as its queue was given before it in the round, but firstRun: other queues'
// commands are submitted behind it, and their devices may be idle until then.
const (
	firstRun = 4
	mostRun  = 16
)

// cuts are where runs have to be cut.
type cuts struct {
	r        *Round
	commands []RoundCommand
	begins   []bool // by command: it waits for somebody outside
	ends     []bool // by command: somebody outside waits for it
}

// join makes the runs of a round. A command that may not be one of several is one alone.
func (r *Round) join(commands []RoundCommand, inOrder []bool) {
	slices.SortFunc(r.left, func(a, b left) int {
		return cmp.Or(cmp.Compare(a.buffer, b.buffer), cmp.Compare(a.memory, b.memory), cmp.Compare(a.r.Start, b.r.Start))
	})
	c := cuts{r, commands, make([]bool, len(commands)), make([]bool, len(commands))}
	for i := range r.Ops {
		op := &r.Ops[i]
		c.look(op.Command, &op.own)
		for k := range op.each {
			c.look(-1, &op.each[k])
		}
	}
	run, open, given := make([]*Run, len(commands)), make([]*Run, len(inOrder)), make([]int, len(inOrder))
	r.Alone, r.Joined = make([]*Run, len(commands)), make([]*Run, len(commands))
	for i := range commands {
		q, own := commands[i].Queue, &r.Ops[r.at[i]].own
		r.Alone[i] = &Run{[]int{i}, *own}
		if x := open[q]; x == nil || c.begins[i] || !commands[i].Joins || len(x.Commands) == min(max(firstRun, given[q]-len(x.Commands)), mostRun) || c.overtakes(x, i) {
			open[q] = new(Run)
			r.Joined[i] = open[q]
			r.Runs++
		}
		run[i] = open[q]
		open[q].add(i, own, run)
		if given[q]++; c.ends[i] || !commands[i].Joins || !inOrder[q] {
			open[q] = nil
		}
	}
	told := make(map[*Run]bool)
	for _, i := range r.Last {
		if !told[run[i]] {
			told[run[i]] = true
			r.Ends = append(r.Ends, i)
		}
	}
}

// look cuts runs where a command, or a copy, which is -1, waits for others.
func (c *cuts) look(command int, n *needs) {
	for _, d := range n.nodes {
		c.waits(command, int(d.node))
	}
	for _, t := range n.touches {
		for node := range c.r.last(&c.r.touches[t]) {
			c.waits(command, int(node))
		}
	}
}

// waits cuts runs where a command, or a copy, waits for a node.
func (c *cuts) waits(command, node int) {
	of := func(i int) int { // its queue, or no queue's
		if i < 0 || i >= len(c.commands) {
			return -1
		}
		return c.commands[i].Queue
	}
	if q := of(node); q >= 0 && q == of(command) {
		return
	}
	if command >= 0 {
		c.begins[command] = true
	}
	if node < len(c.commands) {
		c.ends[node] = true
	}
}

// overtakes reports whether command i, given with a run, would be given before one that it may not change places with: of memories apart
// they do not wait for each other, yet the bytes have one latest content.
func (c *cuts) overtakes(x *Run, i int) bool {
	for k, n := x.Commands[0]+1, 1; k < i; k++ {
		if n < len(x.Commands) && x.Commands[n] == k {
			n++
		} else if c.commands[k].conflicts(&c.commands[i]) {
			return true
		}
	}
	return false
}

// conflicts reports whether two commands use bytes that one of them writes, or before which they have no content.
func (a *RoundCommand) conflicts(b *RoundCommand) bool {
	meet := func(a, b []mem.Access, anyway bool) bool {
		return slices.ContainsFunc(a, func(x mem.Access) bool {
			return slices.ContainsFunc(b, func(y mem.Access) bool {
				return x.Buffer == y.Buffer && x.Range.Overlaps(y.Range) && (anyway || x.Mode.Writes() || y.Mode.Writes())
			})
		})
	}
	return meet(a.Accesses, b.Accesses, false) || meet(a.Undefined, b.Accesses, true) || meet(a.Accesses, b.Undefined, true)
}

// last yields who in a steady round's last time has used the bytes of an access, as far as that waits for them.
func (r *Round) last(a *mem.Access) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		i, _ := slices.BinarySearchFunc(r.left, a, func(l left, a *mem.Access) int {
			return cmp.Or(cmp.Compare(l.buffer, uint32(a.Buffer)), cmp.Compare(l.memory, a.Memory), cmp.Compare(l.r.End, a.Range.Start+1))
		})
		for ; i < len(r.left); i++ {
			l := &r.left[i]
			if l.buffer != uint32(a.Buffer) || l.memory != a.Memory || l.r.Start >= a.Range.End {
				return
			}
			if l.writer >= 0 && !yield(l.writer) {
				return
			}
			for k := 0; a.Mode.Writes() && k < len(l.readers); k++ {
				if !yield(l.readers[k]) {
					return
				}
			}
		}
	}
}

// add adds a command, and what it needs of others; run has the runs of the commands before it. One need of each run is kept.
func (x *Run) add(i int, own *needs, run []*Run) {
	same := func(a, b int32) bool {
		return a == b || int(max(a, b)) < len(run) && run[a] == run[b]
	}
	for _, d := range own.nodes {
		if int(d.node) < len(run) && run[d.node] == x {
			continue
		}
		k := slices.IndexFunc(x.own.nodes, func(e dep) bool { return same(e.node, d.node) })
		if k < 0 {
			x.own.nodes = append(x.own.nodes, d)
		} else {
			x.own.nodes[k].kind = max(x.own.nodes[k].kind, d.kind)
		}
	}
	for _, t := range own.touches {
		if !slices.Contains(x.own.touches, t) {
			x.own.touches = append(x.own.touches, t)
		}
	}
	x.Commands = append(x.Commands, i)
}
