//go:build cgo

package opencl

import (
	"runtime"
	"time"

	"godwit/devices"
	"godwit/mem"
)

// What copies between memories cost, as far as it is known without measuring.

// isDiscrete reports whether the device's memory is across a bus: rings through page-locked
// memory pay, and page-locked and other host memory are not the same.
func (d *Device) isDiscrete() bool { return !d.info.SharesHost && d.host.worker == nil }

// Link implements devices.Device. A platform's devices that share the host's memory copy from
// each other directly; others take batches.
func (d *Device) Link(from, to devices.Device) mem.Link {
	other := from
	if from == devices.Device(d) {
		other = to
	}
	if _, ok := other.(devices.HostBacked); ok {
		return mem.DirectLink(0, 0)
	}
	o, ok := other.(*Device)
	if !ok || o.host != d.host || o == d || d.usable() != nil || o.usable() != nil || d.isDiscrete() || o.isDiscrete() {
		return mem.Link{}
	}
	return mem.DirectLink(0, 0)
}

// Figures of an H200 over PCIe 5 (docs/measured.md): a queue copies pageable memory by way of
// a small buffer of its own, where page-locked memory has the bus's speed, and so has staging
// where enough goroutines copy.
const (
	pageableIn, pageableOut = 10e9, 19e9 // bytes a second
	lockedSpeed             = 55e9
	directLatency           = 10 * time.Microsecond
	laneIn, laneOut         = 5.5e9, 5e9 // by a goroutine that copies
	mostIn, mostOut         = 42e9, 36e9
	ringInLatency           = 170 * time.Microsecond
	ringOutLatency          = 62 * time.Microsecond
	mostLanes               = 8
)

// HostLink implements devices.PageLocker.
func (d *Device) HostLink(into bool) mem.Link {
	if !d.isDiscrete() {
		return mem.Link{}
	}
	lanes := float64(min(max(runtime.NumCPU()/2, 1), mostLanes))
	path := func(latency time.Duration, speed float64) mem.Path {
		return mem.Path{There: true, Latency: latency, Bandwidth: uint64(speed)}
	}
	l := mem.Link{Direct: path(directLatency, pageableOut), Locked: path(directLatency, lockedSpeed), Ring: path(ringOutLatency, min(mostOut, laneOut*lanes))}
	if into {
		l.Direct, l.Ring = path(directLatency, pageableIn), path(ringInLatency, min(mostIn, laneIn*lanes))
	}
	return l
}

// Locked implements devices.PageLocker.
func (d *Device) Locked(addr, size uint64) bool { return d.host.pinned.holds(addr, size) }
