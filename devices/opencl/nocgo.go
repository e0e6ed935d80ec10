//go:build !cgo

package opencl

import (
	"context"
	"fmt"

	"godwit/devices"
	"godwit/devices/nvlink"
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

// Pair says how bytes get from one device to another of its platform.
type Pair struct {
	From, To int
	Way      string
	Missing  error
}

// Pairs lists what joins devices: there are none.
func Pairs(context.Context) ([]Pair, error) {
	_, err := Discover()
	return nil, err
}

// Trial tries a driver: there is none.
type Trial struct {
	Most uint64
	Say  func(string)
}

// Run always fails with ErrMissing.
func (*Trial) Run(context.Context) (d nvlink.Driver, err error) {
	_, err = Discover()
	return d, err
}

// LinkDriver always fails with ErrMissing.
func LinkDriver() (string, error) {
	_, err := Discover()
	return "", err
}

// Counts are objects of each kind, by OpenCL's names.
type Counts struct {
	Contexts, Queues, Buffers, Programs, Kernels, Events int64
}

// Objects returns how many cl objects this process has created and released: none.
func Objects() (created, released Counts) { return }
