package devices

import (
	"context"
	"fmt"
	"iter"
	"time"

	"godwit/devices/work"
	"godwit/mem"
)

// Op is what a command does.
type Op uint8

// The closed set of commands.
const (
	OpMarker   Op = iota // nothing, once its waits are reached
	OpCopy               // Size bytes from Src to Dst
	OpCopyRect           // Rect of bytes from Src to Dst
	OpFill               // Size bytes at Dst with Pattern
	OpLaunch             // Kernel over an index space
	OpHostCall           // Call, on a host goroutine
)

var opNames = [...]string{
	OpMarker: "marker", OpCopy: "copy", OpCopyRect: "copy-rect", OpFill: "fill", OpLaunch: "launch", OpHostCall: "host-call",
}

// String names the operation.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown"
}

// Loc is one end of a copy: (device, block, offset), or host bytes where
// Device is nil. The device is the queue's, one that its Link with says so (Direct), or one
// that it is connected with (Windowed) where both ends lie in windows. Beside Bytes a Block says whose they are, where the context knows.
type Loc struct {
	Device Device
	Block  mem.Block
	Off    uint64 // bytes into the block; into Bytes for rectangles
	Bytes  []byte
}

// Rect is the shape of a rectangular copy. Offsets of the first byte are in
// the Locs; pitches are in bytes and already defaulted: rows are at least as
// long as the region's, and slices whole rows, at least as many.
type Rect struct {
	Region           [3]uint64 // bytes, rows, slices
	SrcRow, SrcSlice uint64
	DstRow, DstSlice uint64
}

// Piece is a run of bytes of a copy. Offsets are beyond those of its Locs.
type Piece struct{ Dst, Src, Size uint64 }

// Rows yields the rows of a rectangle.
func (r *Rect) Rows() iter.Seq[Piece] {
	return func(yield func(Piece) bool) {
		for z := range r.Region[2] {
			for y := range r.Region[1] {
				if !yield(Piece{z*r.DstSlice + y*r.DstRow, z*r.SrcSlice + y*r.SrcRow, r.Region[0]}) {
					return
				}
			}
		}
	}
}

// Pieces yields what an OpCopy or OpCopyRect moves.
func (c *Command) Pieces() iter.Seq[Piece] {
	if c.Op == OpCopyRect {
		return c.Rect.Rows()
	}
	return func(yield func(Piece) bool) { yield(Piece{Size: c.Size}) }
}

// Command is what a queue is given: a tagged union of the closed set of
// operations. Callers reuse it from call to call.
type Command struct {
	Op      Op
	Awaited bool // OpCopy: who submits it calls Wait at once, and waits for nothing before; the queue may leave the copy to that call, or to any other's Wait for its point
	// Unobserved says that no event stands for the command: nobody asks for its times, so the
	// queue keeps none, or when exactly it ends. Its point may be reached only when somebody waits
	// for that or a later one of the queue, or asks to be told of it.
	Unobserved bool
	// Checked says that who submits the command has seen to what CheckCommand tests, which then tests nothing. It is
	// Vouched of what the runtime and its mover submit, since an enqueue refuses what is wrong before anything moves.
	Checked bool
	Tag     uint64 // the caller's; copied into traces and errors

	// Run, where not nil, are commands that follow this one as one with it. Only a Runner is given some.
	Run *Run

	// Dst and Src of an OpMarker say, where Size is not 0, what the host does itself: it
	// has written Size bytes at Dst, or reads those at Src from the end of the marker on.
	// Only devices that keep no bytes look at them, and others may not be told.
	Dst, Src Loc
	Size     uint64 // bytes, for OpCopy and OpFill; for OpLaunch see Operations
	Late     Late   // OpCopy: what part of Size there is to move; nil is all
	Rect     Rect
	Pattern  []byte // 1 to 128 bytes, a power of two; Size is a multiple of it

	Kernel                Kernel
	Dims                  int       // 1 to 3
	Global, Local, Offset [3]uint64 // work-items; Local zero leaves it to the driver
	Args                  []Arg     // the kernel's, and then any number of ArgSVM that it reaches by pointers in memory
	// Takes, of an OpLaunch, is how long the kernel runs, where the program knows that and
	// the device is in virtual time; 0 leaves it to the device's machine.
	Takes time.Duration
	// Operations, of such an OpLaunch without Takes, is what the kernel computes in all, as Size is what
	// goes through its device's memory; 0 leaves either to the machine.
	Operations uint64

	Call func(ctx context.Context) error // OpHostCall

	// Carrier, of an OpCopy, does the copy in place of the queue, which checks the
	// command as any, says when, and ends its point when it is told to. A queue may
	// do the copy itself, within Submit where the command is Awaited; those with a pace do.
	Carrier Carrier
}

