package scenario

import "godwit/mem"

// Scenario is a scenario as read: names resolved, expressions computed,
// repeats unrolled. It is immutable once read.
type Scenario struct {
	File, Name, About string

	Devices  []Device
	Links    []Link
	Buffers  []Buffer
	Views    []View
	Queues   []Queue
	Commands []Command
	Expect   []Expectation
}

// Device asks a driver for one device, or for several named Name0, Name1, ...
type Device struct {
	Name   string
	Driver string
	Memory uint64 // bytes; 0 is the driver's default
	Local  uint64 // bytes; 0 is the driver's default
	Params map[string]string
	Count  int  // devices in the declaration that this one came from
	Reuse  bool // a device may be opened several times, where there are too few
	Line   int
}

// Link declares the way from one device to another. It may name "host".
type Link struct {
	From, To string
	Link     mem.Link
	Line     int
}

// Buffer is a root buffer.
type Buffer struct {
	Name string
	Size uint64 // bytes
	Data *Data  // content at the start, held by the host; nil is undefined
	Line int
}

// View is a sub-buffer.
type View struct {
	Name   string
	Buffer int // index into Buffers
	Range  mem.Range
	Line   int
}

// Queue is a command queue.
type Queue struct {
	Name       string
	Device     string
	OutOfOrder bool
	Line       int
}

// Place is a range of a buffer, as a command names it.
type Place struct {
	Buffer int       // index into Buffers
	View   int       // index into Views, -1 for the buffer itself
	Range  mem.Range // bytes of the root buffer
	Name   string    // as written: the buffer's or the view's
}

// Kind is what a command does.
type Kind string

// The commands there are. Repeat is unrolled when read, and so is not one.
const (
	Write   Kind = "write"
	Read    Kind = "read"
	Copy    Kind = "copy"
	Fill    Kind = "fill"
	Launch  Kind = "launch"
	Migrate Kind = "migrate"
	Barrier Kind = "barrier"
	Marker  Kind = "marker"
)

// Command is one command of the run.
type Command struct {
	ID    string // as written, "" where it has none
	Line  int
	Kind  Kind
	Queue int   // index into Queues
	After []int // indexes of commands waited for, all smaller than its own

	Place   Place   // write, fill: where to; read, copy: where from
	To      Place   // copy
	Rows    uint64  // copy of rows: how many; 0 where it is none
	Width   uint64  // copy of rows: bytes of one
	Pitch   uint64  // copy of rows: bytes from one to the next, in the source
	ToPitch uint64  // copy of rows: bytes from one to the next, in the destination
	Data    *Data   // write
	Pattern []byte  // fill
	Text    string  // fill: the pattern as written
	Places  []Place // migrate
	Host    bool    // migrate: to the host and not to the queue's device

	Kernel                string // launch
	Args                  []Arg
	Dims                  int
	Global, Local, Offset [3]uint64 // work-items

	Loop Loop
}

// launches counts the kernel launches.
func (s *Scenario) launches() (n int) {
	for i := range s.Commands {
		if s.Commands[i].Kind == Launch {
			n++
		}
	}
	return n
}

// Loop says in which round of which outermost repeat a command is.
type Loop struct {
	Line          int // of the repeat; 0 outside of any
	Start         int // index of the first command of the repeat
	Round, Rounds int // from 0
}

// Arg is a kernel argument.
type Arg struct {
	Buffer bool
	Place  Place     // of a buffer argument: what the kernel is given
	Access mem.Mode  // of a buffer argument
	Stated bool      // Access was written in the scenario, and is not the kernel's own
	Used   mem.Range // of a buffer argument: bytes of the root that are accessed
	Value  []byte    // by value
	Text   string    // the value as written
	Local  uint64    // bytes of local memory
}

// Expectation is what must hold at the end.
type Expectation struct {
	Line int
	Text string // what is expected, for people

	Place     *Place // content: of this place
	Reference bool   // content: as in the reference run
	Data      *Data  // content: as this
	SHA256    string // content: with this hash, in hex

	Moved   *uint64 // bytes moved, exactly
	Minimal bool    // bytes moved equal the lower bound
	Copies  *uint64 // number of copies
	Only    []Place // every copy lies in one of these
}

func names(places []Place) string {
	out := ""
	for i, p := range places {
		if i > 0 {
			out += ", "
		}
		out += p.Name
	}
	return out
}
