package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/mem"
	"godwit/migration"
)

// A replay of a graph. It is one acquisition of the planner lock: the entry is planned and carried out as a
// command's accesses are, then the round's copies and commands go to mover and queues, as they
// were prepared, and all of them are committed at once.

// errPlain is why a replay enqueues its commands one by one.
type errPlain string

func (e errPlain) Error() string { return string(e) }

// Replay has the effect of the recorded commands, enqueued one by one now, on the queues on which they were
// recorded: each starts after the events of the wait list, too, and fails where one of these
// failed. The event that it returns stands for a marker on q that ends after all of them,
// and fails where one of them does. What in says is copied before Replay returns.
//
// It fails, and nothing has happened, with mem.ErrInvalidValue where slots or values are not
// bound as they have to be, and like any enqueue where an object is gone or bytes that it
// reads were lost; with a *ReplayError where a command could not be enqueued: those before
// it stand. It waits for no command, but for room, as an enqueue does.
func (g *Graph) Replay(ctx context.Context, q *Queue, in Bindings, wait ...Event) (Event, error) {
	if err := errors.Join(q.made(), g.made()); err != nil {
		return Event{}, err
	}
	c := g.c
	if err := g.check(q, &in); err != nil {
		return Event{}, fmt.Errorf("replay: %w", err)
	}
	if err := c.inside(); err != nil {
		return Event{}, err
	}
	if err := q.over(ctx, opAhead); err != nil {
		return Event{}, err
	}
	c.by.Enter(devices.Enqueue)
	req := request{q: q, op: opAhead}
	defer func() { req.pages.free() }()
	run := replay{g: g, called: c.called()}
	var so tries
	for {
		e, err := run.replay(&req, &in, wait)
		if err == nil {
			return e, nil
		}
		if run.rest != nil {
			return run.enqueue(ctx, q, &in)
		}
		if err = c.again(ctx, &req, &so, err); err != nil {
			return Event{}, err
		}
	}
}

// check tests what can be tested without the lock.
func (g *Graph) check(q *Queue, in *Bindings) error {
	if q.c != g.c {
		return fmt.Errorf("queue %s is of context %s, the graph of %s: %w", q.name, q.c.name, g.c.name, mem.ErrInvalidContext)
	}
	if err := g.checkQueues(in.Queues); err != nil {
		return err
	}
	if n := len(in.Events); n != 0 && n != len(g.rec.commands) {
		return fmt.Errorf("room for %d events: the graph has %d commands: %w", n, len(g.rec.commands), mem.ErrInvalidValue)
	}
	if len(in.Slots) != len(g.rec.slots) {
		return fmt.Errorf("%d slots bound, of %d: %w", len(in.Slots), len(g.rec.slots), mem.ErrInvalidValue)
	}
	for i := range in.Slots {
		if err := g.checkSlot(in, i); err != nil {
			return err
		}
	}
	return g.checkMemory(in)
}

// checkMemory tests what is to take the place of recorded memory.
func (g *Graph) checkMemory(in *Bindings) error {
	for i := range in.Memory {
		m := &in.Memory[i]
		if m.Memory.rec != g.rec {
			return fmt.Errorf("memory %d is of another recording: %w", i, mem.ErrInvalidValue)
		}
		if n := len(g.rec.commands[m.Memory.command].req.data); len(m.Bytes) != n {
			return fmt.Errorf("memory %d has %d bytes, in place of %d: %w", i, len(m.Bytes), n, mem.ErrInvalidValue)
		}
	}
	return nil
}

