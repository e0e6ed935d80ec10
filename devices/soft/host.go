package soft

import (
	"godwit/devices"
	"godwit/devices/storage"
	"godwit/mem"
)

// Host is the host's memory as a device: blocks outside the Go heap, queues
// that copy, fill and call host functions. It runs no kernels. It copies
// directly from and to every device whose memory is of this process.
type Host struct {
	Device
	memory *storage.Host
	pinned *storage.PinnedNodes
	copier *Copier
}

// HostOptions say how the host's memory is to be used; zero values are
// defaults.
type HostOptions struct {
	Memory  uint64 // most bytes of blocks; 0 is unlimited
	Workers int    // goroutines that execute commands; 0 is 2
	Pace    Pace   // as EngineOptions have it
	// Sparse has blocks be larger than this computer's memory, as long as little of them is
	// touched; Memory is without effect then.
	Sparse bool
}

// NewHost opens the host's memory as a device.
func NewHost(opts HostOptions) *Host {
	if opts.Workers == 0 {
		opts.Workers = 2
	}
	h := &Host{pinned: storage.NewPinnedNodes("host", storage.NewLocked)}
	if opts.Sparse {
		h.memory = storage.NewSparseHost("host")
	} else {
		h.memory = storage.NewHost("host", opts.Memory)
	}
	h.Init(devices.Info{
		Driver: "host", Platform: "Godwit", Name: "host", Vendor: "Godwit", Version: "1",
		Type: devices.Custom, GlobalMemory: opts.Memory, BaseAlign: 128, SharesHost: true, SVM: devices.SVMCaps{Coarse: true, Fine: true},
	}, h.memory.Blocks, h, EngineOptions{Workers: opts.Workers, NoKernels: true, Pace: opts.Pace})
	h.copier = h.NewCopier(h, 0)
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
	return mem.DirectLink(0, 0), ok
}

// Close implements Device.
func (h *Host) Close() error { return h.CloseAnd(h.pinned.Close) }

// Execute implements Executor.
func (h *Host) Execute(cmd *devices.Command) error {
	_, err := h.copier.Execute(cmd)
	return err
}
