package engine

import (
	"cmp"

	"godwit/devices"
	"godwit/internal/storage"
	"godwit/mem"
)

// Host is the host's memory as a device: blocks outside the Go heap, queues
// that copy, fill and call host functions. It runs no kernels.
type Host struct {
	InPlace
	blocks *storage.Host
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
	memory := storage.NewHost("host", opts.Memory)
	if opts.Sparse {
		memory = storage.NewSparseHost("host")
	}
	h := &Host{blocks: memory}
	h.Init(devices.Info{
		Driver: "host", Platform: "Godwit", Name: "host", Vendor: "Godwit", Version: "1",
		Type: devices.Custom, GlobalMemory: opts.Memory, BaseAlign: 128, SharesHost: true, SVM: devices.SVMCaps{Coarse: true, Fine: true},
	}, memory, h, EngineOptions{Workers: cmp.Or(opts.Workers, 2), NoKernels: true, Pace: opts.Pace})
	return h
}

var (
	_ devices.HostDevice = (*Host)(nil)
	_ devices.Viewer     = (*Host)(nil)
	_ devices.HostBacked = (*Host)(nil)
	_ devices.PageLocker = (*Host)(nil)
)

// Adopt implements devices.HostDevice.
func (h *Host) Adopt(bytes []byte, tag uint64) (mem.Block, error) {
	return h.blocks.Adopt(bytes, tag)
}

// Execute implements Executor.
func (h *Host) Execute(cmd *devices.Command) error {
	_, err := h.Move(cmd)
	return err
}
