// Package devicebench measures OpenCL devices through Godwit's runtime and, in the same
// run, by the vendor's own means: how fast content gets from one device to another, how
// fast bytes get between the host and a device, and what a buffer costs. It is the logic
// of "godwit bench migrate", "transfer" and "pool".
//
// What is compared takes turns, since machines are shared and figures of different days
// do not compare. A time is the median of several, from the call that asks until the host
// has seen it done. Contents are checked.
package devicebench

import "time"

// Options say what to measure.
type Options struct {
	Sizes    []uint64          // bytes
	Params   map[string]string // which devices, and how they are opened; see package opencl
	Reps     int               // times that medians are over
	Vendor   []string          // of Migrate: command line of a child, a JSON request is appended; nil leaves the vendor out
	Progress func(what string) // told of each step; may be nil
}

// Report is what was measured.
type Report struct {
	Devices []device `json:"devices"`
	Reps    int      `json:"reps"`
	Rows    []row    `json:"rows"`
	Notes   []string `json:"notes,omitempty"`
}

// device is a device that took part.
type device struct {
	Name     string `json:"name"`
	Platform string `json:"platform"`
	Version  string `json:"version"`
	Shared   bool   `json:"shared"` // its memory is the host's
}

// row is one way to do something; rows of the same What and Size compare.
type row struct {
	What     string        `json:"what" show:"what"`        // "0 to 1" between devices, "up" into a device, "down" out of it, "buffer"
	Size     uint64        `json:"bytes" show:"size|bytes"` // bytes of a buffer, in both directions together where both are at once
	Way      string        `json:"way" show:"way"`
	Time     time.Duration `json:"time_ns" show:"time|span"`
	Returned time.Duration `json:"returned_ns" show:"returned|span"`              // until the enqueue returned
	Rate     float64       `json:"rate_bytes_per_s,omitempty" show:"rate|rate|-"` // where bytes are moved
	Speed    float64       `json:"speed" show:"speed|%.2f x"`                     // ratio to the first row of the same What and Size: how many times as fast
}

// finish works out what rows have by comparison.
func (r *Report) finish(moves bool) {
	var first row
	for i := range r.Rows {
		x := &r.Rows[i]
		if x.What != first.What || x.Size != first.Size {
			first = *x
		}
		if moves {
			x.Rate = float64(x.Size) / max(x.Time, 1).Seconds()
		}
		x.Speed = float64(first.Time) / float64(max(x.Time, 1))
	}
}
