package scenario

import (
	"context"
	"fmt"
	"strings"

	"godwit/devices"
	"godwit/internal/flat"
	"godwit/mem"
	"godwit/runtime"
)

// launchKind is a launch of a kernel.
type launchKind struct{ base }

func (launchKind) shapes() []*shape {
	return []*shape{commandShape("launch", "launch", of("launch", aWord, "a kernel"), []key{
		{"global", listOf(aNumber), true, "work-items: one to three numbers"}, {"local", listOf(aNumber), false, "of a work-group"}, {"offset", listOf(aNumber), false, "work-items"},
		{"args", listOf(anArgument.or(listOf(anArgument))), false, "in the order of the kernel's"},
		{"svm", listOf(aWord.or(object("reached"))), false, "what it reaches through pointers in memory"},
		{"time", aWord, false, "how long it takes on a machine (--machine), such as 20 us"},
	})}
}

func (launchKind) parse(l *loader, m *mapping, c *command) {
	c.launch = &launch{Kernel: m.text("launch")}
	m.What = "launch " + c.Kernel
	var local, offset int
	c.Global, c.Dims = l.dims(m, "global", 1)
	c.Local, local = l.dims(m, "local", 1)
	c.Offset, offset = l.dims(m, "offset", 0)
	if c.Dims > 0 && ((local != 0 && local != c.Dims) || (offset != 0 && offset != c.Dims)) {
		l.errorf(m.Node, "%s: global, local and offset want the same number of dimensions", m.What)
	}
	before := l.faults
	if c.Takes = l.duration(m, "time"); m.Has("time") && c.Takes == 0 && l.faults == before {
		l.errorf(m.get("time"), "%s: time is 0: want more; without it the machine says how long", m.What)
	}
	kernel, own := l.kernelOf(m, c.Kernel)
	if own == nil {
		l.launchItems(m.Node, m.What, c.Global[:c.Dims])
	}
	if kernel == nil {
		return
	}
	args := l.list(m.get("args"))
	before = l.faults
	if len(args) != len(kernel.Args) {
		l.errorf(m.Node, "%s: %s given, it takes %d: %s", m.What, count(len(args), "argument", "arguments"), len(kernel.Args), signature(kernel))
		return
	}
	for i, n := range args {
		what := fmt.Sprintf("%s: argument %d (%s)", m.What, i, kernel.Args[i].Name)
		for _, a := range l.ranges(n, what, &kernel.Args[i], own != nil) {
			a.Of = i
			c.Args = append(c.Args, a)
		}
	}
	if own != nil && l.faults == before {
		l.ownLaunch(own, c)
	}
	for _, n := range l.list(m.get("svm")) {
		c.Indirect = append(c.Indirect, l.readIndirect(n, m.What+": svm"))
	}
}

func (launchKind) text(s *Scenario, c *command) string {
	var args, more []string
	for i := range c.Args {
		a := s.argText(&c.Args[i])
		if i > 0 && c.Args[i].Of == c.Args[i-1].Of { // a further range of it
			args[len(args)-1] += " + " + a
			continue
		}
		args = append(args, a)
	}
	for i := range c.Indirect {
		more = append(more, s.argText(&c.Indirect[i]))
	}
	text := fmt.Sprintf("%s(%s)", c.Kernel, strings.Join(args, ", "))
	if len(more) > 0 {
		text += " reaching " + strings.Join(more, ", ")
	}
	return text
}

// buffers yields the buffers that a launch is given or reaches.
func (c *command) buffers(yield func(*argument) bool) {
	for _, args := range [][]argument{c.Args, c.Indirect} {
		for i := range args {
			if a := &args[i]; a.Buffer && a.Place.Name != "" && !yield(a) {
				return
			}
		}
	}
}

func (launchKind) uses(_ *Scenario, c *command) (out []use) {
	for a := range c.buffers {
		mode := a.Access
		if mode == mem.Write && !a.Stated { // a kernel that only writes need not write all of it
			mode = mem.ReadWrite
		}
		out = append(out, use{buffer: a.Place.Buffer, r: a.Used, mode: mode})
	}
	return out
}

func (launchKind) enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	return q.EnqueueLaunch(ctx, r.launch(&r.s.Commands[i]), wait...)
}

func (launchKind) refer(ctx context.Context, ref *reference, c *command) error {
	return ref.launch(ctx, c)
}

func (launchKind) stamp(x *stamped, c *command, by uint64) {
	for i := range c.Args {
		if a := &c.Args[i]; a.Buffer && a.Place.Name != "" && a.Access.Writes() {
			x.roots[a.Place.Buffer].Set(a.Used, flat.Stamp{By: by, Arg: int32(i), Off: a.Used.Start - a.Place.Range.Start})
		}
	}
}

