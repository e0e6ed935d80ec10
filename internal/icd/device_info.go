//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"
)

// What devices answer of themselves. Most of it is the real device's answer. What
// Godwit decides by itself is here: memory, what there is not (images, pipes,
// device queues), and identity.

// ofImages are parameters of images, by the size of their zero, where there are none.
var ofImages = map[uint32]int{
	C.CL_DEVICE_MAX_READ_IMAGE_ARGS: 4, C.CL_DEVICE_MAX_WRITE_IMAGE_ARGS: 4, C.CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS: 4,
	C.CL_DEVICE_IMAGE2D_MAX_WIDTH: 8, C.CL_DEVICE_IMAGE2D_MAX_HEIGHT: 8, C.CL_DEVICE_IMAGE3D_MAX_WIDTH: 8,
	C.CL_DEVICE_IMAGE3D_MAX_HEIGHT: 8, C.CL_DEVICE_IMAGE3D_MAX_DEPTH: 8, C.CL_DEVICE_IMAGE_SUPPORT: 4, C.CL_DEVICE_MAX_SAMPLERS: 4,
	C.CL_DEVICE_IMAGE_MAX_BUFFER_SIZE: 8, C.CL_DEVICE_IMAGE_MAX_ARRAY_SIZE: 8, C.CL_DEVICE_IMAGE_PITCH_ALIGNMENT: 4,
	C.CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT: 4,
}

// absent are parameters of what there is not, by the size of their zero.
var absent = map[uint32]int{
	C.CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES:     8,
	C.CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE: 4, C.CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE: 4, C.CL_DEVICE_MAX_ON_DEVICE_QUEUES: 4,
	C.CL_DEVICE_MAX_ON_DEVICE_EVENTS: 4, C.CL_DEVICE_MAX_PIPE_ARGS: 4, C.CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS: 4,
	C.CL_DEVICE_PIPE_MAX_PACKET_SIZE: 4, C.CL_DEVICE_PIPE_SUPPORT: 4, C.CL_DEVICE_MAX_NUM_SUB_GROUPS: 4,
	C.CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS: 4, C.CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT: 4,
	C.CL_DEVICE_BUILT_IN_KERNELS: 1, C.CL_DEVICE_IL_VERSION: 1,
	C.CL_DEVICE_HOST_UNIFIED_MEMORY:           4,
	C.CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION: 0, C.CL_DEVICE_ILS_WITH_VERSION: 0,
}

// unanswered are answers for parameters that an older real device does not know.
var unanswered = map[uint32][]byte{
	C.CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT: make([]byte, 4), C.CL_DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT: make([]byte, 4),
	C.CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT: make([]byte, 4), C.CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES: word64(1 | 1<<4),
	C.CL_DEVICE_ATOMIC_FENCE_CAPABILITIES: word64(1 | 1<<1 | 1<<4), C.CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT: make([]byte, 4),
	C.CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT: make([]byte, 4), C.CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: word64(1),
	C.CL_DEVICE_OPENCL_C_FEATURES: {}, C.CL_DEVICE_HALF_FP_CONFIG: make([]byte, 8), C.CL_DEVICE_DOUBLE_FP_CONFIG: make([]byte, 8),
	C.CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE: make([]byte, 8), C.CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE: make([]byte, 8),
	C.CL_DEVICE_MAX_NUM_SUB_GROUPS: make([]byte, 4), C.CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS: make([]byte, 4),
	C.CL_DEVICE_IL_VERSION: {0}, C.CL_DEVICE_ILS_WITH_VERSION: {},
	C.CL_DEVICE_LINKER_AVAILABLE: {1, 0, 0, 0}, C.CL_DEVICE_PRINTF_BUFFER_SIZE: word64(1 << 20),
}

