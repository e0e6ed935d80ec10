package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"godwit/devices"
	"godwit/eviction"
	"godwit/internal/mover"
	"godwit/mem"
	"godwit/svm"
)

// The Enqueue methods have in common:
//
//   - They wait for no command, but for room: where Options.WaitForMemory is set,
//     or where blocks were evicted whose space comes back only when commands have
//     ended. They wait under ctx. A context that has ended already enqueues nothing, but for
//     unmaps and what frees pointers. Where there is no
//     room they may lock pages and call Options.OnShortage.
//   - The command starts after the events of the wait list have ended, and
//     fails where one of them failed.
//   - Offsets and sizes are bytes of the buffer or sub-buffer given.
//   - On error no content has changed; blocks may have left. mem.ErrInvalidBuffer, ErrInvalidQueue,
//     ErrInvalidContext, ErrInvalidWaitList: an object is nil, released, closed
//     or another context's. mem.ErrInvalidValue: a range is empty or leaves its
//     buffer. mem.ErrInvalidOperation: a read or write that the buffer's flags
//     deny the host. mem.ErrMisaligned: a sub-buffer's origin is not aligned for the
//     queue's device. mem.ErrNoMemory: no room on the device. mem.ErrPoisoned:
//     bytes to be read were lost by a command that failed.

// opcode is the user's operation.
type opcode uint8

const (
	opWrite opcode = iota
	opRead
	opCopy
	opFill
	opLaunch
	opMigrate
	opMarker
	opBarrier
	opHostCall
	opReadRect
	opWriteRect
	opCopyRect
	opMap
	opUnmap
	opSVMMap
	opSVMUnmap
	opSVMMigrate
	opSVMFree
	opAhead // copies of a replay ahead of their use
)

var opNames = [...]string{"write", "read", "copy", "fill", "launch", "migrate", "marker", "barrier", "host-call", "read-rect", "write-rect", "copy-rect", "map", "unmap", "svm-map", "svm-unmap", "svm-migrate", "svm-free", "ahead"}

func (o opcode) String() string { return opNames[o] }

// request is a validated call on its way to the planner. What is not handed on
// to a device is in borrowed, so that the compiler sees that it never leaves the
// caller's stack.
type request struct {
	q    *Queue
	op   opcode
	to   MigrateFlags
	size uint64
	a, b use    // buffers of write, read, fill (a) and copy (a to b)
	data []byte // host bytes of write and read, pattern of fill
	off  uint64 // of a rectangle in data
	rect devices.Rect

	mapFlags  MapFlags
	mapping   Mapping    // made by a map, ended by an unmap
	mapped    *mapRecord // of an unmap, from when it was collected
	rights    *svm.Map   // of a map of shared virtual memory
	byPointer bool       // a map or unmap of a pointer, not of a buffer

	counted bool // of a copy: bytes that do not count stay as they are; cleared where all count

	evicted       bool // an earlier try has evicted blocks, and waited for their room
	pages         *backPages
	awaited       bool            // of a read or write: who enqueues it waits at once
	label         string          // for people
	ctx           context.Context // of the call, for who traces; nil of a replayed command
	of            *Request        // that it belongs to; nil is none
	mayLeave      bool            // of one that is awaited: perhaps not until its end
	hand          *mover.Hand     // of one whose waiter may leave: what he waits by
	noEvent       bool            // nobody will ask for the event; point is the command's
	point         mem.Point
	coarse, exact bool // of a rectangle: rows were taken together; must not be
	call          func(context.Context) error

	after  []mem.Wait      // of a recorded command: what it waits for
	listed bool            // it was recorded with a wait list
	ahead  *eviction.Round // what evictions for it go by, in place of the context's policy; nil is that
}

// borrowed is what a request looks at until it is submitted, and copies from.
type borrowed struct {
	wait   []Event
	launch *Launch
	uses   []use          // of migrates and frees
	to     []mem.MemoryID // of migrates: where to; nil is what the request says
}

// use is a range of a buffer that a request touches; buf is nil in an unused one.
type use struct {
	buf   *Buffer
	r     mem.Range // of the root
	whole bool      // of a launch: all of buf is to be in one block
}

