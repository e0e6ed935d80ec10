package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"godwit/devices"
	"godwit/eviction"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/migration"
)

// Contexts that share a device ask each other for room (docs/design/sharing.md). Assumptions: shortages are rare beside commands, so
// who asks may look at everybody; what it was given may be another's before it comes back, so it asks again while anybody gives.
//
// Lock order: Broker.mu is held over the list alone. Context.mu of the asker is not held while another's is taken: so there is
// never more than one.

// Broker is where contexts of one process meet that may make each other's blocks leave devices that they share. The zero Broker is ready;
// it is safe for use from many goroutines.
type Broker struct {
	mu      sync.Mutex
	members []*Context // protected by mu: lower priorities first, then as they joined
}

// Share says how a context shares its devices with others.
type Share struct {
	// Broker is where those others are; nil is nobody.
	Broker *Broker
	// Floors are how many bytes of the context's blocks on a memory the others leave there, by MemoryID; what is not there is 0. All contexts' are
	// at most what the device has.
	Floors []uint64
	// Priority says who gives first: lower ones do.
	Priority int32
}

// floor is what others leave on a memory.
func (s *Share) floor(m mem.MemoryID) uint64 {
	if int(m) < len(s.Floors) {
		return s.Floors[m]
	}
	return 0
}

// join makes a context one that is asked. It fails where floors come to more than a device has.
func (b *Broker) join(c *Context) error {
	if b == nil {
		return nil
	}
	if n := len(c.opts.Share.Floors); n > len(c.mems) || c.opts.Share.floor(mem.Host) > 0 {
		return fmt.Errorf("context %s: floors of %d memories, there are %d, and none of the host's, which nothing leaves: %w", c.name, n, len(c.mems), mem.ErrInvalidValue)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range c.mems[1:] {
		at := &c.mems[i+1]
		sum, all := c.opts.Share.floor(mem.MemoryID(i+1)), at.info.GlobalMemory
		for _, o := range b.members {
			if m, ok := o.memoryOf[at.dev]; ok {
				sum += min(o.opts.Share.floor(m), math.MaxUint64-sum)
			}
		}
		if all > 0 && sum > all {
			return fmt.Errorf("context %s: floors on %s would be %d bytes in all: it has %d: %w", c.name, c.topo.Name(mem.MemoryID(i+1)), sum, all, mem.ErrInvalidValue)
		}
	}
	b.members = append(b.members, c)
	slices.SortStableFunc(b.members, func(x, y *Context) int { return cmp.Compare(x.opts.Share.Priority, y.opts.Share.Priority) })
	return nil
}

// leave ends a join.
func (b *Broker) leave(c *Context) {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.members = slices.DeleteFunc(b.members, func(o *Context) bool { return o == c })
	}
}

// with are the members that have a device.
func (b *Broker) with(d devices.Device) (list []*Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.members {
		if _, ok := o.memoryOf[d]; ok {
			list = append(list, o)
		}
	}
	return list
}

// ask has others give bytes of a device's memory up. Nobody can use what was given before all of until have been reached; where nothing was, these
// are what frees wait for anyway. No locks are held.
func (b *Broker) ask(c *Context, d devices.Device, bytes uint64) (given uint64, until []mem.Point, err error) {
	list := b.with(d)
	for _, o := range list {
		if o == c || given >= bytes {
			continue
		}
		n, points, failed := o.give(d, bytes-given)
		given, until = given+n, append(until, points...)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("context %s, asked for room: %w", o.name, failed))
		}
	}
	for _, o := range list {
		if given == 0 {
			until = o.comingBack(d, until)
		}
	}
	return given, until, err
}

// comingBack appends what the context's pending frees on a device wait for, as far as that ends by itself.
func (c *Context) comingBack(d devices.Device, until []mem.Point) []mem.Point {
	defer c.flush()
	c.lock()
	defer c.unlock()
	if c.closed {
		return until
	}
	for _, p := range c.mems[c.memoryOf[d]].res.Pending(nil) {
		if !p.Reached() && c.mayWait(p) {
			until = append(until, p)
		}
	}
	return until
}

// give has blocks leave a device until they were so many bytes, or nothing more may go. Their space is in use until the points have been
// reached. No locks are held.
func (c *Context) give(d devices.Device, bytes uint64) (given uint64, until []mem.Point, err error) {
	defer c.flush()
	defer c.keepPanic()
	var pages backPages
	defer pages.free()
	for given < bytes {
		n, err := c.giveOne(d, &pages, &until)
		var room *errRoom
		switch {
		case errors.As(err, &room) && room.lock != nil:
			pages.lock(c, room.lock)
		case err != nil || n == 0:
			return given, until, err
		}
		given += n
	}
	return given, until, nil
}

// keepPanic keeps a hook's panic for the context's next call, where another's call has found it.
func (c *Context) keepPanic() {
	switch v := recover().(type) {
	case nil:
	case *HookPanic:
		c.hooks.late.CompareAndSwap(nil, v)
	default:
		panic(v)
	}
}

