package mover

import (
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/mem"
)

// reach is how one leg gets from a memory to another: whose queue carries it out, and
// which end it is given as bytes of this process.
type reach uint8

const (
	reachNot    reach = iota
	reachBlocks       // the destination's queue, which knows both blocks
	reachFrom         // the destination's queue, out of the source's bytes
	reachTo           // the source's queue, into the destination's bytes
)

// findReaches asks the drivers once.
func (m *Mover) findReaches() {
	n := len(m.mems)
	m.reach = make([]reach, n*n)
	for i := range m.mems {
		for j := range m.mems {
			m.reach[i*n+j] = reachOf(&m.mems[i], &m.mems[j])
		}
	}
}

// Reaches reports whether a copy from one memory to another can be direct.
func (m *Mover) Reaches(from, to mem.MemoryID) bool {
	return m.reach[int(from)*len(m.mems)+int(to)] != reachNot
}

func reachOf(from, to *memory) reach {
	if from.Device == to.Device {
		return reachBlocks
	}
	if l := to.Device.Link(from.Device, to.Device); l.Direct.There {
		return reachBlocks
	}
	switch {
	case from.view != nil:
		return reachFrom
	case to.view != nil:
		return reachTo
	}
	return reachNot
}

// direct submits one leg for each destination.
func (m *Mover) direct(t *Transfer) error {
	var errs error
	for i := range t.To {
		p, q, err := m.oneLeg(t.Way, &t.From, &t.To[i], t.Size, t.Late, t.Waits)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("destination %s: %w", m.mems[t.To[i].Memory].Name, err))
			continue
		}
		t.Points[i] = p
		m.countDirect(q, t.Way)
	}
	return errs
}

// oneLeg submits a copy that one queue does.
func (m *Mover) oneLeg(way mem.Way, src, dst *End, size uint64, late devices.Late, waits []mem.Wait) (mem.Point, devices.Queue, error) {
	from, to := &m.mems[src.Memory], &m.mems[dst.Memory]
	q := to.in
	r := m.reach[int(src.Memory)*len(m.mems)+int(dst.Memory)]
	if way == mem.Linked {
		r = reachBlocks
	}
	var err error
	var in, out devices.Loc
	switch r {
	case reachBlocks:
		in, out = m.loc(src, 0), m.loc(dst, 0)
	case reachFrom:
		out = m.loc(dst, 0)
		in, err = from.bytes(src, size)
	case reachTo:
		q, in = from.out, m.loc(src, 0)
		out, err = to.bytes(dst, size)
	default:
		err = fmt.Errorf("no queue reaches both: %w", mem.ErrInvalidOperation)
	}
	if err != nil {
		return mem.Point{}, nil, err
	}
	m.submit.Lock()
	defer m.submit.Unlock()
	m.leg.Src, m.leg.Dst = in, out
	p, err := m.submitHeld(q, size, late, waits)
	return p, q, err
}

// loc is an end, from off on, as its own device knows it.
func (m *Mover) loc(e *End, off uint64) devices.Loc {
	if e.Bytes != nil {
		return devices.Loc{Bytes: e.Bytes[off:]}
	}
	return devices.Loc{Device: m.mems[e.Memory].Device, Block: e.Block, Off: e.Off + off}
}

// bytes is size bytes of an end as bytes of this process.
func (x *memory) bytes(e *End, size uint64) (devices.Loc, error) {
	if e.Bytes != nil {
		return devices.Loc{Bytes: e.Bytes[:size]}, nil
	}
	b, err := x.view.View(e.Block, e.Off, size)
	return devices.Loc{Bytes: b}, err
}

// submitLeg submits a copy to a hidden queue, and counts it.
func (m *Mover) submitLeg(q devices.Queue, to, from devices.Loc, size uint64, waits []mem.Wait) (mem.Point, error) {
	m.submit.Lock()
	defer m.submit.Unlock()
	m.leg.Dst, m.leg.Src = to, from
	p, err := m.submitHeld(q, size, nil, waits)
	if err == nil {
		m.count(func(s *Stats) { s.Legs++ })
	}
	return p, err
}

// submitHeld submits the leg whose ends are set. submit is held.
func (m *Mover) submitHeld(q devices.Queue, size uint64, late devices.Late, waits []mem.Wait) (mem.Point, error) {
	leg := &m.leg
	leg.Op, leg.Size, leg.Late = devices.OpCopy, size, late
	p, err := q.Submit(leg, waits)
	leg.Dst, leg.Src, leg.Late = devices.Loc{}, devices.Loc{}, nil
	return p, err
}
