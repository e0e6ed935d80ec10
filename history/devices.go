package history

import (
	"context"
	"strings"
	"time"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/mem"
)

// Devices with faults: their queues, and the layer over their memory.

// Faulty is a device with faults.
type Faulty interface {
	devices.Device
	// Faultless is the device without.
	Faultless() devices.Device
}

// Faultless is a device without its faults, if it has any.
func Faultless(d devices.Device) devices.Device {
	if w, ok := d.(Faulty); ok {
		return w.Faultless()
	}
	return d
}

// Wrap makes a device faulty by a function that embeds it in a type of its own, which
// so has all its optional interfaces, gives queues by Queue and looks at other devices
// by Faultless: see faultyCPU.
func Wrap[D devices.Device](f *Faults, plain D, embed func(D) Faulty) devices.Device {
	d := embed(plain)
	f.add(d, plain)
	return d
}

// Queue returns a queue of a wrapped device with faults.
func (f *Faults) Queue(q devices.Queue, o devices.QueueOptions) devices.Queue {
	return &faultyQueue{Queue: q, f: f, user: strings.HasPrefix(o.Name, userQueue)}
}

// userQueue begins the names of the queues that the history speaks of.
const userQueue = "user."

type faultyQueue struct {
	devices.Queue
	f    *Faults
	user bool
	cmd  devices.Command // Submit is called by one goroutine at a time
	args []devices.Arg
}

// Submit implements devices.Queue.
func (q *faultyQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	f, what := q.f, "user's "+cmd.Op.String()
	if !q.user {
		what = "runtime's " + cmd.Op.String()
	}
	x := f.draw(what)
	if x == refuse {
		if !q.user { // a leg of a transfer that was accepted before, perhaps
			f.hit(cmd)
		}
		return mem.Point{}, errFault
	}
	if x == done && cmd.Late != nil {
		x = undone // it would say that it has moved
	}
	var p mem.Point
	var err error
	if x != undone {
		if p, err = q.Queue.Submit(q.plain(cmd), waits); err != nil {
			return p, err
		}
	}
	if x != none {
		if x == done {
			waits = []mem.Wait{{Point: p, Kind: mem.Data}}
		}
		pause := f.pause()
		p, err = q.Queue.Submit(&devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error {
			time.Sleep(pause)
			return errFault
		}}, waits)
		if err != nil {
			return p, err
		}
	}
	f.took(q, cmd, p, x != none)
	return p, nil
}

// plain is a command that names devices as they know themselves.
func (q *faultyQueue) plain(cmd *devices.Command) *devices.Command {
	q.cmd = *cmd
	q.cmd.Dst.Device, q.cmd.Src.Device = Faultless(cmd.Dst.Device), Faultless(cmd.Src.Device)
	q.args = append(q.args[:0], cmd.Args...)
	for i := range q.args {
		q.args[i].Device = Faultless(q.args[i].Device)
	}
	q.cmd.Args = q.args
	return &q.cmd
}

// Times implements devices.Profiler where the queue does.
func (q *faultyQueue) Times(p mem.Point) (devices.Times, bool) {
	if pr, ok := q.Queue.(devices.Profiler); ok {
		return pr.Times(p)
	}
	return devices.Times{}, false
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
	switch r.f.draw("allocation") {
	case refuse:
		return mem.Exhausted, errFault
	case undone, done:
		return mem.Exhausted, nil
	}
	o, err := r.Resource.AllocAll(reqs, out, reuse)
	if err == nil && o == mem.Ready {
		r.f.mu.Lock()
		for i := range out {
			r.f.blocks[placed{r.memory, out[i]}] = mem.BufferID(reqs[i].Tag)
		}
		r.f.mu.Unlock()
	}
	return o, err
}

// The simulated devices with faults. Embedding keeps all their optional interfaces.

// CPU makes a cpu device faulty; where f is nil, it stays as it is.
func (f *Faults) CPU(d *cpu.Device) devices.Device {
	if f == nil {
		return d
	}
	return Wrap(f, d, func(d *cpu.Device) Faulty { return &faultyCPU{d, f} })
}

// TCE makes a tce device faulty; where f is nil, it stays as it is.
func (f *Faults) TCE(d *tce.Device) devices.Device {
	if f == nil {
		return d
	}
	return Wrap(f, d, func(d *tce.Device) Faulty { return &faultyTCE{d, f} })
}

type faultyCPU struct {
	*cpu.Device
	f *Faults
}

func (d *faultyCPU) Faultless() devices.Device { return d.Device }

// PeerLink implements devices.PeerCopier.
func (d *faultyCPU) PeerLink(other devices.Device) (mem.Link, bool) {
	return d.Device.PeerLink(Faultless(other))
}

// NewQueue implements devices.Device.
func (d *faultyCPU) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.Device.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return d.f.Queue(q, o), nil
}

type faultyTCE struct {
	*tce.Device
	f *Faults
}

func (d *faultyTCE) Faultless() devices.Device { return d.Device }

// Windows implements devices.Windowed.
func (d *faultyTCE) Windows(ctx context.Context, other devices.Device) error {
	return d.Device.Windows(ctx, Faultless(other))
}

// Connect implements devices.Windowed.
func (d *faultyTCE) Connect(ctx context.Context, other devices.Device) error {
	return d.Device.Connect(ctx, Faultless(other))
}

// Connected implements devices.Windowed.
func (d *faultyTCE) Connected(other devices.Device) error {
	return d.Device.Connected(Faultless(other))
}

// NewQueue implements devices.Device.
func (d *faultyTCE) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.Device.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return d.f.Queue(q, o), nil
}
