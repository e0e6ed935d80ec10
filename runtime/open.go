package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/eviction"
	"godwit/internal/mover"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/migration"
)

// NewContext makes a context over the devices. It fails with
// mem.ErrInvalidValue where there are none, where a link names a memory that
// does not exist, and with mem.ErrInvalidDevice where a device is nil or given
// twice.
func NewContext(o Options) (*Context, error) { return OpenContext(context.Background(), o) }

// OpenContext is NewContext, which it gives up when ctx ends: links between devices that
// nothing is known of are measured, some tens of milliseconds for each.
func OpenContext(ctx context.Context, o Options) (*Context, error) {
	c, err := newContext(ctx, o)
	if err != nil && o.OwnDevices {
		for _, d := range o.Devices {
			if d != nil {
				err = errors.Join(err, o.closeDevice(d))
			}
		}
	}
	return c, err
}

// closeDevice closes a device of the context's own, which figures that others share are not to keep.
func (o *Options) closeDevice(d devices.Device) error {
	if o.Figures != nil {
		o.Figures.Forget(d)
	}
	return d.Close()
}

func newContext(ctx context.Context, o Options) (*Context, error) {
	if len(o.Caps) > len(o.Devices)+1 {
		return nil, fmt.Errorf("context %q: %d caps for %d memories: %w", o.Name, len(o.Caps), len(o.Devices)+1, mem.ErrInvalidValue)
	}
	if len(o.Devices) == 0 {
		return nil, fmt.Errorf("context %q without devices: it needs one at least: %w", o.Name, mem.ErrInvalidValue)
	}
	names, given := make([]string, len(o.Devices)), make(map[devices.Device]bool)
	for i, d := range o.Devices {
		if d == nil || given[d] {
			return nil, fmt.Errorf("context %q: device %d is nil or given twice: %w", o.Name, i, mem.ErrInvalidDevice)
		}
		given[d], names[i] = true, d.Info().Name
		if i < len(o.Names) && o.Names[i] != "" {
			names[i] = o.Names[i]
		}
	}
	if len(o.Names) > len(o.Devices) {
		return nil, fmt.Errorf("context %q: %d names for %d devices: one each at most: %w", o.Name, len(o.Names), len(o.Devices), mem.ErrInvalidValue)
	}
	o.Name, o.WholeBelow = cmp.Or(o.Name, "unnamed"), cmp.Or(o.WholeBelow, wholeBelow)
	c := &Context{
		name: o.Name, opts: o, topo: mem.NewTopology(uniqueNames(names)...), by: devices.ExecutorOr(o.Executor),
		memoryOf: make(map[devices.Device]mem.MemoryID),
		openUser: make(map[uint64]gateSet),
		roots:    make(map[mem.BufferID]*root),
		svmRoots: make(map[Pointer]*root),
		gates:    gates{lines: make(map[*mem.Timeline]bool)},
	}
	c.start = c.by.Now()
	c.callbacks.init(c.by)
	c.locks.init(c.by)
	c.scratch.reuse.May = c.mayWait
	if c.hooks.sink = o.Trace; o.Trace != nil {
		c.ends, c.evicting.ev.Told = o.Trace.Ends(), true
	}
	if c.evicting.policy = o.Policy; o.NoEviction {
		c.evicting.policy = nil
	} else if o.Policy == nil {
		c.evicting.policy = eviction.NewCost()
	}
	c.userLine = mem.NewTimeline("user", false, c.pointFailed)
	c.userLine.SleepBy(c.by.Sleeper())
	c.windows.init(c)
	if c.host = o.Host; c.host == nil {
		c.host = engine.NewHost(engine.HostOptions{})
	}
	if s, ok := c.host.(devices.Stamper); ok && s.Stamps() {
		c.stamper = s
	}
	c.addMemory(c.host)
	for _, d := range o.Devices {
		c.addMemory(d)
	}
	c.align = c.blockAlign()
	if err := c.openMover(); err != nil {
		return nil, errors.Join(err, c.host.Close())
	}
	if err := c.openPlanner(ctx); err != nil {
		return nil, errors.Join(err, c.mover.Close(), c.host.Close())
	}
	if err := o.Share.Broker.join(c); err != nil {
		return nil, errors.Join(err, c.mover.Close(), c.host.Close())
	}
	c.claim()
	c.locks.from = chooseLocker(o.Devices)
	c.open.Store(new(c.mover.Lazy()))
	return c, nil
}

// claim tells devices what the context takes of their memory at most.
func (c *Context) claim() {
	for i := range c.mems[1:] {
		if d, ok := c.mems[i+1].dev.(devices.Claimed); ok {
			var most uint64
			if i+1 < len(c.opts.Caps) {
				most = c.opts.Caps[i+1]
			}
			c.claims = append(c.claims, d.Claim(most))
		}
	}
}

// openPlanner finds out the ways between memories, and makes the planner. Links that the
// mover opens meanwhile are adopted afterwards.
func (c *Context) openPlanner(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ways(ctx); err != nil {
		return err
	}
	keepBelow := 16 * min(c.opts.WholeBelow, math.MaxUint64/16) // 4 MiB, or in proportion
	c.planner = migration.New(c.topo, migration.Options{Largest: c.largest(), KeepBelow: keepBelow})
	return nil
}

