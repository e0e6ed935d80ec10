//go:build cgo

package opencl

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// OpenCL's names for what this package asks devices, where go-opencl's getters
// panic or cut short.
const (
	infoType         = 0x1000
	infoUnits        = 0x1002
	infoMaxGroup     = 0x1004
	infoMaxItems     = 0x1005
	infoMaxAlloc     = 0x1010
	infoImages       = 0x1016
	infoBaseAlign    = 0x1019 // bits
	infoGlobalMemory = 0x101F
	infoLocalMemory  = 0x1023
	infoQueue        = 0x102A
	infoName         = 0x102B
	infoVendor       = 0x102C
	infoDriver       = 0x102D
	infoVersion      = 0x102F
	infoExtensions   = 0x1030
	infoFP64         = 0x1032
	infoUnified      = 0x1035
	infoSVM          = 0x1053
	infoPCI          = 0x410F // cl_khr_pci_bus_info
	infoBusNV        = 0x4008 // cl_nv_device_attribute_query, of older drivers
	infoSlotNV       = 0x4009
	infoDomainNV     = 0x400A
)

// OpenCL's bits of a device's type.
const (
	typeCPU         = 1 << 1
	typeGPU         = 1 << 2
	typeAccelerator = 1 << 3
)

// Selection chooses among the devices there are. Zero values choose all.
type Selection struct {
	Platform string       // an index, or a part of the name in any case
	Device   string       // an index within the platform, or a part of the name in any case
	Type     devices.Type // cpu, gpu, accelerator
	Count    int          // at most so many
}

// Found is a device that discovery saw.
type Found struct {
	Info     devices.Info
	Platform int // its platform's index
	Index    int // its own, within the platform

	device ocl.Device
	all    []ocl.Device // its platform's
}

// Select lists the OpenCL devices that s chooses, in the order of platforms and
// devices. It fails with ErrMissing where there is no OpenCL loader or no
// platform, and with mem.ErrDeviceNotFound, listing what there is, where
// nothing was chosen.
func Select(s Selection) ([]Found, error) {
	all, err := discover()
	if err != nil {
		return nil, err
	}
	var chosen []Found
	for _, f := range all {
		if s.chooses(f) && (s.Count == 0 || len(chosen) < s.Count) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 || len(chosen) < s.Count {
		return nil, fmt.Errorf("%s: %d found; there are: %s: %w", s, len(chosen), list(all), mem.ErrDeviceNotFound)
	}
	return chosen, nil
}

// Discover lists all OpenCL devices. It fails with ErrMissing where there is no
// OpenCL loader or no platform.
func Discover() ([]devices.Info, error) {
	all, err := discover()
	var infos []devices.Info
	for _, f := range all {
		infos = append(infos, f.Info)
	}
	return infos, err
}

func (s Selection) chooses(f Found) bool {
	return named(s.Platform, f.Platform, f.Info.Platform) && named(s.Device, f.Index, f.Info.Name) &&
		(s.Type == "" || s.Type == f.Info.Type)
}

// named reports whether want is index i or, where it is no number, a part of
// name.
func named(want string, i int, name string) bool {
	if n, err := strconv.Atoi(want); err == nil {
		return n == i
	}
	return strings.Contains(strings.ToLower(name), strings.ToLower(want))
}

// String says what is looked for.
func (s Selection) String() string {
	var parts []string
	for _, p := range []struct{ what, value string }{{"platform", s.Platform}, {"device", s.Device}, {"type", string(s.Type)}} {
		if p.value != "" {
			parts = append(parts, fmt.Sprintf("%s %q", p.what, p.value))
		}
	}
	if s.Count > 0 {
		parts = append(parts, fmt.Sprintf("count %d", s.Count))
	}
	if parts == nil {
		return "any OpenCL device"
	}
	return "OpenCL device with " + strings.Join(parts, ", ")
}

func list(all []Found) string {
	var names []string
	for _, f := range all {
		names = append(names, fmt.Sprintf("%d.%d %s (%s, %s)", f.Platform, f.Index, f.Info.Name, f.Info.Type, f.Info.Platform))
	}
	return strings.Join(names, "; ")
}

// discover asks every platform for its devices.
func discover() ([]Found, error) {
	if why := ocl.Missing(); why != "" {
		return nil, fmt.Errorf("%s (Debian: apt install ocl-icd-libopencl1%s): %w", why, driverPackage, ErrMissing)
	}
	platforms, err := ocl.Platforms()
	if err != nil || len(platforms) == 0 {
		return nil, fmt.Errorf("the OpenCL loader knows no platform (Debian: apt install ocl-icd-libopencl1%s): %w", driverPackage, ErrMissing)
	}
	var all []Found
	for p, platform := range platforms {
		for i, d := range platform.Devices {
			all = append(all, Found{describe(platform.Name, d.ID), p, i, d, platform.Devices})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the OpenCL platforms here have no devices: %w", ErrMissing)
	}
	return all, nil
}

// describe fills a device's Info.
func describe(platform string, h ocl.DeviceID) devices.Info {
	in := devices.Info{
		Driver: "opencl", Platform: platform, Name: h.Text(infoName), Vendor: h.Text(infoVendor),
		Version:      h.Text(infoVersion) + ", driver " + h.Text(infoDriver),
		Type:         typeOf(h.Uint(infoType)),
		ComputeUnits: int(h.Uint(infoUnits)),
		GlobalMemory: h.Uint(infoGlobalMemory),
		LocalMemory:  h.Uint(infoLocalMemory),
		MaxAlloc:     h.Uint(infoMaxAlloc),
		BaseAlign:    max(h.Uint(infoBaseAlign)/8, 1),
		MaxWorkGroup: h.Uint(infoMaxGroup),
		SharesHost:   h.Uint(infoUnified) != 0,
		FP64:         h.Uint(infoFP64) != 0,
		Extensions:   strings.Fields(h.Text(infoExtensions)),
	}
	for i, items := 0, h.Info(infoMaxItems); i < 3 && 8*i+8 <= len(items); i++ {
		in.MaxWorkItems[i] = binary.NativeEndian.Uint64(items[8*i:])
	}
	if quirksOf(platform).groups32 {
		in.MaxGroups = math.MaxUint32
	}
	in.FP16 = slices.Contains(in.Extensions, "cl_khr_fp16")
	in.SVM = svmCaps(in.Type, h.Uint(infoSVM))
	if in.Type == devices.CPU {
		in.SharesHost = true // the query is deprecated, and unanswered by some
	}
	return in
}

func typeOf(bits uint64) devices.Type {
	switch {
	case bits&typeGPU != 0:
		return devices.GPU
	case bits&typeCPU != 0:
		return devices.CPU
	case bits&typeAccelerator != 0:
		return devices.Accelerator
	}
	return devices.Custom
}
