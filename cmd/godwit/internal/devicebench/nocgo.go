//go:build !cgo

package devicebench

import (
	"context"

	"godwit/devices/opencl"
)

// Migrate, Transfer and Pool fail: there are no OpenCL devices without cgo.
func Migrate(context.Context, Options) (*Report, error) { return none() }

// Transfer fails likewise.
func Transfer(context.Context, Options) (*Report, error) { return none() }

// Pool fails likewise.
func Pool(context.Context, Options) (*Report, error) { return none() }

// Child fails likewise.
func Child(string) error {
	_, err := none()
	return err
}

func none() (*Report, error) {
	_, err := opencl.Discover()
	return nil, err
}
