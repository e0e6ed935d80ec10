package runtime

import (
	"context"
	"slices"

	"godwit/eviction"
	"godwit/mem"
)

// The plain route of a replay: its commands are enqueued one by one, each planned anew. It is
// taken where the round's plan does not apply (Graph.place), where its blocks do not
// fit at once, and from a command on that could not be submitted as prepared: a link may have been
// lost, or the driver's refusal is the command's own.

// instance are commands of a recording with slots and values of one replay.
type instance struct {
	from     []recorded
	commands []recorded
	handles  map[*Buffer]*Buffer // of slots: the recording's and this one's
	uses     []boundUse
	changed  []Value  // from what was recorded
	queues   []*Queue // that took the place of the recording's
}

// boundUse is a use of a slot.
type boundUse struct {
	u    *use
	slot *root
	r    mem.Range // of the slot
}

// newInstance copies commands.
func newInstance(from []recorded) *instance {
	in := &instance{from: from, commands: slices.Clone(from), handles: make(map[*Buffer]*Buffer)}
	for i := range in.commands {
		k, known := &in.commands[i], len(in.uses)
		k.uses = slices.Clone(k.uses)
		in.use(&k.req.a)
		in.use(&k.req.b)
		for n := range k.uses {
			in.use(&k.uses[n])
		}
		if k.slotted = len(in.uses) > known; k.launch == nil {
			continue
		}
		l := *k.launch
		k.launch, l.Args = &l, slices.Clone(l.Args)
		for n := range l.Args {
			if b := l.Args[n].buf; b != nil && b.root.slot != nil {
				l.Args[n].buf, k.slotted = in.handle(b), true
			}
		}
	}
	return in
}

// use makes a use of a slot this instance's.
func (in *instance) use(u *use) {
	if u.buf == nil || u.buf.root.slot == nil {
		return
	}
	in.uses = append(in.uses, boundUse{u, u.buf.root, u.r})
	u.buf = in.handle(u.buf)
}

func (in *instance) handle(of *Buffer) *Buffer {
	b := in.handles[of]
	if b == nil {
		b = &Buffer{c: of.c, root: of.root, view: of.view, refs: 1}
		in.handles[of] = b
	}
	return b
}

// bind puts the buffers and values of a replay in their places. c.mu is held.
func (in *instance) bind(to *Bindings) error {
	for i := range to.Slots {
		if err := to.Slots[i].Buffer.live(); err != nil {
			return err
		}
	}
	for of, b := range in.handles {
		with := to.buffer(of.root)
		b.root = with.root
		b.view.Range = of.view.Range.Shift(with.view.Range.Start)
		b.view.Sub = of.view.Sub || with.view.Sub
	}
	for _, u := range in.uses {
		u.u.r = u.r.Shift(to.buffer(u.slot).view.Range.Start)
	}
	for _, v := range in.changed {
		in.commands[v.command].launch.Args[v.arg] = in.from[v.command].launch.Args[v.arg]
	}
	in.changed = in.changed[:0]
	if !slices.Equal(in.queues, to.Queues) {
		in.onto(to.Queues)
	}
	for i := range to.Values {
		v := &to.Values[i]
		in.commands[v.Value.command].launch.Args[v.Value.arg] = v.Arg
		in.changed = append(in.changed, v.Value)
	}
	return nil
}

// onto has the commands go to some queues, or where there are none to those of the recording.
func (in *instance) onto(queues []*Queue) {
	in.queues = append(in.queues[:0], queues...)
	for i := range in.commands {
		if k := &in.commands[i]; len(queues) > 0 {
			k.req.q = queues[k.queue]
		} else {
			k.req.q = in.from[i].req.q
		}
	}
}

// enqueue enqueues the commands that were not accepted yet, and the marker.
func (r *replay) enqueue(ctx context.Context, q *Queue, to *Bindings, wait []Event, why error) (Event, error) {
	g, c := r.g, r.g.c
	own := new(loose)
	if len(r.points) == 0 { // else transients have content where they are
		var err error
		if own, err = g.rec.loosen(); err != nil {
			return Event{}, err
		}
		defer own.release(len(g.rec.commands))
	}
	inst, user, ahead, err := r.plainly(own, to, wait, why)
	if err != nil {
		return Event{}, err
	}
	points := append(r.points, make([]mem.Point, len(inst.commands)-len(r.points))...)
	before := make([]mem.Point, len(g.rec.queues)) // the last point on each
	for i := len(r.points); i < len(points); i++ {
		k := &inst.commands[i]
		in := borrowed{launch: k.launch, uses: k.uses, to: k.to}
		k.req.after, k.req.listed, k.req.ahead = slices.Clone(user), !k.listless, ahead
		ahead.At(i)
		for _, n := range k.after {
			k.req.after = append(k.req.after, mem.Wait{Point: points[n], Kind: mem.Data})
		}
		if b := before[k.queue]; !b.IsZero() && g.rec.queues[k.queue].inOrder && !k.req.q.inOrder {
			k.req.after = append(k.req.after, mem.Wait{Point: b, Kind: mem.Order})
		}
		e, err := c.carry(ctx, &k.req, &in)
		if err == nil {
			points[i], err = tell(to.Events, i, e)
		}
		if err != nil {
			return Event{}, &ReplayError{i, err}
		}
		before[k.queue] = points[i]
		own.release(i)
	}
	c.lock()
	defer c.unlock()
	if err := q.live(); err != nil {
		return Event{}, &ReplayError{len(points), err}
	}
	e, err := g.close(q, points, g.all(), user, r.called)
	if err != nil {
		return Event{}, &ReplayError{len(points), err}
	}
	return e, nil
}

// tell gives the event of command i to who wants it, and returns its point.
func tell(events []Event, i int, e Event) (mem.Point, error) {
	p, err := e.Point()
	if err != nil { // a hook panicked, and the unlock raised that
		return p, err
	}
	if len(events) > 0 {
		events[i] = e
		return p, nil
	}
	return p, e.Release()
}

// plainly begins with the plain route: it binds the commands, lists what all of them wait for, and says what
// evictions are to go by.
func (r *replay) plainly(own *loose, to *Bindings, wait []Event, why error) (in *instance, user []mem.Wait, ahead *eviction.Round, err error) {
	g, c := r.g, r.g.c
	c.lock()
	defer c.unlock()
	commands, roots := g.rec.commands, g.rec.roots
	bound := *to
	if len(own.slots) > 0 {
		commands, roots = g.rec.loose.commands, g.rec.looseRoots
		bound.Slots = slices.Concat(to.Slots, own.slots)
	}
	in = newInstance(commands)
	if err := in.bind(&bound); err != nil {
		return nil, nil, nil, err
	}
	g.figures.Replays, g.figures.Plain, g.figures.Why = g.figures.Replays+1, g.figures.Plain+1, why.Error()
	user, err = c.events.appendWaits(nil, c, wait)
	return in, user, c.ahead(commands, roots, &bound), err
}

// ahead is what evictions for some commands go by: that they are repeated for ever. c.mu is held.
func (c *Context) ahead(commands []recorded, roots []*root, to *Bindings) *eviction.Round {
	round := eviction.NewRound(len(commands), c.topo.Store)
	for i := range commands {
		for _, a := range commands[i].accs {
			r := roots[a.Buffer]
			if r.slot != nil {
				r = to.buffer(r).root
			}
			a.Buffer = r.id
			round.Command(i, a)
		}
	}
	return round
}
