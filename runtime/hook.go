package runtime

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"

	"godwit/devices"
	"godwit/eviction"
	"godwit/mem"
	"godwit/migration"
	"godwit/trace"
)

// Hooks. A trace.CommandSink and an eviction.Policy are the program's own, and are
// called under the planner lock or on a driver's goroutine. One that calls the context
// would wait for itself. So all of them are called through the methods of hooks, which
// count, and every call from outside takes the planner lock by enter, which fails where
// it finds one of these methods on its own stack. The stack is looked at only while some
// hook runs: without hooks that is one load.

// hooks calls what the program gave to be called.
type hooks struct {
	running atomic.Int32 // calls that have not returned
	sink    trace.CommandSink
}

func (h *hooks) buffer(r *trace.BufferRecord) {
	h.running.Add(1)
	defer h.running.Add(-1)
	h.sink.Buffer(r)
}

func (h *hooks) command(r *trace.CommandRecord) {
	h.running.Add(1)
	defer h.running.Add(-1)
	h.sink.Command(r)
}

func (h *hooks) completed(r *trace.CompletionRecord) {
	h.running.Add(1)
	defer h.running.Add(-1)
	h.sink.Completed(r)
}

// evict has the planner choose what leaves the memories that are short, by the policy.
func (h *hooks) evict(c *Context, plan *migration.Plan) bool {
	h.running.Add(1)
	defer h.running.Add(-1)
	e := &c.evicting
	return c.planner.Evict(&e.ev, plan, e.short, 1, e.policy, evictRoom{c})
}

func (h *hooks) observe(o eviction.Observer, accesses []mem.Access) {
	h.running.Add(1)
	defer h.running.Add(-1)
	o.Observe(accesses)
}

// inside fails with mem.ErrInvalidOperation where the calling goroutine is in a hook.
// That another context's hook runs on it counts, too, while one of this context runs.
func (c *Context) inside() error {
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
		for frames := runtime.CallersFrames(page[:n]); n > 0; {
			f, more := frames.Next()
			if strings.HasPrefix(f.Function, hooksMethods) {
				return true
			}
			if !more {
				break
			}
		}
		if n < len(page) {
			return false
		}
	}
}