// resolve checks that b is a buffer of q's context and finds the range.
func (q *Queue) resolve(what string, b *Buffer, off, size uint64) (use, error) {
	if err := q.made(); err != nil {
		return use{}, err
	}
	if err := b.made(); err != nil {
		return use{}, fmt.Errorf("%s: %w", what, err)
	}
	if b.c != q.c {
		return use{}, fmt.Errorf("%s: buffer %s is of context %s, queue %s of %s: %w", what, b.label(), b.c.name, q.name, q.c.name, mem.ErrInvalidContext)
	}
	r, err := b.view.Resolve(off, size)
	if err != nil {
		return use{}, fmt.Errorf("%s: buffer %s: %w", what, b.label(), err)
	}
	return use{buf: b, r: r}, nil
}

// EnqueueWrite copies data to off of b on the queue's device. data must stay as
// it is until the event ends.
func (q *Queue) EnqueueWrite(ctx context.Context, b *Buffer, off uint64, data []byte, wait ...Event) (Event, error) {
	return q.enqueueHost(ctx, opWrite, b, off, data, wait)
}

// BlockingWrite is EnqueueWrite and then Wait, with devices.BlockThread: the bytes may be
// copied on the caller's own thread. The error is the enqueue's; what the event says
// is the command's.
func (q *Queue) BlockingWrite(ctx context.Context, b *Buffer, off uint64, data []byte, wait ...Event) (Event, error) {
	return q.blocking(ctx, opWrite, b, off, data, wait)
}

// Write is EnqueueWrite and a wait without an event: the error is the enqueue's, the command's or ctx's. It parks the goroutine, and
// returns when ctx ends. Once it has returned nobody touches data any more; if it returns ctx's error, the command may have been
// carried out, or fails: then the bytes that it was to write are poisoned.
func (q *Queue) Write(ctx context.Context, b *Buffer, off uint64, data []byte, wait ...Event) error {
	return q.perform(ctx, opWrite, b, off, data, wait)
}

// EnqueueRead copies the bytes at off of b to data, by way of the queue's
// device. data is the runtime's until the event ends.
func (q *Queue) EnqueueRead(ctx context.Context, b *Buffer, off uint64, data []byte, wait ...Event) (Event, error) {
	return q.enqueueHost(ctx, opRead, b, off, data, wait)
}

// BlockingRead is EnqueueRead and then Wait, as BlockingWrite has it.
func (q *Queue) BlockingRead(ctx context.Context, b *Buffer, off uint64, data []byte, wait ...Event) (Event, error) {
	return q.blocking(ctx, opRead, b, off, data, wait)
}

// Read is EnqueueRead and a wait without an event, as Write has it. If it returns ctx's error, data may hold a part of what was read, and
// the rest is dropped.
func (q *Queue) Read(ctx context.Context, b *Buffer, off uint64, data []byte, wait ...Event) error {
	return q.perform(ctx, opRead, b, off, data, wait)
}

// hostCopy is a validated write or read.
func (q *Queue) hostCopy(op opcode, b *Buffer, off uint64, data []byte) (request, error) {
	u, err := q.resolve(op.String(), b, off, uint64(len(data)))
	switch {
	case err != nil:
	case op == opWrite:
		err = b.view.Flags.HostWrites()
	default:
		err = b.view.Flags.HostReads()
	}
	return request{q: q, op: op, a: u, data: data, size: uint64(len(data))}, err
}

func (q *Queue) enqueueHost(ctx context.Context, op opcode, b *Buffer, off uint64, data []byte, wait []Event) (Event, error) {
	req, err := q.hostCopy(op, b, off, data)
	if err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &req, &borrowed{wait: wait})
}

// blocking submits a write or read and waits for its end.
func (q *Queue) blocking(ctx context.Context, op opcode, b *Buffer, off uint64, data []byte, wait []Event) (Event, error) {
	req, err := q.hostCopy(op, b, off, data)
	if err != nil {
		return Event{}, err
	}
	req.awaited = true
	e, err := q.submit(ctx, &req, &borrowed{wait: wait})
	if err == nil && req.noEvent {
		defer e.letGo()
		return Event{}, q.waitPoint(ctx, req.point, devices.BlockThread)
	}
	if err == nil {
		if werr := e.Wait(ctx, devices.BlockThread); werr != nil && ctx.Err() != nil {
			err = werr // a failure is the event's to tell
		}
	}
	return e, err
}

// errNobodyWaits is of a write whose caller was interrupted by a panic of the program's code.
var errNobodyWaits = errors.New("nobody waits for the write")

