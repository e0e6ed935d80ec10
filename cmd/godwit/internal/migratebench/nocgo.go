//go:build !cgo

package migratebench

import (
	"context"

	"godwit/devices/opencl"
)

// Run fails: there are no OpenCL devices without cgo.
func Run(context.Context, Options) (*Report, error) {
	_, err := opencl.Discover()
	return nil, err
}

// Child fails likewise.
func Child(string) error {
	_, err := opencl.Discover()
	return err
}
