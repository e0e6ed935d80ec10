package runtime

import (
	"errors"
	"fmt"
	"sync"

	"godwit/devices"
	"godwit/internal/storage"
	"godwit/mem"
)

// Buffers with AllocHostPtr: where a device of the context has memory of its own and
// can move bytes between that and page-locked memory by itself, their memory on the
// host is page-locked, and so their maps, reads and writes go at the link's speed,
// without staging. It is the device's (devices.PageLocker) and passes the layers of
// the host's resource by, as the memory of UseHostPtr does.
//
// To lock and unlock pages takes the system a while, some 50 ms for 256 MiB on
// NVIDIA's OpenCL: so neither happens under the planner lock.

// locks counts page-locked memory that is no root's: what is being locked, is yet to be given to
// a root, or is on its way back, all without the planner lock. Close waits for it.
type locks struct {
	from devices.PageLocker // immutable; nil where there is none
	by   devices.Executor   // immutable
	back devices.Cond       // pending is zero; its lock is mu

	mu      sync.Mutex
	shut    bool    // protected by mu: nothing is locked any more
	pending int     // protected by mu: pieces of memory that are no root's
	errs    []error // protected by mu
}

func (k *locks) init(by devices.Executor) { k.by, k.back = by, by.Cond(&k.mu) }

// chooseLocker returns the first device that has its memory apart and locks pages.
func chooseLocker(devs []devices.Device) devices.PageLocker {
	for _, d := range devs {
		if l, ok := d.(devices.PageLocker); ok && !d.Info().SharesHost {
			return l
		}
	}
	return nil
}

// locked is page-locked memory of a root. Immutable until given back.
type locked struct {
	storage.Allocation
	locks *locks
}

// take returns page-locked memory, nil where there is none, or the context is closed: OpenCL
// promises nothing of it, and ordinary memory will do. It is called without the planner lock.
// Whoever has it gives it to a root (given) or frees it.
func (k *locks) take(size, align uint64) *locked {
	k.mu.Lock()
	none := k.from == nil || k.shut
	if !none {
		k.pending++
	}
	k.mu.Unlock()
	if none {
		return nil
	}
	b, err := storage.AllocateLocked(k.from, size, align)
	if err != nil {
		k.given(nil)
		return nil
	}
	return &locked{Allocation: b, locks: k}
}

// given notes that memory is a root's from now on, or none any more, which may have failed.
func (k *locks) given(failed error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if failed != nil {
		k.errs = append(k.errs, failed)
	}
	if k.pending--; k.pending == 0 {
		k.back.Broadcast()
	}
}

// freeAfter gives the memory of a root back once the points have been reached, and does not
// wait for that.
func (l *locked) freeAfter(points []mem.Point) {
	l.locks.mu.Lock()
	l.locks.pending++
	l.locks.mu.Unlock()
	afterAll(points, func() { l.locks.by.Go(l.free) }) // not under a driver's locks
}

// free gives memory back that is no root's.
func (l *locked) free() {
	err := l.Free()
	if err != nil {
		err = fmt.Errorf("page-locked memory of %d bytes: %w", l.Size, err)
	}
	l.locks.given(err)
}

// wait waits until all memory is a root's or given back, and returns what has failed since it
// was last called. Nothing is locked from then on. Where other calls may be locking some, it is
// called without the planner lock, which these want next.
func (k *locks) wait() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shut = true
	for k.pending > 0 && err == nil {
		err = k.back.Wait()
	}
	err = errors.Join(append(k.errs, err)...)
	k.errs = nil
	return err
}
