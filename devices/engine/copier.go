package engine

import (
	"fmt"
	"sync"

	"godwit/devices"
	"godwit/internal/storage"
	"godwit/mem"
)

// Copier executes the commands that move bytes, for devices whose memories are
// bytes of this process.
type Copier struct {
	self   devices.Device
	memory *storage.Blocks // of self
	shift  uint64          // what makes an address of self's an address of the process
	engine *Engine
	splits sync.Pool // of *splitCopy
}

// NewCopier returns a copier for self, which embeds d, whose bytes are in the process at
// their address + shift. Large copies are split over the engine's workers.
func (d *Device) NewCopier(self devices.Device, shift uint64) *Copier {
	return &Copier{self: self, memory: d.memory, shift: shift, engine: d.engine, splits: sync.Pool{New: newSplitCopy}}
}

// Splitting a copy pays once a part outweighs waking a worker.
const (
	splitFrom = 4 << 20
	splitPart = 1 << 20
)

// Execute runs a copy, a rectangle or a fill; ok is false for other commands.
func (m *Copier) Execute(cmd *devices.Command) (ok bool, err error) {
	switch cmd.Op {
	case devices.OpCopy:
		return true, m.with(cmd, cmd.Size, cmd.Size, func(dst, src []byte) { m.copy(dst, src) })
	case devices.OpCopyRect:
		r := &cmd.Rect
		d, _ := devices.RectSpan(r.Region, r.DstRow, r.DstSlice)
		s, _ := devices.RectSpan(r.Region, r.SrcRow, r.SrcSlice)
		return true, m.with(cmd, d, s, func(dst, src []byte) { CopyRect(dst, src, r) })
	case devices.OpFill:
		dst, unpin, err := m.bytes(&cmd.Dst, nil, false, cmd.Size)
		if err != nil {
			return true, fmt.Errorf("fill: %w", err)
		}
		defer unpin.unpin(&cmd.Dst)
		FillBytes(dst, cmd.Pattern)
		return true, nil
	}
	return false, nil
}

// with reaches both ends of a copy and keeps them in place during f.
func (m *Copier) with(cmd *devices.Command, dstSize, srcSize uint64, f func(dst, src []byte)) error {
	dst, unpinDst, err := m.bytes(&cmd.Dst, &cmd.Src, true, dstSize)
	if err != nil {
		return fmt.Errorf("%v: destination: %w", cmd.Op, err)
	}
	defer unpinDst.unpin(&cmd.Dst)
	src, unpinSrc, err := m.bytes(&cmd.Src, &cmd.Dst, false, srcSize)
	if err != nil {
		return fmt.Errorf("%v: source: %w", cmd.Op, err)
	}
	defer unpinSrc.unpin(&cmd.Src)
	f(dst, src)
	return nil
}

// pinner keeps blocks in place.
type pinner interface {
	Pin(b mem.Block, off, size uint64) (uint64, error)
	Unpin(b mem.Block)
}

type pinned struct{ pinner }

func (p pinned) unpin(l *devices.Loc) {
	if p.pinner != nil {
		p.Unpin(l.Block)
	}
}

// bytes reaches size bytes at l, pinned where they are a block's; other is the other end of
// the copy, nil of a fill, and into says that l is where it goes.
func (m *Copier) bytes(l, other *devices.Loc, into bool, size uint64) ([]byte, pinned, error) {
	if l.Device == nil {
		return l.Bytes[l.Off : l.Off+size], pinned{}, nil
	}
	from, shift := pinner(m.memory), m.shift
	if l.Device != m.self {
		var err error
		if from, shift, err = m.peer(l, other, into); err != nil {
			return nil, pinned{}, err
		}
	}
	addr, err := from.Pin(l.Block, l.Off, size)
	if err != nil {
		return nil, pinned{}, err
	}
	return storage.BytesAt(addr+shift, size), pinned{from}, nil
}

// peer is how self gets at a block of another device.
func (m *Copier) peer(l, other *devices.Loc, into bool) (pinner, uint64, error) {
	if dev, ok := l.Device.(devices.HostBacked); ok {
		return dev, 0, nil
	}
	if w, ok := m.self.(windowed); ok && other != nil && !into {
		return w.windows().reach(other, l)
	}
	return nil, 0, fmt.Errorf("device %s cannot reach the memory of %s: %w", m.self.Info().Name, l.Device.Info().Name, mem.ErrInvalidOperation)
}

// copy is Go's copy, with help for large ones. Ends must not overlap where it
// is split; Accept refuses that for the blocks of one device.
func (m *Copier) copy(dst, src []byte) {
	if len(dst) < splitFrom || m.engine.Workers() < 2 {
		copy(dst, src)
		return
	}
	s := m.splits.Get().(*splitCopy)
	s.dst, s.src = dst, src
	m.engine.Parallel(&s.job, (len(dst)+splitPart-1)/splitPart, s.body)
	s.dst, s.src = nil, nil
	m.splits.Put(s)
}

// splitCopy is a large copy in parts; pooled.
type splitCopy struct {
	job      Job
	dst, src []byte
	body     func(part int)
}

func newSplitCopy() any {
	s := new(splitCopy)
	s.body = func(part int) {
		lo := part * splitPart
		hi := min(lo+splitPart, len(s.dst))
		copy(s.dst[lo:hi], s.src[lo:hi])
	}
	return s
}
