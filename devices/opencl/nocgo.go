//go:build !cgo

package opencl

import (
	"context"
	"fmt"

	"godwit/devices"
	"godwit/mem"
)

func init() { devices.Register("opencl", driver{}) }

// ErrMissing: there is no OpenCL here. The message says what is missing.
var ErrMissing = mem.Sentinel("OpenCL is not available", mem.DeviceNotFound)

type driver struct{}

// Open implements devices.Driver: it always fails with ErrMissing.
func (driver) Open(context.Context, devices.Config) ([]devices.Device, error) {
	return nil, fmt.Errorf("this program was built without cgo (CGO_ENABLED=0), which the OpenCL driver needs: %w", ErrMissing)
}

// Discover lists the OpenCL devices there are: none, with ErrMissing.
func Discover() ([]devices.Info, error) {
	_, err := driver{}.Open(nil, devices.Config{}) //nolint:staticcheck // the context is not used
	return nil, err
}

// Counts are objects of each kind, by OpenCL's names.
type Counts struct {
	Contexts, Queues, Buffers, Programs, Kernels, Events int64
}

// Objects returns how many cl objects this process has created and released: none.
func Objects() (created, released Counts) { return }
