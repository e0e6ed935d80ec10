package runtime

// LiveEvents is how many events nobody has released yet.
func (c *Context) LiveEvents() int {
	c.events.mu.Lock()
	defer c.events.mu.Unlock()
	return c.events.live
}
