package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"godwit/mem"
	"godwit/runtime"
	"godwit/study/machine"
	"godwit/study/profile"
)

// On a machine with several hosts, or several threads of the program's, the scenario is a program of ranks, as one of MPI is: each
// is a host thread that runs its part. A command is enqueued by the rank of its queue: that of its device, or the first of a
// host that the queue names; what is no command of a queue by the rank of the command before. Each rank enqueues its commands in the
// file's order, and then waits for them. It enqueues no command before those of other ranks that are before it
// in the file and conflict with it: which of both comes first is what the file means, and a rank would have to be told. That it
// is told takes no time. What is no plain command of a queue, such as a map, is enqueued after all before it and before all after it.

// ranks is the state of threads that enqueue.
type ranks struct {
	all      []machine.Rank
	of       []int     // by command: its rank
	needs    [][]int32 // by command: commands of other ranks that have to be enqueued before
	enqueued []bool    // by command
	order    []int     // commands, as they were enqueued; those that were not at the end
	threads  []int     // by rank: its thread's number
	last     int       // thread that ended last
	err      error     // the first
}

// rank finds out who enqueues what, and after what.
func (r *runner) rank() error {
	if r.model == nil {
		return nil
	}
	s, m := r.s, r.model.machine
	all, of := m.Ranks()
	if len(all) == 1 {
		return nil
	}
	if len(s.Graphs) > 0 && !s.Unrecorded {
		return at(s.File, s.Graphs[0].Line, "repeat: graph: %d threads of machine %s enqueue, and a graph is replayed by one", len(all), m.Name)
	}
	if s.Policy == "belady" {
		return fmt.Errorf("policy belady: it foresees commands in the file's order, and the %d threads of machine %s enqueue in theirs: %w", len(all), m.Name, mem.ErrInvalidValue)
	}
	k := &ranks{all: all, of: make([]int, len(s.Commands)), needs: make([][]int32, len(s.Commands)), enqueued: make([]bool, len(s.Commands)), threads: make([]int, len(all))}
	queues := make([]int, len(s.Queues))
	for i := range s.Queues {
		q := &s.Queues[i]
		queues[i] = of[s.memory(q.Device)]
		if q.Host == "" {
			continue
		}
		if queues[i] = slices.IndexFunc(all, func(r machine.Rank) bool { return r.Name == q.Host }); queues[i] < 0 {
			return at(s.File, q.Line, "queue %s: host %q: machine %s has none of this name", q.Name, q.Host, m.Name)
		}
	}
	o := newOrdering(r, k)
	for i := range s.Commands {
		if c := &s.Commands[i]; c.queued() {
			k.of[i] = queues[c.Queue]
		} else if i > 0 {
			k.of[i] = k.of[i-1]
		}
		o.add(i)
	}
	r.ranks = k
	return nil
}

// ordering finds out which commands conflict, in the file's order.
type ordering struct {
	s       *Scenario
	k       *ranks
	uses    [][]ranked // by buffer: those that later ones may conflict with
	latest  []int32    // by rank: its last command, -1 if none
	barrier int32      // the last command that all wait for; -1 if none
}

// ranked is a use by a command.
type ranked struct {
	command int32
	use
}

func newOrdering(r *runner, k *ranks) *ordering {
	o := &ordering{s: r.s, k: k, uses: make([][]ranked, len(r.s.Buffers)), latest: make([]int32, len(k.all)), barrier: -1}
	for h := range o.latest {
		o.latest[h] = -1
	}
	return o
}

// plain are the commands that conflict by what they use alone.
var plain = []op{opWrite, opRead, opCopy, opFill, opLaunch, opMigrate}

// add adds a command.
func (o *ordering) add(i int) {
	c := &o.s.Commands[i]
	if !slices.Contains(plain, c.Kind) {
		for _, last := range o.latest {
			o.need(i, last)
		}
		o.barrier = int32(i)
	}
	if o.barrier >= 0 {
		o.need(i, o.barrier)
	}
	for _, list := range [][]int{c.After, c.Order} {
		for _, a := range list {
			o.need(i, int32(a))
		}
	}
	for _, u := range o.s.uses(c) {
		o.used(i, u)
		if size := o.s.Buffers[u.buffer].SizeBuffer; size > 0 {
			o.used(i, use{buffer: size - 1, r: mem.Range{End: o.s.Buffers[size-1].Size}, mode: mem.Read})
		}
	}
	o.latest[o.k.of[i]] = int32(i)
}

