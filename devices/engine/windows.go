package engine

import (
	"context"
	"fmt"
	"sync"

	"godwit/devices"
	"godwit/internal/storage"
	"godwit/mem"
)

// WindowSet makes a simulated device, which embeds it, devices.Windowed: blocks from a
// size on lie in windows, and all such devices of a process have links between them.
type WindowSet struct {
	self   devices.Device
	memory *storage.Blocks
	shift  uint64
	least  uint64 // bytes of the smallest block in a window; 0: there are none

	mu    sync.RWMutex
	links map[*WindowSet]bool // protected by mu: connected with
}

// InitWindows prepares the windows of self, whose bytes are in the process at their
// address + shift: blocks of at least so many bytes lie in one.
func (w *WindowSet) InitWindows(self devices.Device, memory *storage.Blocks, shift, least uint64) {
	w.self, w.memory, w.shift, w.least = self, memory, shift, least
	w.links = make(map[*WindowSet]bool)
}

// windowed is a device that embeds a WindowSet.
type windowed interface{ windows() *WindowSet }

func (w *WindowSet) windows() *WindowSet { return w }

// other is the windows of another device, if it has any and w, too.
func (w *WindowSet) other(d devices.Device) (*WindowSet, error) {
	if o, ok := d.(windowed); ok && w.least != 0 && o.windows().least != 0 && o.windows() != w {
		return o.windows(), nil
	}
	return nil, fmt.Errorf("device %s has no windows together with %s: %w", w.self.Info().Name, d.Info().Name, mem.ErrInvalidOperation)
}

// Windows implements devices.Windowed.
func (w *WindowSet) Windows(_ context.Context, d devices.Device) error {
	_, err := w.other(d)
	return err
}

// InWindow implements devices.Windowed.
func (w *WindowSet) InWindow(b mem.Block) bool { return w.least != 0 && b.Size >= w.least }

// Connect implements devices.Windowed.
func (w *WindowSet) Connect(ctx context.Context, d devices.Device) error {
	o, err := w.other(d)
	if err != nil {
		return err
	}
	for _, pair := range [][2]*WindowSet{{w, o}, {o, w}} {
		pair[0].mu.Lock()
		pair[0].links[pair[1]] = true
		pair[0].mu.Unlock()
	}
	return ctx.Err()
}

// Connected implements devices.Windowed.
func (w *WindowSet) Connected(d devices.Device) error {
	o, err := w.other(d)
	if err != nil {
		return err
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if !w.links[o] {
		return fmt.Errorf("device %s is not connected with %s: %w", w.self.Info().Name, d.Info().Name, mem.ErrInvalidOperation)
	}
	return nil
}

// CloseWindows ends the links of a device that closes: the others do not keep it.
func (w *WindowSet) CloseWindows() error {
	w.mu.Lock()
	links := w.links
	w.links = make(map[*WindowSet]bool)
	w.mu.Unlock()
	for o := range links {
		o.mu.Lock()
		delete(o.links, w)
		o.mu.Unlock()
	}
	return nil
}

// reach is how self gets at blocks of another device, in whose window l lies, to copy
// them into own, which lies in one of its own.
func (w *WindowSet) reach(own, l *devices.Loc) (pinner, uint64, error) {
	o, err := w.other(l.Device)
	if err == nil {
		err = w.Connected(l.Device)
	}
	if err == nil && (own.Device != w.self || !o.InWindow(l.Block) || !w.InWindow(own.Block)) {
		err = fmt.Errorf("device %s: a copy from %s: both blocks have to lie in windows: %w", w.self.Info().Name, l.Device.Info().Name, mem.ErrInvalidOperation)
	}
	if err != nil {
		return nil, 0, err
	}
	return o.memory, o.shift, nil
}
