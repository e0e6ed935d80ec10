package runtime

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"godwit/devices"
	"godwit/mem"
	"godwit/mem/trace"
)

// Hooks. A trace.CommandSink and an eviction.Policy are the program's own, and are
// called under the planner lock or on a driver's goroutine. One that calls the context
// would wait for itself. So all of them are called through hooks.call, which
// counts, and every call from outside takes the planner lock by enter, which fails where
// it finds a method of hooks on its own stack. The stack is looked at only while some
// hook runs: without hooks that is one load.
//
// A hook that panics does so in the middle of something. So the panic is kept, what called
// the hook goes on as if it had returned, and unlock raises the panic once nothing is held
// (C14). What is told of a command's end may be told by a driver's goroutine: its panic is
// raised by the next call, before that has done anything.

// hooks calls what the program gave to be called.
type hooks struct {
	running atomic.Int32              // calls that have not returned
	failed  atomic.Pointer[HookPanic] // under the planner lock, which unlock is going to raise
	late    atomic.Pointer[HookPanic] // of Completed
	sink    trace.CommandSink
}

// HookPanic is what a call of a context panics with where the program's own
// trace.CommandSink or eviction.Policy did. The event or buffer that the call was about to
// return does not exist then. A command that was accepted is carried out all the same: the
// caller's memory is in its use until the queue has finished, and what it mapped stays mapped until
// its buffer is freed or the context closes.
type HookPanic struct {
	Value any    // what the hook panicked with
	Stack []byte // of the hook, as debug.Stack has it
}

// Error makes a HookPanic one that Go prints whole.
func (p *HookPanic) Error() string {
	return fmt.Sprintf("panic of a trace.CommandSink or an eviction.Policy: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns what the hook panicked with, where that is an error.
func (p *HookPanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// call has f call a hook, and keeps its panic.
func (h *hooks) call(keep *atomic.Pointer[HookPanic], f func()) {
	h.running.Add(1)
	defer func() {
		h.running.Add(-1)
		if v := recover(); v != nil {
			keep.CompareAndSwap(nil, &HookPanic{v, debug.Stack()})
		}
	}()
	f()
}

// buffer tells the sink of a buffer. c.mu is held.
func (h *hooks) buffer(r *trace.BufferRecord) { h.call(&h.failed, func() { h.sink.Buffer(r) }) }

// inside fails with mem.ErrInvalidOperation where the calling goroutine is in a hook.
// That another context's hook runs on it counts, too, while one of this context runs.
// It raises what Completed panicked with.
func (c *Context) inside() error {
	if c.hooks.late.Load() != nil {
		if p := c.hooks.late.Swap(nil); p != nil {
			panic(p)
		}
	}
	if c.hooks.running.Load() == 0 || !onStack() {
		return nil
	}
	return fmt.Errorf("context %s: a trace.CommandSink or an eviction.Policy must not call a context: %w", c.name, mem.ErrInvalidOperation)
}

// enter is lock for calls from outside, which may come from a hook: then it fails, and
// the lock is not taken.
func (c *Context) enter() error {
	if err := c.inside(); err != nil {
		return err
	}
	c.lock()
	return nil
}

// call is enter for calls that change something: in virtual time they cost the host
// thread something, and what ends by then has ended.
func (c *Context) call() error {
	if err := c.inside(); err != nil {
		return err
	}
	c.by.Enter(devices.Other)
	c.lock()
	return nil
}

// begin is call for what a closed context refuses.
func (c *Context) begin(what string) error {
	if err := c.call(); err != nil {
		return err
	}
	if c.closed {
		c.unlock()
		return fmt.Errorf("%s: context %s: %w", what, c.name, errContextClosed)
	}
	return nil
}

// look is for calls that look at what changes by itself.
func (c *Context) look() {
	if c.inside() == nil {
		c.by.Enter(devices.Poll)
	}
}

// hooksMethods is how the names of hooks' methods begin, as the stack has them.
var hooksMethods = func() string {
	t := reflect.TypeFor[hooks]()
	return fmt.Sprintf("%s.(*%s).", t.PkgPath(), t.Name())
}()

// onStack reports whether a method of hooks called this function, through however many
// others.
func onStack() bool {
	var page [64]uintptr
	for skip := 2; ; skip += len(page) {
		n := runtime.Callers(skip, page[:])
		frames := runtime.CallersFrames(page[:n])
		for more := true; more; {
			var f runtime.Frame
			if f, more = frames.Next(); strings.HasPrefix(f.Function, hooksMethods) {
				return true
			}
		}
		if n < len(page) {
			return false
		}
	}
}
