package runtime

import (
	"context"
	"fmt"
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
	buffers  map[*root]*Buffer   // that slots are bound to
	uses     []boundUse
	changed  []Value  // from what was recorded
	moved    []int    // commands that use other memory of the program's than recorded
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
	in := &instance{from: from, commands: slices.Clone(from), handles: make(map[*Buffer]*Buffer), buffers: make(map[*root]*Buffer)}
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

// bind puts the buffers, values and memory of a replay in their places. c.mu is held.
func (in *instance) bind(to *Bindings) error {
	clear(in.buffers)
	for i := range to.Slots {
		s, b := to.Slots[i].Slot, to.Slots[i].Buffer
		if in.buffers[s.root] != nil {
			return fmt.Errorf("replay: slot %s is bound twice: %w", s.label(), mem.ErrInvalidValue)
		}
		if err := b.live(); err != nil {
			return err
		}
		in.buffers[s.root] = b
	}
	for of, b := range in.handles {
		with := in.buffers[of.root]
		b.root = with.root
		b.view.Range = of.view.Range.Shift(with.view.Range.Start)
		b.view.Sub = of.view.Sub || with.view.Sub
	}
	for _, u := range in.uses {
		u.u.r = u.r.Shift(in.buffers[u.slot].view.Range.Start)
	}
	for _, v := range in.changed {
		in.commands[v.command].launch.Args[v.arg] = in.from[v.command].launch.Args[v.arg]
	}
	in.changed = in.changed[:0]
	for _, i := range in.moved {
		in.commands[i].req.data = in.from[i].req.data
	}
	in.moved = in.moved[:0]
	for i := range to.Memory {
		m := &to.Memory[i]
		in.commands[m.Memory.command].req.data = m.Bytes
		in.moved = append(in.moved, m.Memory.command)
	}
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

// plain is the rest of a replay.
type plain struct {
	*instance
	own    *loose          // its transients; empty where they are in the arenas, since its begin has used them there
	arenas bool            // they are
	user   []mem.Wait      // what all its commands wait for
	ahead  *eviction.Round // what evictions go by
}

// plainly begins with the plain route, for the commands of which r.points has none. c.mu is held.
func (r *replay) plainly(to *Bindings, why error) (p *plain, err error) {
	g, rec := r.g, r.g.rec
	p = &plain{own: &loose{c: g.c}, user: slices.Clone(g.user)}
	commands, roots, bound := rec.commands, rec.roots, *to
	switch {
	case rec.loose == nil:
	case len(r.points) > 0:
		g.unended, p.arenas = true, true
	default:
		if err := rec.loosen(p.own); err != nil {
			return nil, err
		}
		commands, roots, bound.Slots = rec.loose.commands, rec.looseRoots, slices.Concat(to.Slots, p.own.slots)
	}
	p.instance = newInstance(commands)
	if err := p.bind(&bound); err != nil {
		p.own.drop(len(commands))
		return nil, replayError(max(0, slices.Index(r.points, mem.Point{})), r.points, err)
	}
	p.ahead = p.expected(g.c, roots)
	g.figures.Replays, g.figures.Plain, g.figures.Why = g.figures.Replays+1, g.figures.Plain+1, why.Error()
	return p, nil
}

// expected is what evictions for the commands go by: that they are repeated for ever. c.mu is held.
func (in *instance) expected(c *Context, roots []*root) *eviction.Round {
	round := eviction.NewRound(len(in.commands), c.topo.Store)
	for i := range in.commands {
		for _, a := range in.commands[i].accs {
			r := roots[a.Buffer]
			if r.slot != nil {
				r = in.buffers[r].root
			}
			a.Buffer = r.id
			round.Command(i, a)
		}
	}
	return round
}

// enqueue enqueues the commands that were not accepted yet, and the marker.
func (r *replay) enqueue(ctx context.Context, q *Queue, to *Bindings) (Event, error) {
	g, c, p := r.g, r.g.c, r.rest
	defer r.end()
	points := append(r.points, make([]mem.Point, len(p.commands)-len(r.points))...)
	before := make([]mem.Point, len(g.rec.queues)) // the last point on each
	for i := range points {
		if !points[i].IsZero() {
			before[p.commands[i].queue] = points[i]
			continue
		}
		k := &p.commands[i]
		if p.arenas && len(k.begins) > 0 {
			c.discard(g.rec.roots, k.begins)
		}
		p.own.begin(i)
		in := borrowed{launch: k.launch, uses: k.uses, to: k.to}
		k.req.after, k.req.listed, k.req.ahead = slices.Clone(p.user), !k.listless, p.ahead
		p.ahead.At(i)
		for _, n := range k.after {
			k.req.after = append(k.req.after, mem.Wait{Point: points[n], Kind: mem.Data})
		}
		if b := before[k.queue]; !b.IsZero() && g.rec.queues[k.queue].inOrder && !k.req.q.inOrder {
			k.req.after = append(k.req.after, mem.Wait{Point: b, Kind: mem.Order})
		}
		err := k.req.apart()
		if err == nil {
			var e Event
			if e, err = c.carry(ctx, &k.req, &in); err == nil {
				points[i], err = tell(to.Events, i, e)
			}
		}
		if err != nil {
			return Event{}, replayError(i, points, err)
		}
		before[k.queue] = points[i]
		p.own.release(i)
	}
	c.lock()
	defer c.unlock()
	if err := q.live(); err != nil {
		return Event{}, replayError(len(points), nil, err)
	}
	e, err := g.close(q, points, g.all(), p.user, r.called)
	if err != nil {
		return Event{}, replayError(len(points), nil, err)
	}
	return e, nil
}

// end gives the rest's transients up.
func (r *replay) end() {
	g, p := r.g, r.rest
	p.own.release(len(p.commands))
	if !p.arenas {
		return
	}
	g.c.lock()
	defer g.c.unlock()
	g.unended = false
	for _, a := range g.rec.arenas {
		if !a.root.dropped {
			g.c.planner.Discard(a.root.id, mem.Range{End: a.size})
		}
	}
}

// discard ends the content of some bytes of roots, which accesses name by their numbers.
func (c *Context) discard(roots []*root, accs []mem.Access) {
	c.lock()
	defer c.unlock()
	for _, a := range accs {
		if r := roots[a.Buffer]; !r.dropped {
			c.planner.Discard(r.id, a.Range)
		}
	}
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
