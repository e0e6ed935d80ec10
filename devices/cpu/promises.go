package cpu

import (
	"fmt"
	"slices"
	"unsafe"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/work"
	"godwit/mem"
)

// Checking what launches declare of their arguments (Options.Promises). Kernels reach
// bytes in place, without a check, so they are given copies instead: of what is
// declared to be read a copy, of all else a pattern. Afterwards only what was declared
// to be written may differ, and that alone is copied back. Nothing outside the declared
// ranges is touched, which other commands may be using meanwhile.

// pattern fills the parts of a guarded copy that a kernel has no business with.
const pattern = 0xa5

// guarded is a copy of the bytes of one or more arguments that share some.
type guarded struct {
	real   mem.Range // addresses
	args   []int
	bytes  []byte
	before []byte
}

// launchGuarded runs a launch over copies of the arguments that all promise
// something; the others are used in place.
func (d *Device) launchGuarded(cmd *devices.Command, args []work.Arg) error {
	copies := guardedCopies(args)
	inPlace := slices.Clone(args)
	for i := range copies {
		copies[i].fill(args, inPlace)
	}
	if err := d.Launch(cmd, args, engine.KernelRun{}); err != nil {
		return err
	}
	for i := range copies {
		if err := copies[i].verify(cmd, inPlace); err != nil {
			return err
		}
	}
	for i := range copies {
		copies[i].copyBack(inPlace)
	}
	return nil
}

// guardedCopies groups the buffers among args by the bytes that they share.
func guardedCopies(args []work.Arg) (out []guarded) {
	var order []int
	for i := range args {
		if args[i].Kind == work.BufferArg && !args[i].Null && len(args[i].Bytes) > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return int(int64(address(&args[a]) - address(&args[b]))) })
	for _, i := range order {
		r := mem.Range{Start: address(&args[i]), End: address(&args[i]) + args[i].Size}
		if n := len(out); n > 0 && r.Start < out[n-1].real.End {
			out[n-1].real.End = max(out[n-1].real.End, r.End)
			out[n-1].args = append(out[n-1].args, i)
		} else {
			out = append(out, guarded{real: r, args: []int{i}})
		}
	}
	return slices.DeleteFunc(out, func(s guarded) bool {
		return slices.ContainsFunc(s.args, func(i int) bool { return !args[i].Promise.Made })
	})
}

// fill makes the copy's bytes and points the arguments at them.
func (s *guarded) fill(args, inPlace []work.Arg) {
	s.bytes = aligned(s.real.Size(), s.real.Start)
	for i := range s.bytes {
		s.bytes[i] = pattern
	}
	for _, i := range s.args {
		a := &args[i]
		off := address(a) - s.real.Start
		a.Bytes = s.bytes[off : off+a.Size : off+a.Size]
		if p := a.Promise; p.Access.Reads() {
			copy(a.Bytes[p.Range.Start:p.Range.End], inPlace[i].Bytes[p.Range.Start:p.Range.End])
		}
		a.Addr = address(a)
	}
	s.before = slices.Clone(s.bytes)
}

// verify finds the first byte that changed and that no argument was declared to write.
func (s *guarded) verify(cmd *devices.Command, inPlace []work.Arg) error {
	for at := range s.bytes {
		if s.bytes[at] == s.before[at] {
			continue
		}
		addr := s.real.Start + uint64(at)
		if blame := s.blame(addr, inPlace); blame >= 0 {
			a := &inPlace[blame]
			return &work.Fault{Kind: work.BrokenPromise, Kernel: cmd.Kernel.Name(), Arg: blame, Name: cmd.Kernel.Args()[blame].Name, Addr: addr,
				Detail: fmt.Sprintf("byte %d of the argument was changed: %s", addr-address(a), a.Promise.Said())}
		}
	}
	return nil
}

// blame is the argument that was declared not to change the byte at addr, or -1 where
// one was declared to write it. Of several, one that is written elsewhere is likelier.
func (s *guarded) blame(addr uint64, inPlace []work.Arg) int {
	blame := -1
	for _, i := range s.args {
		a := &inPlace[i]
		off := addr - address(a)
		if off >= a.Size {
			continue
		}
		if a.Promise.Allows(off, 1, true) {
			return -1
		}
		if blame < 0 || a.Promise.Access.Writes() {
			blame = i
		}
	}
	return blame
}

// copyBack writes what was declared to be written.
func (s *guarded) copyBack(inPlace []work.Arg) {
	for _, i := range s.args {
		a := &inPlace[i]
		if p := a.Promise; p.Access.Writes() {
			off := address(a) - s.real.Start
			copy(a.Bytes[p.Range.Start:p.Range.End], s.bytes[off+p.Range.Start:off+p.Range.End])
		}
	}
}

// address is where an argument's bytes are in the process.
func address(a *work.Arg) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(a.Bytes)))) }

// aligned returns size bytes at an address that is like another one to 256 bytes.
func aligned(size, like uint64) []byte {
	const to = 256
	raw := make([]byte, size+to)
	off := (like - uint64(uintptr(unsafe.Pointer(unsafe.SliceData(raw))))) % to
	return raw[off : off+size : off+size]
}
