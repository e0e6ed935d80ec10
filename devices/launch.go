package devices

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"godwit/mem"
)

// Bound is an argument of a launch as its device reaches it.
type Bound struct {
	Kind  ArgKind
	Bytes []byte // buffers and local memory: where the host can reach them; values
	Addr  uint64 // buffers and local memory: the device's address
	Size  uint64 // bytes
	ID    uint64 // of the Chunk it lies in, not 0: without a Space, any number of its own
	Null  bool   // a buffer argument without a block
	// SVM: kernels see the bytes at Addr, and a Space has them at Own.
	SVM bool
	Own uint64
}

// KernelRun says how RunKernel is to work.
type KernelRun struct {
	Space Space // checks addresses; nil where arguments have Bytes
	// Serial runs the groups one after another, in order, on the calling
	// goroutine, as one core does; local memory is then the device's.
	Serial bool
}

// launch is a launch in progress; pooled.
type launch struct {
	serial                        bool
	kernel                        *BuiltGo
	space                         Space
	dims                          int
	global, local, groups, offset [3]int
	total                         int // groups
	args                          []Bound
	fault                         atomic.Pointer[error] // the first
	job                           Job
	batch                         int
	body                          func(part int) // l.runPart, made once

	mu   sync.Mutex
	free []*Group // protected by mu
}

// takeLaunch returns a free launch.
func (e *Engine) takeLaunch() *launch {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.launches); n > 0 {
		l := e.launches[n-1]
		e.launches = e.launches[:n-1]
		return l
	}
	l := new(launch)
	l.body = l.runPart
	return l
}

func (e *Engine) dropLaunch(l *launch) {
	l.kernel, l.space = nil, nil
	clear(l.args)
	e.mu.Lock()
	e.launches = append(e.launches, l)
	e.mu.Unlock()
}

// RunKernel runs a launch of a kernel built by BuildGo over all its groups,
// with args in the place of cmd's; the slice is the caller's again on return.
// The first Fault or panic of a kernel stops it and is the error.
func (e *Engine) RunKernel(cmd *Command, info *Info, args []Bound, run KernelRun) error {
	k, ok := cmd.Kernel.(*BuiltGo)
	if !ok {
		return fmt.Errorf("kernel %s is not a Go form: %w", cmd.Kernel.Name(), mem.ErrInvalidKernel)
	}
	l := e.takeLaunch()
	defer e.dropLaunch(l)
	l.kernel, l.space, l.dims = k, run.Space, cmd.Dims
	l.args = append(l.args[:0], args...)
	l.serial = run.Serial
	l.shape(cmd, info)
	if run.Serial {
		l.batch = l.total
		l.runPart(0)
	} else {
		// A few parts a worker, so that uneven groups even out.
		l.batch = max(1, l.total/(4*e.Workers()))
		e.Parallel(&l.job, (l.total+l.batch-1)/l.batch, l.body)
	}
	if f := l.fault.Swap(nil); f != nil {
		return *f
	}
	return nil
}

// shape works out the index space.
func (l *launch) shape(cmd *Command, info *Info) {
	local := LocalSize(cmd, info)
	l.total = 1
	for d := range 3 {
		l.global[d], l.local[d], l.groups[d], l.offset[d] = 1, 1, 1, 0
		if d < cmd.Dims {
			l.global[d], l.local[d], l.offset[d] = int(cmd.Global[d]), int(local[d]), int(cmd.Offset[d])
			l.groups[d] = l.global[d] / l.local[d]
		}
		l.total *= l.groups[d]
	}
}

// LocalSize is the size of work-groups of a launch: what it asks for, or where
// it leaves that to the device, the largest divisor of the first dimension's
// global size that the device takes, up to 256.
func LocalSize(cmd *Command, info *Info) [3]uint64 {
	if cmd.Local[0] != 0 {
		return cmd.Local
	}
	n := min(uint64(256), cmd.Global[0])
	for _, most := range []uint64{info.MaxWorkGroup, info.MaxWorkItems[0]} {
		if most != 0 {
			n = min(n, most)
		}
	}
	for cmd.Global[0]%n != 0 {
		n--
	}
	return [3]uint64{n, 1, 1}
}

// runPart runs one batch of groups.
func (l *launch) runPart(part int) {
	g := l.group()
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
	for i := part * l.batch; i < min((part+1)*l.batch, l.total); i++ {
		if l.fault.Load() != nil {
			return
		}
		rest := i
		for d := range 3 {
			g.id[d] = rest % l.groups[d]
			rest /= l.groups[d]
			g.first[d] = l.offset[d] + g.id[d]*l.local[d]
		}
		l.kernel.form.Func(g)
	}
}

// stop records why the launch ends early.
func (l *launch) stop(g *Group, v any) {
	f, ok := v.(*Fault)
	if !ok {
		f = &Fault{Kind: Crashed, Arg: -1, Detail: fmt.Sprint(v)}
		g.complete(f)
	}
	err := error(f)
	l.fault.CompareAndSwap(nil, &err)
}

// group returns a group bound to the launch, with local memory.
func (l *launch) group() *Group {
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
	if !l.serial {
		g.bindLocal()
	}
	return g
}

// localAlign is the alignment of local arguments, that of OpenCL's largest
// vector types.
const localAlign = 128

// bindLocal gives local arguments storage of the group's own.
func (g *Group) bindLocal() {
	need := uint64(0)
	for i := range g.args {
		if b := &g.args[i]; b.Kind == ArgLocal {
			up, _ := mem.AlignUp(b.Size, localAlign)
			need += up
		}
	}
	if need == 0 {
		return
	}
	if words := int(need+localAlign) / 8; len(g.scratch) < words {
		g.scratch = make([]uint64, words)
	}
	base := uint64(uintptr(unsafe.Pointer(&g.scratch[0])))
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&g.scratch[0])), 8*len(g.scratch))
	off := -base & (localAlign - 1)
	for i := range g.args {
		if b := &g.args[i]; b.Kind == ArgLocal {
			b.Bytes, b.Addr, b.ID = bytes[off:off+b.Size:off+b.Size], base+off, uint64(i)+1
			up, _ := mem.AlignUp(b.Size, localAlign)
			off += up
		}
	}
}
