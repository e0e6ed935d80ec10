// Package devices is the contract between the runtime and the drivers.
//
// The runtime plans, a driver executes. A driver knows no content versions, no
// contexts and no sub-buffers: it discovers memories and limits, hands out
// blocks, builds kernels, runs commands, reports points and describes links.
// Everything a driver sees is (block, offset, size).
//
// The contract is small on purpose. What only some drivers can do is a small
// optional interface found by presence (optional.go). Most of a driver exists
// already in package devices/engine: queues, workers, memories. How bytes travel
// from memory to memory is package internal/mover's, and none of a driver's concern.
package devices

import (
	"context"

	"godwit/mem"
)

// Type is the kind of a device, as OpenCL has it.
type Type string

// The device types.
const (
	CPU         Type = "cpu"
	GPU         Type = "gpu"
	Accelerator Type = "accelerator"
	Custom      Type = "custom"
)

// SVMCaps says which shared virtual memory a device has.
type SVMCaps struct {
	Coarse, Fine, Atomics bool
	// InPlace: kernels follow pointers in the host's own memory. Then that is
	// where content is, coarse-grained too; the device has no copy of it.
	InPlace bool
	// Why says what keeps Coarse, or Fine, from being true where the device has
	// such memory of its own.
	Why string
}

// AddressSpace is a range of integer addresses of a device that has them.
type AddressSpace struct {
	Name string // "global", "local"
	Base uint64
	Size uint64 // bytes
}

// Info describes a device. It does not change while the device is open.
type Info struct {
	Driver   string `json:"-"`
	Name     string `json:"name" show:"device"`
	Platform string `json:"platform,omitempty"`
	Vendor   string `json:"vendor,omitempty"`
	Version  string `json:"version,omitempty"`

	Type         Type           `json:"type" show:"type"`
	ComputeUnits int            `json:"compute_units" show:"units"`
	GlobalMemory uint64         `json:"global_memory" show:"memory|bytes|unlimited"` // bytes; 0 is unlimited
	LocalMemory  uint64         `json:"local_memory" show:"local|bytes|none"`        // bytes for each work-group
	MaxAlloc     uint64         `json:"max_alloc" show:"largest|bytes|unlimited"`    // bytes in one block; 0 is unlimited
	CopyAlign    uint64         `json:"-"`                                           // bytes, a power of two: copies in and out of its memory are done in such words, and slowly beside them; 0 is any
	BaseAlign    uint64         `json:"base_align" show:"align|%d B"`                // bytes: the alignment of sub-buffer origins (CL_DEVICE_MEM_BASE_ADDR_ALIGN / 8)
	MaxWorkGroup uint64         `json:"max_work_group"`                              // work-items in a work-group; 0 is unlimited
	MaxWorkItems [3]uint64      `json:"-"`                                           // in each dimension; 0 is unlimited
	MaxGroups    uint64         `json:"-"`                                           // work-groups of a launch; 0 is unlimited
	SharesHost   bool           `json:"integrated" show:"the host's memory|yes"`     // integrated: host memory is as near as its own
	FP16         bool           `json:"fp16" show:"fp16|yes"`
	FP64         bool           `json:"fp64" show:"fp64|yes"`
	SVM          SVMCaps        `json:"-"`
	Extensions   []string       `json:"extensions"`
	Spaces       []AddressSpace `json:"-"` // only for devices with integer addresses
}

// Device is an open device with a memory of its own. All methods are safe for
// use from many goroutines.
type Device interface {
	// Info describes the device.
	Info() Info
	// Memory is where the device's blocks come from.
	Memory() mem.Resource
	// Build makes p's kernels runnable here. It may take long; it stops when
	// ctx ends. Fails with mem.ErrBuild and the build log.
	Build(ctx context.Context, p *Program) (Module, error)
	// NewQueue opens a command queue.
	NewQueue(QueueOptions) (Queue, error)
	// Link is what the driver states of copies from one device to another, of which this
	// is one. Direct: this device's queues accept a copy from a block of from into one of
	// to; with its cost, where that is known. Ring: what a ring through staging costs,
	// which is measured otherwise; it is stated for any two devices between which rings go in
	// batches (Batcher), or for none. The zero Link states nothing. A pair is asked for
	// when copies between the two are first thought of, perhaps under a context's lock: Link
	// must not block, and always say the same.
	Link(from, to Device) mem.Link
	// ReserveSVM says that the addresses of r are for shared virtual memory: pointers of
	// ArgSVM arguments, which kernels see as they are, lie there. It fails with
	// mem.ErrInvalidOperation where the device has memory of its own there, or no such
	// memory (Info).
	ReserveSVM(r mem.Range) error
	// Close frees everything the device holds. Queues and modules must have
	// been closed; blocks still live are freed and named in the error.
	Close() error
}