// largest is by memory the size of the largest block.
func (c *Context) largest() []uint64 {
	out := make([]uint64, len(c.mems))
	for i := range c.mems {
		out[i] = c.mems[i].largest
	}
	return out
}

// addMemory adds the next memory.
func (c *Context) addMemory(d devices.Device) {
	m := memory{dev: d, info: d.Info(), res: d.Memory()}
	m.window, _ = d.(devices.Windowed)
	if c.opts.Resource != nil {
		m.res = c.opts.Resource(mem.MemoryID(len(c.mems)), m.res)
	}
	if id := len(c.mems); id < len(c.opts.Caps) && c.opts.Caps[id] > 0 {
		limit, err := resource.NewLimit(m.res, c.opts.Caps[id])
		if err != nil {
			panic(fmt.Sprintf("runtime: a cap of %d bytes: %v", c.opts.Caps[id], err)) // not zero
		}
		m.res = limit
		m.info.GlobalMemory = least(m.info.GlobalMemory, c.opts.Caps[id])
		m.info.MaxAlloc = least(m.info.MaxAlloc, c.opts.Caps[id])
	}
	if m.largest = cmp.Or(m.info.MaxAlloc, m.info.GlobalMemory); m.largest == 0 {
		m.largest = math.MaxInt64
	}
	c.memoryOf[d] = mem.MemoryID(len(c.mems))
	c.mems = append(c.mems, m)
	c.evicting.unseen = append(c.evicting.unseen, m.untilHalf())
}

// least is the smaller of two limits, 0 being none.
func least(a, b uint64) uint64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// uniqueNames numbers names that occur twice, since timelines, errors and
// explanations tell memories apart by them.
func uniqueNames(names []string) []string {
	out, taken, given := slices.Clone(names), make(map[string]bool), make(map[string]bool)
	for _, n := range names {
		given[n] = true
	}
	for i, n := range names {
		n = cmp.Or(n, "device")
		out[i] = n
		for k := 2; taken[out[i]] || out[i] != n && given[out[i]]; k++ {
			out[i] = fmt.Sprintf("%s.%d", n, k)
		}
		taken[out[i]] = true
	}
	return out
}

// share makes two memories one store. Their devices are given each other's blocks from
// then on, as devices do whose blocks are bytes of this process.
func (c *Context) share(a, b mem.MemoryID) error {
	if err := c.topo.Share(a, b); err != nil {
		return fmt.Errorf("shared memories: %w", err)
	}
	for _, id := range []mem.MemoryID{a, b} {
		if _, ok := c.mems[id].dev.(devices.HostBacked); !ok {
			return fmt.Errorf("memories %s and %s as one store: blocks of device %s are not bytes of this process (devices.HostBacked): %w",
				c.topo.Name(a), c.topo.Name(b), c.topo.Name(id), mem.ErrInvalidValue)
		}
	}
	return nil
}

// ways finds out how the memories are linked: what drivers say, what is measured, and
// what the user overrules.
func (c *Context) ways(ctx context.Context) error {
	o := &c.opts
	for _, s := range o.Shared {
		if err := c.share(s[0], s[1]); err != nil {
			return fmt.Errorf("context %q: %w", o.Name, err)
		}
	}
	if err := c.mover.Links(c.topo, o.NoPeer); err != nil {
		return err
	}
	if os.Getenv("GODWIT_PINNED_H2D") == "0" {
		if err := c.leavePageable(); err != nil {
			return err
		}
	}
	figures := o.Figures
	if figures == nil {
		figures = new(mover.Figures)
	}
	for _, l := range o.Links {
		if l.Align == 0 {
			l.Align = c.mover.Align(l.From, l.To)
		}
		if err := c.topo.SetLink(l.From, l.To, l.Link); err != nil {
			return fmt.Errorf("context %q: %w", o.Name, err)
		}
		if l.Direct.There && !c.mover.Reaches(l.From, l.To) {
			return fmt.Errorf("context %q: link %s -> %s: neither driver copies between the two directly; a ring does: %w",
				o.Name, c.topo.Name(l.From), c.topo.Name(l.To), mem.ErrInvalidValue)
		}
	}
	if err := c.mover.Measure(ctx, c.topo, figures); err != nil {
		return fmt.Errorf("context %q: %w", o.Name, err)
	}
	for i := range c.mems {
		m := &c.mems[i]
		d, ok := m.dev.(devices.PageLocker)
		if !ok {
			continue
		}
		if l := d.HostLink(true); l.Ring.There {
			m.bus = d
			m.fromHost, m.toHost = c.topo.Link(mem.Host, mem.MemoryID(i)), c.topo.Link(mem.MemoryID(i), mem.Host)
		}
	}
	return nil
}

// leavePageable leaves copies between pageable memory and devices to their drivers.
func (c *Context) leavePageable() error {
	for i := 1; i < len(c.mems); i++ {
		for _, pair := range [][2]mem.MemoryID{{mem.Host, mem.MemoryID(i)}, {mem.MemoryID(i), mem.Host}} {
			l := c.topo.Link(pair[0], pair[1])
			if l.Ring = (mem.Path{}); !l.Direct.There {
				continue // one store
			}
			if err := c.topo.SetLink(pair[0], pair[1], l); err != nil {
				return err
			}
		}
	}
	return nil
}
