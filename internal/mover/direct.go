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
	_ reach = iota // nobody has asked
	reachNot
	reachBlocks // the destination's queue, which knows both blocks
	reachFrom   // the destination's queue, out of the source's bytes
	reachTo     // the source's queue, into the destination's bytes
)

// reachOf asks the drivers once.
func (m *Mover) reachOf(i, j mem.MemoryID) reach {
	if x := m.reach.Peek(int(i), int(j)); x != nil {
		if r := reach(x.Load()); r != 0 {
			return r
		}
	}
	from, to, by := &m.mems[i], &m.mems[j], reachNot
	switch {
	case i == j || to.Device.Link(from.Device, to.Device).Direct.There:
		by = reachBlocks
	case from.view != nil:
		by = reachFrom
	case to.view != nil:
		by = reachTo
	}
	m.reach.At(int(i), int(j)).Store(uint32(by))
	return by
}

// Reaches reports whether a copy from one memory to another can be direct.
func (m *Mover) Reaches(from, to mem.MemoryID) bool { return m.reachOf(from, to) != reachNot }

// direct submits one leg for each destination.
func (m *Mover) direct(t *Transfer) error {
	var errs error
	for i := range t.To {
		var err error
		if t.Points[i], err = m.oneLeg(t, &t.To[i]); err != nil {
			errs = errors.Join(errs, fmt.Errorf("destination %s: %w", m.mems[t.To[i].Memory].Name, err))
		}
	}
	return errs
}

// oneLeg submits a copy that one queue does.
func (m *Mover) oneLeg(t *Transfer, dst *End) (p mem.Point, err error) {
	from, to := &m.mems[t.From.Memory], &m.mems[dst.Memory]
	q, in, out, counts := to.in, m.loc(dst, 0), m.loc(&t.From, 0), &m.stats.Direct
	switch r := m.reachOf(t.From.Memory, dst.Memory); {
	case t.Way == mem.Linked:
		counts = &m.stats.Linked
	case r == reachBlocks:
	case r == reachFrom:
		out, err = from.bytes(&t.From, t.Size)
	case r == reachTo:
		q = from.out
		in, err = to.bytes(dst, t.Size)
	default:
		err = fmt.Errorf("no queue reaches both: %w", mem.ErrInvalidOperation)
	}
	if err != nil {
		return p, err
	}
	return m.submitLeg(q, in, out, t.Size, t.Late, t.Waits, counts)
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
	return devices.Loc{Bytes: b, Block: e.Block}, err
}

// submitLeg submits a copy to a hidden queue, and counts it: as a leg, and by one more of the
// figures, if counts is not nil.
func (m *Mover) submitLeg(q devices.Queue, dst, src devices.Loc, size uint64, late devices.Late, waits []mem.Wait, counts *uint64) (mem.Point, error) {
	m.submit.Lock()
	defer m.submit.Unlock()
	leg := &m.leg
	leg.Dst, leg.Src, leg.Size, leg.Late = dst, src, size, late
	p, err := q.Submit(leg, waits)
	leg.Dst, leg.Src, leg.Late = devices.Loc{}, devices.Loc{}, nil
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.stats.Legs++; counts != nil {
			*counts++
		}
	}
	return p, err
}