func word64(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// languageExtensions are those that are a matter of OpenCL C, its binaries and its intermediate
// language alone, so that a real device's claim is true of ours. A name that ends in * is all that
// begin so. What adds functions of the runtime's is not listed unless it is done here.
var languageExtensions = []string{
	"cl_khr_byte_addressable_store", "cl_khr_fp64", "cl_khr_fp16", "cl_khr_select_fprounding_mode",
	"cl_khr_global_int32_base_atomics", "cl_khr_global_int32_extended_atomics",
	"cl_khr_local_int32_base_atomics", "cl_khr_local_int32_extended_atomics",
	"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics", "cl_ext_float_atomics",
	"cl_khr_subgroup*", "cl_khr_work_group_uniform_arithmetic", "cl_khr_integer_dot_product",
	"cl_khr_extended_bit_ops", "cl_khr_expect_assume", "cl_khr_extended_async_copies", "cl_khr_async_work_group_copy_fence",
	"cl_khr_kernel_clock", "cl_khr_3d_image_writes", "cl_khr_il_program", "cl_khr_spirv_*", "cl_khr_device_uuid", "cl_khr_pci_bus_info",
	"cl_ext_cxx_for_opencl", "cl_intel_subgroups*", "cl_intel_required_subgroup_size", "cl_intel_subgroup_*",
	"cl_arm_integer_dot_product*", "cl_amd_fp64", "cl_amd_media_ops*", "cl_amd_device_attribute_query",
	"cl_nv_pragma_unroll", "cl_nv_compiler_options", "cl_nv_kernel_attribute", "cl_nv_device_attribute_query",
}

// ofLanguage reports whether an extension is one of languageExtensions.
func ofLanguage(name string) bool {
	return slices.ContainsFunc(languageExtensions, func(e string) bool {
		begin, all := strings.CutSuffix(e, "*")
		return e == name || all && strings.HasPrefix(name, begin)
	})
}

// conformance is the version of the conformance suite that was passed, in the form that OpenCL
// has for it: none.
const conformance = "v0000-01-01-00"

// absentFeatures are features of OpenCL C for what there is not.
func (d *device) absentFeatures() []string {
	if d.images() {
		return []string{"pipe", "device_enqueue"}
	}
	return []string{"image", "pipe", "device_enqueue"}
}

const globalVariables = "program_scope_global_variables"

// hasGlobals reports whether programs may have variables at program scope: of a real device that
// is one device here. Several that are one real device would share them.
func (d *device) hasGlobals() bool {
	return d.parent == nil && !slices.ContainsFunc(d.p.devices, func(o *device) bool { return o != d && o.sharesReal(d) })
}

// prelude comes before programs of OpenCL C: kernels see no feature for what there is not. The
// compiler below defines what its own device has, and some refuse -U. Lines keep their numbers.
func (c *clContext) prelude() string {
	const no, images = "#undef __opencl_c_pipes\n#undef __opencl_c_device_enqueue\n", "#undef __IMAGE_SUPPORT__\n#undef __opencl_c_images\n" +
		"#undef __opencl_c_3d_image_writes\n#undef __opencl_c_read_write_images\n#undef cl_khr_3d_image_writes\n"
	if c.images() {
		return no + "#line 1\n"
	}
	return no + images + "#line 1\n"
}

//export gwGetDeviceInfo
func gwGetDeviceInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	d := devs.get(h)
	if d == nil {
		return clInvalidDevice
	}
	if what == C.CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES && room == 4 && value != nil {
		return reply(uint32(0), room, value, sizeRet) // as PoCL, whose programs ask for a word
	}
	return reply(d.info(what), room, value, sizeRet)
}

// info is what Godwit decides, or else what the real device answers.
func (d *device) info(what uint32) any {
	if n, ok := absent[what]; ok {
		return make([]byte, n)
	}
	if n, ok := ofImages[what]; ok && !d.images() {
		return make([]byte, n)
	}
	if fact := deviceFacts[what]; fact != nil {
		if v := fact(d); v != nil {
			return v
		}
	}
	if v := d.bufferFact(what); v != nil || isBufferParameter(what) {
		return v
	}
	if b := d.found.Query(what); b != nil {
		return b
	}
	if b, ok := unanswered[what]; ok {
		return b
	}
	return nil
}

// deviceFacts are what Godwit decides by itself.
var deviceFacts = facts[device]{
	C.CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES: func(*device) any { return uint64(0) },
	C.CL_DEVICE_TYPE:                        func(d *device) any { return d.typ },
	C.CL_DEVICE_PLATFORM:                    func(d *device) any { return d.p.self },
	C.CL_DEVICE_NAME:                        func(d *device) any { return d.found.Info.Name + " (" + d.name + ")" },
	C.CL_DEVICE_PROFILE:                     func(*device) any { return fullProfile },
	C.CL_DEVICE_VERSION:                     func(d *device) any { return d.version() },
	C.CL_DEVICE_NUMERIC_VERSION:             func(d *device) any { return d.numericVersion() },
	C.CL_DEVICE_EXTENSIONS:                  func(d *device) any { return strings.Join(d.extensions(), " ") },
	C.CL_DEVICE_EXTENSIONS_WITH_VERSION: func(d *device) any {
		_, versions := d.p.config.extensions()
		return nameVersions(d.extensions(), versions)
	},
	C.CL_DEVICE_OPENCL_C_FEATURES:     func(d *device) any { return d.features() },
	C.CL_DEVICE_OPENCL_C_ALL_VERSIONS: func(d *device) any { return d.languages() },
	C.CL_DEVICE_GLOBAL_MEM_SIZE:       func(d *device) any { return d.globalMemory() },
	C.CL_DEVICE_MAX_MEM_ALLOC_SIZE:    func(d *device) any { return d.maxAlloc() },
	C.CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE: func(d *device) any {
		n := uint64(64 << 10)
		if b := d.found.Query(C.CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE); len(b) == 8 {
			n = binary.NativeEndian.Uint64(b)
		}
		return min(n, d.maxAlloc())
	},
	C.CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE:             (*device).noGlobals,
	C.CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE: (*device).noGlobals,
	C.CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED:    func(*device) any { return conformance },
	C.CL_DEVICE_EXECUTION_CAPABILITIES: func(d *device) any {
		can := uint64(C.CL_EXEC_KERNEL)
		if d.native() {
			can |= C.CL_EXEC_NATIVE_KERNEL
		}
		return can
	},
	C.CL_DEVICE_QUEUE_ON_HOST_PROPERTIES:    func(*device) any { return uint64(queueFlags) },
	C.CL_DEVICE_PREFERRED_INTEROP_USER_SYNC: func(*device) any { return true },
	C.CL_DEVICE_SVM_CAPABILITIES:            func(d *device) any { return d.svm() },

	C.CL_DEVICE_MAX_COMPUTE_UNITS: func(d *device) any { return d.computeUnits() },
	C.CL_DEVICE_PARENT_DEVICE: func(d *device) any {
		if d.parent == nil {
			return uintptr(0)
		}
		return d.parent.self
	},
	C.CL_DEVICE_PARTITION_MAX_SUB_DEVICES: func(d *device) any { return d.computeUnits() },
	C.CL_DEVICE_PARTITION_PROPERTIES:      func(d *device) any { return d.partitions() },
	C.CL_DEVICE_PARTITION_TYPE: func(d *device) any {
		if d.parent == nil {
			return []uintptr{0}
		}
		return d.partitioned
	},
	C.CL_DEVICE_PARTITION_AFFINITY_DOMAIN: func(d *device) any {
		if d.computeUnits() < domains {
			return uint64(0)
		}
		return uint64(C.CL_DEVICE_AFFINITY_DOMAIN_NUMA | C.CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE)
	},
	C.CL_DEVICE_REFERENCE_COUNT: func(d *device) any {
		if d.parent == nil {
			return uint32(1)
		}
		return refs(d.self)
	},
}