// checkValues tests new values, by launches as they are now (SetLaunch). c.mu is held.
func (g *Graph) checkValues(in *Bindings) error {
	for i := range in.Values {
		v := &in.Values[i]
		if v.Value.rec != g.rec {
			return fmt.Errorf("replay: value %d is of another recording: %w", i, mem.ErrInvalidValue)
		}
		l := g.rec.commands[v.Value.command].launch
		if old := &l.Args[v.Value.arg]; v.Arg.kind != devices.ArgValue || len(v.Arg.value()) != len(old.value()) {
			return fmt.Errorf("replay: value %d: an argument by value of %d bytes is wanted: %w", i, len(old.value()), mem.ErrArgSize)
		}
		if err := v.Arg.check(v.Value.arg, l.Kernel); err != nil {
			return fmt.Errorf("replay: value %d: %w", i, err)
		}
	}
	return nil
}

// checkQueues tests queues that are to take the place of the recording's.
func (g *Graph) checkQueues(list []*Queue) error {
	if n := len(list); n != 0 && n != len(g.rec.queues) {
		return fmt.Errorf("%d queues, in place of %d: %w", n, len(g.rec.queues), mem.ErrInvalidValue)
	}
	for i, q := range list {
		switch err := q.made(); {
		case err != nil:
			return err
		case q.c != g.c:
			return fmt.Errorf("queue %s is of context %s, the graph of %s: %w", q.name, q.c.name, g.c.name, mem.ErrInvalidContext)
		case q.mem != g.rec.queues[i].mem:
			return fmt.Errorf("queue %s in place of queue %s, of another device: %w", q.name, g.rec.queues[i].name, mem.ErrInvalidDevice)
		}
	}
	return nil
}

// checkSlot tests binding number i.
func (g *Graph) checkSlot(in *Bindings, i int) error {
	s, b := in.Slots[i].Slot, in.Slots[i].Buffer
	if s.made() != nil || s.root.slot == nil || s.root.slot.rec != g.rec || s.root.slot.number >= len(g.rec.slots) || g.rec.slots[s.root.slot.number] != s {
		return fmt.Errorf("binding %d: no slot of this graph: %w", i, mem.ErrInvalidValue)
	}
	switch err := b.made(); {
	case err != nil:
		return fmt.Errorf("slot %s: %w", s.label(), err)
	case b.c != g.c:
		return fmt.Errorf("slot %s: buffer %s is of context %s: %w", s.label(), b.label(), b.c.name, mem.ErrInvalidContext)
	case b.root.slot != nil:
		return fmt.Errorf("slot %s: %w", s.label(), b.root.unbound())
	case b.Size() != s.Size():
		return fmt.Errorf("slot %s of %d bytes: buffer %s has %d: %w", s.label(), s.Size(), b.label(), b.Size(), mem.ErrInvalidValue)
	}
	_, err := s.view.Flags.Inherit(b.view.Flags)
	if of := s.root.slot; err == nil {
		if of.reads {
			err = b.view.Flags.HostReads()
		}
		if of.writes {
			err = errors.Join(err, b.view.Flags.HostWrites())
		}
		if b.view.Sub {
			err = errors.Join(err, b.view.CheckAlign(of.align))
		}
	}
	if err != nil {
		return fmt.Errorf("slot %s: buffer %s permits less: %w", s.label(), b.label(), err)
	}
	return nil
}

// replay is one replay under way.
type replay struct {
	g      *Graph
	called int64
	points []mem.Point // of the commands, when it goes on as plain.go has it: of those that were accepted; nil where none was
	rest   *plain      // how it does; nil where it need not
}

// replay is the whole path under the planner lock. Where it fails and the rest has to be enqueued one by one, rest says how.
func (r *replay) replay(req *request, in *Bindings, wait []Event) (Event, error) {
	c := r.g.c
	c.lock()
	defer c.unlock()
	e, err := r.prepared(req, in, wait)
	if err != nil && c.plainly(err) {
		c.sayKept(err)
		rest, fails := r.plainly(in, err)
		if fails != nil {
			return Event{}, fails
		}
		r.rest = rest
	}
	return e, err
}

// plainly reports whether a replay that fails so goes on command by command.
func (c *Context) plainly(err error) bool {
	var why errPlain
	return errors.As(err, &why) || (errors.Is(err, mem.ErrNoMemory) || errors.Is(err, mem.ErrNoHostMemory)) && !c.waits(err)
}

