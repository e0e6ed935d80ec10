package devices

import (
	"context"

	"godwit/mem"
)

// What only some devices and queues can do, in five groups. Each is found by presence; what a driver
// lacks the packages above it do in another way.

// Host memory: whose blocks are bytes of this process.

// Viewer is a Device whose blocks the host can reach in place.
type Viewer interface {
	// View returns the bytes [off, off+size) of b. The slice is outside the Go
	// heap and is valid until the block is freed.
	View(b mem.Block, off, size uint64) ([]byte, error)
}

// HostBacked is a Device whose blocks are bytes of this process. Such devices copy
// between each other.
type HostBacked interface {
	Device
	// Pin returns the address of the bytes [off, off+size) of b, which stay
	// there until Unpin, whoever frees b meanwhile.
	Pin(b mem.Block, off, size uint64) (addr uint64, err error)
	// Unpin ends one Pin of b.
	Unpin(b mem.Block)
}

// Claimed is a Device that is told how much of its memory a context takes at most, so that the library below is asked
// for no more, and each block that leaves for another's sake leaves its bytes to that one.
type Claimed interface {
	// Claim says that a context takes so many bytes for buffers at most, 0 for any number, until end is called.
	Claim(bytes uint64) (end func())
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

// Bus: what is between a device and the host's memory.

// PageLocker is a Device that has page-locked host memory, from and to which its
// transfers are the fastest there are.
type PageLocker interface {
	// PinnedMemory is page-locked host memory near a NUMA node, NodeAny for
	// wherever the system puts it. It is the same for every call with the same
	// node, belongs to the device and ends with it. It fails with mem.ErrClosed,
	// mem.ErrDeviceLost, and mem.ErrInvalidValue where there is no such node.
	PinnedMemory(node int) (PinnedMemory, error)
	// NUMANode is the node that the device is attached to, NodeAny where that is
	// not known or there is only one.
	NUMANode() int
	// HostLink is what copies between the host's memory and the device's are known to
	// cost, into the device or out of it: Direct of pageable host memory, Locked of
	// page-locked, and Ring through page-locked staging. Without a Ring staging does
	// not pay, and the device counts as one that shares the host's memory; with one it
	// is behind a bus.
	HostLink(into bool) mem.Link
	// Locked reports whether size bytes of this process at addr are page-locked for
	// the device, and copies of them faster for it. It takes no lock.
	Locked(addr, size uint64) bool
}

// PinnedMemory is page-locked host memory: a resource, and a Viewer of its blocks,
// whose Addr is their address in the process. It goes on without the lock where the
// system refuses that; Locking says so.
type PinnedMemory interface {
	mem.Resource
	Viewer
	// Locking says how much is page-locked. Safe for use from many goroutines.
	Locking() Locking
}

// Locking says how much of a PinnedMemory is page-locked.
type Locking struct {
	Locked   uint64 // bytes that are
	Unlocked uint64 // bytes that are not, though that was asked for
	Why      string // why not, for people; empty where all is locked
}

// NodeAny is no NUMA node in particular.
const NodeAny = -1

// Shuttle is a Queue that carries out single copies for threads that wait for them
// themselves: without points, in order, beside its commands. It is safe for use from many
// goroutines.
type Shuttle interface {
	// Start begins with a copy between page-locked bytes and a block of the queue's
	// device.
	Start(dst, src Loc, size uint64) (Ticket, error)
	// Finish blocks the thread until a copy has ended. It is called once for each, before
	// the queue is closed.
	Finish(Ticket) error
}

// Ticket is a copy that a Shuttle has begun with.
type Ticket uint64

// Peers: what goes from device to device. Of these is Batcher, too (batch.go).

// Windowed is a Device that can have windows: blocks that queues of other devices
// reach over a link between the two, faster than any staging. All methods are safe for
// use from many goroutines.
type Windowed interface {
	Device
	// Windows says that a context uses this device together with other: from now on
	// blocks are made in windows where they can be. It fails where there is no link,
	// and says what is missing. It may take some tens of milliseconds, and ends early
	// with ctx.
	Windows(ctx context.Context, other Device) error
	// InWindow reports whether a block lies in a window, which does not change.
	InWindow(b mem.Block) bool
	// Connect gets the link to other ready, both ways: once it has succeeded, the
	// device's queues accept copies (OpCopy) out of windows of other into its own. It
	// may take some hundred milliseconds, beside the work, and ends early with ctx.
	Connect(ctx context.Context, other Device) error
	// Connected is nil from a Connect on until the link is lost, and then says why.
	Connected(other Device) error
}

// Graphs.

// Runner is an in-order Queue that takes commands as one.
type Runner interface {
	Queue
	// InRun reports whether a command can be one of a run (Command.Then), by its operation. It does not change.
	InRun(op Op) bool
}

// Virtual time: package devices/virtual.

// Stamper is a HostDevice that may keep, in place of bytes, who wrote them. Commands it
// sees; content that comes without one it is told of.
type Stamper interface {
	HostDevice
	// Stamps reports whether it does. It does not change.
	Stamps() bool
	// Created says what buffer id was made with: the content of b, a block of its own or
	// one of the caller's memory.
	Created(b mem.Block, id mem.BufferID, content []byte)
}
