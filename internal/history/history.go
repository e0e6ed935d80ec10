// Package history runs one random history of commands over many
// configurations of devices and compares every byte read with one flat memory.
//
// A history is data: root buffers of all kinds (with content or not, over the
// caller's memory, over coarse- and fine-grained shared virtual memory),
// overlapping sub-buffers, commands on logical queues, wait lists, user events
// that hold commands back, maps that stay open across other commands, calls that
// must be refused. It means the same whatever runs it, since commands that touch
// the same bytes take effect in enqueue order. Run replays it on a configuration
// (kinds and number of devices, peer routes or not, allocation strategy, queue
// order) beside the model, checks the context's invariants after every step, and
// counts the bytes that moved against the oracle's lower bound, which is given
// what the history says, not what the runtime says. Where a device has shared
// virtual memory, every other command on it goes by pointers. A history that
// fails can be shrunk and saved.
package history

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"godwit/runtime"
)

// Align is the alignment in bytes of sub-buffer origins in histories; devices
// must accept it.
const Align = 128

// LogicalQueues is how many queues a history speaks of. A configuration maps
// them to those it has.
const LogicalQueues = 8

// Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	Write   Kind = "write"
	Read    Kind = "read"
	Copy    Kind = "copy"
	Fill    Kind = "fill"
	Mix     Kind = "mix"     // launch: dst[i] = 31*dst[i] + src[i] + salt
	Produce Kind = "produce" // launch that promises to write all of dst: dst[i] = 7*i + salt
	Reverse Kind = "reverse" // launch that promises to write all of dst: dst[i] = src[n-1-i]
	Migrate Kind = "migrate"

	WriteRect Kind = "write-rect"
	ReadRect  Kind = "read-rect"
	CopyRect  Kind = "copy-rect"

	// Map stays until its Unmap, before which the host uses the bytes. Operations
	// in between that OpenCL leaves undefined are left out, and those that must be
	// refused must be.
	Map   Kind = "map"
	Unmap Kind = "unmap"
	// MapBriefly is a blocking map whose context ends while it is held back: nothing
	// stays mapped. It is a user event, too: what held it back.
	MapBriefly Kind = "map-briefly"
	// FreePointer frees the pointer of a root over shared virtual memory, at once or
	// by a command; its maps end, and its buffers stay.
	FreePointer Kind = "free-pointer"

	Marker  Kind = "marker"
	Barrier Kind = "barrier"
	User    Kind = "user" // an event that holds back those that wait for it, until Set or Finish
	Set     Kind = "set"
	Finish  Kind = "finish"
	Renew   Kind = "renew"  // releases a root and its sub-buffers, perhaps in use, and makes new ones without content
	Fail    Kind = "fail"   // a host call that fails
	Refuse  Kind = "refuse" // a call that must be refused and change nothing
)

// Op is one operation. ID is its name in wait lists; names of operations that
// are not there (any more) mean nothing.
type Op struct {
	ID             int
	Kind           Kind
	Queue          int              `json:",omitempty"`
	Dst, Src       int              `json:",omitempty"` // views
	DstOff, SrcOff int              `json:",omitempty"` // bytes of the views; SrcOff of the host's memory for WriteRect and ReadRect
	Size           int              `json:",omitempty"` // bytes; of a row of a rectangle
	Rows, Slices   int              `json:",omitempty"` // of a rectangle
	DstRow, SrcRow int              `json:",omitempty"` // row pitches of a rectangle in bytes
	DstSlice       int              `json:",omitempty"` // slice pitches of a rectangle in bytes
	SrcSlice       int              `json:",omitempty"`
	Salt           uint32           `json:",omitempty"`
	Flags          runtime.MapFlags `json:",omitempty"` // of a map
	Host           bool             `json:",omitempty"` // Migrate: to the host
	Undefined      bool             `json:",omitempty"` // Migrate: without content
	More           []int            `json:",omitempty"` // Migrate: other views; -1-i is size buffer i
	Wait           []int            `json:",omitempty"`
	Ref            int              `json:",omitempty"` // Set: the user event; Unmap: the map
	Fail           bool             `json:",omitempty"` // Set: to a failure
}

// RootKind is what a root buffer is made of.
type RootKind string

// The kinds of roots. Where no device has such shared virtual memory, SVM and
// FineSVM are Plain. A renewed root has no content,
// but what the caller lends.
const (
	Plain   RootKind = "plain"
	Content RootKind = "content"        // made with content
	UserMem RootKind = "use-host-ptr"   // over memory that the caller lends, which is its content
	HostMem RootKind = "alloc-host-ptr" // with memory of the host from the start
	SVM     RootKind = "svm"            // over coarse-grained shared virtual memory of its own
	FineSVM RootKind = "svm-fine"       // over fine-grained
)