// Run is what makes a command the first of a run: the commands behind it, which have no waits and no points of their own. The
// run begins when the first may, and its one point ends with all of them. The failure of one is the run's: which of the others have
// run is not said then. Of the commands behind the first only counts what they do.
//
// A run that is submitted again and again has room for what its queue makes of it, which is used within Submit.
type Run struct {
	Then    []Command
	Form    any  // the queue's own form of all of it; nil where a command is another than the last time
	Changed bool // arguments are others than the last time, each of the same kind and values of the same size; cleared by the queue
}

// Then are the commands behind the first of a run.
func (c *Command) Then() []Command {
	if c.Run == nil {
		return nil
	}
	return c.Run.Then
}

// Of says of an error of command i of a run which one that is; of a command alone it says nothing.
func (c *Command) Of(i int, err error) error {
	n := len(c.Then())
	if n == 0 || err == nil {
		return err
	}
	return fmt.Errorf("run of %d commands, which begins with %d, command %d of it: %w", 1+n, c.Tag, i, err)
}

// Carrier does a copy in place of a queue.
type Carrier interface {
	// Carry begins with the copy, whose waits have succeeded, and has done told of its
	// end once, not from within. It blocks nowhere and calls no driver, so it may be
	// called under a driver's locks.
	Carry(done Carried)
}

// Carried is told of the end of what a Carrier did.
type Carried interface {
	Carried(err error)
}

// ArgKind is the form of a kernel argument.
type ArgKind uint8

// The kinds of arguments.
const (
	ArgValue   ArgKind = iota // bytes by value
	ArgBuffer                 // (block, offset, size)
	ArgLocal                  // a size of local memory
	ArgSVM                    // a shared virtual memory pointer
	ArgUnknown                // of a kernel only: it does not say, and takes any of those before
	ArgOpaque                 // of a kernel only: a pipe or queue, which no command can give
	ArgSampler                // how images are looked at
)

var argKindNames = [...]string{
	ArgValue: "value", ArgBuffer: "buffer", ArgLocal: "local", ArgSVM: "svm", ArgUnknown: "unknown", ArgOpaque: "pipe or queue", ArgSampler: "sampler",
}

// String names the kind.
func (k ArgKind) String() string {
	if int(k) < len(argKindNames) {
		return argKindNames[k]
	}
	return "unknown"
}

// Arg is the value of a kernel argument in a launch.
type Arg struct {
	Kind    ArgKind
	Value   []byte       // ArgValue
	Device  Device       // ArgBuffer, ArgSVM: whose block it is; nil is the queue's device's own
	Block   mem.Block    // ArgBuffer, ArgSVM; zero is a null pointer
	Off     uint64       // ArgBuffer, ArgSVM: bytes into the block
	Size    uint64       // ArgBuffer, ArgSVM: bytes reachable; ArgLocal: bytes wanted
	Pointer uint64       // ArgSVM: the address at which kernels see the first of those bytes
	Image   *Image       // ArgBuffer: the shape in which the kernel sees those bytes; nil is none
	Sampler Sampler      // ArgSampler
	Promise work.Promise // ArgBuffer: what the launch declares that it does with it, for devices that check
	Space   SVMSpace     // ArgSVM, of devices with SVMCaps.InPlace: lends them the bytes at Pointer; nil is not needed
}
