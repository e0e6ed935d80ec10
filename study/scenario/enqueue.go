package scenario

import (
	"context"
	"runtime/debug"

	"godwit/mem"
	"godwit/runtime"
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
		rq, err := r.ctx.NewQueue(r.devs[q.Device], runtime.QueueOptions{Name: q.Name, OutOfOrder: q.OutOfOrder, Priority: q.Priority, Profiling: !r.opt.Plain})
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
func (v *viewDecl) what() string {
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
		content := r.content
		if b.Flags&runtime.UseHostPtr != 0 {
			content = r.lend
		}
		if init, err = content(b.Data, b.Size); err != nil {
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
	create := r.ctx.CreateNamedBuffer
	if b.Whole {
		create = r.ctx.CreateWhole
	}
	rb, err := create(b.Name, b.Size, b.Flags, init)
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
	if r.at[i] = uint64(p); !r.opt.Plain {
		r.ids[i] = r.rec.last()
	}
	return r.ctx.SetSVMHint(p, r.lives[i])
}

func (r *runner) createView(v *viewDecl) (*runtime.Buffer, error) {
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
func (r *runner) object(p place) (*runtime.Buffer, uint64) {
	b := r.buffers[p.Buffer]
	if p.View >= 0 {
		b = r.views[p.View]
	}
	if in := r.standIns[p.handle()]; in != nil {
		b = in
	}
	return b, p.Range.Start - r.s.start(p.handle())
}

// pointer is the address of a place in shared virtual memory.
func (r *runner) pointer(p place) runtime.Pointer {
	return runtime.Pointer(r.at[p.Buffer] + p.Range.Start)
}

// waits is a command's wait list.
func (r *runner) waits(c *command) (out []runtime.Event) {
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
func (r *runner) enqueue(ctx context.Context, i int) (runtime.Event, error) {
	c := &r.s.Commands[i]
	var q *runtime.Queue
	if c.queued() {
		q = r.queues[c.Queue]
	}
	return c.kind().enqueue(ctx, r, i, q, r.waits(c))
}