// perform submits a write or read, without an event, and waits for its end. Where ctx may end before, the copy goes through
// staging: so the caller's memory is no longer needed once it has.
func (q *Queue) perform(ctx context.Context, op opcode, b *Buffer, off uint64, data []byte, wait []Event) error {
	req, err := q.hostCopy(op, b, off, data)
	if err != nil {
		return err
	}
	req.awaited, req.noEvent, req.mayLeave = true, true, ctx.Done() != nil && q.c.by.Sleeper() == nil
	accepted := false
	defer func() {
		if !accepted && req.hand != nil { // a sink's panic, perhaps, behind a command that was accepted
			req.hand.Leave(errNobodyWaits)
		}
	}()
	e, err := q.submit(ctx, &req, &borrowed{wait: wait})
	if err != nil {
		return err
	}
	defer e.letGo()
	if accepted = true; req.hand == nil {
		return q.waitPoint(ctx, req.point, devices.Park)
	}
	return q.waitByHand(ctx, &req)
}

// EnqueueCopy copies size bytes at srcOff of src to dstOff of dst, on the
// queue's device. It fails with mem.ErrOverlap where the two share a byte.
func (q *Queue) EnqueueCopy(ctx context.Context, src, dst *Buffer, srcOff, dstOff, size uint64, wait ...Event) (Event, error) {
	return q.enqueueCopy(ctx, src, dst, srcOff, dstOff, size, false, wait)
}

func (q *Queue) enqueueCopy(ctx context.Context, src, dst *Buffer, srcOff, dstOff, size uint64, counted bool, wait []Event) (Event, error) {
	from, err := q.resolve("copy source", src, srcOff, size)
	if err != nil {
		return Event{}, err
	}
	to, err := q.resolve("copy destination", dst, dstOff, size)
	if err != nil {
		return Event{}, err
	}
	return q.copyUses(ctx, from, to, counted, wait)
}

// copyUses enqueues a copy of bytes of buffers or of shared virtual memory.
func (q *Queue) copyUses(ctx context.Context, from, to use, counted bool, wait []Event) (Event, error) {
	if root := from.buf.root; root == to.buf.root && from.r.Overlaps(to.r) {
		return Event{}, fmt.Errorf("copy from %v to %v of buffer %s: they share %v: %w", from.r, to.r, root.label(), from.r.Intersect(to.r), mem.ErrOverlap)
	}
	return q.submit(ctx, &request{q: q, op: opCopy, a: from, b: to, size: from.r.Size(), counted: counted}, &borrowed{wait: wait})
}

// EnqueueFill fills size bytes at off of b with repetitions of pattern, whose
// length is 1, 2, 4, ... or 128 bytes and divides off and size.
func (q *Queue) EnqueueFill(ctx context.Context, b *Buffer, pattern []byte, off, size uint64, wait ...Event) (Event, error) {
	if err := checkFill(pattern, off, size); err != nil {
		return Event{}, err
	}
	u, err := q.resolve("fill", b, off, size)
	if err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &request{q: q, op: opFill, a: u, data: pattern, size: size}, &borrowed{wait: wait})
}

// checkFill tests the pattern of a fill of size bytes at an offset or address.
func checkFill(pattern []byte, at, size uint64) error {
	n := uint64(len(pattern))
	if n > 128 || !mem.IsPow2(n) {
		return fmt.Errorf("fill with a pattern of %d bytes: it must have 1, 2, 4, ... or 128: %w", n, mem.ErrInvalidValue)
	}
	if at%n != 0 || size%n != 0 {
		return fmt.Errorf("fill of %d bytes at %#x with a pattern of %d: both must be multiples of it: %w", size, at, n, mem.ErrInvalidValue)
	}
	return nil
}

// Launch is a kernel over an index space, with its arguments.
type Launch struct {
	Kernel *Kernel
	Global []uint64 // work-items in each of 1 to 3 dimensions
	Local  []uint64 // work-group size; nil leaves it to the driver
	Offset []uint64 // of the global ids; nil is zero
	Args   []Arg
	// SVM is shared virtual memory that the kernel may reach by pointers in memory, as given to OpenCL's
	// clSetKernelExecInfo: what has been freed since it was named is left out.
	SVM []Arg
	// NoEvent says that nobody will ask for the command's event: EnqueueLaunch returns
	// the zero Event. Where the context has one device and one queue, the device then
	// need not tell of the end of each launch, which is cheaper.
	NoEvent bool
	// Takes is how long the kernel runs on a device in virtual time; 0 leaves that to its
	// machine. Other devices take the time they need.
	Takes time.Duration
	// Operations and Bytes are, where Takes is 0, what the kernel computes and what goes through
	// its device's memory, in all; 0 leaves either to the machine. The machine makes the time of them.
	Operations, Bytes uint64
}

