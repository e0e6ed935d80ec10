package history

import (
	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/mem"
)

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

// NewQueue implements devices.Device.
func (d *faultyTCE) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.Device.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return d.f.Queue(q, o), nil
}
