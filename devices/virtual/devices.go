package virtual

import (
	"fmt"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/engine"
	"godwit/internal/resource"
	"godwit/internal/storage"
	"godwit/mem"
)

// inner is the simulated device that a device in virtual time is in all but its times.
type inner interface{ devices.HostBacked }

// innerHost is the same of the host's memory.
type innerHost interface {
	inner
	devices.HostDevice
}

// Device is a device in virtual time. It is what its inner device is, without being a
// Viewer: what reaches what, and how fast, is the machine's to say.
type Device struct {
	w      *World
	memory int // its number
	inner
	res mem.Resource // of the inner device's blocks, as many bytes as the machine has
}

var _ devices.HostBacked = (*Device)(nil)

// hostDevice is the host's memory in virtual time.
type hostDevice struct {
	w *World
	innerHost
	res *hostMemory // as Device's
}

// hostMemory is the host's memory. The machine's bound does not count what is adopted: that is the program's.
type hostMemory struct {
	mem.Resource // within the bound
	host         innerHost
	adopted      map[mem.Block]struct{}
	locked       map[mem.Block]struct{}
}

// AllocAll implements mem.Resource.
func (m *hostMemory) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	outcome, err := m.Resource.AllocAll(reqs, out, reuse)
	for i := range reqs {
		if reqs[i].Lock && err == nil && outcome == mem.Ready {
			m.locked[out[i]] = struct{}{}
		}
	}
	return outcome, err
}

// locks reports whether a block is page-locked.
func (m *hostMemory) locks(b mem.Block) bool {
	_, ok := m.locked[b]
	return ok
}

// FreeAfter implements mem.Resource.
func (m *hostMemory) FreeAfter(b mem.Block, after []mem.Point) error {
	if _, ok := m.adopted[b]; ok {
		delete(m.adopted, b)
		return m.host.Memory().FreeAfter(b, after)
	}
	delete(m.locked, b)
	return m.Resource.FreeAfter(b, after)
}

var (
	_ devices.HostDevice = (*hostDevice)(nil)
	_ devices.HostBacked = (*hostDevice)(nil)
	_ devices.Stamper    = (*hostDevice)(nil)
)

// Devices are the world's, in order of their memories from 1 on, for
// runtime.Options.Devices.
func (w *World) Devices() []devices.Device { return w.devs }

// Host is the host's memory, for runtime.Options.Host.
func (w *World) Host() devices.HostDevice { return w.host }

// open makes the devices.
func (w *World) open() error {
	host := engine.NewHost(engine.HostOptions{Workers: 1, Pace: &pace{w, 0}, Sparse: w.opts.Stamps})
	w.host = &hostDevice{w, host, &hostMemory{w.used(bounded(host.Memory(), w.machine.Info(0).GlobalMemory)), host, make(map[mem.Block]struct{}), make(map[mem.Block]struct{})}}
	for m := 1; m < w.machine.Memories(); m++ {
		var in inner
		var err error
		info := w.info(m)
		if w.opts.Stamps {
			in, err = newBlank(info, &pace{w, m})
		} else {
			in, err = cpu.New(cpu.Options{
				Name: info.Name, LocalMemory: info.LocalMemory, Workers: 1,
				BaseAlign: info.BaseAlign, MaxWorkGroup: info.MaxWorkGroup, Pace: &pace{w, m},
			})
		}
		if err != nil {
			return fmt.Errorf("machine: device %d: %w", m, err)
		}
		w.devs = append(w.devs, &Device{w, m, in, w.used(bounded(in.Memory(), info.GlobalMemory))})
	}
	return nil
}

// info is the machine's description of a device.
func (w *World) info(memory int) devices.Info {
	info := w.machine.Info(memory)
	if memory <= len(w.opts.Names) {
		info.Name = w.opts.Names[memory-1]
	}
	return info
}

// bounded is a memory of so many bytes; 0 is no limit. What is counted are the bytes that
// are asked for: where this computer puts them, in what pieces, is not the machine's.
func bounded(of mem.Resource, bytes uint64) mem.Resource {
	if bytes == 0 {
		return of
	}
	l, err := resource.NewLimit(of, bytes)
	if err != nil {
		panic(fmt.Sprintf("model: a memory of %d bytes: %v", bytes, err)) // not zero
	}
	return l
}

// used is a memory of which the first use costs the host something.
func (w *World) used(of mem.Resource) mem.Resource {
	if w.machine.First(0, 1<<30) == 0 {
		return of
	}
	return &firstUse{of, w}
}

