package runtime

import (
	"context"
	"fmt"

	"godwit/mem"
)

// What follows holds the place of the execution path until package migration
// and the drivers have landed; the API above it is final.

var errPending = fmt.Errorf("runtime: execution has not landed yet: %w", mem.ErrInvalidOperation)

type noPlanner struct{}

func (noPlanner) Create(uint64) (mem.BufferID, error) { return 0, errPending }

// NewContext makes a context over the devices. It fails with
// mem.ErrInvalidValue where there are none or one is given twice, and where a
// link names a memory that does not exist.
func NewContext(ctx context.Context, o Options) (*Context, error) { return nil, errPending }

// Close ends the context: nothing can be created or enqueued any more; all
// commands are drained; where ctx ends first, user events not set yet are
// failed, so that what waits for them ends. Then queues and programs are
// closed and every block on every memory is freed. The error names buffers that
// were not released. Close twice fails with mem.ErrClosed.
func (c *Context) Close(ctx context.Context) error { return errPending }

// Check tests the invariants of the context: the planner's state, storage
// against the resources, and the records. It is for tests and debugging.
func (c *Context) Check() error { return errPending }

func (c *Context) lock()   { c.mu.Lock() }
func (c *Context) unlock() { c.mu.Unlock() }

func (c *Context) initialise(*root, []byte) error { return errPending }
func (c *Context) drop(*root) error               { return errPending }
func (c *Context) pointFailed(mem.Point, error)   {}

func (q *Queue) submit(context.Context, *request) (Event, error) { return Event{}, errPending }
