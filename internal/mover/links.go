package mover

import (
	"godwit/devices"
	"godwit/mem"
)

// Links tells a topology which ways there are between the mover's memories, and what drivers
// state of their cost. Where noPeer is set, copies between two devices are rings.
func (m *Mover) Links(t *mem.Topology, noPeer bool) error {
	for i := range m.mems {
		for j := range m.mems {
			from, to := mem.MemoryID(i), mem.MemoryID(j)
			if i == j || t.Store(from) == t.Store(to) {
				continue
			}
			if err := t.SetLink(from, to, m.linkOf(from, to, noPeer)); err != nil {
				return err
			}
		}
	}
	return nil
}

// linkOf is what is known of the ways from one memory to another.
func (m *Mover) linkOf(i, j mem.MemoryID, noPeer bool) mem.Link {
	from, to := &m.mems[i], &m.mems[j]
	hosted := i == mem.Host || j == mem.Host
	stated := to.Device.Link(from.Device, to.Device)
	l := mem.RingLink(0, 0)
	l.Ring.There = !hosted
	if (hosted || !noPeer) && m.Reaches(i, j) {
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
