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
		mems[i].locker, _ = d.(devices.PageLocker)
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
	hosted := i == mem.Host || j == mem.Host
	direct := hosted || !noPeer
	stated := to.Device.Link(from.Device, to.Device)
	l := mem.RingLink(0, 0)
	l.Ring.There = !hosted
	if direct && stated.Direct.There {
		l.Direct = stated.Direct
	}
	if direct && (from.view != nil || to.view != nil) {
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