func (launchKind) look(v *verifier, what string, c *command, seen []flat.Seen) {
	for k := range c.Args {
		if a := &c.Args[k]; a.Buffer && a.Place.Name != "" && a.Access.Reads() {
			v.saw(what, a.Place.Buffer, a.Used, int32(k), a.Used.Start-a.Place.Range.Start, seen)
		}
	}
}

// launch is a launch as the runtime wants it.
func (r *runner) launch(c *command) runtime.Launch {
	l := runtime.Launch{Kernel: r.kernels[c.variant()], Global: c.Global[:c.Dims], Offset: c.Offset[:c.Dims],
		Takes: c.Takes, Operations: c.Operations, Bytes: c.Bytes}
	if c.Local[0] != 0 {
		l.Local = c.Local[:c.Dims]
	}
	for i := range c.Args {
		l.Args = append(l.Args, r.arg(&c.Args[i]))
	}
	for i := range c.Indirect {
		a := c.Indirect[i]
		a.Stated = true
		l.SVM = append(l.SVM, r.arg(&a))
	}
	return l
}

func (r *runner) arg(a *argument) runtime.Arg {
	switch {
	case a.Local > 0:
		return runtime.Local(a.Local)
	case !a.Buffer:
		return runtime.Bytes(a.Value)
	case r.s.isSVM(a.Place):
		return r.svmArg(a)
	}
	b, off := r.object(place{Buffer: a.Place.Buffer, View: a.Place.View, Range: a.Used})
	out := stated(a, b, runtime.Buf, runtime.In, runtime.Out, runtime.InOut)
	if a.Used != a.Place.Range {
		out = out.Range(off, a.Used.Size())
	}
	return out
}

// stated is v as an argument, with the access that the scenario states for it.
func stated[T any](a *argument, v T, unstated, in, out, inOut func(T) runtime.Arg) runtime.Arg {
	switch {
	case !a.Stated:
		return unstated(v)
	case a.Access == mem.Read:
		return in(v)
	case a.Access == mem.Write:
		return out(v)
	}
	return inOut(v)
}

// svmArg is a pointer as an argument.
func (r *runner) svmArg(a *argument) runtime.Arg {
	p := runtime.Pointer(r.at[a.Place.Buffer] + a.At)
	out := stated(a, p, runtime.SVM, runtime.SVMIn, runtime.SVMOut, runtime.SVMInOut)
	if a.Ranged {
		out = out.Range(a.Used.Start-a.At, a.Used.Size())
	}
	return out
}

// launch runs a kernel of the reference run's own device.
func (ref *reference) launch(ctx context.Context, c *command) error {
	k, err := ref.module.Kernel(c.Kernel)
	if err != nil {
		return err
	}
	cmd := devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: c.Dims, Global: c.Global, Local: c.Local, Offset: c.Offset}
	var more []devices.Arg // what is reached by pointers in memory
	var uses []flat.Use
	use := func(a *argument, given mem.Range) {
		if a.Place.Name == "" {
			return // a null pointer
		}
		uses = append(uses, flat.Use{Root: a.Place.Buffer, Given: given, Used: a.Used, Reads: a.Access.Reads(), Writes: a.Access.Writes()})
	}
	for i := range c.Args {
		a := &c.Args[i]
		switch {
		case a.Buffer && ref.s.isSVM(a.Place):
			cmd.Args = append(cmd.Args, ref.pointer(a.Place.Buffer, a.At))
			more = append(more, ref.pointer(a.Place.Buffer, 0))
			use(a, mem.Range{End: ref.s.Buffers[a.Place.Buffer].Size})
		case a.Buffer:
			r := a.Place.Range
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgBuffer, Block: ref.blocks[a.Place.Buffer], Off: r.Start, Size: r.Size()})
			use(a, r)
		case a.Local > 0:
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgLocal, Size: a.Local})
		default:
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgValue, Value: a.Value})
		}
	}
	for i := range c.Indirect {
		a := &c.Indirect[i]
		more = append(more, ref.pointer(a.Place.Buffer, 0))
		use(a, mem.Range{End: ref.s.Buffers[a.Place.Buffer].Size})
	}
	cmd.Args = append(cmd.Args, more...)
	return ref.memory.Launch(uses, func() error {
		p, err := ref.queue.Submit(&cmd, nil)
		if err != nil {
			return err
		}
		return ref.queue.Wait(ctx, p, devices.Park)
	})
}