// prepared has the commands carried out as they were prepared. It fails with an errPlain, and points has what was accepted,
// where that cannot be. c.mu is held.
func (r *replay) prepared(req *request, in *Bindings, wait []Event) (Event, error) {
	g, c := r.g, r.g.c
	if err := r.begin(req.q, in, wait); err != nil {
		return Event{}, err
	}
	c.scratch.transfer.For = req.q.givesWay()
	if err := g.enter(req); err != nil {
		return Event{}, req.failed(err)
	}
	if !c.unflushed.Load() {
		c.unflushed.Store(true)
	}
	c.planner.Enter(&g.now, g.round)
	g.refresh()
	clear(g.now.Points)
	runs, last := g.round.Joined, g.round.Ends
	if g.apart(in) {
		runs, last = g.round.Alone, g.round.Last
	}
	for i := range g.round.Ops {
		op := &g.round.Ops[i]
		var err error
		if op.Command < 0 {
			err = g.ahead(req, op)
		} else if run := runs[op.Command]; run != nil {
			err = r.run(run, in.Events)
		}
		if err != nil {
			r.points = g.commitAccepted()
			return Event{}, errPlain(err.Error())
		}
	}
	c.planner.CommitRound(&g.now, g.round)
	g.figures.Replays++
	e, err := g.close(req.q, g.now.Points, last, g.user, r.called)
	if err != nil {
		return Event{}, replayError(len(g.rec.commands), nil, err)
	}
	return e, nil
}

// apart reports whether a replay's commands go to their queues one by one: somebody asks for the end of each, or a queue takes no runs.
func (g *Graph) apart(in *Bindings) bool {
	return len(in.Events) > 0 || g.c.tellsEnds() || slices.ContainsFunc(in.Queues, func(q *Queue) bool { return !q.runs() })
}

// runs reports whether the queue takes several commands as one.
func (q *Queue) runs() bool {
	_, ok := q.dev.(devices.Runner)
	return ok && q.inOrder && !q.profiling
}

// joins reports whether a recorded command may be one of a run.
func (k *recorded) joins() bool {
	does, ok := map[opcode]devices.Op{opLaunch: devices.OpLaunch, opCopy: devices.OpCopy, opFill: devices.OpFill}[k.req.op]
	return ok && k.req.q.runs() && k.req.q.dev.(devices.Runner).InRun(does)
}

// begin checks what the replay needs, and binds the slots. c.mu is held.
func (r *replay) begin(q *Queue, in *Bindings, wait []Event) (err error) {
	g, c := r.g, r.g.c
	if err := q.takes(); err != nil {
		return err
	}
	if err := g.alive(in.Queues); err != nil {
		return err
	}
	if g.user, err = c.events.appendWaits(g.user[:0], c, wait); err != nil {
		return err
	}
	if err := g.checkValues(in); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if err := g.bound.bind(in); err != nil {
		return err
	}
	switch {
	case g.plain != "":
		return errPlain(g.plain)
	case g.unended:
		return errPlain("transients hold content of a replay that goes on command by command")
	}
	for i, q := range in.Queues {
		if g.rec.queues[i].inOrder && !q.inOrder {
			return errPlain("an in-order queue is replaced by one that is out of order")
		}
	}
	return g.place()
}

// alive fails where something is gone that the commands name, which go to some queues or, where there are none, their own. c.mu is held.
func (g *Graph) alive(queues []*Queue) error {
	if g.closed {
		return fmt.Errorf("graph: %w", mem.ErrClosed)
	}
	if len(queues) == 0 {
		queues = g.queues
	}
	for _, q := range queues {
		if err := q.takes(); err != nil {
			return err
		}
	}
	for _, r := range g.rec.roots {
		if r.dropped {
			return r.unusable()
		}
	}
	for _, p := range g.programs {
		if p.closed {
			return fmt.Errorf("program %q was closed: %w", p.name, mem.ErrInvalidKernel)
		}
	}
	return nil
}

