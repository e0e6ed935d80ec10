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

// locks counts what locks or unlocks pages without the planner lock: Close waits for it.
type locks struct {
	from devices.PageLocker // immutable; nil where there is none
	by   devices.Executor   // immutable
	back devices.Cond       // pending is zero; its lock is mu

	mu      sync.Mutex
	shut    bool    // protected by mu: no call begins to lock pages any more
	pending int     // protected by mu: calls that lock pages, and memory on its way back
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

// enter reports whether a call may take memory, until it calls leave: there is a device to
// lock it, and the context is not closed.
func (k *locks) enter() bool {
	if k.from == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.shut {
		k.pending++
	}
	return !k.shut
}

// leave ends what enter began, or what is on its way back.
func (k *locks) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pending--; k.pending == 0 {
		k.back.Broadcast()
	}
}

// take returns page-locked memory, nil where there is none: OpenCL promises nothing
// of it, and ordinary memory will do. It is called between enter and leave, without the
// planner lock.
func (k *locks) take(size, align uint64) *locked {
	b, err := storage.AllocateLocked(k.from, size, align)
	if err != nil {
		return nil
	}
	return &locked{Allocation: b, locks: k}
}

// freeAfter gives the memory back once the points have been reached, and does not
// wait for that.
func (l *locked) freeAfter(points []mem.Point) {
	l.locks.mu.Lock()
	l.locks.pending++
	l.locks.mu.Unlock()
	afterAll(points, func() {
		l.locks.by.Go(func() { // not under a driver's locks
			l.free()
			l.locks.leave()
		})
	})
}

func (l *locked) free() {
	if err := l.Free(); err != nil {
		l.locks.mu.Lock()
		defer l.locks.mu.Unlock()
		l.locks.errs = append(l.locks.errs, fmt.Errorf("page-locked memory of %d bytes: %w", l.Size, err))
	}
}

// close has no call begin to lock pages, and waits like wait. It is called without the
// planner lock, which those that have begun want next.
func (k *locks) close() error {
	k.mu.Lock()
	k.shut = true
	k.mu.Unlock()
	return k.wait()
}

// wait waits until nobody locks pages and all that was to be given back is, and returns what
// has failed since it was last called.
func (k *locks) wait() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.pending > 0 && err == nil {
		err = k.back.Wait()
	}
	err = errors.Join(append(k.errs, err)...)
	k.errs = nil
	return err
}
