package scenario

import (
	"context"
	"runtime/debug"
	"slices"

	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

// mapped is what a map gave: bytes for the host, and what its unmap wants.
type mapped struct {
	bytes   []byte
	mapping runtime.Mapping // of a buffer
	pointer runtime.Pointer // of shared virtual memory
}

// create makes what the scenario declares, and its kernels.
func (r *runner) create(ctx context.Context) error {
	s := r.s
	n := len(s.Buffers)
	r.lives = s.lives()
	r.buffers, r.at, r.ids, r.mappings = make([]*runtime.Buffer, n), make([]uint64, n), make([]mem.BufferID, n), make([]mapped, len(s.Mappings))
	for i := range s.Buffers {
		if err := r.createBuffer(i); err != nil {
			return err
		}
	}
	if err := r.setSizeBuffers(); err != nil {
		return err
	}
	for i := range s.Views {
		v := &s.Views[i]
		rb, err := r.createView(v)
		if err != nil {
			return s.blame(v.Line, v.what()+" "+v.Name, err)
		}
		r.views = append(r.views, rb)
	}
	for _, q := range s.Queues {
		rq, err := r.ctx.NewQueue(r.devs[q.Device], runtime.QueueOptions{Name: q.Name, OutOfOrder: q.OutOfOrder, Profiling: true})
		if err != nil {
			return s.blame(q.Line, "queue "+q.Name, err)
		}
		r.queues = append(r.queues, rq)
	}
	for range s.Events {
		e, err := r.ctx.NewUserEvent()
		if err != nil {
			return err
		}
		r.user = append(r.user, e)
	}
	return r.build(ctx)
}

// what names the kind of a view.
func (v *View) what() string {
	if v.Over {
		return "buffer"
	}
	return "sub-buffer"
}

// largeContent is where content is worth a collection of its own, in bytes.
const largeContent = 64 << 20

// createBuffer makes a root that is there from the start.
func (r *runner) createBuffer(i int) error {
	b := &r.s.Buffers[i]
	if b.SVM != nil {
		if b.SVM.Born >= 0 {
			return nil
		}
		return r.alloc(i, b.Line)
	}
	var init []byte
	var err error
	if b.Data != nil && r.ctx.CheckSize(b.Size, b.Flags) == nil { // else it is refused, and its content not made first
		if init, err = r.content(b.Data, b.Size); err != nil {
			return r.s.blame(b.Line, "buffer "+b.Name, err)
		}
		if !r.stamps() {
			r.kept += b.Size
		}
		if b.Flags&runtime.UseHostPtr != 0 {
			r.given = append(r.given, init)
		} else if b.Size >= largeContent {
			defer debug.FreeOSMemory() // its copy is garbage that the collector would be slow to notice
		}
	}
	rb, err := r.ctx.CreateNamedBuffer(b.Name, b.Size, b.Flags, init)
	if err != nil {
		return r.s.blame(b.Line, "buffer "+b.Name, err)
	}
	r.buffers[i], r.ids[i] = rb, rb.ID()
	return rb.SetHint(r.lives[i])
}

// alloc allocates a block of shared virtual memory.
func (r *runner) alloc(i, line int) error {
	b := &r.s.Buffers[i]
	p, err := r.ctx.SVMAllocNamed(b.Name, b.Size, b.SVM.Align, b.SVM.Flags)
	if err != nil {
		return r.s.blame(line, "svm "+b.Name, err)
	}
	r.at[i], r.ids[i] = uint64(p), r.rec.last()
	return r.ctx.SetSVMHint(p, r.lives[i])
}

func (r *runner) createView(v *View) (*runtime.Buffer, error) {
	if v.Over {
		bytes, err := r.ctx.SVMBytes(runtime.Pointer(r.at[v.Buffer]+v.Range.Start), v.Range.Size())
		if err != nil {
			return nil, err
		}
		return r.ctx.CreateNamedBuffer(v.Name, v.Range.Size(), v.Flags, bytes)
	}
	if v.Parent >= 0 {
		return r.views[v.Parent].Sub(v.Range.Start-r.s.Views[v.Parent].Range.Start, v.Range.Size(), v.Flags)
	}
	return r.buffers[v.Buffer].Sub(v.Range.Start, v.Range.Size(), v.Flags)
}

// object returns the runtime's buffer for a place and the place's offset in it.
func (r *runner) object(p Place) (*runtime.Buffer, uint64) {
	if p.View >= 0 {
		return r.views[p.View], p.Range.Start - r.s.Views[p.View].Range.Start
	}
	return r.buffers[p.Buffer], p.Range.Start
}

// pointer is the address of a place in shared virtual memory.
func (r *runner) pointer(p Place) runtime.Pointer {
	return runtime.Pointer(r.at[p.Buffer] + p.Range.Start)
}

// waits is a command's wait list.
func (r *runner) waits(c *Command) (out []runtime.Event) {
	for _, list := range [][]int{c.After, c.Order} {
		for _, a := range list {
			out = append(out, r.events[a])
		}
	}
	for _, e := range c.Events {
		out = append(out, r.user[e])
	}
	return out
}

// enqueue executes one command of the scenario. The event is zero where the
// command is none of a queue.
func (r *runner) enqueue(ctx context.Context, i int) (e runtime.Event, err error) {
	c := &r.s.Commands[i]
	switch {
	case c.Kind == Alloc:
		return e, r.alloc(c.Alloc, c.Line)
	case c.Kind == Set:
		return e, r.user[c.Event].SetStatus(c.Status)
	case c.Now:
		for _, o := range c.Order { // the host has done with it
			if err := r.events[o].Wait(ctx); err != nil {
				return e, err
			}
		}
		for _, p := range c.Places {
			if err := r.ctx.SVMFree(r.pointer(p)); err != nil {
				return e, err
			}
		}
		return e, nil
	}
	q, wait := r.queues[c.Queue], r.waits(c)
	switch c.Kind {
	case Map, Unmap:
		e, err = r.enqueueMap(ctx, q, c, wait)
	case HostWrite, HostRead:
		e, err = r.enqueueHostUse(ctx, q, i, wait)
	case Migrate:
		e, err = r.enqueueMigrate(ctx, q, c, wait)
	case Free:
		var pointers []runtime.Pointer
		for _, p := range c.Places {
			pointers = append(pointers, r.pointer(p))
		}
		e, err = q.EnqueueSVMFree(ctx, pointers, wait...)
	case Barrier:
		e, err = q.EnqueueBarrier(ctx, wait...)
	case Marker:
		e, err = q.EnqueueMarker(ctx, wait...)
	case Launch:
		e, err = q.EnqueueLaunch(ctx, r.launch(c), wait...)
	default:
		e, err = r.enqueueTransfer(ctx, q, i, wait)
	}
	return e, err
}

// enqueueTransfer enqueues a write, read, copy or fill.
func (r *runner) enqueueTransfer(ctx context.Context, q *runtime.Queue, i int, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	if r.s.isSVM(c.Place) {
		return r.enqueueSVM(ctx, q, i, wait)
	}
	if c.Rect != nil {
		return r.enqueueRect(ctx, q, i, wait)
	}
	b, off := r.object(c.Place)
	size := c.Place.Range.Size()
	switch c.Kind {
	case Write:
		data, err := r.content(c.Data, size)
		if err != nil {
			return runtime.Event{}, err
		}
		return q.EnqueueWrite(ctx, b, off, data, wait...)
	case Read:
		var err error
		if r.reads[i], err = r.room(size); err != nil {
			return runtime.Event{}, err
		}
		return q.EnqueueRead(ctx, b, off, r.reads[i], wait...)
	case Copy:
		to, toOff := r.object(c.To)
		return q.EnqueueCopy(ctx, b, to, off, toOff, size, wait...)
	}
	return q.EnqueueFill(ctx, b, c.Pattern, off, size, wait...)
}

// enqueueSVM is enqueueTransfer for pointers.
func (r *runner) enqueueSVM(ctx context.Context, q *runtime.Queue, i int, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	p, size := r.pointer(c.Place), c.Place.Range.Size()
	switch c.Kind {
	case Write:
		return q.EnqueueSVMWrite(ctx, p, c.Data.Bytes(size, r.at), wait...)
	case Read:
		r.reads[i] = make([]byte, size)
		return q.EnqueueSVMRead(ctx, p, r.reads[i], wait...)
	case Copy:
		return q.EnqueueSVMMemcpy(ctx, r.pointer(c.To), p, size, wait...)
	}
	return q.EnqueueSVMFill(ctx, p, c.Pattern, size, wait...)
}

// gapByte is what the host's memory of a rectangular read holds before it: what
// lies between the rows must stay.
const gapByte = 0xcd

// enqueueRect enqueues a rectangular write, read or copy.
func (r *runner) enqueueRect(ctx context.Context, q *runtime.Queue, i int, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	b, off := r.object(c.Place)
	box := func(off, row, slice uint64) runtime.Box {
		return runtime.Box{Origin: [3]uint64{off}, Row: row, Slice: slice}
	}
	at := box(off, c.Rect.Row, c.Rect.Slice)
	host := box(c.Rect.HostOffset, c.Rect.Row2, c.Rect.Slice2)
	switch c.Kind {
	case Write:
		data, err := r.content(c.Data, c.Rect.HostSize)
		if err != nil {
			return runtime.Event{}, err
		}
		return q.EnqueueWriteRect(ctx, b, at, data, host, c.Rect.Region, wait...)
	case Read:
		var err error
		if r.reads[i], err = r.room(c.Rect.HostSize); err != nil {
			return runtime.Event{}, err
		}
		if !r.stamps() {
			repeat(r.reads[i], []byte{gapByte})
		}
		return q.EnqueueReadRect(ctx, b, at, r.reads[i], host, c.Rect.Region, wait...)
	}
	to, toOff := r.object(c.To)
	return q.EnqueueCopyRect(ctx, b, to, at, box(toOff, c.Rect.Row2, c.Rect.Slice2), c.Rect.Region, wait...)
}

func (r *runner) enqueueMigrate(ctx context.Context, q *runtime.Queue, c *Command, wait []runtime.Event) (runtime.Event, error) {
	var flags runtime.MigrateFlags
	if c.Host {
		flags |= runtime.MigrateToHost
	}
	if c.Undefined {
		flags |= runtime.ContentUndefined
	}
	var bufs []*runtime.Buffer
	var ranges []runtime.SVMRange
	for _, p := range c.Places {
		if r.s.isSVM(p) {
			ranges = append(ranges, runtime.SVMRange{Pointer: r.pointer(p), Size: p.Range.Size()})
			continue
		}
		b, _ := r.object(p)
		bufs = append(bufs, b)
	}
	if len(ranges) > 0 {
		return q.EnqueueSVMMigrate(ctx, ranges, flags, wait...)
	}
	if len(c.Onto) > 0 {
		var to []mem.MemoryID
		for _, name := range c.Onto {
			to = append(to, mem.MemoryID(slices.Index(r.names, name)))
		}
		return q.EnqueueMigrateTo(ctx, bufs, to, wait...)
	}
	return q.EnqueueMigrate(ctx, bufs, flags, wait...)
}

// enqueueMap enqueues a map, and waits for it where it is blocking, or an unmap.
func (r *runner) enqueueMap(ctx context.Context, q *runtime.Queue, c *Command, wait []runtime.Event) (e runtime.Event, err error) {
	s, m := r.s, &r.mappings[c.Mapping]
	mp := &s.Mappings[c.Mapping]
	pointer := s.isSVM(mp.Place)
	switch {
	case c.Kind == Unmap && pointer:
		return q.EnqueueSVMUnmap(ctx, m.pointer, wait...)
	case c.Kind == Unmap:
		return q.EnqueueUnmap(ctx, m.mapping, wait...)
	case pointer:
		m.pointer = r.pointer(mp.Place)
		m.bytes, e, err = q.EnqueueSVMMap(ctx, m.pointer, mp.Place.Range.Size(), svmMapFlags(mp.Flags), wait...)
	default:
		b, off := r.object(mp.Place)
		m.mapping, e, err = q.EnqueueMap(ctx, b, off, mp.Place.Range.Size(), mp.Flags, wait...)
		if err == nil {
			m.bytes = m.mapping.Bytes()
		}
	}
	if err == nil && c.Blocking {
		err = e.Wait(ctx)
	}
	return e, err
}

// svmMapFlags are a map's flags for shared virtual memory.
func svmMapFlags(f runtime.MapFlags) (out svm.MapFlags) {
	for _, x := range []struct {
		from runtime.MapFlags
		to   svm.MapFlags
	}{{runtime.MapRead, runtime.SVMMapRead}, {runtime.MapWrite, runtime.SVMMapWrite}, {runtime.MapInvalidate, runtime.SVMMapWriteInvalidate}} {
		if f&x.from != 0 {
			out |= x.to
		}
	}
	return out
}

// enqueueHostUse has the host use memory in the queue's order, as soon as what it
// waits for has ended.
func (r *runner) enqueueHostUse(ctx context.Context, q *runtime.Queue, i int, wait []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	size := c.Place.Range.Size()
	var bytes []byte
	if c.Mapping >= 0 {
		off := c.Place.Range.Start - r.s.Mappings[c.Mapping].Place.Range.Start
		bytes = r.mappings[c.Mapping].bytes[off : off+size]
	} else {
		var err error
		if bytes, err = r.ctx.SVMBytes(r.pointer(c.Place), size); err != nil {
			return runtime.Event{}, err
		}
	}
	to, from := bytes, []byte(nil)
	if r.stamps() && (c.Kind == HostRead || size > mostCount) {
		to = nil
	} else if c.Kind == HostWrite {
		from = c.Data.Bytes(size, r.at)
	} else {
		r.reads[i] = make([]byte, size)
		to, from = r.reads[i], bytes
	}
	return q.EnqueueHostCall(ctx, func(context.Context) error {
		return r.ctx.SVMGuard(func() { copy(to, from) })
	}, wait...)
}
