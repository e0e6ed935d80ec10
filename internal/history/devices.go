package history

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"godwit/devices"
	"godwit/mem"
)

// Devices with faults: their queues, and the layer over their memory.

// Wrap makes a device faulty; where f is nil, it stays as it is. Its queues that take batches do so
// still: native says that the driver of their legs wants to have its own queues in them; else legs
// are submitted to the queues with faults.
func (f *Faults) Wrap(d devices.Device, native bool) devices.Device {
	if f == nil {
		return d
	}
	w := wrap(d, f, func(q devices.Queue, o devices.QueueOptions) devices.Queue {
		x := &faultyQueue{Queue: q, f: f, user: strings.HasPrefix(o.Name, UserQueue)}
		b, batches := q.(devices.Batcher)
		s, shuttles := q.(devices.Shuttle)
		if !batches || !shuttles {
			return x
		}
		return &faultyBatcher{faultyQueue: x, batcher: b, shuttle: s, native: native, batches: make(map[devices.Batch]*faultyBatch), tickets: make(map[devices.Ticket]ticket)}
	})
	f.add(w, d)
	return w
}

type faultyModule struct {
	devices.Module
	f *Faults
}

// Close implements devices.Module.
func (m *faultyModule) Close() error {
	return errors.Join(m.Module.Close(), m.f.fails(callCloseModule))
}

type faultyPinned struct {
	devices.PinnedMemory
	f *Faults
}

// AllocAll implements mem.Resource.
func (p *faultyPinned) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	switch p.f.draw(callStaging, string(callStaging)) {
	case faultRefused:
		return mem.Exhausted, errFault
	case faultUndone, faultDone:
		return mem.Exhausted, nil
	}
	return p.PinnedMemory.AllocAll(reqs, out, reuse)
}

// UserQueue begins the names of the queues that the history speaks of.
const UserQueue = "user."

type faultyQueue struct {
	devices.Queue
	f    *Faults
	user bool

	mu   sync.Mutex // held over Submit: legs may come from goroutines
	cmd  devices.Command
	args []devices.Arg
}

// plainQueue is a queue without its faults.
func plainQueue(q devices.Queue) devices.Queue {
	switch q := q.(type) {
	case *faultyQueue:
		return q.Queue
	case *faultyBatcher:
		return q.Queue
	}
	return q
}

// Close implements devices.Queue. It closes the queue, and says that it failed.
func (q *faultyQueue) Close() error { return errors.Join(q.Queue.Close(), q.f.fails(callCloseQueue)) }

// Flush implements devices.Queue. It does so, and says that it failed.
func (q *faultyQueue) Flush() error { return errors.Join(q.Queue.Flush(), q.f.fails(callFlush)) }

// Submit implements devices.Queue.
func (q *faultyQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f, c, what := q.f, callCommand, "user's "+cmd.Op.String()
	if !q.user {
		c, what = callCopy, "runtime's "+cmd.Op.String()
	}
	x := f.draw(c, what)
	if x == faultRefused {
		if !q.user { // a leg of a transfer that was accepted before, perhaps
			f.hit(cmd)
		}
		return mem.Point{}, errFault
	}
	if x == faultDone && cmd.Late != nil {
		x = faultUndone // it would say that it has moved
	}
	var p mem.Point
	var err error
	var more *part
	if x != faultUndone {
		if cmd.Carrier != nil {
			more = f.carries(cmd)
		}
		plain := q.plain(cmd)
		if plain.Op == devices.OpLaunch {
			more = q.lend(plain)
		}
		if p, err = q.Queue.Submit(plain, waits); err != nil {
			return p, err
		}
	}
	if x != faultNone {
		if x == faultDone {
			waits = []mem.Wait{{Point: p, Kind: mem.Data}}
		}
		if p, err = q.Queue.Submit(f.failing(), waits); err != nil {
			return p, err
		}
	}
	if more != nil {
		more.of(f, p)
	}
	f.took(q, cmd, p, x != faultNone)
	return p, nil
}

// failing is a command that fails, some time later.
func (f *Faults) failing() *devices.Command {
	pause := f.pause()
	return &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error {
		time.Sleep(pause)
		return errFault
	}}
}

// plain is a command that names devices as they know themselves.
func (q *faultyQueue) plain(cmd *devices.Command) *devices.Command {
	q.cmd = *cmd
	q.cmd.Dst.Device, q.cmd.Src.Device = Unwrap(cmd.Dst.Device), Unwrap(cmd.Src.Device)
	q.args = append(q.args[:0], cmd.Args...)
	for i := range q.args {
		q.args[i].Device = Unwrap(q.args[i].Device)
	}
	q.cmd.Args = q.args
	return &q.cmd
}

// lend has the driver's lends of a launch struck, nil where it makes none.
func (q *faultyQueue) lend(cmd *devices.Command) (p *part) {
	for i := range cmd.Args {
		if cmd.Args[i].Space == nil {
			continue
		}
		if p == nil {
			p = &part{}
			q.f.mu.Lock()
			q.f.parts = append(q.f.parts, p)
			q.f.mu.Unlock()
		}
		cmd.Args[i].Space = &faultySpace{cmd.Args[i].Space, q.f, p}
	}
	return p
}

type faultySpace struct {
	devices.SVMSpace
	f *Faults
	p *part
}

// Lend implements devices.SVMSpace.
func (s *faultySpace) Lend(addr, size uint64) error {
	if err := s.f.fails(callLend); err != nil {
		s.f.mu.Lock()
		s.p.struck = true
		s.f.mu.Unlock()
		return err
	}
	return s.SVMSpace.Lend(addr, size)
}

// Resource is runtime.Options.Resource: it knows whose blocks are whose, and may
// refuse them.
func (f *Faults) Resource(id mem.MemoryID, base mem.Resource) mem.Resource {
	return &faultyResource{base, f, int(id)}
}

type faultyResource struct {
	mem.Resource
	f      *Faults
	memory int
}

// AllocAll implements mem.Resource.
func (r *faultyResource) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	switch r.f.draw(callAlloc, string(callAlloc)) {
	case faultRefused:
		return mem.Exhausted, errFault
	case faultUndone, faultDone:
		return mem.Exhausted, nil
	}
	o, err := r.Resource.AllocAll(reqs, out, reuse)
	if err == nil && o == mem.Ready {
		r.f.mu.Lock()
		for i := range out {
			r.f.blocks[placed{r.memory, out[i]}] = owned{mem.BufferID(reqs[i].Tag), reqs[i].Off}
		}
		r.f.mu.Unlock()
	}
	return o, err
}

// FreeAfter implements mem.Resource: refused, the block stays; else it is freed, and said
// not to be.
func (r *faultyResource) FreeAfter(b mem.Block, after []mem.Point) error {
	x := r.f.draw(callFree, string(callFree))
	if x == faultRefused {
		return errFault
	}
	err := r.Resource.FreeAfter(b, after)
	if x != faultNone {
		err = errors.Join(err, errFault)
	}
	return err
}