// QueueOptions say how a queue is to work.
type QueueOptions struct {
	Name       string // for timelines and traces
	OutOfOrder bool   // commands start when their waits are reached, in any order
	Profiling  bool   // keep times, see Queue.Times
	// Priority is a hint: of commands that are ready, those of queues of higher priority begin first, where a driver can have that.
	Priority Priority
	// OnFail, where not nil, is told of every point that fails, before the
	// point counts as reached for anybody: whoever sees a failure can rely on
	// OnFail having returned. It must not block.
	OnFail func(p mem.Point, cause error)
}

// Priority is a queue's, among those of a context.
type Priority int8

// The priorities; that of queues that nothing is said of is PriorityNormal.
const (
	PriorityLow Priority = iota - 1
	PriorityNormal
	PriorityHigh
)

// MostOvertaken is how often a simulated device lets a ready command be overtaken by those of higher priority.
const MostOvertaken = 64

// WaitMode says what a wait may do with the thread of its caller.
type WaitMode uint8

// The ways to wait.
const (
	// Park keeps no thread: the goroutine sleeps until it is told.
	Park WaitMode = iota
	// BlockThread lets the thread block in a driver's library, which is quicker
	// than being told by another thread. It is for callers that own their thread
	// as C programs do. Such a wait need not notice the end of its context.
	BlockThread
)

// HostDevice is the device of the host's own memory, memory 0 of every context: its
// blocks are bytes of this process, where programs see them.
type HostDevice interface {
	Device
	Viewer
	// Adopt makes a block of memory of the caller's (CL_MEM_USE_HOST_PTR). The
	// bytes are used in place and stay the caller's; tag is free for the caller,
	// as in mem.Request. The block is freed with the FreeAfter of the device's
	// own Memory, and the bytes must be left to the device until then.
	Adopt(bytes []byte, tag uint64) (mem.Block, error)
}

// Queue runs commands. Submit is called by one goroutine at a time; everything
// else from anywhere.
type Queue interface {
	// Submit accepts a command, to start once its waits are reached: Data waits
	// that fail make it fail with mem.ErrDependency and the first cause, Order
	// waits only delay. In an in-order queue it starts after all accepted
	// earlier, however those ended. Waits may name points of any queue of any
	// driver. Submit never blocks. Command and waits, and the slices in them,
	// are the caller's again on return, but for bytes to be copied (Loc.Bytes),
	// which must stay as they are until the point is reached. On error nothing
	// was accepted.
	Submit(cmd *Command, waits []mem.Wait) (mem.Point, error)
	// Timeline is the order of this queue's points.
	Timeline() *mem.Timeline
	// Wait blocks until p, a point of this queue, is reached, or ctx ends. It does
	// what Flush does, also where p is reached, and what was left to it
	// (Command.Awaited).
	Wait(ctx context.Context, p mem.Point, mode WaitMode) error
	// Flush makes sure that all accepted commands will start without further
	// calls, but for those whose submitter is about to Wait (Command.Awaited).
	Flush() error
	// Poll looks at the command of p, a point of the queue. If that has ended, p may
	// end by this; if not, started says whether it is known to have started.
	Poll(p mem.Point) (started bool)
	// Times returns the times of a reached point by a clock, while they are kept
	// (QueueOptions.Profiling). It may wait for the device, to read its clock, but for
	// AnyClock.
	Times(p mem.Point, by Clock) (Times, bool)
	// Forget says that nobody will ask for the times of p, which may not be reached.
	Forget(p mem.Point)
	// Abort has all commands of the queue fail with cause, accepted now or later, that
	// have not started: each once its waits are reached. Those that have started end as
	// ever. Of several causes the first counts. It does not block.
	Abort(cause error)
	// Close refuses further commands and returns when all accepted ones have
	// ended; those whose waits can never be reached must be failed by ending
	// the points they wait for. A Submit or Flush that it overtakes fails with
	// mem.ErrClosed.
	Close() error
}

// Prompt is a queue whose Flush does nothing: accepted commands start by themselves. Who has thousands
// of queues leaves these out.
type Prompt interface{ StartsByItself() }

// Clock says whose clock times are of.
type Clock uint8

// The clocks. Simulated devices have none of their own: both are their Executor's.
const (
	HostClock   Clock = iota // Executor.Now: times of different devices, and the host's, compare
	DeviceClock              // the device's own, whose zero and rate are its own
	AnyClock                 // either, whichever is at hand: for how long a command took
)

// Times are when a command changed state, in nanoseconds.
type Times struct {
	Queued, Submitted, Started, Ended uint64
	Error                             uint64 // nanoseconds by which each may be wrong, since it is of another clock
}
