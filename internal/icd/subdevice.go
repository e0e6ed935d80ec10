//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"slices"
	"strconv"
	"unsafe"
)

// Sub-devices. Each is a memory of its own, as every device here is: one more
// opening of the real device. So a program that splits a processor by affinity
// sees its buffers migrate between the parts. The compute units are counted as
// the program divided them, but not held to: each part may use all of the real
// device's.

const (
	clInvalidDevicePartitionCount int32 = -68

	// domains is into how many parts an affinity domain splits a device.
	domains = 2
)

// partition reads partition properties: the compute units of each part, and the
// properties as given with their first zero.
func (d *device) partition(list unsafe.Pointer) (units []uint32, given []uintptr, st int32) {
	next := func() uintptr {
		v := *(*uintptr)(unsafe.Add(list, 8*len(given)))
		given = append(given, v)
		return v
	}
	all := d.computeUnits()
	switch next() {
	case C.CL_DEVICE_PARTITION_EQUALLY:
		n := uint32(next())
		if n == 0 || next() != 0 {
			return nil, nil, clInvalidValue
		}
		for range all / n {
			units = append(units, n)
		}
	case C.CL_DEVICE_PARTITION_BY_COUNTS:
		var sum uint64
		for n := next(); n != C.CL_DEVICE_PARTITION_BY_COUNTS_LIST_END; n = next() {
			if sum += uint64(n); sum > uint64(all) {
				return nil, nil, clInvalidDevicePartitionCount
			}
			units = append(units, uint32(n))
		}
	case C.CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN:
		if domain := next(); domain != C.CL_DEVICE_AFFINITY_DOMAIN_NUMA && domain != C.CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE || next() != 0 {
			return nil, nil, clInvalidValue
		}
		if all >= domains {
			units = slices.Repeat([]uint32{all / domains}, domains)
		}
	default:
		return nil, nil, clInvalidValue
	}
	if len(units) == 0 {
		return nil, nil, clDevicePartitionFailed
	}
	return units, given, clSuccess
}

//export gwCreateSubDevices
func gwCreateSubDevices(h uintptr, properties unsafe.Pointer, n uint32, list, num unsafe.Pointer) int32 {
	d := devs.get(h)
	switch {
	case d == nil:
		return clInvalidDevice
	case properties == nil || list == nil && num == nil:
		return clInvalidValue
	}
	units, given, st := d.partition(properties)
	if st != clSuccess {
		return st
	}
	if list != nil {
		if int(n) < len(units) {
			return clInvalidValue
		}
		out := unsafe.Slice((*uintptr)(list), len(units))
		for i, u := range units {
			if out[i], st = d.sub(u, given); st != clSuccess {
				for _, made := range out[:i] {
					release(made)
				}
				return st
			}
		}
	}
	if num != nil {
		*(*uint32)(num) = uint32(len(units))
	}
	return clSuccess
}

// sub makes a sub-device.
func (d *device) sub(units uint32, given []uintptr) (uintptr, int32) {
	s := &device{p: d.p, index: d.index, found: d.found, typ: d.typ, memory: d.memory, parent: d, units: units, partitioned: given}
	s.name = d.name + "." + strconv.FormatInt(d.subs.Add(1)-1, 10)
	retain(d.self)
	return devs.add(s, &s.self, 1)
}

// isPartOf reports whether d is a device, or a part of it at whatever remove.
func (d *device) isPartOf(whole *device) bool {
	for ; d != nil; d = d.parent {
		if d == whole {
			return true
		}
	}
	return false
}

// partitions are the ways in which the device can be split.
func (d *device) partitions() []uintptr {
	if d.computeUnits() < 2 {
		return []uintptr{0}
	}
	return []uintptr{C.CL_DEVICE_PARTITION_EQUALLY, C.CL_DEVICE_PARTITION_BY_COUNTS, C.CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN}
}

// computeUnits are the device's, as it says.
func (d *device) computeUnits() uint32 {
	if d.units != 0 {
		return d.units
	}
	return uint32(d.found.Info.ComputeUnits)
}
