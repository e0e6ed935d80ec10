package tce

import (
	"sync/atomic"

	"godwit/devices"
)

// The device's DMA engine copies whole words of its memory. What a copy has
// before the first and after the last of them goes byte by byte, and so does all
// of a copy within the device whose ends lie differently in their words.

// dma is the engine and its figures.
type dma struct {
	word  uint64 // immutable: bytes, a power of two
	words atomic.Uint64
	bytes atomic.Uint64
}

// Transfers are the figures of a device's copies.
type Transfers struct {
	Words uint64 // copied by DMA
	Bytes uint64 // copied one by one
}

// Transfers returns the figures since the device was opened. They stay zero
// without a DMA word. Rectangles and fills are not counted: the core does them.
func (d *Device) Transfers() Transfers {
	return Transfers{Words: d.dma.words.Load(), Bytes: d.dma.bytes.Load()}
}

// copyWords splits a copy at the words of the device's memory.
func (d *Device) copyWords(cmd *devices.Command) error {
	head, words := d.split(cmd)
	middle := words * d.dma.word
	for _, part := range [][2]uint64{{0, head}, {head, head + middle}, {head + middle, cmd.Size}} {
		if part[0] == part[1] {
			continue
		}
		c := devices.Command{Op: devices.OpCopy, Size: part[1] - part[0], Dst: cmd.Dst, Src: cmd.Src}
		c.Dst.Off += part[0]
		c.Src.Off += part[0]
		if _, err := d.copier.Move(&c); err != nil {
			return err
		}
	}
	d.dma.words.Add(words)
	d.dma.bytes.Add(cmd.Size - middle)
	return nil
}

// split says how many bytes of a copy come before the first whole word, and how
// many words then follow.
func (d *Device) split(cmd *devices.Command) (head, words uint64) {
	w := d.dma.word
	own := func(l *devices.Loc) (uint64, bool) {
		return (l.Block.Addr + l.Off) & (w - 1), l.Device == devices.Device(d)
	}
	at, ok := own(&cmd.Dst)
	if from, both := own(&cmd.Src); !ok {
		at = from
	} else if both && from != at {
		return cmd.Size, 0
	}
	head = min((w-at)&(w-1), cmd.Size)
	return head, (cmd.Size - head) / w
}