// EnqueueLaunch runs a kernel on the queue's device. Buffer arguments are
// brought there first. The slices of l are the caller's again on return.
//
// Further errors: mem.ErrInvalidKernel, ErrNotBuilt, mem.ErrKernelArgs (too few
// or too many arguments), mem.ErrArgValue, mem.ErrArgSize, mem.ErrWorkDimension,
// mem.ErrGlobalSize, mem.ErrWorkGroupSize, ErrWorkItemSize, ErrGlobalOffset, and
// mem.ErrNoResources where the local memory asked for is more than the
// device's.
func (q *Queue) EnqueueLaunch(ctx context.Context, l Launch, wait ...Event) (Event, error) {
	if err := q.made(); err != nil {
		return Event{}, err
	}
	if err := q.checkLaunch(&l); err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &request{q: q, op: opLaunch, noEvent: l.NoEvent}, &borrowed{wait: wait, launch: &l})
}

func (q *Queue) checkLaunch(l *Launch) error {
	k := l.Kernel
	switch {
	case k == nil || k.prog == nil:
		return fmt.Errorf("launch: nil kernel: %w", mem.ErrInvalidKernel)
	case k.prog.c != q.c:
		return fmt.Errorf("launch: kernel %s is of context %s, queue %s of %s: %w", k.name, k.prog.c.name, q.name, q.c.name, mem.ErrInvalidContext)
	case k.on[q.mem] == nil:
		return fmt.Errorf("launch: kernel %s on queue %s: %w", k.name, q.name, ErrNotBuilt)
	}
	info := &q.c.mems[q.mem].info
	if err := l.checkSpace(info); err != nil {
		return fmt.Errorf("launch of %s: %w", k.name, err)
	}
	if len(l.Args) != len(k.args) {
		return fmt.Errorf("launch of %s with %d arguments: it has %d: %w", k.name, len(l.Args), len(k.args), mem.ErrKernelArgs)
	}
	for i := range l.SVM {
		if a := &l.SVM[i]; a.kind != devices.ArgSVM || a.pointer == 0 {
			return fmt.Errorf("launch of %s: Launch.SVM[%d]: it must be a pointer of shared virtual memory, not null: %w", k.name, i, mem.ErrInvalidValue)
		}
	}
	var local uint64
	for i := range l.Args {
		a := &l.Args[i]
		if err := a.check(i, k); err != nil {
			return fmt.Errorf("launch of %s: %w", k.name, err)
		}
		switch {
		case a.kind == devices.ArgLocal:
			if local += a.size; local < a.size || local > info.LocalMemory {
				return fmt.Errorf("launch of %s: argument %d (%s) makes %d bytes of local memory: the device has %d: %w", k.name, i, k.args[i].Name, local, info.LocalMemory, mem.ErrNoResources)
			}
		case a.kind == devices.ArgBuffer && a.buf != nil:
			if err := q.checkArgBuffer(a); err != nil {
				return fmt.Errorf("launch of %s: argument %d (%s): %w", k.name, i, k.args[i].Name, err)
			}
		}
	}
	return nil
}

func (q *Queue) checkArgBuffer(a *Arg) error {
	if err := a.buf.made(); err != nil {
		return err
	}
	if a.buf.c != q.c {
		return fmt.Errorf("buffer %s is of context %s, queue %s of %s: %w", a.buf.label(), a.buf.c.name, q.name, q.c.name, mem.ErrInvalidContext)
	}
	if a.ranged {
		if _, err := a.buf.view.Resolve(a.off, a.size); err != nil {
			return fmt.Errorf("buffer %s: %w", a.buf.label(), err)
		}
	}
	return nil
}

// checkSpace tests the index space against the device's limits.
func (l *Launch) checkSpace(info *devices.Info) error {
	n := len(l.Global)
	if l.Local != nil && len(l.Local) != n {
		return fmt.Errorf("work-group size in %d dimensions, index space in %d: %w", len(l.Local), n, mem.ErrWorkGroupSize)
	}
	if l.Offset != nil && len(l.Offset) != n {
		return fmt.Errorf("offset in %d dimensions, index space in %d: %w", len(l.Offset), n, mem.ErrGlobalOffset)
	}
	var offset, global, local [3]uint64
	copy(offset[:], l.Offset)
	copy(global[:], l.Global)
	copy(local[:], l.Local)
	for d, w := range l.Local {
		if w == 0 {
			return fmt.Errorf("work-group size 0 in dimension %d: it must be at least 1: %w", d, mem.ErrWorkGroupSize)
		}
	}
	return devices.CheckSpace(n, &offset, &global, &local, info)
}

