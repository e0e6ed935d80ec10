package graphs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/runtime"
)

// Recorded is a graph, recorded in a context.
type Recorded struct {
	Graph *runtime.Graph
	kept  []*runtime.Buffer
}

// Record makes the graph's buffers in c, those that stay with content, and records its commands on queues, one for
// each device. Close ends it.
func (g *Graph) Record(ctx context.Context, c *runtime.Context, queues []*runtime.Queue) (_ *Recorded, err error) {
	out := new(Recorded)
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close())
		}
	}()
	kernels, err := g.kernels(ctx, c)
	if err != nil {
		return nil, err
	}
	rec, err := c.Record(queues...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if out.Graph == nil {
			_ = rec.Discard()
		}
	}()
	bufs := make([]*runtime.Buffer, len(g.Buffers))
	for i, b := range g.Buffers {
		if b.Transient {
			bufs[i], err = rec.Transient(b.Name, b.Size)
		} else if bufs[i], err = c.CreateBuffer(b.Size, 0, make([]byte, b.Size)); err == nil {
			out.kept = append(out.kept, bufs[i])
		}
		if err != nil {
			return nil, fmt.Errorf("buffer %s: %w", b.Name, err)
		}
	}
	for i := range g.Commands {
		k := &g.Commands[i]
		l := runtime.Launch{Kernel: kernels[k.signature()], Global: []uint64{1}}
		for _, u := range k.Uses {
			l.Args = append(l.Args, u.arg(bufs[u.Buffer]))
		}
		e, err := queues[k.Device].EnqueueLaunch(ctx, l)
		if err == nil {
			err = e.Release()
		}
		if err != nil {
			return nil, fmt.Errorf("command %d (%s): %w", i, k.Name, err)
		}
	}
	out.Graph, err = rec.Finish(ctx)
	return out, err
}

// arg is a use as an argument.
func (u *use) arg(b *runtime.Buffer) runtime.Arg {
	arg := [...]func(*runtime.Buffer) runtime.Arg{mem.Read: runtime.In, mem.Write: runtime.Out, mem.ReadWrite: runtime.InOut}[u.Mode](b)
	if u.Range.Size() == b.Size() {
		return arg.Whole()
	}
	return arg.Range(u.Range.Start, u.Range.Size())
}

// signature is the name of the kernel that a command needs: there is one for each list of modes.
func (k *command) signature() string {
	var s strings.Builder
	for _, u := range k.Uses {
		s.WriteByte("ruw"[u.Mode])
	}
	return s.String()
}

// kernels builds what the commands need.
func (g *Graph) kernels(ctx context.Context, c *runtime.Context) (map[string]*runtime.Kernel, error) {
	p := &devices.Program{Name: g.Name}
	kernels := make(map[string]*runtime.Kernel)
	for i := range g.Commands {
		k := &g.Commands[i]
		name := k.signature()
		if _, ok := kernels[name]; ok {
			continue
		}
		kernels[name] = nil
		made := devices.GoKernel{Name: name, Func: func(*work.Group) {}}
		for n, u := range k.Uses {
			made.Args = append(made.Args, devices.ArgInfo{Name: fmt.Sprint("a", n), Kind: devices.ArgBuffer, Access: u.Mode})
		}
		p.Go = append(p.Go, made)
	}
	program, err := c.Build(ctx, p)
	if err != nil {
		return nil, err
	}
	for name := range kernels {
		if kernels[name], err = program.Kernel(name); err != nil {
			return nil, err
		}
	}
	return kernels, nil
}

// Close releases the graph and its buffers.
func (r *Recorded) Close() (err error) {
	if r.Graph != nil {
		err = r.Graph.Close()
	}
	for _, b := range r.kept {
		err = errors.Join(err, b.Release())
	}
	return err
}
