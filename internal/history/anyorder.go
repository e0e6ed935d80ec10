package history

import (
	"fmt"
	"math/rand/v2"
	"time"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/internal/flat"
	"godwit/mem"
	"godwit/runtime"
)

// InVirtualTime is cfg on the devices of a machine, made anew for each run, in virtual time.
func InVirtualTime(machine func() (virtual.Machine, error), o virtual.Options, cfg Config) Config {
	world := func(devs []devices.Device) *virtual.World { return devs[0].(*virtual.Device).World() }
	cfg.Open = func(*Faults) ([]devices.Device, error) {
		m, err := machine()
		if err != nil {
			return nil, err
		}
		w, err := virtual.New(m, o)
		if err != nil {
			return nil, err
		}
		return w.Devices(), nil
	}
	cfg.Context = func(devs []devices.Device, o *runtime.Options) {
		w := world(devs)
		o.Host, o.Executor = w.Host(), w
		if o.NoPeer { // as programs open it: what rings take is the machine's to say
			o.Staging = 0
		}
	}
	if o.Stamps {
		cfg.Name += "/stamps"
		cfg.Seen = func(devs []devices.Device, command uint64) []flat.Seen { return world(devs).Seen(command) }
	}
	return cfg
}

// InAnyOrder is cfg on n devices whose commands run in any order that their waits allow, drawn
// by a seed: each takes a time of its own, beside all others.
func InAnyOrder(seed uint64, n int, cfg Config) Config {
	cfg.Name = fmt.Sprintf("any order/%d/seed=%d/%s", n, seed, cfg.Name)
	return InVirtualTime(func() (virtual.Machine, error) {
		return &anyOrder{rand.New(rand.NewPCG(seed, 4)), n, !cfg.NoPeer}, nil
	}, virtual.Options{Seed: seed + 1, Exact: seed%4 < 2, Stamps: seed%2 == 1}, cfg)
}

// anyOrder is a machine that knows no costs: whatever is done takes from one to a million ns.
type anyOrder struct {
	*rand.Rand
	devices int
	peers   bool
}

func (m *anyOrder) some() uint64 { return 1 << m.IntN(20) }
func (m *anyOrder) work() virtual.Work {
	return virtual.Work{Engine: -1, Least: m.some(), Limit: 1e12 / m.some()} // of rings, how fast they are
}

func (m *anyOrder) Memories() int                                            { return m.devices + 1 }
func (m *anyOrder) Bandwidths() []uint64                                     { return nil }
func (m *anyOrder) Engines() []int                                           { return []int{1, 2} } // the threads of carriers
func (m *anyOrder) Copy(int, int, uint64) virtual.Work                       { return m.work() }
func (m *anyOrder) RingUp(int, int, uint64) virtual.Work                     { return m.work() }
func (m *anyOrder) Fill(int, uint64) virtual.Work                            { return m.work() }
func (m *anyOrder) Launch(int, *virtual.Kernel) virtual.Work                 { return m.work() }
func (m *anyOrder) Call(int, devices.Call) uint64                            { return m.some() / 1000 }
func (m *anyOrder) Wake(int) uint64                                          { return m.some() / 1000 }
func (m *anyOrder) First(int, uint64) uint64                                 { return 0 }
func (m *anyOrder) HostCall(int) uint64                                      { return m.some() }
func (m *anyOrder) Chunk(_, _ int, size uint64) uint64                       { return size/2 + 1 }
func (m *anyOrder) Staging() uint64                                          { return 0 }
func (m *anyOrder) ByWindow(_, _ int, _, _ uint64) (w virtual.Work, ok bool) { return w, false }

func (m *anyOrder) Info(memory int) devices.Info {
	return devices.Info{Name: fmt.Sprint("any", memory), Type: devices.GPU, ComputeUnits: 1, LocalMemory: 64 << 10, BaseAlign: Align, MaxWorkGroup: 1024}
}

// Carriage has every other machine hand commands over, from anybody to anybody.
func (m *anyOrder) Carriage() *virtual.Carriage {
	if m.IntN(2) == 0 {
		return nil
	}
	c := &virtual.Carriage{Devices: make([]virtual.Carrying, 1+m.devices)}
	for i := range c.Devices {
		c.Devices[i].Threads = [...]int32{-1, -1, 0, 1}
	}
	for i := range c.Devices[1:] {
		d := &c.Devices[1+i]
		d.Queue = m.some() / 100
		for k := range d.Classes {
			d.Classes[k] = virtual.Carry{By: virtual.Carrier(m.IntN(int(virtual.Carriers))), Enqueue: m.some() / 1000, Hold: m.some() / 100, Submit: m.some() / 100}
		}
		for from := range d.HandOver {
			for to := range d.HandOver[from] {
				d.HandOver[from][to] = virtual.HandOver{Hold: m.some() / 100, Delay: m.some() / 10}
			}
		}
	}
	return c
}

func (m *anyOrder) Link(from, to int) mem.Link {
	if from == 0 || to == 0 || m.peers {
		return mem.DirectLink(time.Microsecond, 1e9)
	}
	return mem.RingLink(2*time.Microsecond, 1e9)
}