// Root is a root buffer of Size bytes.
type Root struct {
	Size int
	Kind RootKind
}

// content reports whether the root is made with content.
func (r Root) content() bool { return r.Kind == Content || r.Kind == UserMem }

// View is a buffer or, where Sub is set, a sub-buffer of the root.
type View struct {
	Root         int
	Origin, Size int // bytes
	Sub          bool
}

// History is what is replayed.
type History struct {
	Seed  uint64
	Roots []Root
	Views []View
	Ops   []Op

	// Failing says that some commands and user events fail, and with them what
	// waits for them, and what reads what that was to write.
	Failing bool
}

// WithoutLaunches has copies and fills in place of launches, for devices that run no kernels.
func (h *History) WithoutLaunches() {
	for i := range h.Ops {
		switch op := &h.Ops[i]; op.Kind {
		case Mix, Reverse:
			op.Kind = Copy
		case Produce:
			op.Kind = Fill
		}
	}
}

// launches reports whether there are any.
func (h *History) launches() bool {
	return slices.ContainsFunc(h.Ops, func(op Op) bool { return op.Kind == Mix || op.Kind == Reverse || op.Kind == Produce })
}

// String is one line that finds the history again.
func (h *History) String() string {
	return fmt.Sprintf("seed %d: %d buffers, %d views, %d operations", h.Seed, len(h.Roots), len(h.Views), len(h.Ops))
}

// Save writes h as JSON.
func (h *History) Save(path string) error {
	b, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// Load reads a history that Save wrote.
func Load(path string) (*History, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	h := new(History)
	return h, json.Unmarshal(b, h)
}

// bytes is how many bytes of host memory an operation reads or writes: all that a
// rectangle spans there.
func (op *Op) bytes() int {
	if op.Rows > 0 {
		return op.SrcOff + extent(op, op.SrcRow, op.SrcSlice)
	}
	return op.Size
}

// extent is how far a rectangle reaches from its first byte.
func extent(op *Op, row, slice int) int { return (op.Slices-1)*slice + (op.Rows-1)*row + op.Size }

// reads reports whether an operation gives bytes to the host.
func (op *Op) reads() bool {
	return op.Kind == Read || op.Kind == ReadRect || op.Kind == Unmap && op.Flags&runtime.MapRead != 0
}

// mapWrites reports whether a map or unmap is one for writing.
func (op *Op) mapWrites() bool { return op.Flags&(runtime.MapWrite|runtime.MapInvalidate) != 0 }

// writes reports whether an operation writes its destination.
func (op *Op) writes() bool {
	switch op.Kind {
	case Write, Fill, Produce, Copy, Mix, Reverse, WriteRect, CopyRect:
		return true
	case Unmap:
		return op.mapWrites()
	case Migrate:
		return op.Undefined
	}
	return false
}

// old reports whether an operation needs what its destination holds.
func (op *Op) old() bool {
	switch op.Kind {
	case Read, ReadRect, Mix:
		return true
	case Map, MapBriefly:
		return op.Flags&runtime.MapInvalidate == 0
	case Migrate:
		return !op.Undefined
	}
	return false
}

// paired reports whether an operation has a source view, which it reads.
func (op *Op) paired() bool {
	return op.Kind == Copy || op.Kind == CopyRect || op.Kind == Mix || op.Kind == Reverse
}

// hostWrites is the part of a mapped range that the host writes before the unmap:
// all of it where old content was not asked for.
func (op *Op) hostWrites() (from, to int) {
	if op.Flags&runtime.MapInvalidate != 0 {
		return 0, op.Size
	}
	return op.Size / 3, op.Size - op.Size/4
}

// row is a run of bytes of the destination view, and of the source view or the
// host's memory.
type row struct{ dst, src, size int }

// rows are the runs that an operation works on: one but for rectangles.
func (h *History) rows(op *Op) []row {
	if op.Kind == Migrate {
		return []row{{0, 0, h.Views[op.Dst].Size}}
	}
	if op.Rows == 0 {
		return []row{{op.DstOff, op.SrcOff, op.Size}}
	}
	var out []row
	for z := range op.Slices {
		for y := range op.Rows {
			out = append(out, row{op.DstOff + z*op.DstSlice + y*op.DstRow, op.SrcOff + z*op.SrcSlice + y*op.SrcRow, op.Size})
		}
	}
	return out
}
