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

	"godwit/mem"
	"godwit/runtime"
)

// Align is the alignment in bytes of sub-buffer origins in histories; devices
// must accept it.
const Align = 128

// logicalQueues is how many queues a history speaks of. A configuration maps
// them to those it has.
const logicalQueues = 8

// kind is what an operation does.
type kind string

// The kinds of operations.
const (
	opWrite   kind = "write"
	opRead    kind = "read"
	opCopy    kind = "copy"
	opFill    kind = "fill"
	opMix     kind = "mix"     // launch: dst[i] = 31*dst[i] + src[i] + salt
	opProduce kind = "produce" // launch that promises to write all of dst: dst[i] = 7*i + salt
	opReverse kind = "reverse" // launch that promises to write all of dst: dst[i] = src[n-1-i]
	opMigrate kind = "migrate"

	opWriteRect kind = "write-rect"
	opReadRect  kind = "read-rect"
	opCopyRect  kind = "copy-rect"

	// opMap stays until its opUnmap, before which the host uses the bytes. Operations
	// in between that OpenCL leaves undefined are left out, and those that must be
	// refused must be.
	opMap   kind = "map"
	opUnmap kind = "unmap"
	// opMapBriefly is a blocking map whose context ends while it is held back: nothing
	// stays mapped. It is a user event, too: what held it back.
	opMapBriefly kind = "map-briefly"
	// opFreePointer frees the pointer of a root over shared virtual memory, at once or
	// by a command; its maps end, and its buffers stay.
	opFreePointer kind = "free-pointer"

	// opCount writes a count to size buffer Ref; opCountBy makes that the one of Dst's root, or takes
	// that away where Ref is none of them. Neither happens while anything is mapped:
	// a copy to the host that a larger count asks for would wait for the unmap.
	opCount   kind = "count"
	opCountBy kind = "count-by"

	opMarker  kind = "marker"
	opBarrier kind = "barrier"
	opUser    kind = "user" // an event that holds back those that wait for it, until Set or Finish
	opSet     kind = "set"
	opFinish  kind = "finish"
	opRenew   kind = "renew"  // releases a root and its sub-buffers, perhaps in use, and makes new ones without content
	opFail    kind = "fail"   // a host call that fails
	opRefuse  kind = "refuse" // a call that must be refused and change nothing
	opAbort   kind = "abort"  // aborts request Ref
)

// operation is one operation. ID is its name in wait lists; names of operations that
// are not there (any more) mean nothing.
type operation struct {
	ID             int
	Kind           kind
	Goroutine      int              `json:",omitempty"` // that enqueues it: 0 or, beside it, another
	Queue          int              `json:",omitempty"`
	Dst, Src       int              `json:",omitempty"` // views
	DstOff, SrcOff int              `json:",omitempty"` // bytes of the views; SrcOff of the host's memory for opWriteRect and opReadRect
	Size           int              `json:",omitempty"` // bytes; of a row of a rectangle
	Rows, Slices   int              `json:",omitempty"` // of a rectangle
	DstRow, SrcRow int              `json:",omitempty"` // row pitches of a rectangle in bytes
	DstSlice       int              `json:",omitempty"` // slice pitches of a rectangle in bytes
	SrcSlice       int              `json:",omitempty"`
	Salt           uint32           `json:",omitempty"`
	Flags          runtime.MapFlags `json:",omitempty"` // of a map
	Host           bool             `json:",omitempty"` // opMigrate: to the host
	Undefined      bool             `json:",omitempty"` // opMigrate: without content
	More           []int            `json:",omitempty"` // opMigrate: other views
	Wait           []int            `json:",omitempty"`
	Ref            int              `json:",omitempty"` // opSet: the user event; opUnmap: the map
	Fail           bool             `json:",omitempty"` // opSet: to a failure
	Request        int              `json:",omitempty"` // it belongs to; 0 is none
}

// rootKind is what a root buffer is made of.
type rootKind string

// The kinds of roots. Where no device has such shared virtual memory, SVM and
// fineRoot are plainRoot. A renewed root has no content,
// but what the caller lends.
const (
	plainRoot   rootKind = "plain"
	contentRoot rootKind = "content"        // made with content
	lentRoot    rootKind = "use-host-ptr"   // over memory that the caller lends, which is its content
	hostRoot    rootKind = "alloc-host-ptr" // with memory of the host from the start
	svmRoot     rootKind = "svm"            // over coarse-grained shared virtual memory of its own
	fineRoot    rootKind = "svm-fine"       // over fine-grained
	sizeRoot    rootKind = "size"           // a size buffer: its first 8 bytes say how many bytes matter of the roots that name it
)

// rootSpec is a root buffer of Size bytes.
type rootSpec struct {
	Size   int
	Kind   rootKind
	Tenant int `json:",omitempty"` // 0 is none
}

