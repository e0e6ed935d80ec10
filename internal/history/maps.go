package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

// Maps that stay open. The host uses the mapped bytes in a host call between the
// map and the unmap, both of which may be held back by user events.

// openMap is a map that has not been unmapped.
type openMap struct {
	op      *operation
	q       *queue // on which it was made
	byPtr   bool   // by EnqueueSVMMap, to be undone by EnqueueSVMUnmap
	mapping runtime.Mapping
	bytes   []byte
	event   runtime.Event
	use     mem.Access // of the whole range by the unmap
	gone    bool       // its root was released: nobody sees what is written
}

// mapOpen enqueues a map, of a pointer or of a buffer.
func (r *replay) mapOpen(q *queue, op *operation, byPtr bool, wait []runtime.Event) (e runtime.Event, err error) {
	m, name := &openMap{op: op, q: cmp.Or(q.without, q), byPtr: byPtr}, fmt.Sprintf("map flags %d", op.Flags)
	if byPtr {
		p, _ := r.pointer(q, op, op.Dst, op.DstOff)
		m.bytes, e, err = q.EnqueueSVMMap(r.call, p, uint64(op.Size), svm.MapFlags(op.Flags), wait...)
		name = "svm-" + name
	} else if m.mapping, e, err = q.EnqueueMap(r.call, r.views[op.Dst], uint64(op.DstOff), uint64(op.Size), op.Flags, wait...); err == nil {
		m.bytes = m.mapping.Bytes()
	}
	if m.event, err = r.took(name, e, err, r.uses(q, op)...); err != nil {
		return e, err
	}
	m.use = r.access(op.Dst, op.DstOff, op.Size, mem.Write, mem.Host)
	r.maps = append(r.maps, m)
	if op.mapWrites() {
		err = r.then(m.event, func() { r.account.mapped(m.use) })
	}
	return e, err
}

// then has the oracle told of something when it knows of a command.
func (r *replay) then(e runtime.Event, tell func()) error {
	n, err := e.Command()
	r.thens[n] = tell
	return err
}

// unmap lets the host use a mapped range, and ends the map; nothing where there
// is no such map (any more).
func (r *replay) unmap(q *queue, op *operation) error {
	i := slices.IndexFunc(r.maps, func(m *openMap) bool { return m.op.ID == op.Ref })
	if i < 0 {
		return nil
	}
	if m := r.maps[i]; m.byPtr { // a pointer ends the youngest map that was made of it
		for j, o := range r.maps {
			if o.byPtr && unsafe.SliceData(o.bytes) == unsafe.SliceData(m.bytes) {
				i = j
			}
		}
	}
	m := r.maps[i]
	r.maps = slices.Delete(r.maps, i, i+1)
	return r.unmapOf(q, op, m)
}

// mapBriefly makes a blocking map, of a pointer or of a buffer, whose context ends
// while a user event holds it back. That stays, so that the command may run, or fail,
// at any time after.
func (r *replay) mapBriefly(q *queue, op *operation) error {
	gate, err := r.c.NewUserEvent()
	if err != nil {
		return err
	}
	r.open[op.ID], r.events[op.ID] = gate, gate
	r.owned = append(r.owned, gate)
	if slices.ContainsFunc(r.maps, func(m *openMap) bool { return !m.gone && r.meets(m, op) }) || r.stale[r.h.Views[op.Dst].Root] {
		return nil
	}
	over, cancel := context.WithCancel(r.ctx)
	cancel()
	short := &enqueued{Context: over}
	wait := append(r.waits(op), gate)
	name := "map given up"
	if p, ok := r.pointer(q, op, op.Dst, op.DstOff); ok {
		var e runtime.Event
		if _, e, err = q.SVMMap(short, p, uint64(op.Size), svm.MapFlags(op.Flags), wait...); !e.IsZero() {
			r.owned = append(r.owned, e)
		}
		name = "svm-" + name
	} else {
		_, err = q.Map(short, r.views[op.Dst], uint64(op.DstOff), uint64(op.Size), op.Flags, wait...)
	}
	switch {
	case err == nil:
		return errors.New("a map that is held back has ended")
	case errors.Is(err, context.Canceled), errors.Is(err, runtime.ErrMap) && r.mayFail():
		if errors.Is(err, mem.ErrInvalidValue) {
			return err
		}
	default:
		_, err := r.turnedDown(op, err)
		return err
	}
	r.result.Commands++
	r.result.Ops[name]++
	if all := r.rec.CommandsFrom(r.seen); len(all) > 0 {
		r.needs[all[len(all)-1].ID] = r.uses(q, op)
	}
	return nil
}

