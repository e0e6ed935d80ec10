//go:build cgo

package opencl

import "godwit/devices/opencl/internal/ocl"

// Counts are objects of each kind, by OpenCL's names.
type Counts = ocl.Counts

// Objects returns how many cl objects this process has created and released through this
// package and go-opencl, so far.
func Objects() (created, released Counts) { return ocl.Objects() }
