// Package transferbench measures how fast bytes get between the host and an OpenCL
// device, and what getting a buffer costs: through Godwit, and by OpenCL's own calls.
// It is the logic of "godwit bench transfer" and "godwit bench pool".
//
// What is compared is measured in turns, in one run; times are medians; contents are
// checked.
package transferbench

import "time"

// Options say what to measure.
type Options struct {
	Sizes    []uint64          // bytes
	Params   map[string]string // which device, and how it is opened; see package opencl
	Reps     int               // times that medians are over
	Progress func(what string) // told of each step; may be nil
}

// Report is what was measured of transfers.
type Report struct {
	Device, Platform, Version string
	Shared                    bool // the device's memory is the host's
	Reps                      int
	Moves                     []Move
	Tensors                   []Tensors
	Notes                     []string
}

// Move is a transfer of Size bytes in one direction, in ways that are to be compared.
type Move struct {
	Size uint64 // bytes
	Up   bool   // into the device
	Ways []Way
}

// Way is one way to do a transfer.
type Way struct {
	Name     string
	Time     time.Duration // until the bytes are there
	Returned time.Duration // until the enqueue returned
}

// The ways, in the order in which they are given.
const (
	RawPageable    = "raw, pageable"
	RawPinned      = "raw, pinned"
	GodwitUnstaged = "unstaged"
	GodwitPageable = "pageable"
	GodwitPinned   = "pinned"
)

// Tensors is what package tensor does with Size bytes.
type Tensors struct {
	Size uint64 // bytes

	Memcpy           time.Duration // within the host's memory, one goroutine
	StagedReturned   time.Duration // FromHost(Async()), until it returns
	Staged           time.Duration // until the device has the bytes
	BorrowedReturned time.Duration // FromHost(Async(), Borrow())
	Borrowed         time.Duration

	Pageable, Pinned       time.Duration // FromHost and ToHost
	RawPageable, RawPinned time.Duration // a write and a read by OpenCL alone
	DriverPageable         time.Duration // the same by Godwit's driver alone
}

// Pool is what a buffer costs.
type Pool struct {
	Device, Platform string
	Reps             int
	Rows             []PoolRow
}

// PoolRow is the cost of a buffer of Size bytes.
type PoolRow struct {
	Size   uint64        // bytes
	Raw    time.Duration // clCreateBuffer, a fill of 4 bytes, clReleaseMemObject
	Godwit time.Duration // runtime: the same by CreateBuffer, EnqueueFill, Release
	Hit    time.Duration // BufferPool: Get and Put of a buffer that is there
	Pinned time.Duration // PinnedPool: the same
}
