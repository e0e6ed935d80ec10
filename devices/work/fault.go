package work

import (
	"fmt"
	"strings"

	"godwit/mem"
)

// FaultKind says what a kernel did.
type FaultKind uint8

// The faults of kernels.
const (
	OutOfBounds    FaultKind = iota // beyond the argument's bytes
	UseAfterFree                    // the argument's block has been freed
	Misaligned                      // the address is no multiple of the size
	UnknownAddress                  // no memory there
	NullPointer                     // the argument was given no block
	WrongType                       // the argument is no such thing
	Crashed                         // the kernel panicked
	BrokenPromise                   // not what the launch declared of the argument
)

var faultNames = [...]string{
	OutOfBounds: "out of bounds", UseAfterFree: "use after free", Misaligned: "misaligned access", UnknownAddress: "unknown address",
	NullPointer: "null pointer", WrongType: "wrong type of argument", Crashed: "panic", BrokenPromise: "broken promise",
}

// String names the fault.
func (k FaultKind) String() string {
	if int(k) < len(faultNames) {
		return faultNames[k]
	}
	return "unknown fault"
}

// Fault is how a launch fails whose kernel did what its device does not allow.
// It is a mem.ErrFault.
type Fault struct {
	Kind   FaultKind
	Kernel string
	Arg    int    // index of the argument, -1 for a raw address or none
	Name   string // of the argument
	Addr   uint64 // the device's address; 0 where it has none
	Size   uint64 // bytes of the access
	Write  bool
	Group  [3]int // of the work-group
	Item   [3]int // global id of the work-item; the group's first outside Items
	Detail string // what else there is to say
}

// Error names address, kernel, argument and work-item.
func (f *Fault) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kernel %s: %v", f.Kernel, f.Kind)
	if f.Size != 0 {
		fmt.Fprintf(&b, ": %s of %d bytes at address %#x", map[bool]string{false: "load", true: "store"}[f.Write], f.Size, f.Addr)
	}
	if f.Arg >= 0 {
		fmt.Fprintf(&b, ", argument %d (%s)", f.Arg, f.Name)
	}
	if f.Size != 0 || f.Kind != BrokenPromise { // else it is all of the launch
		fmt.Fprintf(&b, ", work-item %v of group %v", f.Item, f.Group)
	}
	if f.Detail != "" {
		b.WriteString(": " + f.Detail)
	}
	return b.String()
}

// Unwrap is mem.ErrFault.
func (f *Fault) Unwrap() error { return mem.ErrFault }
