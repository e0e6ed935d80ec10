package scenario

import (
	"slices"
	"time"

	"godwit/devices"
	"godwit/internal/expr"
	"godwit/mem"
	"godwit/runtime"
)

// Scenario is a scenario as read: names resolved, expressions computed,
// repeats unrolled. It is immutable once read.
type Scenario struct {
	File  string `json:"-"`
	Name  string `json:"-"`
	About string `json:"-"`
	Kind  string `json:"-"` // what godwit predict counts it among

	// Times is how often the commands are there, 0 where nobody wants to know how long they take, of which the first Warm do not count where
	// times are taken.
	Times, Warm int `json:"-"`

	// Policy says which blocks go first where a memory is short; empty is the
	// runtime's default.
	Policy string

	// WholeBelow is runtime.Options.WholeBelow.
	WholeBelow uint64

	Inputs []inputDecl  `json:"-"`
	Params []expr.Param `json:"-"`

	Devices  []deviceDecl
	Links    []linkDecl
	Buffers  []bufferDecl
	Views    []viewDecl
	Queues   []queueDecl
	Events   []userEvent
	Mappings []hostMapping
	Commands []command
	Failures []failureDecl
	Graphs   []graphDecl `json:",omitempty"`
	// Unrecorded has each round of a graph be enqueued as those of other repeats.
	Unrecorded bool `json:",omitempty"`
	Expect     []expectation
}

// deviceDecl asks a driver for one device, or for several named Name0, Name1, ...
type deviceDecl struct {
	Name   string
	Driver string
	Memory uint64 // bytes; 0 is the driver's default
	Local  uint64 // bytes; 0 is the driver's default
	Params map[string]string
	Count  int // devices in the declaration that this one came from
	// Resources are the layers over its memory, from the caller down.
	Resources []layer
	Reuse     bool   // a device may be opened several times, where there are too few
	File      string `json:"-"` // that declares it
	Line      int    `json:"-"`
}

// layer is a layer of package resource over a device's memory.
type layer struct {
	Kind  string   // "statistics", "retry", "limit", "bins", "pool" or "track"
	Size  uint64   // limit: the ceiling; pool: bytes of a slab, 0 is the default
	Sizes []uint64 // bins: bytes of the slots, ascending
}

// linkDecl declares the way from one device to another. It may name "host".
type linkDecl struct {
	From, To string
	Link     mem.Link
	Line     int `json:"-"`
}

// bufferDecl is a root: a buffer, or a block of shared virtual memory.
type bufferDecl struct {
	Name  string
	Size  uint64        // bytes
	Data  *content      // content at the start, held by the host; nil is undefined
	Flags runtime.Flags // of a buffer
	Whole bool          `json:",omitempty"` // devices store all of it or nothing
	SVM   *svmDecl      // of a block of shared virtual memory; nil for a buffer
	// SizeBuffer is the index of the buffer that says how many bytes matter, + 1;
	// 0 where all do.
	SizeBuffer int
	Line       int `json:"-"`
}

// svmDecl is what is particular to a block of shared virtual memory.
type svmDecl struct {
	Align uint64 // bytes; 0 leaves it to the runtime
	Flags runtime.SVMFlags
	Born  int // index of the command that allocates it; -1 is before all commands
	Freed int // index of the command that frees it; -1 is after all commands
}

// fine reports whether b is fine-grained shared virtual memory.
func (b *bufferDecl) fine() bool { return b.SVM != nil && b.SVM.Flags&runtime.SVMFineGrain != 0 }

// viewDecl is a sub-buffer, or a buffer over shared virtual memory.
type viewDecl struct {
	Name   string
	Buffer int       // index into Buffers: the root
	Parent int       // index into Views of the buffer over shared virtual memory that it is a part of; -1 for a part of the root
	Over   bool      // it is a buffer over shared virtual memory
	Range  mem.Range // of the root
	Flags  runtime.Flags
	Line   int `json:"-"`
}

