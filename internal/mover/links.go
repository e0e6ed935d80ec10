package mover

import (
	"godwit/devices"
	"godwit/mem"
)

// Links tells a topology which ways there are between memories, and what drivers state
// of their cost; devs[i] is that of memory i. Where noPeer is set, copies between two
// devices are rings.
func Links(t *mem.Topology, devs []devices.Device, noPeer bool) error {
	mems := make([]memory, len(devs))
	for i, d := range devs {
		mems[i].Device = d
		mems[i].view, _ = d.(devices.Viewer)
		mems[i].peer, _ = d.(devices.PeerCopier)
	}
	for i := range mems {
		for j := range mems {
			from, to := mem.MemoryID(i), mem.MemoryID(j)
			if i == j || t.Store(from) == t.Store(to) {
				continue
			}
			if err := t.SetLink(from, to, linkOf(from, to, &mems[i], &mems[j], noPeer)); err != nil {
				return err
			}
		}
	}
	return nil
}

// linkOf is what is known of the ways from one memory to another.
func linkOf(i, j mem.MemoryID, from, to *memory, noPeer bool) mem.Link {
	l := mem.RingLink(0, 0)
	hosted := i == mem.Host || j == mem.Host
	if hosted {
		l.Ring.There = false
	}
	if to.peer != nil && !(noPeer && !hosted) {
		if stated, ok := to.peer.PeerLink(from.Device); ok {
			l.Direct = stated.Direct
			l.Direct.There = true
		}
	}
	if (from.view != nil || to.view != nil) && !(noPeer && !hosted) {
		l.Direct.There = true
	}
	if r, ok := to.Device.(devices.Ringer); ok && !hosted && !l.Direct.There {
		l.Ring = r.RingFrom(from.Device)
	}
	switch {
	case from.view != nil && to.view == nil:
		l = withHost(l, to.Device, true)
	case to.view != nil && from.view == nil:
		l = withHost(l, from.Device, false)
	}
	return l
}

// withHost adds what a device states of copies between its memory and bytes of this
// process.
func withHost(l mem.Link, d devices.Device, into bool) mem.Link {
	x, ok := d.(devices.HostLinker)
	if !ok {
		return l
	}
	stated := x.HostLink(into)
	if l.Direct.There && stated.Direct.There {
		l.Direct, l.Locked = stated.Direct, stated.Locked
	}
	if stated.Ring.There {
		l.Ring = stated.Ring
	}
	return l
}
