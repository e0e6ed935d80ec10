package runtime

import "godwit/mem"

// LiveEvents is how many events nobody has released yet.
func (c *Context) LiveEvents() int {
	c.events.mu.Lock()
	defer c.events.mu.Unlock()
	return c.events.live
}

// HookPanicIsDue reports whether the next call panics with what a sink's Completed did.
func (c *Context) HookPanicIsDue() bool { return c.hooks.late.Load() != nil }

// Hangs reports whether a point waits for a user event or a host call.
func (c *Context) Hangs(p mem.Point) bool {
	c.lock()
	defer c.unlock()
	return c.hangs(p)
}

// ClosedGates are the gates that are closed, as bits.
func (c *Context) ClosedGates() uint64 { return c.gates.closed.Load() }
