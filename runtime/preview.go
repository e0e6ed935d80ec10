package runtime

import (
	"fmt"
	"slices"
	"time"

	"godwit/devices"
	"godwit/mem"
)

// Preview is what a launch would do if it were enqueued now: what has to move, what has to leave
// for it, and what that costs whoever uses it next. Bytes and counts, unless said.
type Preview struct {
	Bytes  uint64 // that have to be brought
	Copies int    // which bring them
	Blocks uint64 // of storage that has to be got

	Evictions   int    // blocks of others that leave
	Evicted     uint64 // of these blocks
	WrittenBack uint64 // of what they hold: what has to be moved first
	Refetch     uint64 // of what they hold: what a later use there has to fetch again

	// Time is what the copies and write-backs take, one after the other, by the links' figures, and
	// RefetchTime what fetching Refetch from the host takes. Both are 0 where figures are not known
	// (Timed is false).
	Time, RefetchTime time.Duration
	Timed             bool
}

// Preview says what EnqueueLaunch would do, as it is at this moment, and does nothing: content,
// storage and what leaves when are as if nobody had asked. It plans the launch as an enqueue does, under
// the planner lock; where blocks would have to leave it compares all of the memory's, which takes about
// 0.1 us for each; the enqueue may choose others where there are more than 32. Enqueues of others may come before one's own. A kernel's own time is not counted, nor what
// the queue has yet to do.
//
// It fails as EnqueueLaunch does: with mem.ErrNoMemory (OutOfMemory) where there would be no room, though
// the program is not asked for any (Options.OnShortage) and nothing is waited for; and with mem.ErrInvalidOperation
// while the queue is being recorded.
func (q *Queue) Preview(l Launch) (Preview, error) {
	if err := q.made(); err != nil {
		return Preview{}, err
	}
	if err := q.checkLaunch(&l); err != nil {
		return Preview{}, err
	}
	if err := q.enter(); err != nil {
		return Preview{}, err
	}
	defer q.c.unlock()
	if q.recording.Load() != nil {
		return Preview{}, fmt.Errorf("preview on queue %s, which is being recorded: %w", q.name, mem.ErrInvalidOperation)
	}
	if err := q.how.Request.takes(q, opLaunch); err != nil {
		return Preview{}, err
	}
	req := request{q: q, op: opLaunch}
	v, err := q.c.preview(&req, &borrowed{launch: &l})
	if err != nil {
		return Preview{}, req.failed(err)
	}
	return v, nil
}

// preview plans a request and asks what would leave for it. c.mu is held.
func (c *Context) preview(req *request, in *borrowed) (v Preview, err error) {
	s, e := &c.scratch, &c.evicting
	if err := c.plan(req, in); err != nil {
		return v, err
	}
	for i := range s.plan.Steps {
		v.Bytes += s.plan.Steps[i].Bytes()
	}
	v.Copies = len(s.plan.Steps)
	seconds, timed := c.planner.Time(&s.plan)
	c.askForRoom()
	defer func() { s.wants = s.wants[:0] }()
	for i := range s.wants {
		v.Blocks += s.wants[i].Range.Size()
	}
	if len(e.short) > 0 {
		if !c.wouldEvict() {
			return v, c.outOfMemory(e.short[0], mem.Exhausted)
		}
		more, known := c.planner.Time(&e.ev.Backs)
		seconds, timed = seconds+more, timed && known
	}
	var again float64
	for i := range e.ev.Victims {
		x := &e.ev.Victims[i]
		v.Evictions++
		v.Evicted += x.Size()
		v.WrittenBack += x.Back
		v.Refetch += x.Fresh
		again += x.Fetch
		timed = timed && (x.Fetch > 0 || x.Fresh == 0)
	}
	if v.Timed = timed; timed {
		v.Time, v.RefetchTime = duration(seconds), duration(again)
	}
	return v, nil
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// askForRoom lists the scratch plan's storage as what is wanted, and in evicting.short the memories that
// have no room for it; nobody leaves. c.mu is held.
func (c *Context) askForRoom() {
	s, e := &c.scratch, &c.evicting
	e.plan, e.ahead, e.ev.Victims, e.short = &s.plan, nil, e.ev.Victims[:0], e.short[:0]
	s.wants = s.wants[:0]
	s.reuse.Cut(0)
	for _, w := range s.plan.Storage {
		s.wants = append(s.wants, want{Want: w})
	}
	c.fit(0)
	e.ev.Victims = e.ev.Victims[:0]
	for i := range s.wants {
		m := s.wants[i].Memory
		if !slices.Contains(e.short, m) && !c.fits(m, c.wanted(m), nil, &s.reuse) {
			e.short = append(e.short, m)
		}
	}
}

// wouldEvict has the planner choose as makeRoom does, and nothing leaves. c.mu is held.
func (c *Context) wouldEvict() bool {
	e := &c.evicting
	e.ev.Asked = true
	defer func() { e.ev.Asked, e.old = false, false }()
	if c.evict(&c.scratch.plan, false) {
		return true
	}
	e.old = true
	return c.exchanging() && c.evict(&c.scratch.plan, true)
}

// Resident is how many bytes of b a device of the context holds in their latest version, or will when
// what is under way has ended: what a launch there need not wait for. It fails with mem.ErrInvalidDevice
// and mem.ErrInvalidBuffer.
func (b *Buffer) Resident(d devices.Device) (bytes uint64, err error) {
	err = b.onMemory("resident", d, func(r *root, m mem.MemoryID) error {
		bytes, err = b.c.planner.Resident(r.id, m, b.view.Range)
		return err
	})
	return bytes, err
}
