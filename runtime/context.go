package runtime

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"godwit/devices"
	"godwit/eviction"
	"godwit/internal/mover"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/migration"
	"godwit/svm"
)

// Options describe a context.
type Options struct {
	// Name is for errors and traces.
	Name string
	// Devices become memories 1, 2, ... in this order. At least one; none
	// twice. They stay the caller's, to be closed after the context, unless
	// OwnDevices is set.
	Devices []devices.Device
	// Names are the devices' memories' in errors and traces, no more than there are
	// devices; where there are none, or an empty one, the devices' own.
	Names []string
	// OwnDevices makes Close close the devices, and a failing NewContext too.
	OwnDevices bool
	// NoPeer ignores that drivers can copy between devices directly, or over links, so
	// that all such copies go through staging memory.
	NoPeer bool
	// Links overrides what drivers say, and what is measured, of the ways between
	// memories.
	Links []Link
	// Staging is how many bytes of memory copies are staged in at most; 0 is 256 MiB.
	Staging uint64
	// Chunk is how many bytes a copy that goes in chunks has in one at most; 0 leaves that to
	// its size and the link.
	Chunk uint64
	// Figures are what other contexts over the same devices have measured of the links
	// between them; nil has this one measure for itself, which takes some tens of
	// milliseconds for each pair of discrete devices. They keep the devices until Forget, which a
	// context calls that closes its own.
	Figures *RingFigures
	// Shared are pairs of memories that are one store. Their devices must be
	// devices.HostBacked, so that each accepts the other's blocks; the host is.
	Shared [][2]mem.MemoryID
	// Resource, where not nil, is called once for each memory, the host's
	// included, and returns the stack of layers that blocks come from; base is
	// the device's own.
	Resource func(id mem.MemoryID, base mem.Resource) mem.Resource
	// Policy says which blocks leave a memory that is short, for others' sake; nil is
	// eviction.NewCost(). It belongs to this context.
	Policy eviction.Policy
	// NoEviction has enqueues fail that find no room, instead.
	NoEviction bool
	// Caps are how many bytes of the memories' storage the context takes for buffers at
	// most, by MemoryID; 0 is no cap but the device's own, and so is what is not there. They
	// bound neither what the drivers take for themselves nor memory that copies are staged
	// in, on the host and in windows of devices: Staging bounds that, and Figures count it.
	Caps []uint64
	// Share lets this context and others make each other's blocks leave devices that they share.
	Share Share
	// WholeBelow is the size in bytes of the smallest buffer that a device may store in
	// parts, as wide as its commands reach: from the start of a kernel argument's buffer or
	// sub-buffer to the end of its range; of other commands, the buffer or sub-buffer that
	// they are given. What is smaller is stored whole, and so is every buffer on the host,
	// over the caller's or shared virtual memory, or with a content size. 0 is 256 KiB, 1
	// has all others stored by range, math.MaxUint64 has all stored whole.
	WholeBelow uint64
	// LockedBacks is how many bytes of what is evicted to the host are kept in
	// page-locked memory at most, where devices are behind a bus; 0 is 16 GiB. The rest
	// is kept in ordinary memory, and moves by way of staging.
	LockedBacks uint64
	// OnShortage, where not nil, is called by an enqueue that found no room, even by
	// eviction, before it fails, without locks: it may release buffers, drop blocks,
	// and enqueue. Where it returns true the command is tried once more. It is not called
	// where no release would help (OutOfMemory.Hopeless). While it runs,
	// other enqueues that find no room, those from inside it among them, fail without
	// another call.
	OnShortage func(ctx context.Context, why *resource.OutOfMemory) bool
	// WaitForMemory lets an enqueue that finds no room wait for frees that are
	// pending on running commands, under its ctx. Without it such an enqueue
	// fails with mem.ErrNoMemory.
	WaitForMemory bool
	// SVMSize is how many bytes of address space shared virtual memory has; 0 is
	// 64 GiB. It is taken with the first SVMAlloc, and memory only when used.
	SVMSize uint64
	// SVMTrusted leaves the host all rights to shared virtual memory that is live:
	// a touch outside a map is not caught, and finds what the devices that use the
	// host's memory in place have left there, but not what others have. Maps, and
	// launches in place, then change no rights.
	SVMTrusted bool
	// SVMWatch, where not nil, lets a signal handler explain touches of shared
	// virtual memory from C that the host has no right to: package internal/svmfault has one.
	SVMWatch svm.Watch
	// Executor runs what the context does beside its callers, and tells the time; nil is
	// devices.Goroutines. A world in virtual time (package devices/virtual) is one: then
	// Host has to be its own, and all devices of it.
	Executor devices.Executor
	// Host is the device of memory 0, which the context closes; nil makes one.
	Host devices.HostDevice
	// Trace, where not nil, is told of buffers, commands and completions.
	Trace trace.CommandSink
}

// Link is the way from one memory to another, in that direction only.
type Link struct {
	From, To mem.MemoryID
	mem.Link
}

// errContextClosed is of whatever is asked of a closed context.
var errContextClosed = fmt.Errorf("closed: %w", mem.ErrInvalidContext)

// memory is a memory of the context with its device. All fields are immutable.
type memory struct {
	dev              devices.Device
	info             devices.Info
	largest          uint64             // bytes of the largest block
	res              mem.Resource       // the top of the stack
	bus              devices.PageLocker // not nil: user memory may go by way of staging
	window           devices.Windowed   // not nil: blocks may lie in windows
	fromHost, toHost mem.Link           // of a bus
}