// MigrateFlags say what EnqueueMigrate does.
type MigrateFlags uint8

// MigrateToHost brings buffers to the host instead of the queue's device.
// ContentUndefined brings no content: what the buffers hold is lost.
const (
	MigrateToHost MigrateFlags = 1 << iota
	ContentUndefined
)

// EnqueueMigrate brings the whole of some buffers or sub-buffers to the queue's
// device, so that later commands find them there. What the host has mapped for
// writing stays as the host has written it: to the host, the rest is brought.
func (q *Queue) EnqueueMigrate(ctx context.Context, bufs []*Buffer, flags MigrateFlags, wait ...Event) (Event, error) {
	var few [8]use
	uses, err := q.migratable(few[:0], bufs)
	if err != nil {
		return Event{}, err
	}
	return q.migrate(ctx, opMigrate, uses, flags, wait)
}

// migrate enqueues a migrate of buffers or of shared virtual memory.
func (q *Queue) migrate(ctx context.Context, op opcode, uses []use, flags MigrateFlags, wait []Event) (Event, error) {
	if flags&^(MigrateToHost|ContentUndefined) != 0 {
		return Event{}, fmt.Errorf("%v flags %#x: unknown bits: %w", op, uint8(flags), mem.ErrInvalidValue)
	}
	return q.submit(ctx, &request{q: q, op: op, to: flags}, &borrowed{wait: wait, uses: uses})
}

// EnqueueMigrateTo is EnqueueMigrate to several memories of the context at once. What
// has to go through staging is read there once for all of them. It fails with
// mem.ErrInvalidValue where there is no such memory, or none is named.
func (q *Queue) EnqueueMigrateTo(ctx context.Context, bufs []*Buffer, to []mem.MemoryID, wait ...Event) (Event, error) {
	var few [8]use
	uses, err := q.migratable(few[:0], bufs)
	if err != nil {
		return Event{}, err
	}
	for i, m := range to {
		if int(m) >= len(q.c.mems) || slices.Contains(to[:i], m) {
			return Event{}, fmt.Errorf("migrate to memory %d: context %s has 0 to %d, each to be named once: %w", m, q.c.name, len(q.c.mems)-1, mem.ErrInvalidValue)
		}
	}
	if len(to) == 0 {
		return Event{}, fmt.Errorf("migrate to no memory: %w", mem.ErrInvalidValue)
	}
	return q.submit(ctx, &request{q: q, op: opMigrate}, &borrowed{wait: wait, uses: uses, to: to})
}

// migratable appends the whole of buffers that are to be migrated.
func (q *Queue) migratable(uses []use, bufs []*Buffer) ([]use, error) {
	if len(bufs) == 0 {
		return nil, fmt.Errorf("migrate of no buffers: %w", mem.ErrInvalidValue)
	}
	for _, b := range bufs {
		var size uint64
		if b != nil {
			size = b.Size()
		}
		u, err := q.resolve("migrate", b, 0, size)
		if err != nil {
			return nil, err
		}
		uses = append(uses, u)
	}
	return uses, nil
}

// EnqueueMarker does nothing, once the wait list has ended, or without one, all
// commands enqueued earlier on this queue (however they ended).
func (q *Queue) EnqueueMarker(ctx context.Context, wait ...Event) (Event, error) {
	if err := q.made(); err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &request{q: q, op: opMarker}, &borrowed{wait: wait})
}

// EnqueueBarrier is EnqueueMarker, and commands enqueued later on this queue
// start after it.
func (q *Queue) EnqueueBarrier(ctx context.Context, wait ...Event) (Event, error) {
	if err := q.made(); err != nil {
		return Event{}, err
	}
	return q.submit(ctx, &request{q: q, op: opBarrier}, &borrowed{wait: wait})
}

// EnqueueHostCall runs f on a goroutine of the host in the queue's order. An
// error of f's, or a panic, is the command's failure. Nothing stops f but
// itself: the context that it gets never ends, and closing the queue waits for
// it.
func (q *Queue) EnqueueHostCall(ctx context.Context, f func(context.Context) error, wait ...Event) (Event, error) {
	if err := q.made(); err != nil {
		return Event{}, err
	}
	if f == nil {
		return Event{}, fmt.Errorf("host call of no function: %w", mem.ErrInvalidValue)
	}
	return q.submit(ctx, &request{q: q, op: opHostCall, call: f}, &borrowed{wait: wait})
}
