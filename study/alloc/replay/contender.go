package replay

import (
	"context"
	"math"
	"runtime"
	"time"

	"godwit/internal/yardstick"
)

// contender is an allocator on one stream, to be timed again and again.
type contender interface {
	// grow runs the stream once to its peak, so that later nothing grows, and
	// says how many bytes its bookkeeping uses and has set aside; 0: unknown.
	grow() (used, aside uint64, err error)
	// round starts over, times the operations past Warm, lowers batches[k] to the ns of
	// processor time of each batch of batchOps, and lowers least[i] to those on the clock
	// of each operation in another pass.
	round(ctx context.Context, batches, least []float64) (lap, error)
	// scanned says which operations search in full as a last resort; nil for none.
	scanned() map[int]bool
	close() error
}

// lap is what a round shows.
type lap struct {
	ns       float64 // processor time of all operations past Warm
	failures int
	mallocs  uint64 // on the Go heap
	timed    bool   // false where the contender cannot be timed
}

// batchOps is the number of operations of a batch: few enough that others use the caches
// little meanwhile in some round, many enough that asking for the time costs nothing.
const batchOps = 2048

// performer is an allocator in this process: what local times.
type performer interface {
	reset()
	perform(op Op) (ok bool)
	bookkeeping() (used, aside uint64) // bytes
}

// local is a contender in this process.
type local struct {
	st *Stream
	x  performer
}

func (c *local) close() error { return nil }

func (c *local) grow() (used, aside uint64, err error) {
	c.x.reset()
	c.run(c.st.Ops[:c.st.PeakAt+1])
	used, aside = c.x.bookkeeping()
	return used, aside, nil
}

// run has a loop for each kind of allocator whose time counts, so that none of
// them is called through an interface.
func (c *local) run(ops []Op) (failures int) {
	switch x := c.x.(type) {
	case *state:
		for _, op := range ops {
			if !x.perform(op) {
				failures++
			}
		}
	case *bareState:
		for _, op := range ops {
			if !x.perform(op) {
				failures++
			}
		}
	}
	return failures
}

func (c *local) round(ctx context.Context, batches, least []float64) (l lap, err error) {
	if err := ctx.Err(); err != nil {
		return lap{}, err
	}
	l.timed = true
	runtime.LockOSThread() // whose time counts
	defer runtime.UnlockOSThread()
	c.x.reset()
	l.failures = c.run(c.st.Ops[:c.st.Warm])
	timed := c.st.Ops[c.st.Warm:]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for k := 0; len(timed) > 0; k++ {
		n := min(batchOps, len(timed))
		start := threadTime()
		l.failures += c.run(timed[:n])
		took := float64(threadTime() - start)
		batches[k] = min(batches[k], took)
		l.ns += took
		timed = timed[n:]
	}
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n >= 16 { // fewer are ReadMemStats' and the runtime's own
		l.mallocs = n
	}
	c.each(least)
	return l, nil
}

// each times every operation and keeps the least time seen for it, in ns.
func (c *local) each(least []float64) {
	c.x.reset()
	epoch := time.Now()
	for i := range c.st.Ops {
		start := time.Since(epoch)
		c.run(c.st.Ops[i : i+1])
		least[i] = min(least[i], float64(time.Since(epoch)-start))
	}
}

func (c *local) scanned() map[int]bool {
	s, ok := c.x.(*state)
	if !ok {
		return nil
	}
	s.reset()
	if c.run(c.st.Ops); s.r.Stats().Scans == 0 {
		return nil
	}
	s.reset()
	at := make(map[int]bool)
	last := uint64(0)
	for i, op := range c.st.Ops {
		s.perform(op)
		if op.Size == 0 {
			continue
		}
		if n := s.r.Stats().Scans; n != last {
			at[i], last = true, n
		}
	}
	return at
}

// clockCost is the least time between two readings of the clock, in ns.
func clockCost() float64 {
	least := math.Inf(1)
	epoch := time.Now()
	for range 2000 {
		start := time.Since(epoch)
		least = min(least, float64(time.Since(epoch)-start))
	}
	return least
}

// nodeBytes is the size of a node in bufalloc and in the yardstick.
const nodeBytes = 32

// bareState is the yardstick as a contender.
type bareState struct {
	st   *Stream
	a    *yardstick.Allocator
	held []uint32
}

func (s *bareState) reset() { s.a.Reset() }

func (s *bareState) perform(op Op) bool {
	if op.Size != 0 {
		i := s.a.Alloc(op.Size)
		s.held[op.Slot] = i
		return i != yardstick.None
	}
	if i := s.held[op.Slot]; i != yardstick.None {
		s.a.Free(i)
	}
	return true
}

func (s *bareState) bookkeeping() (used, aside uint64) {
	return uint64(s.a.Nodes()) * nodeBytes, s.a.Bookkeeping()
}

// away is a contender in another process, which takes the times itself.
type away struct {
	st   *Stream
	s    Session
	size uint64
	mine []float64 // scratch
	ops  []float64 // scratch
}

func (c *away) grow() (used, aside uint64, err error) { return 0, 0, nil }
func (c *away) scanned() map[int]bool                 { return nil }
func (c *away) close() error                          { return c.s.Close() }

func (c *away) round(ctx context.Context, batches, least []float64) (l lap, err error) {
	if c.mine == nil {
		c.mine, c.ops = make([]float64, (len(c.st.Ops)-c.st.Warm+batchOps-1)/batchOps), make([]float64, len(c.st.Ops))
	}
	l.failures, l.timed, err = c.s.Time(ctx, c.size, batchOps, c.mine, c.ops)
	if err != nil || !l.timed {
		return l, err
	}
	for k, ns := range c.mine {
		l.ns += ns
		batches[k] = min(batches[k], ns)
	}
	for i, ns := range c.ops {
		least[i] = min(least[i], ns)
	}
	return l, nil
}
