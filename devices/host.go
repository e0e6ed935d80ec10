package devices

import (
	"context"
	"errors"
	"fmt"

	"godwit/mem"
)

// Host is the host's memory as a device: blocks outside the Go heap, queues
// that copy, fill and call host functions. It runs no kernels. It copies
// directly from and to every device whose memory is of this process.
type Host struct {
	info   Info
	memory *HostMemory
	pinned *PinnedNodes
	engine *Engine
	mover  *Mover
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
		info: Info{
			Driver: "host", Platform: "Godwit", Name: "host", Vendor: "Godwit", Version: "1",
			Type: Custom, ComputeUnits: 0, GlobalMemory: opts.Memory, BaseAlign: 128, SharesHost: true, SVM: SVMCaps{Coarse: true, Fine: true},
		},
		memory: NewHostMemory("host", opts.Memory),
		pinned: NewPinnedNodes("host", NewLockedMemory),
	}
	h.engine = NewEngine(h, EngineOptions{Name: "host", Workers: opts.Workers})
	h.mover = NewMover(h, h.memory, 0, h.engine)
	return h
}

var (
	_ HostBacked = (*Host)(nil)
	_ Viewer     = (*Host)(nil)
	_ PeerCopier = (*Host)(nil)
	_ Adopter    = (*Host)(nil)

	_ SVMReserver = (*Host)(nil)
	_ PageLocker  = (*Host)(nil)
)

// Info implements Device.
func (h *Host) Info() Info { return h.info }

// Memory implements Device.
func (h *Host) Memory() mem.Resource { return h.memory }

// Pinner implements HostBacked.
func (h *Host) Pinner() Pinner { return h.memory }

// View implements Viewer.
func (h *Host) View(b mem.Block, off, size uint64) ([]byte, error) {
	return h.memory.View(b, off, size)
}

// ReserveSVM implements SVMReserver.
func (h *Host) ReserveSVM(mem.Range) error { return nil }

// PinnedMemory implements PageLocker, with mlock.
func (h *Host) PinnedMemory(node int) (*PinnedMemory, error) { return h.pinned.At(node) }

// NUMANode implements PageLocker.
func (h *Host) NUMANode() int { return NodeAny }

// PeerLink implements PeerCopier.
func (h *Host) PeerLink(other Device) (mem.Link, bool) {
	_, ok := other.(HostBacked)
	return mem.Link{Route: mem.RoutePeer}, ok
}

// Build implements Device; it always fails.
func (h *Host) Build(context.Context, *Program) (Module, error) {
	return nil, fmt.Errorf("the host's memory runs no kernels; open a cpu device: %w", mem.ErrInvalidOperation)
}

// NewQueue implements Device.
func (h *Host) NewQueue(opts QueueOptions) (Queue, error) { return queueOf(h.engine.NewQueue(opts)) }

// queueOf keeps a nil *SoftQueue from becoming a non-nil Queue.
func queueOf(q *SoftQueue, err error) (Queue, error) {
	if err != nil {
		return nil, err
	}
	return q, nil
}

// Close implements Device.
func (h *Host) Close() error {
	if err := h.engine.Close(); err != nil {
		return err
	}
	return errors.Join(h.pinned.Close(), h.memory.Close())
}

// Accept implements Executor.
func (h *Host) Accept(cmd *Command) error {
	if cmd.Op == OpLaunch {
		return fmt.Errorf("the host's memory runs no kernels: %w", mem.ErrInvalidOperation)
	}
	return CheckCommand(cmd, &h.info)
}

// Execute implements Executor.
func (h *Host) Execute(cmd *Command) error {
	_, err := h.mover.Execute(cmd)
	return err
}
