package runtime

// LiveEvents is how many events nobody has released yet.
func (c *Context) LiveEvents() int {
	c.events.mu.Lock()
	defer c.events.mu.Unlock()
	return c.events.live
}

// HookPanicIsDue reports whether the next call panics with what a sink's Completed did.
func (c *Context) HookPanicIsDue() bool { return c.hooks.late.Load() != nil }

// Joined are the runs that g's commands are given to queues as, by their first commands.
func (g *Graph) Joined() (runs [][]int) {
	for _, x := range g.round.Joined {
		if x != nil {
			runs = append(runs, x.Commands)
		}
	}
	return runs
}
