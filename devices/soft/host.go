package soft

import (
	"context"
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/devices/storage"
	"godwit/mem"
)

// Host is the host's memory as a device: blocks outside the Go heap, queues
// that copy, fill and call host functions. It runs no kernels. It copies
// directly from and to every device whose memory is of this process.
type Host struct {
	info   devices.Info
	memory *storage.Host
	pinned *storage.PinnedNodes
	engine *Engine
	mover  *Copier
}

// HostOptions say how the host's memory is to be used; zero values are
// defaults.
type HostOptions struct {
	Memory  uint64 // most bytes of blocks; 0 is unlimited
	Workers int    // goroutines that execute commands; 0 is 2
}

// NewHost opens the host's memory as a device.
func NewHost(opts HostOptions) *Host {
	if opts.Workers == 0 {
		opts.Workers = 2
	}
	h := &Host{
		info: devices.Info{
			Driver: "host", Platform: "Godwit", Name: "host", Vendor: "Godwit", Version: "1",
			Type: devices.Custom, ComputeUnits: 0, GlobalMemory: opts.Memory, BaseAlign: 128, SharesHost: true, SVM: devices.SVMCaps{Coarse: true, Fine: true},
		},
		memory: storage.NewHost("host", opts.Memory),
		pinned: storage.NewPinnedNodes("host", storage.NewLocked),
	}
	h.engine = NewEngine(h, EngineOptions{Name: "host", Workers: opts.Workers})
	h.mover = NewCopier(h, h.memory.Blocks, 0, h.engine)
	return h
}

var (
	_ devices.HostDevice = (*Host)(nil)
	_ devices.Viewer     = (*Host)(nil)
	_ devices.HostBacked = (*Host)(nil)
	_ devices.PeerCopier = (*Host)(nil)

	_ devices.SVMReserver = (*Host)(nil)
	_ devices.PageLocker  = (*Host)(nil)
)

// Info implements Device.
func (h *Host) Info() devices.Info { return h.info }

// Memory implements Device.
func (h *Host) Memory() mem.Resource { return h.memory }

// Pin implements devices.HostBacked.
func (h *Host) Pin(b mem.Block, off, size uint64) (uint64, error) { return h.memory.Pin(b, off, size) }

// Unpin implements devices.HostBacked.
func (h *Host) Unpin(b mem.Block) { h.memory.Unpin(b) }

// View implements Viewer.
func (h *Host) View(b mem.Block, off, size uint64) ([]byte, error) {
	return h.memory.View(b, off, size)
}

// Adopt implements devices.HostDevice.
func (h *Host) Adopt(bytes []byte, tag uint64) (mem.Block, error) {
	return h.memory.Adopt(bytes, tag)
}

// ReserveSVM implements SVMReserver.
func (h *Host) ReserveSVM(mem.Range) error { return nil }

// PinnedMemory implements PageLocker, with mlock.
func (h *Host) PinnedMemory(node int) (devices.PinnedMemory, error) { return h.pinned.At(node) }

// NUMANode implements PageLocker.
func (h *Host) NUMANode() int { return devices.NodeAny }

// PeerLink implements PeerCopier.
func (h *Host) PeerLink(other devices.Device) (mem.Link, bool) {
	_, ok := other.(devices.HostBacked)
	return mem.Link{Route: mem.RoutePeer}, ok
}

// Build implements Device; it always fails.
func (h *Host) Build(context.Context, *devices.Program) (devices.Module, error) {
	return nil, fmt.Errorf("the host's memory runs no kernels; open a cpu device: %w", mem.ErrInvalidOperation)
}

// NewQueue implements Device.
func (h *Host) NewQueue(opts devices.QueueOptions) (devices.Queue, error) {
	return h.engine.NewQueue(opts)
}

// Close implements Device.
func (h *Host) Close() error {
	if err := h.engine.Close(); err != nil {
		return err
	}
	return errors.Join(h.pinned.Close(), h.memory.Close())
}

// Accept implements Executor.
func (h *Host) Accept(cmd *devices.Command) error {
	if cmd.Op == devices.OpLaunch {
		return fmt.Errorf("the host's memory runs no kernels: %w", mem.ErrInvalidOperation)
	}
	return devices.CheckCommand(cmd, &h.info)
}

// Execute implements Executor.
func (h *Host) Execute(cmd *devices.Command) error {
	_, err := h.mover.Execute(cmd)
	return err
}