// enqueued is a context that ends once a command was enqueued under it, which asks first.
type enqueued struct {
	context.Context
	asked bool
}

// Err implements context.Context.
func (e *enqueued) Err() error {
	if !e.asked {
		e.asked = true
		return nil
	}
	return e.Context.Err()
}

// checkMaps tests that what is mapped is what was mapped and not unmapped.
func (r *replay) checkMaps() error {
	for i, v := range r.h.Views {
		if v.Sub || r.views[i] == nil || r.isSVM(v.Root) {
			continue
		}
		want := 0
		for _, m := range r.maps {
			if r.h.Views[m.op.Dst].Root == v.Root && !m.gone {
				want++
			}
		}
		if got := r.views[i].Maps(); got != want {
			return fmt.Errorf("buffer %d: %d maps, %d were made and not unmapped", v.Root, got, want)
		}
	}
	return nil
}

func (r *replay) unmapOf(q *queue, ref *operation, m *openMap) error {
	if m.q.svm && !q.svm || m.q.fine && !q.fine {
		q = m.q
	}
	op := *m.op
	op.ID, op.Kind, op.Salt, op.Ref = ref.ID, opUnmap, ref.Salt, ref.Ref
	x := entry{op: &op, mapped: m.event, waits: r.waits(ref)}
	if op.reads() {
		x.got = make([]byte, op.Size)
	}
	wait := x.waits
	if m.event.Err() == nil { // nobody uses what is known not to be mapped
		used, err := r.persist(func() (runtime.Event, error) {
			return q.EnqueueHostCall(r.ctx, func(context.Context) error {
				return r.c.SVMGuard(func() { m.touch(&op, x.got) })
			}, slices.Concat(x.waits, []runtime.Event{m.event})...)
		})
		if used, err = r.took("host-call", used, err); err != nil {
			return err
		}
		wait = []runtime.Event{used}
		x.used = used
	}
	e, err := r.persist(func() (runtime.Event, error) {
		if m.byPtr {
			return q.EnqueueSVMUnmap(r.call, runtime.Pointer(uintptr(unsafe.Pointer(unsafe.SliceData(m.bytes)))), wait...)
		}
		return q.EnqueueUnmap(r.call, m.mapping, wait...)
	})
	if err != nil {
		return err
	}
	n, err := e.Command()
	if err != nil {
		return err
	}
	x.void = m.event.Err() != nil && !r.recordsUse(n)
	var accs []mem.Access
	if op.mapWrites() && !x.void {
		accs = append(accs, m.use)
	}
	if x.event, err = r.took("unmap", e, err, accs...); err != nil {
		return err
	}
	if op.mapWrites() {
		err = r.then(e, func() { r.account.unmapped(m.use) })
	}
	if err != nil || m.gone {
		return err
	}
	root := r.h.Views[op.Dst].Root
	r.unmaps[root] = append(r.unmaps[root], e)
	return r.accepted(x)
}

// touch is what the host does with a mapped range.
func (m *openMap) touch(op *operation, got []byte) {
	if op.reads() {
		copy(got, m.bytes)
	}
	if op.mapWrites() {
		from, to := op.hostWrites()
		copy(m.bytes[from:to], pattern(op.Size, op.Salt)[from:])
	}
}

