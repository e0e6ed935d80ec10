package devices

import (
	"fmt"
	"sync"

	"godwit/mem"
)

// Pinner is a memory whose blocks can be kept in place while a command uses
// them. Blocks is one.
type Pinner interface {
	Pin(b mem.Block, off, size uint64) (addr uint64, err error)
	Unpin(b mem.Block)
}

// HostBacked is a Device whose blocks are bytes of this process: AddressBytes
// of a pinned address reaches them. Such devices copy between each other.
type HostBacked interface {
	Device
	Pinner() Pinner
}

// Mover executes the commands that move bytes, for devices whose memories are
// bytes of this process.
type Mover struct {
	self   Device
	memory Pinner // of self
	shift  uint64 // what makes an address of self's an address of the process
	engine *Engine
	splits sync.Pool // of *splitCopy
}

// NewMover returns a mover for self, whose blocks are in memory and whose bytes
// are in the process at their address + shift. Large copies are split over e's
// workers.
func NewMover(self Device, memory Pinner, shift uint64, e *Engine) *Mover {
	return &Mover{self: self, memory: memory, shift: shift, engine: e, splits: sync.Pool{New: newSplitCopy}}
}

// Splitting a copy pays once a part outweighs waking a worker.
const (
	splitFrom = 4 << 20
	splitPart = 1 << 20
)

// Execute runs a copy, a rectangle or a fill; ok is false for other commands.
func (m *Mover) Execute(cmd *Command) (ok bool, err error) {
	switch cmd.Op {
	case OpCopy:
		return true, m.with(cmd, cmd.Size, cmd.Size, func(dst, src []byte) { m.copy(dst, src) })
	case OpCopyRect:
		r := &cmd.Rect
		d, _ := RectSpan(r.Region, r.DstRow, r.DstSlice)
		s, _ := RectSpan(r.Region, r.SrcRow, r.SrcSlice)
		return true, m.with(cmd, d, s, func(dst, src []byte) { CopyRect(dst, src, r) })
	case OpFill:
		dst, unpin, err := m.bytes(&cmd.Dst, cmd.Size)
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
func (m *Mover) with(cmd *Command, dstSize, srcSize uint64, f func(dst, src []byte)) error {
	dst, unpinDst, err := m.bytes(&cmd.Dst, dstSize)
	if err != nil {
		return fmt.Errorf("%v: destination: %w", cmd.Op, err)
	}
	defer unpinDst.unpin(&cmd.Dst)
	src, unpinSrc, err := m.bytes(&cmd.Src, srcSize)
	if err != nil {
		return fmt.Errorf("%v: source: %w", cmd.Op, err)
	}
	defer unpinSrc.unpin(&cmd.Src)
	f(dst, src)
	return nil
}

type pinned struct{ Pinner }

func (p pinned) unpin(l *Loc) {
	if p.Pinner != nil {
		p.Unpin(l.Block)
	}
}

// bytes reaches size bytes at l, pinned where they are a block's.
func (m *Mover) bytes(l *Loc, size uint64) ([]byte, pinned, error) {
	if l.Device == nil {
		return l.Bytes[l.Off : l.Off+size], pinned{}, nil
	}
	from, shift := m.memory, m.shift
	if l.Device != m.self {
		dev, ok := l.Device.(HostBacked)
		if !ok {
			return nil, pinned{}, fmt.Errorf("device %s cannot reach the memory of %s: %w",
				m.self.Info().Name, l.Device.Info().Name, mem.ErrInvalidOperation)
		}
		from, shift = dev.Pinner(), 0
	}
	addr, err := from.Pin(l.Block, l.Off, size)
	if err != nil {
		return nil, pinned{}, err
	}
	return AddressBytes(addr+shift, size), pinned{from}, nil
}

// copy is Go's copy, with help for large ones. Ends must not overlap where it
// is split; Accept refuses that for the blocks of one device.
func (m *Mover) copy(dst, src []byte) {
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
