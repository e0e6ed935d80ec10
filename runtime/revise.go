package runtime

import (
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/mem"
)

// SetLaunch changes recorded command number i, a launch, for all replays from here on: its arguments by value, its
// local memory, and its index space. What it uses of buffers has to stay as it was recorded: that is what the round was
// planned with. A replay under way is not changed.
//
// Errors are those of EnqueueLaunch, and mem.ErrInvalidOperation where command i is no launch of that kernel, or uses
// other buffers, or shared virtual memory: record anew.
func (g *Graph) SetLaunch(i int, l Launch) error {
	if err := g.made(); err != nil {
		return err
	}
	if err := g.c.begin("graph"); err != nil {
		return err
	}
	defer g.c.unlock()
	if i < 0 || i >= len(g.rec.commands) || g.rec.commands[i].launch == nil {
		return fmt.Errorf("command %d of a graph is no launch: %w", i, mem.ErrInvalidOperation)
	}
	old := &g.rec.commands[i]
	if err := old.req.q.checkLaunch(&l); err != nil {
		return err
	}
	recorded := old.launch
	if g.rec.loose != nil { // whose transients are not in arenas
		recorded = g.rec.loose.commands[i].launch
	}
	if err := recorded.samePlan(&l); err != nil {
		return fmt.Errorf("command %d of a graph, launch of %s: %w", i, l.Kernel.name, err)
	}
	old.launch = g.rec.keepLaunch(&l)
	g.bound.commands[i].launch.follow(old.launch)
	if g.rec.loose != nil {
		g.rec.loose.commands[i].launch.follow(old.launch)
	}
	if len(g.prepared) > 0 {
		g.prepared[i].relaunch(old.launch)
	}
	return nil
}

// relaunch has a prepared launch take another's values, local memory and index space.
func (p *prepared) relaunch(l *Launch) {
	p.cmd.Dims, p.cmd.Global, p.cmd.Local, p.cmd.Offset = len(l.Global), [3]uint64{}, [3]uint64{}, [3]uint64{}
	copy(p.cmd.Global[:], l.Global)
	copy(p.cmd.Local[:], l.Local)
	copy(p.cmd.Offset[:], l.Offset)
	p.run.Form = nil
	for i := 0; i < len(l.Args) && p.ready; i++ {
		a, arg := &l.Args[i], &p.args[i]
		switch {
		case a.kind == devices.ArgLocal:
			arg.Size = a.size
		case a.kind == devices.ArgSampler:
			arg.Sampler = a.sampler
		case a.kind == devices.ArgValue && len(arg.Value) == len(a.value()):
			copy(arg.Value, a.value())
		case a.kind == devices.ArgValue:
			p.ready = false // it has no room for a longer one
		}
	}
}

// follow makes a launch of other handles as one is.
func (l *Launch) follow(o *Launch) {
	l.Global, l.Local, l.Offset = o.Global, o.Local, o.Offset
	for k := range l.Args {
		if l.Args[k].kind != devices.ArgBuffer {
			l.Args[k] = o.Args[k]
		}
	}
}

// samePlan fails where another launch cannot take this one's place in a plan.
func (l *Launch) samePlan(o *Launch) error {
	if l.Kernel.prog != o.Kernel.prog || l.Kernel.name != o.Kernel.name {
		return fmt.Errorf("it was recorded as launch of %s: %w", l.Kernel.name, mem.ErrInvalidOperation)
	}
	if len(l.SVM)+len(o.SVM) > 0 || slices.ContainsFunc(o.Args, func(a Arg) bool { return a.kind == devices.ArgSVM }) {
		return fmt.Errorf("it uses shared virtual memory: %w", mem.ErrInvalidOperation)
	}
	for i := range l.Args {
		if !l.Args[i].sameUse(&o.Args[i]) {
			return fmt.Errorf("argument %d uses another buffer, or otherwise, than was recorded: %w", i, mem.ErrInvalidOperation)
		}
	}
	return nil
}

// sameUse reports whether two arguments use the same bytes in the same way.
func (a *Arg) sameUse(o *Arg) bool {
	switch {
	case a.kind != o.kind:
		return false
	case a.kind != devices.ArgBuffer:
		return true
	case a.buf == nil || o.buf == nil:
		return a.buf == nil && o.buf == nil
	}
	return a.buf.root == o.buf.root && a.buf.view == o.buf.view && a.mode == o.mode && a.whole == o.whole && a.image == o.image &&
		a.ranged == o.ranged && a.off == o.off && (!a.ranged || a.size == o.size)
}
