package resource

import "godwit/mem"

// Ceiling counts bytes against a ceiling: those of blocks, and of blocks that were given back while points that use
// them have not been reached. It is not safe for concurrent use.
type Ceiling struct {
	Max uint64 // bytes

	held  uint64 // pending included
	waits pending
}

// Held is how many bytes count against the ceiling.
func (c *Ceiling) Held() uint64 {
	c.reap()
	return c.held
}

// Pending is how many of these were given back.
func (c *Ceiling) Pending() uint64 { return c.waits.bytes }

func (c *Ceiling) reap() { c.held -= c.waits.reap() }

// Over is how many bytes of frees that are pending have to be spent for want bytes more, and the outcome: OverBudget where that
// is more than are pending, NeedsWait where it is more than reuse takes.
func (c *Ceiling) Over(want uint64, reuse *mem.Reuse) (over uint64, o mem.Outcome) {
	if want > c.Max-c.held {
		c.reap()
	}
	room := c.Max - c.held
	if want <= room {
		return 0, mem.Ready
	}
	switch over = want - room; {
	case over > c.waits.bytes:
		return over, mem.OverBudget
	case over > c.waits.takes(reuse):
		return over, mem.NeedsWait
	}
	return over, mem.Ready
}

// Take counts so many blocks of want bytes in all, of which Over said how many have to be spent: they are in use until the
// oldest frees that reuse takes have happened.
func (c *Ceiling) Take(want, over uint64, reuse *mem.Reuse, blocks int) {
	if over > 0 {
		c.held -= over
		c.waits.spend(over, reuse, blocks)
	}
	c.held += want
}

// Free gives bytes back once the points have been reached.
func (c *Ceiling) Free(bytes uint64, after []mem.Point) {
	if !c.waits.add(bytes, after) {
		c.held -= bytes
	}
}

// Fits reports whether want bytes would be below the ceiling if so many had been given back, and reuse took every free that is pending.
func (c *Ceiling) Fits(want, gone uint64, reuse *mem.Reuse) bool {
	c.reap()
	held := c.held - c.waits.takes(reuse) - gone
	return want <= c.Max && held <= c.Max-want
}