// need has a command wait for another, unless that is of its own rank.
func (o *ordering) need(i int, other int32) {
	if other >= 0 && int(other) != i && o.k.of[other] != o.k.of[i] && !slices.Contains(o.k.needs[i], other) {
		o.k.needs[i] = append(o.k.needs[i], other)
	}
}

// used has a command wait for those that its use conflicts with. Uses are given up that a later one stands for: one that
// writes all their bytes, or that reads them on the same rank.
func (o *ordering) used(i int, u use) {
	list := &o.uses[u.buffer]
	*list = slices.DeleteFunc(*list, func(x ranked) bool {
		writes := u.mode.Writes()
		if (writes || x.mode.Writes()) && u.r.Overlaps(x.r) {
			o.need(i, x.command)
		}
		covered := u.rect == nil && u.r.Contains(x.r)
		return covered && (writes || !x.mode.Writes() && o.k.of[x.command] == o.k.of[i])
	})
	*list = append(*list, ranked{int32(i), u})
}

// turnOf is what a rank waits for.
type turnOf int

func (t turnOf) String() string {
	return fmt.Sprintf("the enqueue of what command #%d comes after", int(t)+1)
}

// enqueueByRanks enqueues commands, and waits for them, on a thread of each rank.
func (r *runner) enqueueByRanks(ctx context.Context, from, to int) error {
	k, fs := r.ranks, []func(){}
	r.events = append(r.events, make([]runtime.Event, to-from)...)
	for h := range k.threads {
		fs = append(fs, func() {
			k.threads[h] = r.model.world.On(k.all[h].Host)
			r.enqueueOf(ctx, h, from, to)
			k.last = k.threads[h]
		})
	}
	err := r.model.world.Threads(fs...)
	for i := from; i < to; i++ {
		if !k.enqueued[i] {
			k.order = append(k.order, i)
		}
	}
	return cmp.Or(err, k.err)
}

// order are the commands so far, in the order in which they were enqueued.
func (r *runner) order() (all []int) {
	if r.ranks != nil {
		return r.ranks.order
	}
	for i := range r.events {
		all = append(all, i)
	}
	return all
}

// enqueueOf enqueues a rank's commands, in order, and waits for them.
func (r *runner) enqueueOf(ctx context.Context, rank, from, to int) {
	k := r.ranks
	fails := func(err error) bool {
		if err != nil && (k.err == nil || errors.Is(k.err, mem.ErrPoisoned)) { // of what was refused for another's failure that one is told
			k.err = err
		}
		return k.err != nil
	}
	for _, step := range []func(i int) error{func(i int) error { return r.inTurn(ctx, i) }, func(i int) error { return r.waitCommand(ctx, i) }} {
		for i := from; i < to; i++ {
			if k.of[i] == rank && fails(step(i)) {
				return
			}
		}
	}
}

// inTurn enqueues a command when all has been enqueued that it comes after.
func (r *runner) inTurn(ctx context.Context, i int) error {
	k := r.ranks
	may := func() bool {
		return k.err != nil || !slices.ContainsFunc(k.needs[i], func(n int32) bool { return !k.enqueued[n] })
	}
	if err := r.model.world.Await(ctx, turnOf(i), may); err != nil || k.err != nil {
		return err
	}
	err := r.enqueueOne(ctx, i, func(e runtime.Event) { r.events[i] = e })
	k.enqueued[i] = true
	return err
}

// note notes that a command has been planned: before it is waited for, since others are planned meanwhile.
func (k *ranks) note(i int) {
	if k != nil {
		k.order = append(k.order, i)
	}
}

// path is the critical path of a period.
func (r *runner) path(rec *profile.Recorder, out *pathResult, of period) []profile.Part {
	k := r.ranks
	if k == nil {
		return rec.Path(of.from, of.to, 0, nil)
	}
	return rec.Path(of.from, of.to, k.last, func(s *profile.Span) int {
		if n := out.meaning(s).command; n > 0 {
			return k.threads[k.of[n-1]]
		}
		return k.last
	})
}
