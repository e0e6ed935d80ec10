// Package shm has host memory that two processes share, as buffers with acquire and release (docs/design/shm.md). It works on Linux; elsewhere
// Create and Open fail with errors.ErrUnsupported.
package shm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"godwit/mem"
	"godwit/runtime"
)

// ErrPeer is of an acquire or a release where the other process has gone, or does not keep to the protocol.
var ErrPeer = mem.Sentinel("the other process has gone", mem.InvalidOperation)

// ErrSeals is of a file that another process offers which may shrink, or is no memory.
var ErrSeals = mem.Sentinel("not a sealed file of memory", mem.InvalidValue)

// Region is memory that this process and another have mapped. Its methods are safe for use from many goroutines.
type Region struct {
	conn  *net.UnixConn // immutable
	bytes []byte        // immutable

	mu    sync.Mutex
	state state // protected by mu
	mine  bool  // protected by mu: while there is no buffer, that this process has the turn
}

// state is what a region's bytes are for.
type state int

const (
	idle   state = iota
	inUse        // by a Buffer
	closed       // there are none
)

// Size is how many bytes it has.
func (r *Region) Size() uint64 { return uint64(len(r.bytes)) }

// Close unmaps the region and closes its socket. It fails with mem.ErrInvalidOperation while a Buffer over it has not been released, and when it is
// closed already. The commands on that buffer must have ended.
func (r *Region) Close() error {
	if err := r.turnTo(idle, closed); err != nil {
		return fmt.Errorf("close of shared region: %w", err)
	}
	return errors.Join(r.conn.Close(), unmap(r.bytes))
}

// turnTo changes what the bytes are for.
func (r *Region) turnTo(from, to state) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.state {
	case from:
		r.state = to
		return nil
	case closed:
		return fmt.Errorf("it is closed: %w", mem.ErrInvalidOperation)
	default:
		return fmt.Errorf("a buffer over it has not been released: %w", mem.ErrInvalidOperation)
	}
}

// Hang ends acquires that wait, with ErrPeer: before a context is closed that waits for them.
func (r *Region) Hang() error { return r.conn.CloseRead() }

// give gives the turn to the other process.
func (r *Region) give(context.Context) error {
	if _, err := r.conn.Write([]byte{turn}); err != nil {
		return fmt.Errorf("%w: %w", ErrPeer, err)
	}
	return nil
}

// take waits for the turn.
func (r *Region) take(context.Context) error {
	var b [1]byte
	if _, err := r.conn.Read(b[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrPeer, err)
	}
	if b[0] != turn {
		return fmt.Errorf("%w: byte %#x where the turn was to come: %w", ErrPeer, b[0], mem.ErrInvalidValue)
	}
	return nil
}

// turn is what goes over the socket when it is the other's.
const turn = 't'

// Buffer is a region in a context. Commands use Buffer.Buffer as any other while this process has the turn.
type Buffer struct {
	*runtime.Buffer
	r *Region // immutable

	mu      sync.Mutex
	mapping runtime.Mapping // protected by mu: of a turn that is the other's; zero while it is this process's
	given   runtime.Event   // protected by mu: when it was given; zero of a turn that never was this process's
}

// Buffer makes the region a buffer of a context. In the process that opened it the first command is an acquire; q carries out what makes it so. It fails
// with mem.ErrInvalidOperation where the region has a buffer, or is closed.
func (r *Region) Buffer(ctx context.Context, q *runtime.Queue, c *runtime.Context, name string) (out *Buffer, err error) {
	if err := r.turnTo(idle, inUse); err != nil {
		return nil, fmt.Errorf("buffer over shared region: %w", err)
	}
	defer func() {
		if err != nil {
			_ = r.turnTo(inUse, idle) // nobody else has it
		}
	}()
	b, err := c.CreateNamedBuffer(name, r.Size(), runtime.UseHostPtr, r.bytes)
	if err != nil {
		return nil, err
	}
	out = &Buffer{Buffer: b, r: r}
	if r.mine { // nobody else changes it now
		return out, nil
	}
	var mapped runtime.Event
	q = q.With(runtime.CommandOptions{}) // with events
	out.mapping, mapped, err = q.EnqueueMap(ctx, b, 0, r.Size(), runtime.MapRead|runtime.MapWrite)
	if err != nil {
		return nil, errors.Join(err, b.Release())
	}
	out.given = mapped
	return out, nil
}

// EnqueueRelease gives the turn to the other process once all that this one has enqueued on the buffer has ended. Nothing may use the buffer afterwards
// until it was acquired. It fails with mem.ErrInvalidOperation where the turn is the other's.
func (b *Buffer) EnqueueRelease(ctx context.Context, q *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mapping.IsZero() {
		return runtime.Event{}, fmt.Errorf("release of shared buffer: the other process has the turn: %w", mem.ErrInvalidOperation)
	}
	q = q.With(runtime.CommandOptions{}) // with events
	mapping, mapped, err := q.EnqueueMap(ctx, b.Buffer, 0, b.r.Size(), runtime.MapRead|runtime.MapWrite, wait...)
	if err != nil {
		return runtime.Event{}, err
	}
	given, err := q.EnqueueHostCall(ctx, b.r.give, mapped)
	if err = errors.Join(err, mapped.Release()); err != nil {
		return runtime.Event{}, errors.Join(err, mapping.Abandon())
	}
	b.mapping, b.given = mapping, given
	return given, given.Retain()
}

// EnqueueAcquire waits for the turn, and then the buffer's content is what the other process has left there. It holds q up until then. Where that process has
// gone the event fails with ErrPeer, and so does what reads the buffer. It fails with mem.ErrInvalidOperation where this process has the turn.
func (b *Buffer) EnqueueAcquire(ctx context.Context, q *runtime.Queue, wait ...runtime.Event) (runtime.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mapping.IsZero() {
		return runtime.Event{}, fmt.Errorf("acquire of shared buffer: this process has the turn: %w", mem.ErrInvalidOperation)
	}
	q = q.With(runtime.CommandOptions{}) // with events
	taken, err := q.EnqueueHostCall(ctx, b.r.take, append(wait[:len(wait):len(wait)], b.given)...)
	if err != nil {
		return runtime.Event{}, err
	}
	unmapped, err := q.EnqueueUnmap(context.WithoutCancel(ctx), b.mapping, taken)
	err = errors.Join(err, taken.Release(), b.given.Release())
	b.mapping, b.given = runtime.Mapping{}, runtime.Event{}
	return unmapped, err
}

// Release releases the buffer, and ends what an acquire would have. The turn stays whose it is, for another buffer over the region.
func (b *Buffer) Release() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := b.mapping.IsZero()
	var errs []error
	if !mine {
		errs = append(errs, b.mapping.Abandon(), b.given.Release())
		b.mapping = runtime.Mapping{}
	}
	if err := b.Buffer.Release(); err != nil { // it was released before, perhaps
		return errors.Join(append(errs, err)...)
	}
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	b.r.state, b.r.mine = idle, mine
	return errors.Join(errs...)
}
