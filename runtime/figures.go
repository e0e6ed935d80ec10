package runtime

import (
	"sync/atomic"
	"time"

	"godwit/mem"
)

// Figures are a context's, at one moment.
type Figures struct {
	Links    []LinkBytes   // that bytes have gone over
	Memories []MemoryBytes // by MemoryID, the host's first
	Queues   []QueueDepth  // the user's, in no order
	Tenants  []TenantBytes // by tenant and memory
	Room     RoomFigures
}

// RoomFigures say what enqueues had to do with memories that were full, since the context was opened.
type RoomFigures struct {
	Waits     uint64        // waits for blocks that others use yet
	Waited    time.Duration // in these, together
	Shortages uint64        // enqueues that found no room, before Options.OnShortage was asked
	Asked     uint64        // times that other contexts were asked for room (Options.Share)
	Given     uint64        // bytes of blocks that left for that
}

// roomCounts count them.
type roomCounts struct{ waits, waited, shortages, asked, given atomic.Uint64 }

// LinkBytes is what has gone from one memory to another, in bytes: of what went by
// way of staging, to the host and from there.
type LinkBytes struct {
	From, To string
	Bytes    uint64
}

// MemoryBytes is the storage of a memory, in bytes; what copies are staged in there counts,
// too, which no cap bounds (Options.Caps).
type MemoryBytes struct {
	Name       string
	Live, Peak uint64
	Capacity   uint64 // 0 is unknown
	Whole      uint64 // what the buffers' part of Peak would be, were each stored whole
}

// QueueDepth is how many commands a queue has accepted that have not ended. In an
// out-of-order queue, those count too that have ended after one that has not.
type QueueDepth struct {
	Queue, Device string
	Commands      int
}

// Figures returns the context's. It takes the planner's lock for a moment.
func (c *Context) Figures() (f Figures) {
	if err := c.enter(); err != nil {
		return Figures{}
	}
	defer c.unlock()
	f.Room = RoomFigures{c.room.waits.Load(), time.Duration(c.room.waited.Load()), c.room.shortages.Load(), c.room.asked.Load(), c.room.given.Load()}
	for pair, n := range c.planner.Carried() {
		f.Links = append(f.Links, LinkBytes{c.topo.Name(pair[0]), c.topo.Name(pair[1]), n})
	}
	for m := range mem.MemoryID(len(c.mems)) {
		st := c.mems[m].res.Stats()
		f.Memories = append(f.Memories, MemoryBytes{c.topo.Name(m), st.Live, st.PeakLive, st.Capacity, c.planner.Footprint(m).WholePeak})
	}
	for _, t := range c.tenants {
		f.Tenants = t.figures(f.Tenants)
	}
	for _, q := range c.queues {
		d := QueueDepth{Queue: q.name, Device: c.topo.Name(q.mem)}
		if first, last := q.line.Oldest(), q.line.Last(); !first.IsZero() {
			d.Commands = int(last.Seq - first.Seq + 1)
		}
		f.Queues = append(f.Queues, d)
	}
	return f
}
