package runtime

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"godwit/devices"
	"godwit/mem"
	"godwit/migration"
	"godwit/svm"
)

// NewContext makes a context over the devices. It fails with
// mem.ErrInvalidValue where there are none, where a link names a memory that
// does not exist, and with mem.ErrInvalidDevice where a device is nil or given
// twice.
func NewContext(o Options) (*Context, error) {
	c, err := newContext(o)
	if err != nil && o.OwnDevices {
		for _, d := range o.Devices {
			if d != nil {
				err = errors.Join(err, d.Close())
			}
		}
	}
	return c, err
}

func newContext(o Options) (*Context, error) {
	if len(o.Devices) == 0 {
		return nil, fmt.Errorf("context %q without devices: it needs one at least: %w", o.Name, mem.ErrInvalidValue)
	}
	names := make([]string, len(o.Devices))
	for i, d := range o.Devices {
		if d == nil || slices.Contains(o.Devices[:i], d) {
			return nil, fmt.Errorf("context %q: device %d is nil or given twice: %w", o.Name, i, mem.ErrInvalidDevice)
		}
		names[i] = d.Info().Name
		if i < len(o.Names) && o.Names[i] != "" {
			names[i] = o.Names[i]
		}
	}
	if o.Name == "" {
		o.Name = "unnamed"
	}
	topo, err := topology(&o, uniqueNames(names))
	if err != nil {
		return nil, err
	}
	c := &Context{
		name: o.Name, opts: o, topo: topo, start: time.Now(),
		openUser:  make(map[uint64]struct{}),
		queues:    make(map[*Queue]struct{}),
		programs:  make(map[*Program]struct{}),
		roots:     make(map[mem.BufferID]*root),
		svmRoots:  make(map[Pointer]*root),
		svmPoints: make(map[*svm.Map]mem.Point),
		planner:   migration.New(topo, migration.Options{}),
	}
	c.userLine = mem.NewTimeline("user", false, c.pointFailed)
	host := devices.NewHost(devices.HostOptions{})
	c.addMemory(host)
	for _, d := range o.Devices {
		c.addMemory(d)
	}
	if err := c.openTransport(); err != nil {
		return nil, errors.Join(err, host.Close())
	}
	c.locks.from = chooseLocker(o.Devices)
	c.listQueues()
	return c, nil
}

// addMemory adds the next memory.
func (c *Context) addMemory(d devices.Device) {
	m := memory{dev: d, info: d.Info(), res: d.Memory()}
	_, m.svm = d.(devices.SVMReserver)
	if c.opts.Resource != nil {
		m.res = c.opts.Resource(mem.MemoryID(len(c.mems)), m.res)
	}
	c.mems = append(c.mems, m)
}

// uniqueNames numbers names that occur twice, since timelines, errors and
// explanations tell memories apart by them.
func uniqueNames(names []string) []string {
	out := slices.Clone(names)
	for i, n := range names {
		if n == "" {
			n = "device"
		}
		out[i] = n
		for k := 2; slices.Contains(out[:i], out[i]) || (out[i] != n && slices.Contains(names, out[i])); k++ {
			out[i] = fmt.Sprintf("%s.%d", n, k)
		}
	}
	return out
}

// topology asks the drivers how their memories are linked, and lets the user
// overrule them.
func topology(o *Options, names []string) (*mem.Topology, error) {
	t := mem.NewTopology(names...)
	for to, d := range o.Devices {
		p, ok := d.(devices.PeerCopier)
		if !ok || o.NoPeer {
			continue
		}
		for from, other := range o.Devices {
			if from == to {
				continue
			}
			if link, ok := p.PeerLink(other); ok {
				if err := t.SetLink(mem.MemoryID(from+1), mem.MemoryID(to+1), link); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, l := range o.Links {
		if err := t.SetLink(l.From, l.To, l.Link); err != nil {
			return nil, fmt.Errorf("context %q: %w", o.Name, err)
		}
	}
	return t, align(t, o.Devices)
}

// align tells links that state no alignment the one of the devices at their ends.
func align(t *mem.Topology, devs []devices.Device) error {
	word := func(m mem.MemoryID) uint64 {
		if m == mem.Host {
			return 0
		}
		return devs[m-1].Info().CopyAlign
	}
	for from := range mem.MemoryID(t.Len()) {
		for to := range mem.MemoryID(t.Len()) {
			l := t.Link(from, to)
			if t.Store(from) == t.Store(to) || l.Align != 0 {
				continue
			}
			if l.Align = max(word(from), word(to)); l.Align == 0 {
				continue
			}
			if err := t.SetLink(from, to, l); err != nil {
				return err
			}
		}
	}
	return nil
}
