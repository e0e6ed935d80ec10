package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"godwit/devices"
	"godwit/mem"
)

// Page-locked ("pinned") host memory: the system does not move it or swap it out,
// so that a device reads and writes it by itself. Of other memory a driver's
// library first makes a copy that is page-locked.
//
// How memory is locked is the driver's: OpenCL gives it as buffers with
// CL_MEM_ALLOC_HOST_PTR that are mapped, drivers whose devices are the host's
// processors ask the system (NewLocked). Whoever wants some, pools as well as
// the rings in which copies are staged, takes it from the one PinnedMemory that the
// device has for a NUMA node.

// Pinned is page-locked host memory: the PinnedMemory of drivers here.
type Pinned struct {
	Host
	locking func() devices.Locking // immutable
}

// NewPinned returns page-locked memory out of a driver's store, whose places
// are addresses of the process.
func NewPinned(name string, align uint64, store Store, locking func() devices.Locking) *Pinned {
	return &Pinned{Host{NewBlocks(name, align, store)}, locking}
}

// Locking says how much is page-locked. Safe for use from many goroutines.
func (m *Pinned) Locking() devices.Locking { return m.locking() }

// NewLocked returns host memory that is locked with mlock, near a NUMA node
// or, with NodeAny, anywhere.
func NewLocked(name string, node int) *Pinned {
	l := &locker{node: node, locked: make(map[uint64]bool)}
	store := &hostStore{slabs: make(map[uint64]*slab), lock: l}
	return NewPinned(name, pageSize, store, l.locking)
}

// locker locks the mappings of a hostStore.
type locker struct {
	node int // immutable

	mu     sync.Mutex
	locked map[uint64]bool // protected by mu: mappings by address; true where locked
	sum    devices.Locking // protected by mu
}

// mapped places and locks a fresh mapping.
func (l *locker) mapped(addr, length uint64) {
	bytes := BytesAt(addr, length)
	why := placeOn(bytes, l.node)
	err := lockPages(bytes)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.locked[addr] = err == nil
	if err != nil {
		l.sum.Unlocked += length
		l.sum.Why = err.Error()
		return
	}
	l.sum.Locked += length
	if why != nil && l.sum.Why == "" {
		l.sum.Why = why.Error()
	}
}

// unmapped forgets a mapping, which the system unlocks itself.
func (l *locker) unmapped(addr, length uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locked[addr] {
		l.sum.Locked -= length
	} else {
		l.sum.Unlocked -= length
	}
	delete(l.locked, addr)
}

func (l *locker) locking() devices.Locking {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sum
}

// PinnedNodes keeps a device's PinnedMemory of each NUMA node, made on first use:
// what a driver needs to be a PageLocker. Safe for use from many goroutines.
type PinnedNodes struct {
	device string                              // immutable
	open   func(name string, node int) *Pinned // immutable

	mu     sync.Mutex
	by     map[int]*Pinned // protected by mu
	closed bool            // protected by mu
}

// NewPinnedNodes returns the memories that open makes, of the device of that name.
func NewPinnedNodes(device string, open func(name string, node int) *Pinned) *PinnedNodes {
	return &PinnedNodes{device: device, open: open, by: make(map[int]*Pinned)}
}

// At is the memory of a node. It fails with mem.ErrInvalidValue where there is no
// such node, and with mem.ErrClosed.
func (n *PinnedNodes) At(node int) (devices.PinnedMemory, error) {
	if nodes := numaNodes(); node != devices.NodeAny && !slices.Contains(nodes, node) {
		return nil, fmt.Errorf("pinned memory of device %s: NUMA node %d: there are %v: %w", n.device, node, nodes, mem.ErrInvalidValue)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fmt.Errorf("pinned memory of device %s: %w", n.device, mem.ErrClosed)
	}
	if n.by[node] == nil {
		name := n.device + " (pinned)"
		if node != devices.NodeAny {
			name = fmt.Sprintf("%s (pinned, node %d)", n.device, node)
		}
		n.by[node] = n.open(name, node)
	}
	return n.by[node], nil
}

// Check tests all memories.
func (n *PinnedNodes) Check() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.by {
		if err := m.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all memories. The error names blocks that were live.
func (n *PinnedNodes) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	var errs []error
	for _, m := range n.by {
		errs = append(errs, m.Close())
	}
	clear(n.by)
	return errors.Join(errs...)
}