// userEvent is an event that a set command ends.
type userEvent struct {
	Name string
	Line int `json:"-"`
	Set  int // index of the command that sets it; -1 until that is read
}

// hostMapping is a range that the host has mapped, from one command to another.
type hostMapping struct {
	Name   string
	Place  place
	Flags  runtime.MapFlags
	Map    int   // index of the map
	Unmap  int   // index of the unmap; -1 until that is read
	Uses   []int // indexes of the host's uses in between
	Line   int   `json:"-"`
	writes bool
}

// queueDecl is a command queue.
type queueDecl struct {
	Name       string
	Device     string
	OutOfOrder bool
	Priority   devices.Priority `json:",omitempty"`
	Host       string           `json:",omitempty"` // that enqueues its commands; "" is its device's
	Line       int              `json:"-"`
}

// place is a range of a buffer, as a command names it.
type place struct {
	Buffer int       // index into Buffers
	View   int       // index into Views, -1 for the root itself
	Range  mem.Range // bytes of the root
	Name   string    // as written: the root's, the view's or the mapping's
}

// op is what a command does.
type op string

// The commands there are. Repeat is unrolled when read, and so is not one.
const (
	opWrite     op = "write"
	opRead      op = "read"
	opCopy      op = "copy"
	opFill      op = "fill"
	opLaunch    op = "launch"
	opMigrate   op = "migrate"
	opMap       op = "map"
	opUnmap     op = "unmap"
	opHostWrite op = "host-write" // the host writes what it has mapped, or fine-grained memory
	opHostRead  op = "host-read"
	opAlloc     op = "alloc" // of shared virtual memory; no command of a queue
	opFree      op = "free"
	opSet       op = "set" // a user event; no command of a queue
	opBarrier   op = "barrier"
	opMarker    op = "marker"
)

// command is one command of the run.
type command struct {
	ID     string // as written, "" where it has none
	Line   int    `json:"-"`
	Kind   op
	Queue  int   // index into Queues; -1 where it goes to none
	After  []int // indexes of commands waited for, all smaller than its own
	Events []int // indexes into Events of user events waited for
	// Order are indexes of commands waited for besides: the host's uses of
	// memory are no commands of OpenCL, and nothing else would order them.
	Order []int

	Place   place      // write, fill, map: where to; read, copy: where from
	To      place      // copy
	Rect    *rectangle // read, write and copy of rows; nil where it is none
	Data    *content   // write, host-write
	Pattern []byte     // fill
	Text    string     // fill: the pattern as written
	Places  []place    // migrate, free

	Host      bool               // migrate: to the host and not to the queue's device
	Onto      []string           // migrate: to these devices (or "host") and not only to the queue's
	Undefined bool               // migrate: brings no content
	Now       bool               // free: by the host and not by a queue
	Blocking  bool               // map, read, write: the host waits
	Mapping   int                // map, unmap, host-read, host-write: index into Mappings; -1 is none
	Event     int                // set: index into Events
	Status    runtime.ExecStatus // set: Complete, or a negative status
	Alloc     int                // alloc: index into Buffers of the block it makes

	*launch // of another command noLaunch

	Callbacks []runtime.ExecStatus // that the run is told of
	Profile   bool                 // its times are shown

	Loop  loop
	Graph int `json:",omitempty"` // index into Graphs, + 1; 0 is none
}

// launch is what a command has that launches a kernel.
type launch struct {
	Kernel                string
	Args                  []argument
	Indirect              []argument    // shared virtual memory that it reaches by pointers in memory
	Takes                 time.Duration // on a machine; 0 leaves it to that
	Operations, Bytes     uint64        // likewise, of kernels without code
	Dims                  int
	Global, Local, Offset [3]uint64 // work-items

	own *ownKernel // the kernel, if it has no code
}

// noLaunch is what all other commands share, since a launch is large.
var noLaunch = new(launch)

