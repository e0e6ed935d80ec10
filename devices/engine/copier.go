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
	engine *engine
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

// Move runs a copy, a rectangle or a fill; ok is false for other commands. Both ends stay
// in place meanwhile.
func (m *Copier) Move(cmd *devices.Command) (ok bool, err error) {
	to, from := cmd.Size, cmd.Size
	switch cmd.Op {
	case devices.OpCopy:
	case devices.OpCopyRect:
		to, _ = devices.RectSpan(cmd.Rect.Region, cmd.Rect.DstRow, cmd.Rect.DstSlice)
		from, _ = devices.RectSpan(cmd.Rect.Region, cmd.Rect.SrcRow, cmd.Rect.SrcSlice)
	case devices.OpFill:
		from = 0
	default:
		return false, nil
	}
	dst, at, err := m.bytes(&cmd.Dst, nil, to)
	if err != nil {
		return true, fmt.Errorf("%v: destination: %w", cmd.Op, err)
	}
	if at != nil {
		defer at.Unpin(cmd.Dst.Block)
	}
	if cmd.Op == devices.OpFill {
		FillBytes(dst, cmd.Pattern)
		return true, nil
	}
	src, at, err := m.bytes(&cmd.Src, &cmd.Dst, from)
	if err != nil {
		return true, fmt.Errorf("%v: source: %w", cmd.Op, err)
	}
	if at != nil {
		defer at.Unpin(cmd.Src.Block)
	}
	if cmd.Op == devices.OpCopyRect {
		CopyRect(dst, src, &cmd.Rect)
	} else {
		m.copy(dst, src)
	}
	return true, nil
}

// pinner keeps blocks in place.
type pinner interface {
	Pin(b mem.Block, off, size uint64) (uint64, error)
	Unpin(b mem.Block)
}

// bytes reaches size bytes at l, by whom they are pinned where they are a block's; of a
// source, to is where they go.
func (m *Copier) bytes(l, to *devices.Loc, size uint64) (b []byte, at pinner, err error) {
	if l.Device == nil {
		return l.Bytes[l.Off : l.Off+size], nil, nil
	}
	by, shift := pinner(m.memory), m.shift
	if l.Device != m.self {
		if dev, ok := l.Device.(devices.HostBacked); ok {
			by, shift = dev, 0
		} else if w, ok := m.self.(windowed); !ok || to == nil {
			return nil, nil, fmt.Errorf("device %s cannot reach the memory of %s: %w", m.self.Info().Name, l.Device.Info().Name, mem.ErrInvalidOperation)
		} else if by, shift, err = w.windows().reach(to, l); err != nil {
			return nil, nil, err
		}
	}
	addr, err := by.Pin(l.Block, l.Off, size)
	if err != nil {
		return nil, nil, err
	}
	return storage.BytesAt(addr+shift, size), by, nil
}

// copy is Go's copy, with help for large ones. Ends must not overlap where it
// is split; Submit refuses that for the blocks of one device.
func (m *Copier) copy(dst, src []byte) {
	if len(dst) < splitFrom || m.engine.opts.Workers < 2 {
		copy(dst, src)
		return
	}
	s := m.splits.Get().(*splitCopy)
	s.dst, s.src = dst, src
	m.engine.parallel(&s.job, (len(dst)+splitPart-1)/splitPart, s.body)
	s.dst, s.src = nil, nil
	m.splits.Put(s)
}

// splitCopy is a large copy in parts; pooled.
type splitCopy struct {
	job      job
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