// giveOne has one block leave a device, and returns how many bytes it had; 0 where none may. It fails with an *errRoom where
// memory for the write-back is to be page-locked first.
func (c *Context) giveOne(d devices.Device, pages *backPages, until *[]mem.Point) (bytes uint64, err error) {
	c.lock()
	defer c.unlock()
	if c.closed {
		return 0, nil
	}
	e, m, ok := &c.evicting, c.topo.Store(c.memoryOf[d]), false
	e.plan, e.ahead, e.pages = &e.nothing, nil, pages
	c.scratch.wants, c.scratch.transfer.For = c.scratch.wants[:0], nil // another waits for it
	c.scratch.reuse.Cut(0)
	c.hooks.call(&c.hooks.failed, func() {
		ok = c.planner.Evict(&e.ev, e.plan, []mem.MemoryID{m}, 1, false, e.policy, givenRoom{evictRoom{c}})
	})
	if !ok {
		return 0, nil
	}
	if err := c.carryOut(); err != nil {
		return 0, err
	}
	*until = append(*until, c.scratch.until...)
	return e.ev.Victims[0].Range.Size(), nil
}

// givenRoom answers the planner where a block leaves for another context.
type givenRoom struct{ evictRoom }

// Fits implements migration.Room: any block will do.
func (givenRoom) Fits(mem.MemoryID, []migration.Victim) bool { return true }

// Stays implements migration.Room.
func (r givenRoom) Stays(v migration.Victim, victims []migration.Victim) eviction.Why {
	if r.c.planner.Footprint(v.Memory).Now < r.c.opts.Share.floor(v.Memory)+v.Range.Size() {
		return eviction.Floor
	}
	return r.evictRoom.Stays(v, victims)
}

// mayAsk makes of an error for want of room one that others may help with, where there are any. c.mu is held, as it was when the certificate
// was made.
func (c *Context) mayAsk(err error) error {
	var why *OutOfMemory
	if c.opts.Share.Broker == nil || c.waits(err) || !errors.As(err, &why) || why.Host || why.Hopeless || c.evicting.capped {
		return err
	}
	for m := range c.mems {
		if c.topo.Name(mem.MemoryID(m)) == why.Device {
			has := why.Free + c.going(why, nil)
			return &errRoom{error: err, on: c.mems[m].dev, from: c.mems[m].res, ask: max(1, why.Requested-min(why.Requested, has))}
		}
	}
	return err
}

// asks reports whether an enqueue that failed with err asks other contexts, and is tried again where they give something.
func asks(err error) bool {
	var room *errRoom
	return errors.As(err, &room) && room.ask > 0
}

// going is how many bytes of blocks that a certificate names may leave, of a tenant, nil being all. c.mu is held.
func (c *Context) going(why *OutOfMemory, of *Tenant) (bytes uint64) {
	for i := range why.Holders {
		if h := &why.Holders[i]; h.Why == eviction.Goes && (of == nil || c.roots[mem.BufferID(h.Tag)].tenant == of) {
			bytes += h.Bytes
		}
	}
	return bytes
}

// atOwnCap reports whether the context's cap, or a tenant's, leaves no room for what the scratch plan wants, even if all left that may. c.mu is held.
func (c *Context) atOwnCap(m mem.MemoryID, why *OutOfMemory) bool {
	passes := func(held, want, most uint64, of *Tenant) bool {
		return want > most || held-min(held, c.going(why, of)) > most-want
	}
	if l, ok := resource.Find[*resource.Limit](c.mems[m].res); ok && passes(l.Held(), why.Requested, l.Max(), nil) {
		return true
	}
	reqs := c.wanted(m)
	return slices.ContainsFunc(c.tenants, func(t *Tenant) bool {
		want, at := t.asksOf(reqs), &t.on[m]
		return want > 0 && passes(at.ceiling.Held(), want, at.ceiling.Max, t)
	})
}

// fromOthers asks other contexts for room, and waits until what they gave can be used. It reports whether to try again: somebody gave
// something, or has, and resources may hear of that a moment later; or the request is over, so that it is refused. It fails where ctx ends. No
// locks are held.
func (c *Context) fromOthers(ctx context.Context, of *Request, room *errRoom, so *tries) (bool, error) {
	bytes := room.ask << min(so.asks, 16)
	if bytes>>min(so.asks, 16) != room.ask {
		bytes = math.MaxUint64
	}
	given, until, failed := c.opts.Share.Broker.ask(c, room.on, bytes)
	c.room.asked.Add(1)
	c.room.given.Add(given)
	began := c.by.Now()
	defer func() { c.room.waited.Add(c.by.Now() - began) }()
	for i := range until {
		if err := mem.WaitAny(ctx, of.orOver(until[i:i+1:i+1])); err != nil {
			return false, fmt.Errorf("%w while waiting for room that others gave: %w", err, room.error)
		}
	}
	if given > 0 || len(until) > 0 {
		so.asks, so.waits = so.asks+1, 0
		return true, nil
	}
	if so.waits++; so.waits > mostTries || so.waits > 1 && room.from.Stats().Pending == 0 {
		room.error = errors.Join(room.error, failed)
		return false, nil
	}
	if err := c.by.Pause(ctx, firstPause<<so.waits); err != nil {
		return false, fmt.Errorf("%w while waiting for room that others gave: %w", err, room.error)
	}
	return true, nil
}