// takes fails where q cannot be given commands of a replay. c.mu is held.
func (q *Queue) takes() error {
	if err := q.live(); err != nil {
		return err
	}
	if q.recording.Load() != nil {
		return fmt.Errorf("queue %s records: %w", q.name, mem.ErrInvalidOperation)
	}
	return nil
}

// place fills in where the round's buffers are, or says why it does not apply. c.mu is held.
func (g *Graph) place() error {
	g.c.replaySeq++
	for i, r := range g.rec.roots {
		at := migration.Place{Buffer: r.id}
		if r.slot != nil {
			b := g.bound.buffers[r]
			r, at = b.root, migration.Place{Buffer: b.root.id, Off: b.view.Range.Start}
		}
		switch {
		case r.svm != nil:
			return errPlain("buffer " + r.label() + " is over shared virtual memory")
		case len(r.maps) > 0 && g.onHost[i]:
			return errPlain("buffer " + r.label() + " is mapped, and used on the host")
		case g.c.planner.Counts(at.Buffer):
			return errPlain("buffer " + r.label() + " has a content size, or is one")
		case r.replay == g.c.replaySeq:
			return errPlain("two buffers of the graph are one")
		}
		r.replay = g.c.replaySeq
		g.rebound = g.rebound || g.at[i] != r || g.now.Places[i] != at
		g.at[i], g.now.Places[i] = r, at
	}
	return nil
}

// enter has what the round reads of before it brought, and all blocks that it needs. c.mu is held.
func (g *Graph) enter(req *request) error {
	c, s := g.c, &g.c.scratch
	s.accs, s.spans = g.now.Entry(s.accs[:0], g.round), s.spans[:0]
	for _, n := range g.spans {
		s.spans = append(s.spans, g.now.Span(n))
	}
	if err := c.planner.Plan(&s.plan, s.accs, s.spans...); err != nil {
		if lost := (*migration.LostError)(nil); errors.As(err, &lost) {
			lost.Name = c.roots[lost.Buffer].label()
		}
		return err
	}
	s.points = s.points[:0]
	if err := c.store(req); err != nil {
		c.traceRefused(req, &borrowed{}, 0, err)
		return err
	}
	if err := c.submitSteps(&s.plan, true); err != nil {
		err = errors.Join(err, c.giveBack(&s.plan))
		g.traceAhead(req, err)
		return err
	}
	g.figures.Entry = 0
	for i := range s.plan.Steps {
		g.figures.Entry += s.plan.Steps[i].Bytes()
	}
	g.traceAhead(req, nil)
	s.wants, s.spans = s.wants[:0], s.spans[:0]
	return nil
}

// ahead submits copies of what the round has written. c.mu is held.
func (g *Graph) ahead(req *request, op *migration.RoundOp) error {
	c, s := g.c, &g.c.scratch
	c.planner.Prepare(&s.plan, &g.now, op)
	c.wantsLinks(&s.plan) // for later replays
	err := c.submitSteps(&s.plan, false)
	copy(g.now.Points[op.Node:], s.points)
	s.accs = append(s.accs[:0], s.plan.Accesses...)
	g.traceAhead(req, err)
	return err
}

// traceAhead tells the sink of copies that are no command's: under a number of their own, if
// there are some, or blocks came or went for them. c.mu is held.
func (g *Graph) traceAhead(req *request, err error) {
	c, s := g.c, &g.c.scratch
	if c.opts.Trace == nil || len(s.plan.Steps)+len(s.wants)+len(c.evicting.records)+len(c.evicting.regrows) == 0 {
		return
	}
	s.waits = s.waits[:0]
	c.commandSeq++
	c.traceCommand(req, nil, 0, 0, mem.Point{}, err)
}