// recordsUse reports whether a command's record says that it uses bytes.
func (r *replay) recordsUse(command uint64) bool {
	for _, c := range r.rec.CommandsFrom(r.seen) {
		if c.ID == command {
			return len(c.Accesses) > 0
		}
	}
	return false
}

// clash looks for open maps that an operation must not, or must be refused to,
// meet: done says that it was dealt with.
func (r *replay) clash(q *queue, op *operation) (done bool, err error) {
	if op.Kind == opMap && r.stale[r.h.Views[op.Dst].Root] {
		_, _, err := q.EnqueueMap(r.call, r.views[op.Dst], uint64(op.DstOff), uint64(op.Size), op.Flags)
		if !errors.Is(err, svm.ErrFreed) {
			return true, fmt.Errorf("map of a buffer whose pointer is freed: got %w, want %w", err, svm.ErrFreed)
		}
		return true, nil
	}
	for _, m := range r.maps {
		if m.gone || !r.meets(m, op) || r.leavesAlone(op) {
			continue
		}
		var want error
		switch root := r.h.Views[m.op.Dst].Root; {
		case r.isSVM(root) && !r.isFine(root):
			want = svm.ErrMapped
		case op.Kind == opMap && op.mapWrites() && m.op.mapWrites() && !r.isSVM(root):
			want = mem.ErrInvalidOperation
		default: // OpenCL leaves it undefined
			return true, nil
		}
		_, err := r.enqueue(q, op, make([]byte, op.bytes()), r.waits(op))
		if r.noRoom(err) { // for the pointers of a chase
			r.result.Refused++
			return true, nil
		}
		if !errors.Is(err, want) {
			return true, fmt.Errorf("bytes that are mapped (operation %d, flags %d): got %w, want %w", m.op.ID, m.op.Flags, err, want)
		}
		r.result.Ops["refused: mapped"]++
		return true, nil
	}
	return false, nil
}

// meets reports whether an operation uses mapped bytes in a way that the map
// does not allow: it writes them, or they are mapped for writing.
func (r *replay) meets(m *openMap, op *operation) bool {
	hit := func(view, off, size int, writes bool) bool {
		v, o := r.h.Views[view], r.h.Views[m.op.Dst]
		a, b := v.Origin+off, o.Origin+m.op.DstOff
		return v.Root == o.Root && a < b+m.op.Size && b < a+size && (writes || m.op.mapWrites())
	}
	touches := r.h.touches(op)
	if op.Kind == opMap || op.Kind == opMapBriefly {
		touches = []touch{{op.Dst, op.DstOff, op.Size, mem.Read}}
	}
	return slices.ContainsFunc(touches, func(t touch) bool { return hit(t.view, t.off, t.size, t.mode != mem.Read || op.mapWrites()) })
}

// leavesAlone reports whether an operation brings a buffer to the host, but for
// what the host has mapped for writing.
func (r *replay) leavesAlone(op *operation) bool {
	svm := func(view int) bool { return r.isSVM(r.h.Views[view].Root) }
	return op.Kind == opMigrate && op.Host && !op.Undefined && !svm(op.Dst) && !slices.ContainsFunc(op.More, svm)
}

// around reports whether it has to: some of the buffer is mapped for writing.
func (r *replay) around(op *operation) bool {
	return r.leavesAlone(op) && slices.ContainsFunc(r.maps, func(m *openMap) bool { return !m.gone && r.meets(m, op) })
}

// persist repeats what flaky devices refuse.
func (r *replay) persist(enqueue func() (runtime.Event, error)) (e runtime.Event, err error) {
	for range 100 {
		e, err = enqueue()
		if r.hear(err); err == nil || r.faults == nil || !errors.Is(err, errFault) && !r.noRoom(err) {
			break
		}
	}
	return e, err
}
