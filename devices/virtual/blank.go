package virtual

import (
	"cmp"
	"fmt"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/engine"
	"godwit/internal/storage"
	"godwit/mem"
)

// noBytes is why devices that keep no bytes have no shared virtual memory: a pointer is
// bytes.
var noBytes = devices.SVMCaps{Why: "it keeps no bytes"}

// blank is a device whose blocks are addresses with nothing behind them.
type blank struct {
	engine.Device
	memory *storage.Blocks
}

// unlimited is how many addresses a blank has; how many bytes it has is counted above it.
const unlimited = 1 << 46

func newBlank(info devices.Info, p engine.Pace) (*blank, error) {
	// What the machine leaves open is as it is with bytes (package cpu).
	info.BaseAlign = cmp.Or(info.BaseAlign, 128)
	info.LocalMemory = cmp.Or(info.LocalMemory, 256<<10)
	info.MaxWorkGroup = cmp.Or(info.MaxWorkGroup, 4096)
	info.MaxWorkItems = [3]uint64{info.MaxWorkGroup, info.MaxWorkGroup, info.MaxWorkGroup}
	r, err := storage.NewRegion(0, unlimited, bufalloc.Options{})
	if err != nil {
		return nil, err
	}
	info.SVM = noBytes
	d := &blank{memory: storage.NewBlocks(info.Name, info.BaseAlign, r)}
	d.Init(info, d.memory, d, engine.EngineOptions{Pace: p})
	return d, nil
}

// Pin is devices.HostBacked's: it finds a block that is there.
func (d *blank) Pin(b mem.Block, off, size uint64) (uint64, error) { return d.memory.Pin(b, off, size) }

// Unpin ends a Pin.
func (d *blank) Unpin(b mem.Block) { d.memory.Unpin(b) }

// Execute implements engine.Executor.
func (d *blank) Execute(c *devices.Command) error {
	return fmt.Errorf("%v on device %s, which keeps no bytes: %w", c.Op, d.Info().Name, mem.ErrInvalidOperation)
}
