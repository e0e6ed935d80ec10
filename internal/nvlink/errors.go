package nvlink

import "godwit/mem"

// What can be missing. The messages are for people: `godwit devices` prints them.
var (
	errNoLibrary  = mem.Sentinel("CUDA's driver library cannot be opened", mem.DeviceNotFound)
	errOldLibrary = mem.Sentinel("CUDA's driver library is too old", mem.DeviceNotFound)
	ErrNoGPU      = mem.Sentinel("CUDA does not know the GPU", mem.DeviceNotFound)
	errNoExport   = mem.Sentinel("CUDA cannot export memory of the GPU", mem.InvalidOperation)
	ErrNoPeer     = mem.Sentinel("no NVLink joins the GPUs", mem.InvalidOperation)
	// ErrDriver: nobody has tried this version of the driver, or it failed.
	ErrDriver = mem.Sentinel("this driver is not known to be good", mem.InvalidOperation)
	errForked = mem.Sentinel("this process is a child of the one that opened CUDA", mem.InvalidOperation)
	// errNotConnected: Connect has not been called, or has failed.
	errNotConnected = mem.Sentinel("the GPUs are not connected yet", mem.InvalidOperation)
	// errLost: a call for a copy has failed. The engine and its windows are used no more.
	errLost = mem.Sentinel("CUDA has failed, and is used no more", mem.DeviceNotAvailable)
	// errFailed: CUDA has refused or failed a call.
	errFailed = mem.Sentinel("CUDA failed", mem.OutOfResources)
)
