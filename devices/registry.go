package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"godwit/internal/suggest"
	"godwit/mem"
)

// Config asks a driver for devices.
type Config struct {
	Name   string            // of the device; the driver makes one up where empty
	Memory uint64            // bytes of global memory; 0 is the driver's default
	Local  uint64            // bytes of local memory; 0 is the driver's default
	Params map[string]string // what else the driver understands; unknown keys are errors
}

// Driver opens devices of one kind.
type Driver interface {
	// Open opens the devices that cfg describes: one for simulated drivers,
	// one or more for real ones.
	Open(ctx context.Context, cfg Config) ([]Device, error)
}

// registry is mutable package state: drivers enter it from their init functions, as with
// database/sql.
var registry = struct {
	sync.RWMutex
	m map[string]Driver // protected by the mutex
}{m: make(map[string]Driver)}

// Register makes a driver known by name. It panics where the name is taken:
// two drivers of one name is a bug in the program.
func Register(name string, d Driver) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.m[name]; taken {
		panic("devices: driver " + name + " registered twice")
	}
	registry.m[name] = d
}

// Drivers lists the names of the registered drivers, sorted.
func Drivers() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.m))
}

// One is what a Driver's Open returns for one device: the device, or the error alone. A
// failed New gives a nil of its own type, which as a Device would not be nil.
func One[D Device](d D, err error) ([]Device, error) {
	if err != nil {
		return nil, err
	}
	return []Device{d}, nil
}

// Open opens devices through the named driver. It fails with
// mem.ErrDeviceNotFound, naming the drivers there are, where none has the name.
func Open(ctx context.Context, driver string, cfg Config) ([]Device, error) {
	registry.RLock()
	d, ok := registry.m[driver]
	registry.RUnlock()
	if !ok {
		return nil, noDriver(driver, Drivers())
	}
	return d.Open(ctx, cfg)
}

func noDriver(name string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("driver %q: the program imports none: import _ \"godwit/devices/cpu\", or another: %w", name, mem.ErrDeviceNotFound)
	}
	near := suggest.For(name, known)
	if near == "" {
		near = "; others are there when the program imports them"
	}
	return fmt.Errorf("driver %q: there are %s%s: %w", name, strings.Join(known, ", "), near, mem.ErrDeviceNotFound)
}
