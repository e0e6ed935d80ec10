package storage

import (
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/mem"
)

// Allocation is one block and its bytes: how all take theirs who need memory for themselves, such
// as staging, page-locked storage of buffers, and pools.
type Allocation struct {
	mem.Block
	Bytes []byte
	from  mem.Resource
}

// Allocate takes a block from a resource whose blocks view shows; of a device's memory it is
// nil, and there are no Bytes. It fails with mem.ErrNoHostMemory where there is no room, and
// as AllocAll and View do.
func Allocate(from mem.Resource, view devices.Viewer, size, align uint64) (b Allocation, err error) {
	var got [1]mem.Block
	out, err := from.AllocAll([]mem.Request{{Size: size, Align: align}}, got[:], nil)
	if err == nil && out != mem.Ready {
		err = fmt.Errorf("%s: %v: %w", mem.FormatBytes(size), out, mem.ErrNoHostMemory)
	}
	if err != nil {
		return Allocation{}, err
	}
	b = Allocation{Block: got[0], from: from}
	if view == nil {
		return b, nil
	}
	if b.Bytes, err = view.View(b.Block, 0, size); err != nil {
		return Allocation{}, errors.Join(err, b.Free())
	}
	return b, nil
}

// AllocateLocked is Allocate of page-locked memory near the device that locks it.
func AllocateLocked(l devices.PageLocker, size, align uint64) (Allocation, error) {
	m, err := l.PinnedMemory(l.NUMANode())
	if err != nil {
		return Allocation{}, err
	}
	return Allocate(m, m, size, align)
}

// Free gives the block back, which nothing uses any more.
func (b *Allocation) Free() error { return b.from.FreeAfter(b.Block, nil) }
