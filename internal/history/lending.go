package history

import (
	"errors"
	"fmt"
	"slices"

	"godwit/mem"
	"godwit/runtime"
)

// Lent memory (C13): a lentRoot lies over memory that is the program's again once the
// root is released and its commands have ended. It is taken back at the first moment at which
// a program may: with the release, where all had ended before; after a wait for the commands;
// after a finish of all queues; when the context is closed.

// due is lent memory whose root was released.
type due struct {
	*lent
	root     int
	commands []runtime.Event // those of the root
	finish   bool            // some of its commands are known by a finish only: those of maps
}

// createLent makes a lentRoot.
func (r *replay) createLent(root int) (*runtime.Buffer, error) {
	l, err := lend(pattern(r.h.Roots[root].Size, uint32(root)))
	if err != nil {
		return nil, err
	}
	b, err := r.newBuffer(root, uint64(len(l.bytes)), runtime.UseHostPtr, l.bytes)
	if err != nil {
		return nil, errors.Join(err, l.end())
	}
	r.lent[root] = l
	return b, nil
}

// released notes that the memory of a root is to be taken back; used says that maps of it are
// left.
func (r *replay) released(root int, used bool) {
	l := r.lent[root]
	if l == nil {
		return
	}
	r.lent[root] = nil
	d := due{lent: l, root: root, finish: used}
	for i := range r.log {
		x := &r.log[i]
		uses := r.h.names(x.op, root)
		d.finish = d.finish || uses && x.op.Kind == opUnmap
		if uses && !x.event.IsZero() {
			d.commands = append(d.commands, x.event)
		}
	}
	d.finish = d.finish || slices.ContainsFunc(r.h.Ops, func(op operation) bool { return op.Kind == opMapBriefly && r.h.Views[op.Dst].Root == root })
	r.due = append(r.due, d)
}

// takeBack takes what has come due; calm says that all queues were finished since it was
// released.
func (r *replay) takeBack(calm bool) error {
	var errs []error
	r.due = slices.DeleteFunc(r.due, func(d due) bool {
		mapped := slices.ContainsFunc(r.maps, func(m *openMap) bool { return m.gone && r.h.Views[m.op.Dst].Root == d.root })
		if mapped || !calm && (d.finish || !r.ended(d.commands)) {
			return false
		}
		errs = append(errs, d.lent.takeBack())
		r.taken = append(r.taken, d.lent)
		return true
	})
	return errors.Join(errs...)
}

// ended reports whether commands have ended, and waits for one of them, as a program does to
// know it.
func (r *replay) ended(commands []runtime.Event) bool {
	for _, e := range commands {
		if st, err := e.Status(); err != nil || st > runtime.Complete {
			return false
		}
	}
	for _, e := range commands {
		_ = e.Wait(r.ctx) // how it ended is for the verdict
	}
	return true
}

// noTouch tests that nothing touched what was taken back. A copy of the library's that runs
// in a thread of C's or in a goroutine of the runtime's ends the process; one that runs in a
// worker of a driver's fails, since workers recover from it, and where it is a write-back
// nobody waits for it.
func (r *replay) noTouch() error {
	for _, c := range r.rec.Completions() {
		if errors.Is(c.Err, mem.ErrFault) {
			return fmt.Errorf("command %d, step %d: memory was touched that may not be: %w", c.Command, c.Step, c.Err)
		}
	}
	return nil
}

// endLent takes all back when the context is closed.
func (r *replay) endLent() error {
	var errs []error
	for _, d := range r.due {
		errs = append(errs, d.lent.takeBack())
		r.taken = append(r.taken, d.lent)
	}
	for _, l := range r.lent {
		if l != nil {
			errs = append(errs, l.takeBack())
			r.taken = append(r.taken, l)
		}
	}
	for _, l := range r.taken {
		errs = append(errs, l.end())
	}
	r.due, r.lent, r.taken = nil, nil, nil
	return errors.Join(errs...)
}