// run submits the commands of a run. c.mu is held.
func (r *replay) run(run *migration.Run, events []Event) error {
	g, c, s := r.g, r.g.c, &r.g.c.scratch
	first := run.Commands[0]
	k := &g.bound.commands[first]
	req := &k.req
	s.user = append(s.user[:0], g.user...)
	if !req.q.inOrder {
		req.q.addOrder(req.op, k.listless)
	}
	s.waits = g.now.Waits(append(s.waits[:0], s.user...), run)
	cmd := g.command(run)
	cmd.Unobserved = len(events) == 0 && !c.tellsEnds()
	p, err := c.submitCommand(req, cmd)
	if err != nil {
		return err
	}
	for _, i := range run.Commands {
		g.now.Points[i] = p
	}
	if req.op == opBarrier {
		req.q.barrier = p
	}
	for _, i := range run.Commands {
		c.commandSeq++
		if len(events) > 0 {
			events[i] = c.events.add(c, req.q, c.commandSeq, p)
		}
		if c.opts.Trace != nil || c.evicting.observer != nil {
			r.tell(g.round.Op(i), &g.bound.commands[i], p)
		}
	}
	return nil
}

// tell tells sink and policy of a command. c.mu is held.
func (r *replay) tell(op *migration.RoundOp, k *recorded, p mem.Point) {
	g, c, s := r.g, r.g.c, &r.g.c.scratch
	c.planner.Prepare(&s.plan, &g.now, op)
	if o := c.evicting.observer; o != nil && len(s.plan.Accesses) > 0 {
		c.hooks.call(&c.hooks.failed, func() { o.Observe(s.plan.Accesses) })
	}
	if c.opts.Trace != nil {
		s.accs, s.points = append(s.accs[:0], s.plan.Accesses...), s.points[:0]
		c.traceCommand(&k.req, k.launch, r.called, g.now.Versions[op.Command], p, nil)
	}
}

// commitAccepted commits what was accepted of a replay, one by one, and returns the points of the commands; nil where none was. In
// the order of the recording: what was accepted of several queues has nothing to do with what was not between it. c.mu is held.
func (g *Graph) commitAccepted() (points []mem.Point) {
	p, plan := g.c.planner, &g.c.scratch.plan
	for k := range g.round.Ops {
		op := &g.round.Ops[k]
		p.Prepare(plan, &g.now, op)
		if op.Command < 0 {
			for n := range plan.Steps {
				if at := g.now.Points[op.Node+n]; !at.IsZero() {
					p.CommitStep(plan, n, at)
				}
			}
		} else if at := g.now.Points[op.Command]; !at.IsZero() {
			p.Commit(plan, at)
			points = g.now.Points[:len(g.rec.commands)]
		}
	}
	return slices.Clone(points)
}

// placed is where a span is.
type placed struct {
	block mem.Block
	start uint64
}

// prepared is a command as its queue is given it. Where a block of the graph moves, or a slot or value of the command is
// another, a launch is patched, and what else there is made again.
type prepared struct {
	ready  bool
	cmd    *devices.Command
	run    *devices.Run // that it is given as, where it has the place of cmd
	args   []devices.Arg
	values []byte
}

// newPrepared has room for a round's commands.
func newPrepared(of *migration.Round) []prepared {
	list := make([]prepared, len(of.Joined))
	for _, x := range of.Joined {
		if x == nil {
			continue
		}
		cmds := make([]devices.Command, len(x.Commands))
		run := &devices.Run{Then: cmds[1:]}
		for k, i := range x.Commands {
			list[i].cmd, list[i].run = &cmds[k], run
		}
	}
	return list
}

