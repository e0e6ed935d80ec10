//go:build !cgo

package opencl

import (
	"context"
	"fmt"

	"godwit/devices"
)

func init() { devices.Register("opencl", driver{}) }

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

// Pairs lists what joins devices: there are none.
func Pairs(context.Context) ([]Pair, error) {
	_, err := Discover()
	return nil, err
}

// LinkDriver always fails with ErrMissing.
func LinkDriver() (platform int, version string, err error) {
	_, err = Discover()
	return 0, "", err
}

// Objects returns how many cl objects this process has created and released: none.
func Objects() (created, released Counts) { return }
