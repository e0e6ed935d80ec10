// Package migratebench measures how fast content gets from one OpenCL device to
// another: through Godwit, and through the vendor's own means. It is the logic of
// "godwit bench migrate".
//
// Everything is measured in one run, since machines are shared and figures of
// different days do not compare. What is the vendor's runs in a child process:
// vendors' libraries have crashed at such work. All results are checked.
//
// A time is the median of several, from the call that asks until the host has
// seen it done.
package migratebench

import "time"

// Options say what to measure.
type Options struct {
	Sizes    []uint64          // bytes of a buffer
	Params   map[string]string // which devices, see package opencl
	Reps     int               // times that medians are over
	Vendor   []string          // command line of the child, a JSON request is appended; nil leaves the vendor out
	Progress func(what string) // told of each step; may be nil
}

// Report is what was measured.
type Report struct {
	Devices []Device `json:"devices"`
	Reps    int      `json:"reps"`
	Moves   []Move   `json:"moves"`
	Limits  []Limit  `json:"limits"`
	Small   []Small  `json:"small"`
	Spread  []Spread `json:"spread,omitempty"`
	Linked  []Linked `json:"linked,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Device is a device that took part.
type Device struct {
	Name     string `json:"name"`
	Platform string `json:"platform"`
	Version  string `json:"version"`
	Shared   bool   `json:"shared"` // its memory is the host's
}

// Move is a buffer of Size bytes whose latest content is on one device and is
// wanted on another.
type Move struct {
	From int    `json:"from"`
	To   int    `json:"to"`
	Size uint64 `json:"bytes"` // bytes

	Godwit        time.Duration `json:"godwit_ns"`        // EnqueueMigrate through the runtime
	GodwitKernel  time.Duration `json:"godwit_kernel_ns"` // a kernel there that touches two words of the buffer, brought by the runtime
	Copy          time.Duration `json:"copy_ns"`          // the copy alone, without the runtime
	VendorKernel  time.Duration `json:"vendor_kernel_ns"` // the same kernel over one cl_mem that the vendor's runtime migrates; 0 is not measured
	VendorCopy    time.Duration `json:"vendor_copy_ns"`   // clEnqueueCopyBuffer from a buffer of one device to one of the other; 0 is not measured
	Way           string        `json:"way"`              // how the copy alone went, in words
	CUDA          time.Duration `json:"cuda_ns"`          // CUDA's own copy of as many bytes over the link; 0 where there is none
	VendorProblem string        `json:"vendor_problem"`   // why the vendor's figures are missing
}

// Limit is one way of a device and pinned host memory.
type Limit struct {
	Device int           `json:"device"`
	Size   uint64        `json:"bytes"`   // bytes
	Down   time.Duration `json:"down_ns"` // out of the device, into it
	Up     time.Duration `json:"up_ns"`
}

// Small is a figure of one command.
type Small struct {
	What   string        `json:"what"`
	Godwit time.Duration `json:"godwit_ns"`
	Vendor time.Duration `json:"vendor_ns"` // the same with raw OpenCL calls; 0 is not measured
	Moved  uint64        `json:"moved"`     // bytes moved, where that is the point
}

// Spread is one device's content brought to all others.
type Spread struct {
	Size uint64        `json:"bytes"` // bytes
	How  string        `json:"how"`   // star, chain
	Time time.Duration `json:"time_ns"`
	Rate float64       `json:"rate_bytes_per_s"` // bytes arriving in all, a second
	Legs uint64        `json:"legs"`             // copies that one of them took
}

// Linked is a copy over the links between devices beside CUDA's own of the same bytes,
// given to it at once from C: the limit.
type Linked struct {
	What   string        `json:"what"`
	Way    string        `json:"way"`   // in words; empty for several
	Size   uint64        `json:"bytes"` // bytes, in all
	Godwit time.Duration `json:"godwit_ns"`
	CUDA   time.Duration `json:"cuda_ns"`
	Pinned time.Duration `json:"pinned_ns"` // Godwit's through the host's memory; 0 is not measured
}

// rate is bytes a second.
func rate(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// Rate is Godwit's bytes a second.
func (m Move) Rate() float64 { return rate(m.Size, m.Godwit) }

// Ratio is how many times faster Godwit is than a vendor's time; 0 where that
// was not measured.
func Ratio(godwit, vendor time.Duration) float64 {
	if godwit <= 0 {
		return 0
	}
	return vendor.Seconds() / godwit.Seconds()
}
