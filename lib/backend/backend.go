package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"godwit/devices"
	_ "godwit/devices/cpu" // the driver of the cpu backend
	"godwit/devices/opencl"
	"godwit/mem"
)

// Backend is a way to get devices. A Handle's Backend is the name of the one it
// came from.
type Backend interface {
	// Name is "cl" or "cpu", or a simulated driver's name.
	Name() string
	// Candidates lists the devices there are, without opening any. It fails
	// with mem.ErrDeviceNotFound where there can be none; the message says why.
	Candidates(ctx context.Context) ([]Candidate, error)
	// Open opens a candidate. The device is the caller's to close.
	Open(ctx context.Context, c Candidate) (devices.Device, error)
	// OneStorage reports that the devices use the host's memory in place.
	OneStorage() bool
}

// Candidate is a device that could be opened.
type Candidate struct {
	Name string // for Manager.Default: "cl:0", "cpu"
	Info devices.Info

	index int // of the device within its platform
}

// CL is the backend of real OpenCL devices.
func CL() Backend { return clBackend{} }

type clBackend struct{}

func (clBackend) Name() string     { return "cl" }
func (clBackend) OneStorage() bool { return false }

func (clBackend) Candidates(context.Context) ([]Candidate, error) {
	infos, err := opencl.Discover()
	if err != nil {
		return nil, err
	}
	perPlatform := make(map[string]int)
	found := make([]Candidate, len(infos))
	for i, info := range infos {
		found[i] = Candidate{Name: "cl:" + strconv.Itoa(i), Info: info, index: perPlatform[info.Platform]}
		perPlatform[info.Platform]++
	}
	return found, nil
}

func (clBackend) Open(ctx context.Context, c Candidate) (devices.Device, error) {
	return openOne(ctx, "opencl", devices.Config{Params: map[string]string{
		"platform": c.Info.Platform, "device": strconv.Itoa(c.index), "count": "1",
	}})
}

// CPU is the backend of the host's processors: kernels are Go functions and
// buffers are the host's memory in place, so that nothing is copied.
func CPU() Backend { return driverBackend{"cpu", true} }

// Simulated is the backend of a registered driver whose devices are made as they
// are opened, such as "tce".
func Simulated(driver string) Backend { return driverBackend{driver, false} }

type driverBackend struct {
	driver string
	shared bool
}

func (b driverBackend) Name() string     { return b.driver }
func (b driverBackend) OneStorage() bool { return b.shared }

func (b driverBackend) Candidates(context.Context) ([]Candidate, error) {
	if !slices.Contains(devices.Drivers(), b.driver) {
		return nil, fmt.Errorf("driver %q is not registered; there are %v: %w", b.driver, devices.Drivers(), mem.ErrDeviceNotFound)
	}
	return []Candidate{{Name: b.driver, Info: devices.Info{Driver: b.driver, Name: b.driver}}}, nil
}

func (b driverBackend) Open(ctx context.Context, _ Candidate) (devices.Device, error) {
	cfg := devices.Config{}
	if b.driver == "cpu" {
		cfg.Params = map[string]string{"shares-host": "true"}
	}
	return openOne(ctx, b.driver, cfg)
}

// openOne opens the one device that cfg describes.
func openOne(ctx context.Context, driver string, cfg devices.Config) (devices.Device, error) {
	open, err := devices.Open(ctx, driver, cfg)
	if err != nil {
		return nil, err
	}
	if len(open) == 1 {
		return open[0], nil
	}
	err = fmt.Errorf("driver %s opened %d devices for one: %w", driver, len(open), mem.ErrInvalidDevice)
	for _, d := range open {
		err = errors.Join(err, d.Close())
	}
	return nil, err
}

// typeName is a device's type as Handle.DeviceType has it.
func typeName(t devices.Type) string {
	switch t {
	case devices.GPU, devices.CPU:
		return string(t)
	case devices.Accelerator:
		return "accel"
	}
	return "other"
}

// matches reports whether a cl device is meant by a name that is no keyword.
func matches(info *devices.Info, name string) bool {
	return strings.Contains(strings.ToLower(info.Name), name) || strings.Contains(strings.ToLower(info.Platform), name)
}
