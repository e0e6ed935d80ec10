//go:build cgo

package opencl

import (
	"errors"
	"sync"

	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/storage"
)

// Staging of transfers that their submitter waits for (blocking.go).
//
// A transfer between pageable memory and a device across a bus goes through page-locked memory of the
// library below. It either copies there within a blocking call, which keeps others out for as long (internal/ocl/loader.c,
// shape), or hands a read to a thread of its own, which costs a wake-up and a second processor. So the transfer goes
// through memory of ours: it is enqueued, waited for, and copied by the thread that waits. On an H200 (580.159.04) a read of 4 bytes
// took 12.6 us by a blocking call, 18.5 enqueued and waited for, 8.4 so; a launch and that read 19.0, the vendor's own 18.8, before 29.0;
// a read of 1 MiB 88 us, the vendor's 101; a write of 256 KiB 29, 53 by a blocking call. One of 1 MiB 94, 83 by a blocking call, which copies
// while bytes move: so larger writes have none.
//
// Blocks of staging come of the page-locked memory that the device has for everybody. It takes them when they are first
// needed, and keeps them until it is closed: at most 8 MiB, beside the staging that has a budget (package mover). Where all
// are in use, or none can be had, a transfer goes without.
const (
	stagingSize  = 2 << 20   // bytes; what is larger is staged by package mover
	stagingWrite = 256 << 10 // bytes of a write
	mostStaging  = 4         // blocks
)

// staging is a device's.
type staging struct {
	mu   sync.Mutex
	free []storage.Allocation // protected by mu
	made int                  // protected by mu: blocks
}

// takeStaging takes a block for a transfer of n bytes; the zero value is none.
func (d *Device) takeStaging(op ocl.Op, n int) (b storage.Allocation) {
	x := &d.staging
	if !d.isDiscrete() || n > stagingSize || op == ocl.Write && n > stagingWrite {
		return storage.Allocation{}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if k := len(x.free); k > 0 {
		b, x.free = x.free[k-1], x.free[:k-1]
		return b
	}
	if x.made < mostStaging {
		x.made++
		var err error
		if b, err = storage.AllocateLocked(d, stagingSize, pinnedPage); err != nil {
			x.made = mostStaging // nor will there be another
		}
	}
	return b
}

// giveStaging gives a block back.
func (d *Device) giveStaging(b storage.Allocation) {
	if b.Addr != 0 {
		d.staging.mu.Lock()
		defer d.staging.mu.Unlock()
		d.staging.free = append(d.staging.free, b)
	}
}

// close gives the memory back. No queue is open.
func (x *staging) close() error {
	var errs []error
	for i := range x.free {
		errs = append(errs, x.free[i].Free())
	}
	x.free = nil
	return errors.Join(errs...)
}
