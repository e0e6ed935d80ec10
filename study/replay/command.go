package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// buffer is a root of the trace, and the parts of it that commands were given.
type buffer struct {
	root  *runtime.Buffer
	size  uint64
	whole bool // no part of it is stored alone
	parts map[mem.Range]*runtime.Buffer
}

func (b *buffer) release() error {
	var errs []error
	for _, p := range b.parts {
		errs = append(errs, p.Release())
	}
	return errors.Join(append(errs, b.root.Release())...)
}

func (r *runner) create(c *trace.CommandBuffer) error {
	var content []byte
	if c.Content {
		var err error
		if content, err = r.blank.Bytes(c.Size); err != nil {
			return err
		}
	}
	create := r.ctx.CreateNamedBuffer
	if c.Tenant != "" {
		create = r.tenants[c.Tenant].CreateBuffer
	}
	b, err := create(c.Name, c.Size, 0, content)
	if err != nil {
		return err
	}
	r.buffers[c.ID] = &buffer{b, c.Size, c.Whole, make(map[mem.Range]*runtime.Buffer)}
	r.ids[b.ID()] = c.ID
	return nil
}

// tenant makes a tenant, in place of one of its name, of which no buffers are alive any more.
func (r *runner) tenant(t *trace.CommandTenant) (err error) {
	if was := r.tenants[t.Name]; was != nil {
		if err := was.Close(); err != nil {
			return err
		}
	}
	r.tenants[t.Name], err = r.ctx.NewTenant(runtime.TenantOptions{Name: t.Name, Caps: t.Caps, Floors: t.Floors, Priority: t.Priority})
	return err
}

func (r *runner) release(id mem.BufferID) error {
	b := r.buffers[id]
	delete(r.buffers, id)
	delete(r.ids, b.root.ID())
	return b.release()
}

// part is what of a buffer a use had stored, as a buffer, and where the use begins in it. Where
// that can be no sub-buffer, since it begins at an odd place, it is the whole buffer, of which
// exact says that all was stored.
func (r *runner) part(u *trace.CommandUse) (part *runtime.Buffer, off uint64, exact bool, err error) {
	b, reach := r.buffers[u.Buffer], u.Reach()
	if b.whole || reach.Start == 0 && reach.End == b.size {
		return b.root, u.Range[0], true, nil
	}
	if p := b.parts[reach]; p != nil {
		return p, u.Range[0] - reach.Start, true, nil
	}
	p, err := b.root.Sub(reach.Start, reach.Size(), 0)
	switch {
	case errors.Is(err, mem.ErrMisaligned):
		return b.root, u.Range[0], false, nil
	case err != nil:
		return nil, 0, false, err
	}
	b.parts[reach] = p
	return p, u.Range[0] - reach.Start, true, nil
}

// command enqueues a command with the accesses of the recorded one.
func (r *runner) command(ctx context.Context, c *trace.CommandUses) error {
	var events []runtime.Event
	var err error
	switch {
	case several(c) && c.Op == "migrate":
		events, err = r.migrate(ctx, c)
	case several(c):
		return r.apart(ctx, c)
	case c.Uses[0].Memory == mem.Host:
		events, err = r.onHost(ctx, c)
	case c.Op != "launch" && len(c.Uses) == 1 && c.Uses[0].Mode != "both":
		events, err = r.transfer(ctx, r.queues[c.Uses[0].Memory], &c.Uses[0])
	default:
		events, err = r.launch(ctx, c)
	}
	for _, e := range events {
		if err == nil && r.opt.Machine == nil {
			err = e.Wait(ctx)
		}
		err = errors.Join(err, e.Release())
	}
	return err
}

// several reports whether a command's accesses are on several memories: migrations are, and
// launches of which some is shared virtual memory in place, on the host.
func several(c *trace.CommandUses) bool {
	return slices.ContainsFunc(c.Uses, func(u trace.CommandUse) bool { return u.Memory != c.Uses[0].Memory })
}

// apart is a command for each of the memories that c uses, in c's order.
func (r *runner) apart(ctx context.Context, c *trace.CommandUses) error {
	for rest := c.Uses; len(rest) > 0; {
		there, elsewhere := *c, []trace.CommandUse(nil)
		there.Uses = nil
		for _, u := range rest {
			if u.Memory == rest[0].Memory {
				there.Uses = append(there.Uses, u)
			} else {
				elsewhere = append(elsewhere, u)
			}
		}
		if err := r.command(ctx, &there); err != nil {
			return err
		}
		rest = elsewhere
	}
	return nil
}