// firstUse charges who gets blocks for what they take beyond the most that was ever taken: what is behind the rest there
// has been before.
type firstUse struct {
	mem.Resource
	w *World
}

// AllocAll implements mem.Resource.
func (m *firstUse) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	before := m.Stats().PeakLive
	outcome, err := m.Resource.AllocAll(reqs, out, reuse)
	if more := m.Stats().PeakLive - before; more > 0 {
		host := m.w.running.host
		m.w.charge(plus(times(uint64(len(reqs)-1), m.w.machine.First(host, 0)), m.w.machine.First(host, more)))
	}
	return outcome, err
}

// pace is a world as the pace of one device.
type pace struct {
	*World
	on int
}

// Ready implements engine.Pace.
func (p *pace) Ready(c engine.Ready) { p.accept(p.on, c) }

// memoryOf is the number of the memory that an end of a copy is in.
func (w *World) memoryOf(l *devices.Loc) int {
	if d, ok := l.Device.(*Device); ok {
		return d.memory
	}
	return 0
}

// bytesKept is the content of devices that keep bytes.
type bytesKept struct{ *World }

func (bytesKept) run(t *task, starts bool) error {
	if t.early == starts && t.cmd.Op != devices.OpMarker {
		return t.c.Execute()
	}
	return nil
}

func (b bytesKept) leg(l *devices.Leg) error {
	dst, err := b.place(&l.Dst, l.Size, false)
	if err != nil {
		return fmt.Errorf("leg of a ring: %w", err)
	}
	defer dst.leave()
	src, err := b.place(&l.Src, l.Size, false)
	if err != nil {
		return fmt.Errorf("leg of a ring: %w", err)
	}
	defer src.leave()
	copy(storage.BytesAt(dst.at, l.Size), storage.BytesAt(src.at, l.Size))
	return nil
}

// Info implements devices.Device.
func (d *Device) Info() devices.Info {
	info := d.w.info(d.memory)
	in := d.inner.Info()
	info.Driver, info.BaseAlign, info.LocalMemory, info.MaxWorkGroup, info.MaxWorkItems, info.SVM = "model", in.BaseAlign, in.LocalMemory, in.MaxWorkGroup, in.MaxWorkItems, in.SVM
	return info
}

// World is the device's.
func (d *Device) World() *World { return d.w }

// Memory implements devices.Device.
func (d *Device) Memory() mem.Resource { return d.res }

// NewQueue implements devices.Device.
func (d *Device) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.inner.NewQueue(o)
	if err != nil {
		return nil, err
	}
	eq := q.(*engine.Queue)
	return &queue{eq, d, d.w.newBook(eq, d.memory)}, nil
}

// NewQueue implements devices.Device.
func (h *hostDevice) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := h.innerHost.NewQueue(o)
	if err != nil || h.w.carriers.Carriage == nil {
		return q, err
	}
	eq := q.(*engine.Queue)
	return &hostQueue{eq, h.w.newBook(eq, 0)}, nil
}

// ReserveSVM implements devices.Device.
func (d *Device) ReserveSVM(mem.Range) error { return nil }

// Link implements devices.Device: as the machine says. Host memory is all alike.
func (d *Device) Link(from, to devices.Device) mem.Link {
	i, known := d.w.number(from)
	k, both := d.w.number(to)
	if !known || !both {
		return mem.Link{Ring: mem.Path{There: true}}
	}
	l := d.w.machine.Link(i, k)
	if i == 0 || k == 0 {
		return mem.Link{Direct: l.Direct}
	}
	l.Ring.There = true // the mover can always
	return l
}

// number is the memory of a device of the world.
func (w *World) number(d devices.Device) (int, bool) {
	switch d := d.(type) {
	case *Device:
		return d.memory, d.w == w
	case *hostDevice:
		return 0, d == w.host
	}
	return 0, false
}

// Info implements devices.Device.
func (h *hostDevice) Info() devices.Info {
	info := h.innerHost.Info()
	info.GlobalMemory = h.w.machine.Info(0).GlobalMemory
	return info
}

// Memory implements devices.Device.
func (h *hostDevice) Memory() mem.Resource { return h.res }

// Adopt implements devices.HostDevice.
func (h *hostDevice) Adopt(bytes []byte, tag uint64) (mem.Block, error) {
	b, err := h.innerHost.Adopt(bytes, tag)
	if err == nil {
		h.res.adopted[b] = struct{}{}
	}
	return b, err
}

// Link implements devices.Device: devices' queues copy to and from the host, not its own.
func (h *hostDevice) Link(_, _ devices.Device) mem.Link { return mem.Link{} }
