// Package work is what kernels written in Go are made of, in OpenCL's words: a Launch
// runs a kernel over work-groups, a Group runs its work-items, and a View is an
// argument as elements. Every access is checked, and one that the device does not allow
// is a Fault of the launch.
//
// Kernels use Group, Item, View and the functions beside them; whoever runs kernels, as
// devices/engine does, uses Launch.
package work

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"godwit/mem"
)

// Kernel is a kernel as a Launch runs it.
type Kernel struct {
	Name string
	Args []string       // names of the arguments, for faults
	Func func(g *Group) // called once for each work-group, from many goroutines at once
}

// Shape is the index space of a launch. Dimensions beyond Dims have one work-item.
type Shape struct {
	Dims                          int // 1 to 3
	Global, Local, Groups, Offset [3]int
}

// Options say how a launch is to work.
type Options struct {
	Space Space // checks addresses; nil where arguments have Bytes
	// OwnLocal says that LocalArg arguments have memory of the device's own already.
	// Else each group gets some of the process's.
	OwnLocal bool
}

// Launch is a launch in progress: Begin, then Run for every group once, from any
// goroutines, then End, and it may be used again; steady state allocates nothing.
type Launch struct {
	kernel Kernel
	shape  Shape
	total  int    // groups
	local  uint64 // bytes that each group gets for its local arguments
	args   []Arg
	opts   Options
	fault  atomic.Pointer[Fault] // the first

	promised bool       // immutable during a launch: some argument is bound by a Promise
	stored   [][]uint64 // by argument: a bit for each byte stored to, where all have to be; written by one goroutine, since a Space has one core

	mu   sync.Mutex
	free []*Group // protected by mu
}

// Begin prepares a launch of k with args, which are copied, and returns the number of
// its groups.
func (l *Launch) Begin(k Kernel, shape Shape, args []Arg, opts Options) (groups int) {
	l.kernel, l.shape, l.opts = k, shape, opts
	l.args = append(l.args[:0], args...)
	l.total = shape.Groups[0] * shape.Groups[1] * shape.Groups[2]
	l.local, l.promised = 0, false
	if l.opts.Space != nil {
		l.expect()
	}
	for i := range l.args {
		if b := &l.args[i]; b.Kind == LocalArg && !opts.OwnLocal {
			up, _ := mem.AlignUp(b.Size, localAlign)
			l.local += up
		}
	}
	return l.total
}

// End ends a launch whose groups have all been run. The error is the first Fault,
// a kernel's panic and a broken Promise included.
func (l *Launch) End() error {
	f := l.fault.Swap(nil)
	if f == nil && l.promised {
		f = l.kept()
	}
	l.kernel, l.opts = Kernel{}, Options{}
	clear(l.args)
	clear(l.stored)
	if f != nil {
		return f
	}
	return nil
}

// Run runs the groups [first, end), dimension 0 fastest, one after another. After a
// fault in any group of the launch, no further ones start.
func (l *Launch) Run(first, end int) {
	g := l.take()
	defer func() {
		if v := recover(); v != nil {
			l.stop(g, v)
		}
		g.run = nil
		clear(g.args)
		l.mu.Lock()
		l.free = append(l.free, g)
		l.mu.Unlock()
	}()
	for i := first; i < min(end, l.total); i++ {
		if l.fault.Load() != nil {
			return
		}
		rest := i
		for d := range 3 {
			g.id[d] = rest % l.shape.Groups[d]
			rest /= l.shape.Groups[d]
			g.first[d] = l.shape.Offset[d] + g.id[d]*l.shape.Local[d]
		}
		l.kernel.Func(g)
	}
}

// stop records why the launch ends early.
func (l *Launch) stop(g *Group, v any) {
	f, ok := v.(*Fault)
	if !ok {
		f = &Fault{Kind: Crashed, Arg: -1, Detail: fmt.Sprint(v)}
		g.complete(f)
	}
	l.fault.CompareAndSwap(nil, f)
}

// take returns a group bound to the launch, with local memory.
func (l *Launch) take() *Group {
	l.mu.Lock()
	var g *Group
	if n := len(l.free); n > 0 {
		g, l.free = l.free[n-1], l.free[:n-1]
	} else {
		g = new(Group)
	}
	l.mu.Unlock()
	g.run = l
	g.x, g.y, g.z = 0, 0, 0
	g.args = append(g.args[:0], l.args...)
	g.caches = slices.Grow(g.caches[:0], len(l.args)+1)[:len(l.args)+1]
	clear(g.caches)
	if l.local > 0 {
		g.bindLocal()
	}
	return g
}

// localAlign is the alignment of local arguments, that of OpenCL's largest
// vector types.
const localAlign = 128

// bindLocal gives local arguments storage of the group's own.
func (g *Group) bindLocal() {
	if words := int(g.run.local+localAlign) / 8; len(g.scratch) < words {
		g.scratch = make([]uint64, words)
	}
	base := uint64(uintptr(unsafe.Pointer(&g.scratch[0])))
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&g.scratch[0])), 8*len(g.scratch))
	off := -base & (localAlign - 1)
	for i := range g.args {
		if b := &g.args[i]; b.Kind == LocalArg {
			b.Bytes, b.Addr, b.ID = bytes[off:off+b.Size:off+b.Size], base+off, uint64(i)+1
			up, _ := mem.AlignUp(b.Size, localAlign)
			off += up
		}
	}
}
