package mover

import (
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/mem"
)

// Links has a topology ask which ways there are between the mover's memories, and what drivers
// state of their cost. Where noPeer is set, copies between two devices are rings. It fails with
// mem.ErrInvalidValue where there is no way between a memory and the host's.
func (m *Mover) Links(t *mem.Topology, noPeer bool) error {
	aligned := slices.ContainsFunc(m.mems, func(x memory) bool { return x.align > 1 })
	t.Ask(func(from, to mem.MemoryID) mem.Link { return m.linkOf(from, to, noPeer) }, aligned)
	for i := range m.mems {
		id := mem.MemoryID(i)
		for _, pair := range [][2]mem.MemoryID{{mem.Host, id}, {id, mem.Host}} {
			if l := t.Link(pair[0], pair[1]); t.Store(id) != mem.Host && l == (mem.Link{Align: l.Align}) {
				return fmt.Errorf("link %d -> %d: it has no way, neither direct nor ring: %w", pair[0], pair[1], mem.ErrInvalidValue)
			}
		}
	}
	return nil
}

// Align is where copies between two memories should begin and end: as the more demanding device has it.
func (m *Mover) Align(from, to mem.MemoryID) uint64 {
	if n := len(m.mems); int(from) >= n || int(to) >= n {
		return 0
	}
	return max(m.mems[from].align, m.mems[to].align)
}

// linkOf is what is known of the ways from one memory to another.
func (m *Mover) linkOf(i, j mem.MemoryID, noPeer bool) mem.Link {
	from, to := &m.mems[i], &m.mems[j]
	hosted := i == mem.Host || j == mem.Host
	stated := to.Device.Link(from.Device, to.Device)
	l := mem.Link{Ring: mem.Path{There: !hosted}, Align: m.Align(i, j)}
	if (hosted || !noPeer) && m.reachOf(i, j) != reachNot {
		l.Direct = stated.Direct
		l.Direct.There = true
	}
	if stated.Ring.There && !hosted && !l.Direct.There {
		l.Ring = stated.Ring
	}
	switch {
	case from.view != nil && to.view == nil:
		l = withHost(l, stated, to.locker, true)
	case to.view != nil && from.view == nil:
		l = withHost(l, from.Device.Link(from.Device, to.Device), from.locker, false)
	}
	return l
}

// withHost adds what a device states of copies between its memory and bytes of this
// process.
func withHost(l, stated mem.Link, d devices.PageLocker, into bool) mem.Link {
	if d != nil {
		stated = d.HostLink(into)
	}
	if l.Direct.There && stated.Direct.There {
		l.Direct, l.Locked = stated.Direct, stated.Locked
	}
	if stated.Ring.There {
		l.Ring = stated.Ring
	}
	return l
}
