package runtime

import (
	"fmt"

	"godwit/devices"
	"godwit/mem"
)

// SVM is a pointer of shared virtual memory as a kernel argument; it may point
// inside a block, and 0 is a null pointer. The launch uses the whole block, or
// with Range some bytes counted from the pointer, as the kernel and the block's
// flags declare. In Launch.SVM it says what the kernel reaches through pointers
// in memory.
func SVM(p Pointer) Arg { return Arg{kind: devices.ArgSVM, set: true, pointer: p} }

// SVMIn, SVMOut and SVMInOut are SVM for a launch that only reads the bytes, that
// writes every byte of them (as with Out), and that reads and writes them.
func SVMIn(p Pointer) Arg {
	return Arg{kind: devices.ArgSVM, set: true, pointer: p, mode: modeRead}
}

// SVMOut is described at SVMIn.
func SVMOut(p Pointer) Arg {
	return Arg{kind: devices.ArgSVM, set: true, pointer: p, mode: modeWrite}
}

// SVMInOut is described at SVMIn.
func SVMInOut(p Pointer) Arg {
	return Arg{kind: devices.ArgSVM, set: true, pointer: p, mode: modeReadWrite}
}

// boundSVM is a pointer of a launch, found.
type boundSVM struct {
	root      *root // nil is the null pointer
	off, size uint64
}

// indirect is what a kernel does to memory that no argument names: anything, where
// the launch does not say.
var indirect = devices.ArgInfo{Name: "by pointers in memory", Kind: devices.ArgBuffer, Access: mem.ReadWrite}

// collectSVMArg lists the access of a pointer, and finds it for the command: in
// args where it is an argument, else in more. c.mu is held.
func (c *Context) collectSVMArg(req *request, a *Arg, info *devices.ArgInfo, isArg bool) error {
	s := &c.scratch
	if a.pointer == 0 {
		s.svmArgs = append(s.svmArgs, boundSVM{})
		return nil
	}
	r, off, err := c.svmAt(a.pointer)
	if err != nil && !isArg && c.arena != nil && c.arena.Holds(a.pointer) {
		return nil // freed since it was named: nothing that the kernel may reach
	}
	if err != nil {
		return fmt.Errorf("%w: %w", err, mem.ErrArgValue)
	}
	b := *a
	b.buf = r.svm.buf
	u, bound := use{buf: b.buf, r: mem.Range{End: r.size}}, boundSVM{r, off, r.size - off}
	if a.ranged {
		if u.r, err = mem.SpanIn(a.off, a.size, r.size-off); err != nil {
			return fmt.Errorf("%d bytes at %d of %v, byte %d of %s: %w", a.size, a.off, a.pointer, off, r.label(), err)
		}
		u.r, bound.size = u.r.Shift(off), a.off+a.size
	}
	if (a.mode == modeWrite || a.mode == modeReadWrite) && b.buf.view.Flags.ReadOnly() {
		return fmt.Errorf("%s is read-only, and written: %w", r.label(), mem.ErrArgValue)
	}
	if err := c.access(req, u, b.access(info), req.q.mem); err != nil {
		return err
	}
	if isArg {
		s.svmArgs = append(s.svmArgs, bound)
	} else {
		s.svmMore = append(s.svmMore, boundSVM{r, u.r.Start, u.r.Size()})
	}
	if !a.ranged && isArg && off > 0 { // the kernel may reach what lies before
		s.svmMore = append(s.svmMore, boundSVM{r, 0, r.size})
	}
	return nil
}

// svmArg is a found pointer as a device's argument. c.mu is held.
func (q *Queue) svmArg(b boundSVM, m mem.MemoryID) devices.Arg {
	arg := devices.Arg{Kind: devices.ArgSVM}
	if b.root == nil {
		return arg
	}
	arg.Off, arg.Size, arg.Pointer = b.off, b.size, uint64(b.root.svm.p)+b.off
	if m = q.c.storeOf(b.root, m); m != q.mem {
		arg.Device, arg.Space = q.c.mems[m].dev, b.root.svm.arena
	}
	block, _ := b.root.blockAt(m, 0)
	arg.Block = *block
	return arg
}

// storeOf is the memory that holds a root for a device with memory m.
func (c *Context) storeOf(r *root, m mem.MemoryID) mem.MemoryID {
	if r.svm != nil && (r.svm.fine() || c.mems[m].info.SVM.InPlace) {
		return mem.Host
	}
	return m
}
