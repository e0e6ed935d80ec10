package scenario

import (
	"godwit/mem"
	"godwit/runtime"
)

// launch is a launch as the runtime wants it.
func (r *runner) launch(c *Command) runtime.Launch {
	l := runtime.Launch{Kernel: r.kernels[c.Kernel], Global: c.Global[:c.Dims], Offset: c.Offset[:c.Dims], Takes: c.Takes}
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

func (r *runner) arg(a *Arg) runtime.Arg {
	switch {
	case a.Local > 0:
		return runtime.Local(a.Local)
	case !a.Buffer:
		return runtime.Bytes(a.Value)
	case r.s.isSVM(a.Place):
		return r.svmArg(a)
	}
	b, off := r.object(Place{Buffer: a.Place.Buffer, View: a.Place.View, Range: a.Used})
	out := stated(a, b, runtime.Buf, runtime.In, runtime.Out, runtime.InOut)
	if a.Used != a.Place.Range {
		out = out.Range(off, a.Used.Size())
	}
	return out
}

// stated is v as an argument, with the access that the scenario states for it.
func stated[T any](a *Arg, v T, unstated, in, out, inOut func(T) runtime.Arg) runtime.Arg {
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
func (r *runner) svmArg(a *Arg) runtime.Arg {
	p := runtime.Pointer(r.at[a.Place.Buffer] + a.At)
	out := stated(a, p, runtime.SVM, runtime.SVMIn, runtime.SVMOut, runtime.SVMInOut)
	if a.Ranged {
		out = out.Range(a.Used.Start-a.At, a.Used.Size())
	}
	return out
}