// expectedToFail reports whether command i must fail.
func (s *Scenario) expectedToFail(i int) bool {
	return slices.ContainsFunc(s.Expect, func(e expectation) bool { return slices.Contains(e.Fails, i) })
}

// queued reports whether c is a command of a queue, with an event.
func (c *command) queued() bool { return c.Queue >= 0 }

// hostBytes is how many bytes a command takes of the host beside the buffers: the
// content that it writes, and where a read goes.
func (c *command) hostBytes() uint64 {
	switch {
	case !c.kind().traits().hostBytes:
		return 0
	case c.Rect != nil:
		return c.Rect.HostSize
	}
	return c.Place.Range.Size()
}

// rectangle says where the rows of a rectangular command lie. Pitches are in bytes.
type rectangle struct {
	Region       [3]uint64 // bytes, rows, slices
	Row, Slice   uint64    // pitches at Command.Place
	Row2, Slice2 uint64    // pitches at the other end: Command.To, or host memory
	HostOffset   uint64    // read, write: where in host memory the first byte is
	HostSize     uint64    // read, write: bytes of host memory
}

// box is the rectangle at Command.Place, which is at off of its object; otherBox is the other end's.
func (r *rectangle) box(off uint64) runtime.Box {
	return runtime.Box{Origin: [3]uint64{off}, Row: r.Row, Slice: r.Slice}
}

func (r *rectangle) otherBox(off uint64) runtime.Box {
	return runtime.Box{Origin: [3]uint64{off}, Row: r.Row2, Slice: r.Slice2}
}

// span is how far a rectangle reaches from its first byte.
func (r *rectangle) span(row, slice uint64) uint64 {
	return (r.Region[2]-1)*slice + (r.Region[1]-1)*row + r.Region[0]
}

// rows calls f with the offsets of every row at both ends.
func (r *rectangle) rows(f func(at, other uint64)) {
	for z := range r.Region[2] {
		for y := range r.Region[1] {
			f(z*r.Slice+y*r.Row, r.HostOffset+z*r.Slice2+y*r.Row2)
		}
	}
}

// launches counts the kernel launches.
func (s *Scenario) launches() (n int) {
	for i := range s.Commands {
		if s.Commands[i].Kind == opLaunch {
			n++
		}
	}
	return n
}

// loop says in which round of which outermost repeat a command is.
type loop struct {
	Line          int `json:"-"` // of the repeat; 0 outside of any
	Start         int // index of the first command of the repeat
	Round, Rounds int // from 0
}

// argument is a kernel argument, or of a kernel without code a range of one.
type argument struct {
	Of     int       // which of the kernel's it is, or is a range of
	Buffer bool      // or a pointer of shared virtual memory
	Place  place     // of a buffer argument: what the kernel is given
	At     uint64    // of a pointer: bytes into Place
	Access mem.Mode  // of a buffer argument
	Ranged bool      // a part was written in the scenario
	Stated bool      // Access was written in the scenario, and is not the kernel's own
	Used   mem.Range // of a buffer argument: bytes of the root that are accessed
	Value  []byte    // by value
	Text   string    // the value as written
	Local  uint64    // bytes of local memory
}

// failureDecl is what is to fail on a machine: a command, or what is under way on a device.
type failureDecl struct {
	Line    int           `json:"-"`
	Command int           // index into Commands; -1 is none
	Device  string        // or "host", where it is no command
	At      time.Duration // on the machine's clock, of a device's
}

// expectation is what must hold at the end.
type expectation struct {
	Line int    `json:"-"`
	Text string // what is expected, for people

	Place     *place   // content: of this place
	Reference bool     // content: as in the reference run
	Data      *content // content: as this
	SHA256    string   // content: with this hash, in hex

	Moved   *uint64 // bytes moved, exactly
	Minimal bool    // bytes moved equal the lower bound
	Percent *uint64 // bytes due to capacity, at most, in percent of their bound
	Copies  *uint64 // number of copies
	Fails   []int   // indexes of commands that must fail
	Only    []place // every copy lies in one of these
}
