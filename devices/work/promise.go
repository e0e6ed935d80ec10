package work

import (
	"fmt"
	"math/bits"

	"godwit/mem"
)

// Promise is what a launch declares that its kernel does with a buffer argument. The
// planner believes it: what is not declared is neither brought nor ordered. Launches
// whose arguments are reached through a Space are held to it, access by access; how a
// device without one may do so, devices/cpu shows.
type Promise struct {
	Made   bool      // false: the kernel may do anything
	Access mem.Mode  // Write: every byte of Range is stored to
	Range  mem.Range // bytes from the argument's start
}

// binds reports whether there is anything that size bytes of an argument may not be
// used for.
func (p Promise) binds(size uint64) bool {
	return p.Made && (p.Access != mem.ReadWrite || p.Range != mem.Range{End: size})
}

// Allows reports whether p lets a kernel load or store size bytes at off.
func (p Promise) Allows(off, size uint64, write bool) bool {
	return !p.Made || off >= p.Range.Start && off+size <= p.Range.End && (!write || p.Access.Writes())
}

// Said is p as faults name it.
func (p Promise) Said() string {
	switch p.Access {
	case mem.Read:
		return fmt.Sprintf("the launch declared that it only reads bytes %v", p.Range)
	case mem.Write:
		return fmt.Sprintf("the launch declared that it writes every byte of %v", p.Range)
	}
	return fmt.Sprintf("the launch declared that it uses bytes %v", p.Range)
}

// expect prepares for holding the kernel to what is promised of its arguments.
func (l *Launch) expect() {
	for i := range l.args {
		b := &l.args[i]
		if b.Kind != BufferArg || b.Null || !b.Promise.binds(b.Size) {
			continue
		}
		if !l.promised {
			l.promised = true
			l.stored = append(l.stored[:0], make([][]uint64, len(l.args))...)
		}
		if b.Promise.Access == mem.Write {
			l.stored[i] = make([]uint64, (b.Size+63)/64)
		}
	}
}

// keep ends the kernel where an access breaks a promise. arg is -1 for a raw address:
// then one argument with these bytes must allow it.
func (g *Group) keep(arg int, addr, size uint64, write bool) {
	broken := -1
	for i := range g.args {
		b := &g.args[i]
		off := addr - b.Addr
		if b.Kind != BufferArg || b.Null || off >= b.Size {
			continue
		}
		if write && g.run.stored[i] != nil {
			store(g.run.stored[i], off, min(size, b.Size-off))
		}
		switch {
		case arg >= 0 && i != arg:
		case b.Promise.Allows(off, size, write):
			broken = len(g.args)
		case broken < 0:
			broken = i
		}
	}
	if broken < 0 || broken == len(g.args) {
		return
	}
	b := &g.args[broken]
	off := addr - b.Addr
	if b.Promise.Access.Writes() || !write { // the range is broken, from its first byte outside
		if off >= b.Promise.Range.Start && off < b.Promise.Range.End {
			off = b.Promise.Range.End
		}
	}
	g.fault(&Fault{Kind: BrokenPromise, Arg: broken, Addr: addr, Size: size, Write: write,
		Detail: fmt.Sprintf("byte %d of the argument: %s", off, b.Promise.Said())})
}

// kept is the fault of a launch that did not store to every byte that it promised to.
func (l *Launch) kept() *Fault {
	for i, set := range l.stored {
		if set == nil {
			continue
		}
		b := &l.args[i]
		if at, ok := firstClear(set, b.Promise.Range); ok {
			f := &Fault{Kind: BrokenPromise, Kernel: l.kernel.Name, Arg: i, Addr: b.Addr + at,
				Detail: fmt.Sprintf("byte %d of the argument was not written: %s", at, b.Promise.Said())}
			if i < len(l.kernel.Args) {
				f.Name = l.kernel.Args[i]
			}
			return f
		}
	}
	return nil
}

// store sets the bits of size bytes at off.
func store(set []uint64, off, size uint64) {
	for at := off; at < off+size; at++ {
		set[at/64] |= 1 << (at % 64)
	}
}

// firstClear finds the first bit of r that is not set.
func firstClear(set []uint64, r mem.Range) (at uint64, ok bool) {
	for at := r.Start; at < r.End; {
		rest := ^set[at/64] >> (at % 64)
		if rest != 0 {
			at += uint64(bits.TrailingZeros64(rest))
			return at, at < r.End
		}
		at = (at/64 + 1) * 64
	}
	return 0, false
}
