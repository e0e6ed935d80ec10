//go:build cgo

package opencl

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/btree"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/storage"
	"godwit/mem"
)

// Page-locked host memory: buffers with CL_MEM_ALLOC_HOST_PTR, mapped for as long as
// they live. Every device of the platform moves from and to them without a copy, and
// knows them by their address: so host.pinned lists them all, and a transfer whose
// host end lies in one needs no staging.

// pinnedPage is what sizes are rounded up to, and pinnedAlign what is asked of
// addresses, both in bytes. Mapped addresses are not a page's everywhere.
const (
	pinnedPage  = 4096
	pinnedAlign = 64
)

// pinnedStore implements storage.Store for page-locked memory near a NUMA node. It is
// called under the lock of its Blocks.
type pinnedStore struct {
	dev   *Device                 // immutable
	node  int                     // immutable
	given map[uint64]pinnedBuffer // by address
	why   atomic.Pointer[string]  // the last refusal
	held  atomic.Uint64           // bytes
}

type pinnedBuffer struct {
	mem    ocl.Mem
	mapped uint64 // its address, at or below what was given
	size   uint64 // bytes given
}

func newPinned(d *Device, name string, node int) *storage.Pinned {
	s := &pinnedStore{dev: d, node: node, given: make(map[uint64]pinnedBuffer)}
	return storage.NewPinned(name, pinnedAlign, s, s.locking)
}

// PinnedMemory implements devices.PageLocker. Where the device shares the host's
// memory, OpenCL may leave it unlocked, which it does not say.
func (d *Device) PinnedMemory(node int) (devices.PinnedMemory, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	return d.pinned.At(node)
}

// NUMANode implements devices.PageLocker.
func (d *Device) NUMANode() int { return d.node }

func (s *pinnedStore) locking() devices.Locking {
	l := devices.Locking{Locked: s.held.Load()}
	if why := s.why.Load(); why != nil {
		l.Why = *why
	}
	return l
}

// Take implements storage.Store.
func (s *pinnedStore) Take(reqs []mem.Request, at []storage.Place) bool {
	return storage.TakeEach(reqs, at, s.take, s.Give)
}

func (s *pinnedStore) take(size, align uint64) (storage.Place, bool) {
	n, ok := mem.AlignUp(size, pinnedPage)
	if !ok || n >= 1<<objectShift || s.dev.lost.Load() {
		return storage.Place{}, false
	}
	b, ok := s.pin(n)
	if ok && b.mapped%align != 0 { // OpenCL promises less
		s.unpin(b)
		b, ok = s.pin(n + align)
	}
	if !ok {
		return storage.Place{}, false
	}
	addr, _ := mem.AlignUp(b.mapped, align)
	b.size = n
	s.given[addr] = b
	s.held.Add(n)
	s.dev.host.pinned.add(mem.Range{Start: addr, End: addr + n})
	return storage.Place{Addr: addr}, true
}

// pin has OpenCL make n bytes.
func (s *pinnedStore) pin(n uint64) (b pinnedBuffer, ok bool) {
	var st ocl.Status
	s.dev.host.do(func() {
		storage.OnNode(s.node, func() { b.mapped, b.mem, st = s.dev.host.context.Pin(s.dev.service, n) })
	})
	if s.dev.sees(st) == 0 && b.mapped != 0 {
		return b, true
	}
	why := fmt.Sprintf("OpenCL gives no %s of page-locked memory: %v", mem.FormatBytes(n), statusError(st, "device %s", s.dev.name))
	s.why.Store(&why)
	return b, false
}

func (s *pinnedStore) unpin(b pinnedBuffer) {
	s.dev.host.do(func() { b.mem.Unpin(s.dev.service, b.mapped) })
}

// Give implements storage.Store.
func (s *pinnedStore) Give(p storage.Place, _ uint64) {
	b := s.given[p.Addr]
	delete(s.given, p.Addr)
	s.held.Add(-b.size)
	s.dev.host.pinned.remove(p.Addr)
	s.unpin(b)
}

// Fits implements storage.Store: how much may be locked is not known.
func (s *pinnedStore) Fits([]mem.Request, []storage.Gone) bool { return !s.dev.lost.Load() }

// Limits implements storage.Store: how much may be locked is not known.
func (s *pinnedStore) Limits() (capacity, largest uint64) { return 0, 0 }

// Cached implements storage.Store.
func (s *pinnedStore) Cached() uint64 { return 0 }

// Trim implements storage.Store.
func (s *pinnedStore) Trim(uint64) uint64 { return 0 }

// Check implements storage.Store: figures agree, and what is given is listed.
func (s *pinnedStore) Check() error {
	var sum uint64
	for addr, b := range s.given {
		sum += b.size
		if !s.dev.host.pinned.holds(addr, b.size) {
			return fmt.Errorf("%d bytes of page-locked memory at %#x are not listed as such", b.size, addr)
		}
	}
	if sum != s.held.Load() {
		return fmt.Errorf("%d bytes of page-locked memory, but counted %d", sum, s.held.Load())
	}
	return nil
}

// pinnedRanges are address ranges of page-locked memory, apart. Every transfer looks
// into them, without a lock: a change is made to a copy, with which the tree shares all
// nodes but those on the way to the change.
type pinnedRanges struct {
	mu   sync.Mutex // held to change the tree
	tree atomic.Pointer[btree.BTreeG[mem.Range]]
}

func (p *pinnedRanges) add(r mem.Range) {
	p.change(func(t *btree.BTreeG[mem.Range]) { t.ReplaceOrInsert(r) })
}
func (p *pinnedRanges) remove(addr uint64) {
	p.change(func(t *btree.BTreeG[mem.Range]) { t.Delete(mem.Range{Start: addr}) })
}

func (p *pinnedRanges) change(f func(*btree.BTreeG[mem.Range])) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tree.Load()
	if t == nil {
		t = btree.NewG(16, func(a, b mem.Range) bool { return a.Start < b.Start })
	} else {
		t = t.Clone()
	}
	f(t)
	p.tree.Store(t)
}

// holds reports whether all of [addr, addr+size) is in one range.
func (p *pinnedRanges) holds(addr, size uint64) (all bool) {
	t := p.tree.Load()
	if t == nil {
		return false
	}
	t.DescendLessOrEqual(mem.Range{Start: addr}, func(r mem.Range) bool {
		all = size <= r.End-min(addr, r.End)
		return false
	})
	return all
}

// nodeOf finds the NUMA node of a device on the PCI bus.
func nodeOf(d ocl.DeviceID) int {
	var at [4]uint64 // domain, bus, device, function
	if info := d.Info(infoPCI); len(info) == 16 {
		for i := range at {
			at[i] = uint64(binary.NativeEndian.Uint32(info[4*i:]))
		}
	} else if info := d.Info(infoBusNV); len(info) == 4 {
		slot := d.Uint(infoSlotNV) // device and function
		at = [4]uint64{d.Uint(infoDomainNV), uint64(binary.NativeEndian.Uint32(info)), slot >> 3, slot & 7}
	} else {
		return devices.NodeAny
	}
	text, _ := os.ReadFile(fmt.Sprintf("/sys/bus/pci/devices/%04x:%02x:%02x.%x/numa_node", at[0], at[1], at[2], at[3]))
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return devices.NodeAny
	}
	return node
}
