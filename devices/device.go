// Package devices is the contract between the runtime and the drivers, and the
// helpers drivers share.
//
// The runtime plans, a driver executes. A driver knows no content versions, no
// contexts and no sub-buffers: it discovers memories and limits, hands out
// blocks, builds kernels, runs commands, reports points and describes links.
// Everything a driver sees is (block, offset, size).
//
// The contract is small on purpose. What only some drivers can do is a small
// optional interface found by presence (PeerCopier, Viewer, Profiler); what a
// driver lacks is supplied by helpers here (SoftQueue, Transport), never by a
// nil test in the runtime.
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
	Driver, Platform, Name, Vendor, Version string

	Type         Type
	ComputeUnits int
	GlobalMemory uint64    // bytes; 0 is unlimited
	LocalMemory  uint64    // bytes for each work-group
	MaxAlloc     uint64    // bytes in one block; 0 is unlimited
	CopyAlign    uint64    // bytes, a power of two: copies in and out of its memory are done in such words, and slowly beside them; 0 is any
	BaseAlign    uint64    // bytes: the alignment of sub-buffer origins (CL_DEVICE_MEM_BASE_ADDR_ALIGN / 8)
	MaxWorkGroup uint64    // work-items in a work-group; 0 is unlimited
	MaxWorkItems [3]uint64 // in each dimension; 0 is unlimited
	SharesHost   bool      // integrated: host memory is as near as its own
	FP16, FP64   bool
	SVM          SVMCaps
	Extensions   []string
	Spaces       []AddressSpace // only for devices with integer addresses
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
	// Close frees everything the device holds. Queues and modules must have
	// been closed; blocks still live are freed and named in the error.
	Close() error
}

// QueueOptions say how a queue is to work.
type QueueOptions struct {
	Name       string // for timelines and traces
	OutOfOrder bool   // commands start when their waits are reached, in any order
	Profiling  bool   // keep times, see Profiler
	// OnFail, where not nil, is told of every point that fails, before the
	// point counts as reached for anybody: whoever sees a failure can rely on
	// OnFail having returned. It must not block.
	OnFail func(p mem.Point, cause error)
}

// OwnThread is a context without end for callers that own the thread they are on,
// as C programs do: a Wait under it may block the thread in a driver's library,
// which is quicker than being told by another. Under any other context waits keep
// no thread.
var OwnThread = context.WithValue(context.Background(), ownThread{}, true)

type ownThread struct{}

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
	// Wait blocks until p, a point of this queue, is reached, or ctx ends.
	Wait(ctx context.Context, p mem.Point) error
	// Flush makes sure that all accepted commands will start without further
	// calls.
	Flush() error
	// Close refuses further commands and returns when all accepted ones have
	// ended; those whose waits can never be reached must be failed by ending
	// the points they wait for. A Submit or Flush that it overtakes fails with
	// mem.ErrClosed.
	Close() error
}

// PeerCopier is a Device whose queues accept copies whose source or
// destination is a block of some other device.
type PeerCopier interface {
	// PeerLink says whether this device's queues accept a copy from a block of
	// other into a block of this device, and how good that way is.
	PeerLink(other Device) (mem.Link, bool)
}

// SVMReserver is a Device whose kernels see ArgSVM arguments at the addresses
// that those name, so that pointers in memory mean the same everywhere.
type SVMReserver interface {
	// ReserveSVM says that the addresses of r are for shared virtual memory. It
	// fails with mem.ErrInvalidOperation where the device has memory of its own
	// there.
	ReserveSVM(r mem.Range) error
}

// SVMSpace gives kernels of devices that use shared virtual memory in place the
// right to touch it. It is safe for use from many goroutines.
type SVMSpace interface {
	// Lend gives the process rights to size bytes at addr, which lie in one live
	// block, until they are returned. Lends may overlap, and outlive the block.
	Lend(addr, size uint64) error
	// Return ends one Lend of the same bytes.
	Return(addr, size uint64)
}

// Viewer is a Device whose blocks the host can reach in place.
type Viewer interface {
	// View returns the bytes [off, off+size) of b. The slice is outside the Go
	// heap and is valid until the block is freed.
	View(b mem.Block, off, size uint64) ([]byte, error)
}

// Poller is a Queue that may know of a command's end before its point does.
type Poller interface {
	// Poll looks whether the command of p has ended, and if so ends p.
	Poll(p mem.Point)
}

// Times are when a command changed state, in nanoseconds on the device's clock.
type Times struct {
	Queued, Submitted, Started, Ended uint64
}

// StartTeller is a Queue that tells when its commands start.
type StartTeller interface {
	// NotifyStart asks that w be told when the command of a point of the queue
	// starts. Where it has started already, or ended, w is not called: started is
	// true. Nor is it where the command fails before it starts.
	NotifyStart(p mem.Point, w StartWaiter) (started bool)
}

// Starter is a Queue that knows which of its commands have started.
type Starter interface {
	// Started reports whether the command of a point that is not reached is known to
	// have started.
	Started(p mem.Point) bool
}

// StartWaiter is told that a command has started, like a mem.Waiter of its end.
type StartWaiter interface {
	PointStarted(p mem.Point)
}

// Profiler is a Queue that keeps times (QueueOptions.Profiling).
type Profiler interface {
	// Times returns the times of a reached point, while they are kept.
	Times(p mem.Point) (Times, bool)
}