// Context holds devices, the buffers that migrate between them, and the queues
// that run commands on them. All methods of it and of its objects are safe for
// use from many goroutines.
type Context struct {
	name      string             // immutable
	opts      Options            // immutable
	host      devices.HostDevice // immutable: memory 0
	stamper   devices.Stamper    // immutable: the host, where it keeps no bytes; else nil
	mems      []memory           // immutable; by MemoryID, the host first
	topo      *mem.Topology      // immutable
	by        devices.Executor   // immutable
	start     uint64             // immutable: nanoseconds of by's
	claims    []func()           // immutable: end what devices were told that the context takes
	userLine  *mem.Timeline      // immutable
	events    eventTable         // has its own lock
	callbacks callbacks          // has its own lock
	failures  failureList        // has its own lock
	attached  attached           // has its own lock
	closing   closing            // has its own lock
	hooks     hooks              // immutable but for a counter
	ends      trace.Ends         // immutable: those that opts.Trace asks for
	locks     locks              // has its own lock
	windows   windows            // has its own lock
	mover     *mover.Mover       // has its own lock
	highest   devices.Priority   // protected by mu: of queues
	align     uint64             // immutable: of the ends of blocks

	room      roomCounts                      // safe without the lock
	lateMoved atomic.Uint64                   // bytes moved by steps that read a count
	unflushed atomic.Bool                     // something was submitted since the last flush
	asking    atomic.Bool                     // OnShortage runs
	memoryOf  map[devices.Device]mem.MemoryID // immutable once open
	open      atomic.Pointer[[]devices.Queue] // those that are to be flushed, the mover's last; replaced under mu

	mu         sync.Mutex             // the planner lock
	planner    *migration.Planner     // protected by mu
	closed     bool                   // protected by mu
	openUser   map[uint64]gateSet     // protected by mu: user events not set yet, by sequence, and their gates
	queues     []*Queue               // protected by mu: not closed, in order of their opening
	programs   []*Program             // protected by mu: likewise
	roots      map[mem.BufferID]*root // protected by mu
	arena      *svm.Arena             // replaced once, protected by mu
	svmRoots   map[Pointer]*root      // protected by mu: shared virtual memory, not freed
	svmSeen    [64]*root              // protected by mu: some of svmRoots, by the page of a pointer into them
	maps       mapRecords             // protected by mu
	gates      gates                  // protected by mu
	lent       lentCopies             // protected by mu
	evicting   evicting               // protected by mu
	tenants    []*Tenant              // protected by mu: not closed
	queueSeq   int                    // protected by mu: for made-up names
	commandSeq uint64                 // protected by mu: commands that were planned and had storage
	replaySeq  uint64                 // protected by mu: tries to place a graph's buffers
	recordSeq  uint32                 // protected by mu: recordings that were begun
	unsaid     []error                // protected by mu: see sayAtClose
	scratch    scratch                // protected by mu
	record     trace.CommandRecord    // protected by mu
}

// Memory returns the memory of a device of the context. It fails with
// mem.ErrInvalidDevice where the device is not one of the context's.
func (c *Context) Memory(d devices.Device) (mem.MemoryID, error) {
	if id, ok := c.memoryOf[d]; ok {
		return id, nil
	}
	if d == nil {
		return 0, fmt.Errorf("nil device: %w", mem.ErrInvalidDevice)
	}
	return 0, fmt.Errorf("device %s is not one of context %s: %w", d.Info().Name, c.name, mem.ErrInvalidDevice)
}

// Device is the device of a memory; the host's is memory 0. It fails with
// mem.ErrInvalidDevice where the context has no such memory.
func (c *Context) Device(id mem.MemoryID) (devices.Device, error) {
	if int(id) >= len(c.mems) {
		return nil, fmt.Errorf("memory %d: context %s has 0 to %d: %w", id, c.name, len(c.mems)-1, mem.ErrInvalidDevice)
	}
	return c.mems[id].dev, nil
}

// Topology says how the memories are linked. It must not be changed.
func (c *Context) Topology() *mem.Topology { return c.topo }

// Resource is the top of a memory's stack of layers, for statistics.
func (c *Context) Resource(id mem.MemoryID) mem.Resource { return c.mems[id].res }

// Stats are what the planner has done so far: commands, copies, bytes moved.
func (c *Context) Stats() migration.Stats {
	if err := c.enter(); err != nil {
		return migration.Stats{}
	}
	defer c.unlock()
	s := c.planner.Stats()
	s.BytesMoved += c.lateMoved.Load()
	return s
}

// Footprint is what a memory stores of the context's buffers, now and at most, and what it
// would if each buffer were stored whole.
func (c *Context) Footprint(id mem.MemoryID) migration.Footprint {
	if err := c.enter(); err != nil {
		return migration.Footprint{}
	}
	defer c.unlock()
	return c.planner.Footprint(id)
}

// MoverStats are the figures of what moves bytes between the context's memories.
func (c *Context) MoverStats() MoverStats { return c.mover.Stats() }

// OpenLinks gets the links between devices (NVLink) ready for use, and the staging in windows, which the
// first copies that want them do otherwise, beside the work, and waits until they are. It says why
// there are none where that is so: of mem.ErrInvalidOperation where no two devices have one.
func (c *Context) OpenLinks(ctx context.Context) error { return c.mover.OpenLinks(ctx) }

// Await waits until done is closed, by a callback for example, or ctx ends, whose error it
// then returns. what says what is waited for. In virtual time, where a receive would
// keep the world from going on, this is how a host thread waits for another; it fails with
// devices.ErrStuck where nothing that is under way can end the wait.
func (c *Context) Await(ctx context.Context, what fmt.Stringer, done <-chan struct{}) error {
	return c.by.Sleep(ctx, what, done)
}

// Name is the context's name.
func (c *Context) Name() string { return c.name }

// String is the context's name.
func (c *Context) String() string { return c.name }
