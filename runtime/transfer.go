package runtime

import (
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/devices/mover"
	"godwit/mem"
	"godwit/migration"
)

// hidden are a memory's queues that the user never sees: out of order, one for
// each direction, so that a step waits for nothing but its own waits and copies
// out of a memory overlap those into it.
type hidden struct {
	in, out devices.Queue // immutable
}

// openTransport opens the transport and the hidden queues of all memories.
func (c *Context) openTransport() error {
	t, err := mover.NewTransport(mover.TransportOptions{Name: c.name + ".transport", OnFail: c.pointFailed})
	if err != nil {
		return err
	}
	c.transport = t
	for i := range c.mems {
		m := &c.mems[i]
		if m.in, err = c.openHidden(m, mem.MemoryID(i), "in"); err == nil {
			m.out, err = c.openHidden(m, mem.MemoryID(i), "out")
		}
		if err != nil {
			return errors.Join(err, c.closeTransport())
		}
	}
	return nil
}

func (c *Context) openHidden(m *memory, id mem.MemoryID, direction string) (devices.Queue, error) {
	q, err := m.dev.NewQueue(devices.QueueOptions{
		Name:       fmt.Sprintf("%s.%s", c.topo.Name(id), direction),
		OutOfOrder: true,
		Profiling:  c.opts.Trace != nil,
		OnFail:     c.pointFailed,
	})
	if err != nil {
		return nil, fmt.Errorf("hidden queue %s of %s: %w", direction, c.topo.Name(id), err)
	}
	return q, nil
}

// closeTransport drains and closes the transport, then the hidden queues.
func (c *Context) closeTransport() error {
	errs := []error{c.transport.Close()}
	for i := range c.mems {
		for _, q := range []devices.Queue{c.mems[i].in, c.mems[i].out} {
			if q != nil {
				errs = append(errs, q.Close())
			}
		}
	}
	return errors.Join(errs...)
}

// submitStep hands step i of a plan to the hidden queues. c.mu is held.
func (c *Context) submitStep(plan *migration.Plan, i int) (mem.Point, error) {
	s, st := &c.scratch, &plan.Steps[i]
	waits := st.Waits
	if st.After >= 0 {
		s.waits = append(append(s.waits[:0], waits...), mem.Wait{Point: s.points[st.After], Kind: mem.Data})
		waits = s.waits
	}
	var late *lateCopy
	if st.Late != nil {
		var err error
		if late, waits, err = c.late(st, waits); err != nil {
			return mem.Point{}, err
		}
	}
	s.lates = append(s.lates, late)
	r := c.roots[st.Buffer]
	from, to := &c.mems[st.From], &c.mems[st.To]
	src := mover.End{Device: from.dev, Queue: from.out, Block: r.blocks[st.From], Off: st.Range.Start, Route: st.Route}
	dst := mover.End{Device: to.dev, Queue: to.in, Block: r.blocks[st.To], Off: st.Range.Start, Route: st.Route}
	var err error
	if late != nil {
		s.landed[0], err = c.transport.CopyLate(src, dst, st.Range.Size(), late, waits)
	} else {
		s.dst[0] = dst
		err = c.transport.Copy(src, s.dst[:], st.Range.Size(), waits, s.landed[:])
	}
	if err != nil {
		return mem.Point{}, fmt.Errorf("copy of %v of buffer %s from %s to %s: %w", st.Range, r.label(), c.topo.Name(st.From), c.topo.Name(st.To), err)
	}
	return s.landed[0], nil
}