// noGlobals is the size of variables at program scope where there are none; nil is for the real
// device to answer.
func (d *device) noGlobals() any {
	if d.hasGlobals() {
		return nil
	}
	return uint64(0)
}

// globalMemory is the device's memory in bytes.
func (d *device) globalMemory() uint64 {
	if d.memory != 0 {
		return min(d.memory, d.found.Info.GlobalMemory)
	}
	return d.found.Info.GlobalMemory
}

// maxAlloc is the largest buffer in bytes.
func (d *device) maxAlloc() uint64 { return min(d.found.Info.MaxAlloc, d.globalMemory()) }

// numericVersion is the real device's OpenCL version.
func (d *device) numericVersion() uint32 {
	text := strings.TrimPrefix(d.realVersion(), "OpenCL ")
	if len(text) >= 3 && text[1] == '.' {
		return versionNumber(uint32(text[0]-'0'), uint32(text[2]-'0'))
	}
	return versionNumber(1, 2)
}

func (d *device) realVersion() string {
	return strings.TrimRight(string(d.found.Query(C.CL_DEVICE_VERSION)), "\x00")
}

// version is as OpenCL wants it: "OpenCL 3.0 " and more.
func (d *device) version() string {
	v := d.numericVersion()
	text := []byte("OpenCL x.y godwit " + godwitVersion)
	text[7], text[9] = byte('0'+v>>22), byte('0'+v>>12&0x3ff)
	return string(text) + ", " + strings.TrimPrefix(d.realVersion(), "OpenCL ")
}

func (d *device) extensions() (list []string) {
	for _, e := range d.found.Info.Extensions {
		if ofLanguage(e) && (d.images() || !strings.Contains(e, "image")) {
			list = append(list, e)
		}
	}
	names, _ := d.p.config.extensions()
	return append(list, names...)
}

// features are the real device's features of OpenCL C without those for what
// there is not.
func (d *device) features() (list []byte) {
	b := d.found.Query(C.CL_DEVICE_OPENCL_C_FEATURES)
	const n = C.sizeof_cl_name_version
	for ; len(b) >= n; b = b[n:] {
		name := string(b[4:n])
		gone := slices.ContainsFunc(d.absentFeatures(), func(f string) bool { return strings.Contains(name, f) })
		if !gone && (d.hasGlobals() || !strings.Contains(name, globalVariables)) {
			list = append(list, b[:n]...)
		}
	}
	return list
}

// languages are the versions of OpenCL C; an older device names one only.
func (d *device) languages() []byte {
	if b := d.found.Query(C.CL_DEVICE_OPENCL_C_ALL_VERSIONS); b != nil {
		return b
	}
	var list []byte
	for minor := range uint32(3) {
		list = append(list, nameVersion("OpenCL C", versionNumber(1, minor))...)
	}
	return list
}

// svm is what shared virtual memory there is: coarse-grained buffers, where the
// real device has them.
func (d *device) svm() uint64 {
	if d.found.Info.SVM.Coarse {
		return C.CL_DEVICE_SVM_COARSE_GRAIN_BUFFER
	}
	return 0
}
