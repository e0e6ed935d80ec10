package opencl

import (
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// What this package has in programs that were built without cgo too, where nothing
// works (nocgo.go).

// ErrMissing: there is no OpenCL here. The message says what is missing.
var ErrMissing = mem.Sentinel("OpenCL is not available", mem.DeviceNotFound)

// Pair says whether bytes get from one device to another of its platform over NVLink.
type Pair struct {
	From, To int   // indices in what Discover returns
	Missing  error // why they go by way of the host's memory; nil where they do not
}

// Counts are objects of each kind, by OpenCL's names.
type Counts = ocl.Counts
