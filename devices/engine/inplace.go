package engine

import (
	"godwit/devices"
	"godwit/internal/storage"
	"godwit/mem"
)

// InPlace is a Device whose blocks are bytes of this process where they are: the host's
// memory, and cpu devices. They copy directly from and to each other.
type InPlace struct {
	Device
	*Copier
	inProcess
	pinned *storage.PinnedNodes
}

// inProcess is what devices.HostBacked and devices.Viewer ask of blocks.
type inProcess interface {
	pinner
	devices.Viewer
}

// Init is Device.Init, for self, which embeds d.
func (d *InPlace) Init(info devices.Info, memory *storage.Host, self interface {
	devices.Device
	Executor
}, opts EngineOptions) {
	d.Device.Init(info, memory.Blocks, self, opts)
	d.inProcess, d.Copier = memory, d.NewCopier(self, 0)
	d.pinned = storage.NewPinnedNodes(info.Name, storage.NewLocked)
}

// Link implements devices.Device: every device whose memory is of this process is reached.
func (d *InPlace) Link(from, to devices.Device) mem.Link {
	_, reads := from.(devices.HostBacked)
	if _, writes := to.(devices.HostBacked); reads && writes {
		return mem.DirectLink(0, 0)
	}
	return mem.Link{}
}

// PinnedMemory implements devices.PageLocker, with mlock.
func (d *InPlace) PinnedMemory(node int) (devices.PinnedMemory, error) { return d.pinned.At(node) }

// NUMANode implements devices.PageLocker: the device is all processors.
func (d *InPlace) NUMANode() int { return devices.NodeAny }

// HostLink implements devices.PageLocker: it shares the host's memory.
func (d *InPlace) HostLink(bool) mem.Link { return mem.Link{} }

// Locked implements devices.PageLocker: to processors all memory is alike.
func (d *InPlace) Locked(uint64, uint64) bool { return false }

// ReserveSVM implements devices.Device: addresses are the process's, so those of an
// arena are nobody else's.
func (d *InPlace) ReserveSVM(mem.Range) error { return nil }

// Close implements devices.Device.
func (d *InPlace) Close() error { return d.CloseAnd() }

// CloseAnd is Device.CloseAnd.
func (d *InPlace) CloseAnd(more ...func() error) error {
	return d.Device.CloseAnd(append(more, d.pinned.Close)...)
}
