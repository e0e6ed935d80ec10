//go:build cgo

package opencl

import (
	"sync"

	"godwit/devices/opencl/internal/ocl"
)

// Landings: page-locked memory for transfers that their submitter waits for.
//
// A transfer between pageable memory and a device across a bus goes through page-locked memory of the
// library below. It either copies there within a blocking call, which keeps others out for as long (internal/ocl/loader.c,
// shape), or hands a read to a thread of its own, which costs a wake-up and a second processor. So the transfer goes
// through memory of ours: it is enqueued, waited for, and copied by the thread that waits. On an H200 (580.159.04) a read of 4 bytes
// took 12.6 us by a blocking call, 18.5 enqueued and waited for, 8.4 so; a launch and that read 19.0, the vendor's own 18.8, before 29.0;
// a read of 1 MiB 88 us, the vendor's 101; a write of 256 KiB 29, 53 by a blocking call. One of 1 MiB 94, 83 by a blocking call, which copies
// while bytes move: so larger writes have none.
//
// A device makes its landings when they are first needed, and keeps them until it is closed: at most 8 MiB, beside the
// staging that has a budget (package mover). Where all are in use, or none can be made, a transfer goes without.
const (
	landingSize  = 2 << 20   // bytes; what is larger is staged (package mover)
	landingWrite = 256 << 10 // bytes of a write
	mostLandings = 4
)

// landing is one; the zero value is none.
type landing struct {
	mem  ocl.Mem
	addr uint64
}

type landings struct {
	mu   sync.Mutex
	free []landing // protected by mu
	made int       // protected by mu
}

// land takes a landing for a transfer of n bytes.
func (d *Device) land(op ocl.Op, n int) (l landing) {
	x := &d.landings
	if !d.isDiscrete() || n > landingSize || op == ocl.Write && n > landingWrite {
		return landing{}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if k := len(x.free); k > 0 {
		l, x.free = x.free[k-1], x.free[:k-1]
		return l
	}
	if x.made < mostLandings {
		x.made++
		if l.addr, l.mem, _ = d.host.context.Pin(d.service, landingSize); l.addr == 0 {
			x.made = mostLandings // nor will there be another
		}
	}
	return l
}

// leave gives a landing back.
func (d *Device) leave(l landing) {
	if l.addr != 0 {
		d.landings.mu.Lock()
		defer d.landings.mu.Unlock()
		d.landings.free = append(d.landings.free, l)
	}
}

// closeLandings gives their memory back. No queue is open.
func (d *Device) closeLandings() {
	for _, l := range d.landings.free {
		l.mem.Unpin(d.service, l.addr)
	}
	d.landings.free = nil
}