// migrate brings parts of buffers to all of several memories.
func (r *runner) migrate(ctx context.Context, c *trace.CommandUses) ([]runtime.Event, error) {
	var parts []*runtime.Buffer
	var to []mem.MemoryID
	for i := range c.Uses {
		u := &c.Uses[i]
		if u.Mode != "read" {
			return nil, fmt.Errorf("it writes, and is on several memories: %w", mem.ErrInvalidOperation)
		}
		p, _, _, err := r.part(u)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
		if !slices.Contains(to, u.Memory) {
			to = append(to, u.Memory)
		}
	}
	return one(r.queues[c.Queue].EnqueueMigrateTo(ctx, parts, to))
}

// transfer reads or writes one range on a queue's memory.
func (r *runner) transfer(ctx context.Context, q *runtime.Queue, u *trace.CommandUse) ([]runtime.Event, error) {
	p, off, _, err := r.part(u)
	if err != nil {
		return nil, err
	}
	bytes, err := r.blank.Bytes(u.Range[1] - u.Range[0])
	if err != nil {
		return nil, err
	}
	if u.Mode == "write" {
		return one(q.EnqueueWrite(ctx, p, off, bytes))
	}
	return one(q.EnqueueRead(ctx, p, off, bytes))
}

func one(e runtime.Event, err error) ([]runtime.Event, error) {
	if err != nil {
		return nil, err
	}
	return []runtime.Event{e}, nil
}

// mapKey is what is mapped for writing: two maps of it at once cannot be.
type mapKey struct {
	buffer mem.BufferID
	at     mem.Range
}

// onHost is a command that uses the host's memory, where nothing is launched: a map for writing
// or its unmap; else reads and writes, one for each access.
func (r *runner) onHost(ctx context.Context, c *trace.CommandUses) (events []runtime.Event, err error) {
	q := r.queues[mem.Host]
	for i := range c.Uses {
		u := &c.Uses[i]
		key := mapKey{u.Buffer, u.Access().Range}
		mapping, mapped := r.maps[key]
		var e []runtime.Event
		switch {
		case mapped && u.Mode == "write" && c.Op != "map":
			delete(r.maps, key)
			e, err = one(q.EnqueueUnmap(ctx, mapping))
		case u.Mode == "both", u.Mode == "write" && c.Op == "map":
			flags := runtime.MapWrite | runtime.MapRead
			if u.Mode == "write" {
				flags = runtime.MapInvalidate
			}
			var p *runtime.Buffer
			var off uint64
			if p, off, _, err = r.part(u); err == nil {
				var m runtime.Event
				if mapping, m, err = q.EnqueueMap(ctx, p, off, key.at.Size(), flags); err == nil {
					r.maps[key], e = mapping, []runtime.Event{m}
				}
			}
			if err == nil && c.Op != "map" { // what the host does in its memory is done by then
				delete(r.maps, key)
				var done []runtime.Event
				done, err = one(q.EnqueueUnmap(ctx, mapping))
				e = append(e, done...)
			}
		default:
			e, err = r.transfer(ctx, q, u)
		}
		if events = append(events, e...); err != nil {
			return events, err
		}
	}
	return events, nil
}

// kernelKey is a kernel with a number of arguments.
type kernelKey struct {
	name      string
	arguments int
}

// launch launches a kernel that is said to access what the command accessed.
func (r *runner) launch(ctx context.Context, c *trace.CommandUses) ([]runtime.Event, error) {
	k, err := r.kernel(ctx, kernelKey{cmp.Or(c.Kernel, c.Op), len(c.Uses)})
	if err != nil {
		return nil, err
	}
	l := runtime.Launch{Kernel: k, Global: []uint64{1}}
	for i := range c.Uses {
		u := &c.Uses[i]
		p, off, exact, err := r.part(u)
		if err != nil {
			return nil, err
		}
		as := map[string]func(*runtime.Buffer) runtime.Arg{"read": runtime.In, "write": runtime.Out, "both": runtime.InOut}[u.Mode]
		arg := as(p).Range(off, u.Range[1]-u.Range[0])
		if exact {
			arg = arg.Whole()
		}
		l.Args = append(l.Args, arg)
	}
	return one(r.queues[c.Uses[0].Memory].EnqueueLaunch(ctx, l))
}

// kernel is one that does nothing, of the name by which a machine knows what it takes.
func (r *runner) kernel(ctx context.Context, key kernelKey) (*runtime.Kernel, error) {
	if k := r.kernels[key]; k != nil {
		return k, nil
	}
	does := devices.GoKernel{Name: key.name, Func: func(*work.Group) {}}
	for i := range key.arguments {
		does.Args = append(does.Args, devices.ArgInfo{Name: fmt.Sprintf("argument %d", i), Kind: devices.ArgBuffer, Access: mem.ReadWrite})
	}
	p, err := r.ctx.Build(ctx, &devices.Program{Name: key.name, Go: []devices.GoKernel{does}})
	if err != nil {
		return nil, err
	}
	k, err := p.Kernel(key.name)
	if err != nil {
		return nil, err
	}
	r.kernels[key] = k
	return k, nil
}
