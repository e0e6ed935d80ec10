//go:build !cgo

package transferbench

import (
	"context"

	"godwit/devices/opencl"
)

// Run fails: there are no OpenCL devices without cgo.
func Run(context.Context, Options) (*Report, error) {
	_, err := opencl.Discover()
	return nil, err
}

// RunPool fails likewise.
func RunPool(context.Context, Options) (*Pool, error) {
	_, err := opencl.Discover()
	return nil, err
}