// refresh brings the prepared commands up to where things are, and what values, now. c.mu is held.
func (g *Graph) refresh() {
	moved := false
	for i, n := range g.spans {
		r := g.at[n.Buffer]
		b, start := r.blockAt(n.Memory, n.Range.Start+g.now.Places[n.Buffer].Off)
		if now := (placed{*b, start}); now != g.blocks[i] {
			g.blocks[i] = now
			moved = moved || g.rec.roots[n.Buffer].slot == nil || !g.rebound
		}
	}
	for i := range g.prepared {
		if moved || g.rebound && g.bound.commands[i].slotted {
			g.repoint(i)
		}
	}
	g.rebound = false
	for _, list := range [...][]Value{g.changed, g.bound.changed} {
		for _, v := range list {
			if p := &g.prepared[v.command]; p.ready {
				copy(p.args[v.arg].Value, g.bound.commands[v.command].launch.Args[v.arg].value())
				p.run.Changed = true
			}
		}
	}
	g.changed = append(g.changed[:0], g.bound.changed...)
}

// repoint has a prepared launch use the blocks and slots of now; any other command is prepared anew. c.mu is held.
func (g *Graph) repoint(i int) {
	k, p := &g.bound.commands[i], &g.prepared[i]
	if k.launch == nil || !p.ready {
		p.ready = false
		return
	}
	m := g.c.topo.Store(k.req.q.mem)
	for n := range k.launch.Args {
		if b := k.launch.Args[n].buf; b != nil {
			k.req.q.point(&p.args[n], b, m)
		}
	}
	p.run.Changed = true
}

// command is what the queue of a run is given. c.mu is held.
func (g *Graph) command(run *migration.Run) *devices.Command {
	for _, i := range run.Commands {
		g.prepare(i)
	}
	p := &g.prepared[run.Commands[0]]
	if p.cmd.Run = nil; len(run.Commands) == 1+len(p.run.Then) && p.ready {
		p.cmd.Run = p.run
	}
	p.cmd.Tag = g.c.commandSeq + 1
	return p.cmd
}

// prepare sees that command i is ready. c.mu is held.
func (g *Graph) prepare(i int) {
	c, k, p := g.c, &g.bound.commands[i], &g.prepared[i]
	if !p.ready {
		c.command(&k.req, k.launch)
		p.keep(&c.scratch.cmd)
		c.forget()
		p.run.Form = nil
		p.ready = !k.req.op.usesHostMemory() // which may be page-locked since, or no more
	}
}

// keep copies a command.
func (p *prepared) keep(cmd *devices.Command) {
	*p.cmd = *cmd
	p.args, p.values = append(p.args[:0], cmd.Args...), p.values[:0]
	for i := range p.args {
		p.values = append(p.values, p.args[i].Value...)
	}
	rest := p.values
	for i := range p.args {
		if n := len(p.args[i].Value); n > 0 {
			p.args[i].Value, rest = rest[:n:n], rest[n:]
		}
	}
	p.cmd.Args = p.args
}

// close submits the marker that stands for a replay: it ends after all its commands, and fails
// where one of those does that nobody else would tell it of. c.mu is held.
func (g *Graph) close(q *Queue, points []mem.Point, last []int, user []mem.Wait, called int64) (Event, error) {
	c, s := g.c, &g.c.scratch
	s.accs, s.spans, s.wants = s.accs[:0], s.spans[:0], s.wants[:0]
	s.user = append(s.user[:0], user...)
	for _, i := range last {
		if p := points[i]; !p.Succeeded() {
			s.user = append(s.user, mem.Wait{Point: p, Kind: mem.Data})
		}
	}
	req := request{q: q, op: opMarker}
	if !q.inOrder {
		q.addOrder(opMarker, false)
	}
	if err := c.planner.Plan(&s.plan, nil); err != nil {
		return Event{}, err
	}
	p, err := c.execute(&req, nil)
	if err != nil {
		return Event{}, req.failed(err)
	}
	c.commandSeq++
	c.commit(&req, p)
	if c.opts.Trace != nil {
		c.traceCommand(&req, nil, called, 0, p, nil)
	}
	if q.how.NoEvent {
		return Event{}, nil
	}
	return c.events.add(c, q, c.commandSeq, p), nil
}
