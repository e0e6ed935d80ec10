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
	Device   string    `json:"device"`
	Platform string    `json:"platform"`
	Version  string    `json:"version"`
	Shared   bool      `json:"shared"` // the device's memory is the host's
	Reps     int       `json:"reps"`
	Moves    []Move    `json:"moves"`
	Tensors  []Tensors `json:"tensors"`
	Notes    []string  `json:"notes"`
}

// Move is a transfer of Size bytes in one direction, in ways that are to be compared.
type Move struct {
	Size uint64 `json:"bytes"` // bytes
	Up   bool   `json:"up"`    // into the device
	Ways []Way  `json:"ways"`
}

// Way is one way to do a transfer.
type Way struct {
	Name     string        `json:"name"`
	Time     time.Duration `json:"time_ns"`     // until the bytes are there
	Returned time.Duration `json:"returned_ns"` // until the enqueue returned
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
	Size uint64 `json:"bytes"` // bytes

	Memcpy           time.Duration `json:"memcpy_ns"`            // within the host's memory, one goroutine
	StagedReturned   time.Duration `json:"staged_returned_ns"`   // FromHost(Async()), until it returns
	Staged           time.Duration `json:"staged_ns"`            // until the device has the bytes
	BorrowedReturned time.Duration `json:"borrowed_returned_ns"` // FromHost(Async(), Borrow())
	Borrowed         time.Duration `json:"borrowed_ns"`

	Pageable       time.Duration `json:"pageable_ns"` // FromHost and ToHost
	Pinned         time.Duration `json:"pinned_ns"`
	RawPageable    time.Duration `json:"raw_pageable_ns"` // a write and a read by OpenCL alone
	RawPinned      time.Duration `json:"raw_pinned_ns"`
	DriverPageable time.Duration `json:"driver_pageable_ns"` // the same by Godwit's driver alone
}

// Pool is what a buffer costs.
type Pool struct {
	Device   string    `json:"device"`
	Platform string    `json:"platform"`
	Reps     int       `json:"reps"`
	Rows     []PoolRow `json:"rows"`
}

// PoolRow is the cost of a buffer of Size bytes.
type PoolRow struct {
	Size   uint64        `json:"bytes"`     // bytes
	Raw    time.Duration `json:"raw_ns"`    // clCreateBuffer, a fill of 4 bytes, clReleaseMemObject
	Godwit time.Duration `json:"godwit_ns"` // runtime: the same by CreateBuffer, EnqueueFill, Release
	Hit    time.Duration `json:"hit_ns"`    // BufferPool: Get and Put of a buffer that is there
	Pinned time.Duration `json:"pinned_ns"` // PinnedPool: the same
}
