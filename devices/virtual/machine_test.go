package virtual_test

import (
	"fmt"
	"time"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/mem"
)

// bench is a machine by hand: each device has a link of its own to the host, one way
// and the other, and one to each other device where peers is set; all to and from the
// host goes over one more channel each way.
type bench struct {
	devices int
	rate    uint64 // of a device's link to the host, bytes a second
	shared  uint64 // of what all share, each way; 0 is nothing
	peers   uint64 // of a link between two devices; 0 is none
	rates   []uint64
	latency uint64
	setup   uint64
	kernel  uint64 // bytes a second
	call    uint64 // ns for each call
	chunk   uint64
	memory  uint64
	slots   int  // of each engine; 0 is one
	both    bool // a device's engine for copies in does those out, too
	all     bool // one engine does all devices' copies
	carries *virtual.Carriage
	first   uint64 // ns for each block and for each KiB, of its first use
}

const gig = 1_000_000_000

func (b *bench) Memories() int { return b.devices + 1 }

func (b *bench) Info(m int) devices.Info {
	return devices.Info{Platform: "test", Name: fmt.Sprintf("dev%d", m), Type: devices.GPU, ComputeUnits: 1, GlobalMemory: b.memory, LocalMemory: 64 << 10, BaseAlign: 128, MaxWorkGroup: 1024}
}

// Channels: 0 and 1 are shared, in and out; then in, out and peer of each device.
func (b *bench) Bandwidths() []uint64 {
	shared := b.shared
	if shared == 0 {
		shared = 1 << 47
	}
	out := []uint64{shared, shared}
	for i := range b.devices {
		rate := b.rate
		if b.rates != nil {
			rate = b.rates[i]
		}
		out = append(out, rate, rate, max(b.peers, 1))
	}
	return out
}

// Engines: in, out and compute of each device.
func (b *bench) Engines() []int {
	out := make([]int, 3*b.devices)
	for i := range out {
		out[i] = max(b.slots, 1)
	}
	return out
}

func (b *bench) Copy(from, to int, size uint64) virtual.Work {
	w := virtual.Work{Bytes: size, Latency: b.latency, Setup: b.setup}
	switch {
	case from == 0 && to == 0:
		return virtual.Work{Engine: -1}
	case from == to:
		w.Engine, w.Path, w.Limit = int32(3*(to-1)+2), nil, b.kernel
	case from == 0:
		w.Engine, w.Path = int32(3*(to-1)), []virtual.Channel{0, virtual.Channel(2 + 3*(to-1))}
	case to == 0:
		w.Engine, w.Path = int32(3*(from-1)+1), []virtual.Channel{1, virtual.Channel(3 + 3*(from-1))}
	default:
		w.Engine, w.Path = int32(3*(to-1)), []virtual.Channel{virtual.Channel(4 + 3*(to-1))}
	}
	switch {
	case b.all && from != to:
		w.Engine = 0
	case b.both && w.Engine%3 == 1:
		w.Engine--
	}
	return w
}

func (b *bench) ByWindow(int, int, uint64, uint64) (virtual.Work, bool) { return virtual.Work{}, false }

func (b *bench) Fill(m int, size uint64) virtual.Work {
	if m == 0 {
		return virtual.Work{Engine: -1}
	}
	return virtual.Work{Engine: int32(3*(m-1) + 2), Bytes: size, Limit: b.kernel}
}

func (b *bench) Launch(m int, k *virtual.Kernel) virtual.Work {
	if k.Takes > 0 {
		return virtual.Work{Engine: int32(3*(m-1) + 2), Least: k.Takes}
	}
	return virtual.Work{Engine: int32(3*(m-1) + 2), Bytes: k.Bytes, Limit: b.kernel}
}

func (b *bench) RingUp(_, to int, size uint64) virtual.Work { return b.Copy(0, to, size) }
func (b *bench) Call(int, devices.Call) uint64              { return b.call }
func (b *bench) Wake(int) uint64                            { return b.call }
func (b *bench) First(_ int, size uint64) uint64            { return b.first * (1 + size/1024) }
func (b *bench) HostCall(int) uint64                        { return b.call }

func (b *bench) Carriage() *virtual.Carriage { return b.carries }

func (b *bench) Link(from, to int) mem.Link {
	host := mem.DirectLink(time.Duration(b.latency), b.rate)
	switch {
	case from == 0 || to == 0:
		return host
	case b.peers > 0:
		return mem.DirectLink(time.Duration(b.latency), b.peers)
	}
	return mem.RingLink(2*time.Duration(b.latency), b.rate)
}

func (b *bench) Chunk(_, _ int, size uint64) uint64 {
	if b.chunk > 0 {
		return b.chunk
	}
	return max(size/16, 64<<10)
}

func (b *bench) Staging() uint64 { return 0 }