// content reports whether the root is made with content.
func (r rootSpec) content() bool { return r.Kind == contentRoot || r.Kind == lentRoot }

// viewSpec is a buffer or, where Sub is set, a sub-buffer of the root.
type viewSpec struct {
	Root         int
	Origin, Size int // bytes
	Sub          bool
}

// History is what is replayed.
type History struct {
	Seed  uint64
	Drawn uint64 `json:",omitempty"` // the seed of Test of which what it runs on is drawn
	Roots []rootSpec
	Views []viewSpec
	Ops   []operation

	// Failing says that some commands and user events fail, and with them what
	// waits for them, and what reads what that was to write.
	Failing bool

	Requests int          `json:",omitempty"` // that there are at once
	Tenants  []tenantSpec `json:",omitempty"`
}

// withoutLaunches has copies and fills in place of launches, for devices that run no kernels.
func (h *History) withoutLaunches() {
	for i := range h.Ops {
		switch op := &h.Ops[i]; op.Kind {
		case opMix, opReverse:
			op.Kind = opCopy
		case opProduce:
			op.Kind = opFill
		}
	}
}

// launches reports whether there are any.
func (h *History) launches() bool {
	return slices.ContainsFunc(h.Ops, func(op operation) bool { return op.Kind == opMix || op.Kind == opReverse || op.Kind == opProduce })
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
	err = json.Unmarshal(b, h)
	h.addSizes()
	return h, err
}

// bytes is how many bytes of host memory an operation reads or writes: all that a
// rectangle spans there.
func (op *operation) bytes() int {
	if op.Rows > 0 {
		return op.SrcOff + extent(op, op.SrcRow, op.SrcSlice)
	}
	return op.Size
}

// extent is how far a rectangle reaches from its first byte.
func extent(op *operation, row, slice int) int {
	return (op.Slices-1)*slice + (op.Rows-1)*row + op.Size
}

// reads reports whether an operation gives bytes to the host.
func (op *operation) reads() bool {
	return op.Kind == opRead || op.Kind == opReadRect || op.Kind == opUnmap && op.Flags&runtime.MapRead != 0
}

// mapWrites reports whether a map or unmap is one for writing.
func (op *operation) mapWrites() bool { return op.Flags&(runtime.MapWrite|runtime.MapInvalidate) != 0 }

// writes reports whether an operation writes its destination.
func (op *operation) writes() bool {
	switch op.Kind {
	case opWrite, opFill, opProduce, opCopy, opMix, opReverse, opWriteRect, opCopyRect, opCount:
		return true
	case opUnmap:
		return op.mapWrites()
	case opMigrate:
		return op.Undefined
	}
	return false
}

// old reports whether an operation needs what its destination holds.
func (op *operation) old() bool {
	switch op.Kind {
	case opRead, opReadRect, opMix:
		return true
	case opMap, opMapBriefly:
		return op.Flags&runtime.MapInvalidate == 0
	case opMigrate:
		return !op.Undefined
	}
	return false
}

// paired reports whether an operation has a source view, which it reads.
func (op *operation) paired() bool {
	return op.Kind == opCopy || op.Kind == opCopyRect || op.Kind == opMix || op.Kind == opReverse
}

// hostWrites is the part of a mapped range that the host writes before the unmap:
// all of it where old content was not asked for.
func (op *operation) hostWrites() (from, to int) {
	if op.Flags&runtime.MapInvalidate != 0 {
		return 0, op.Size
	}
	return op.Size / 3, op.Size - op.Size/4
}

// row is a run of bytes of the destination view, and of the source view or the
// host's memory.
type row struct{ dst, src, size int }

// rows are the runs that an operation works on: one but for rectangles.
func (h *History) rows(op *operation) []row {
	if op.Kind == opMigrate {
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

// touch is a part of a view that an operation reads, writes or both.
type touch struct {
	view, off, size int
	mode            mem.Mode
}

// touches are the parts that an operation uses by OpenCL's rules.
func (h *History) touches(op *operation) (all []touch) {
	mode, uses := mem.Read, op.old()
	if op.writes() {
		mode, uses = mem.Write, true
		if op.old() {
			mode = mem.ReadWrite
		}
	}
	for _, w := range h.rows(op) {
		if uses {
			all = append(all, touch{op.Dst, w.dst, w.size, mode})
		}
		if op.paired() {
			all = append(all, touch{op.Src, w.src, w.size, mem.Read})
		}
	}
	for _, i := range op.More {
		all = append(all, touch{i, 0, h.Views[i].Size, mem.Read})
	}
	return all
}

// names reports whether an operation on views names one of a root.
func (h *History) names(op *operation, root int) bool {
	return op.Kind != opRenew && h.Views[op.Dst].Root == root || op.paired() && h.Views[op.Src].Root == root ||
		slices.ContainsFunc(op.More, func(i int) bool { return h.Views[i].Root == root })
}
