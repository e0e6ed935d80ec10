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

// absent are parameters of what there is not, by the size of their zero.
var absent = map[uint32]int{
	C.CL_DEVICE_MAX_READ_IMAGE_ARGS: 4, C.CL_DEVICE_MAX_WRITE_IMAGE_ARGS: 4, C.CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS: 4,
	C.CL_DEVICE_IMAGE2D_MAX_WIDTH: 8, C.CL_DEVICE_IMAGE2D_MAX_HEIGHT: 8, C.CL_DEVICE_IMAGE3D_MAX_WIDTH: 8,
	C.CL_DEVICE_IMAGE3D_MAX_HEIGHT: 8, C.CL_DEVICE_IMAGE3D_MAX_DEPTH: 8, C.CL_DEVICE_IMAGE_SUPPORT: 4, C.CL_DEVICE_MAX_SAMPLERS: 4,
	C.CL_DEVICE_IMAGE_MAX_BUFFER_SIZE: 8, C.CL_DEVICE_IMAGE_MAX_ARRAY_SIZE: 8, C.CL_DEVICE_IMAGE_PITCH_ALIGNMENT: 4,
	C.CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT: 4, C.CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES: 8,
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
	"cl_khr_kernel_clock", "cl_khr_il_program", "cl_khr_spirv_*", "cl_khr_device_uuid", "cl_khr_pci_bus_info",
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
var absentFeatures = []string{"image", "pipe", "device_enqueue"}

const globalVariables = "program_scope_global_variables"

// hasGlobals reports whether programs may have variables at program scope: of a real device that
// is one device here. Several that are one real device would share them.
func (d *device) hasGlobals() bool {
	return d.parent == nil && !slices.ContainsFunc(d.p.devices, func(o *device) bool { return o != d && o.sharesReal(d) })
}

// prelude comes before programs of OpenCL C: kernels see no feature for what there is not. The
// compiler below defines what its own device has, and some refuse -U. Lines keep their numbers.
const prelude = `#undef __IMAGE_SUPPORT__
#undef __opencl_c_images
#undef __opencl_c_3d_image_writes
#undef __opencl_c_read_write_images
#undef __opencl_c_pipes
#undef __opencl_c_device_enqueue
#undef cl_khr_3d_image_writes
#line 1
`

//export gwGetDeviceInfo
func gwGetDeviceInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	d := devs.get(h)
	if d == nil {
		return clInvalidDevice
	}
	if what == C.CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES && room == 4 && value != nil {
		return answer(uint32(0), room, value, sizeRet) // as PoCL, whose programs ask for a word
	}
	if n, ok := absent[what]; ok {
		return answerBytes(make([]byte, n), room, value, sizeRet)
	}
	if st, ok := d.answerOwn(what, room, value, sizeRet); ok {
		return st
	}
	if st, ok := d.answerPartition(what, room, value, sizeRet); ok {
		return st
	}
	if b := d.found.Query(what); b != nil {
		return answerBytes(b, room, value, sizeRet)
	}
	if b, ok := unanswered[what]; ok {
		return answerBytes(b, room, value, sizeRet)
	}
	return clInvalidValue
}

// answerOwn answers what Godwit decides, and says whether it did.
func (d *device) answerOwn(what uint32, room uint64, value, sizeRet unsafe.Pointer) (st int32, ok bool) {
	switch what {
	case C.CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES:
		return answer(uint64(0), room, value, sizeRet), true
	case C.CL_DEVICE_TYPE:
		return answer(d.typ, room, value, sizeRet), true
	case C.CL_DEVICE_PLATFORM:
		return answer(d.p.self, room, value, sizeRet), true
	case C.CL_DEVICE_NAME:
		return answerText(d.found.Info.Name+" ("+d.name+")", room, value, sizeRet), true
	case C.CL_DEVICE_PROFILE:
		return answerText("FULL_PROFILE", room, value, sizeRet), true
	case C.CL_DEVICE_VERSION:
		return answerText(d.version(), room, value, sizeRet), true
	case C.CL_DEVICE_NUMERIC_VERSION:
		return answer(d.numericVersion(), room, value, sizeRet), true
	case C.CL_DEVICE_EXTENSIONS:
		return answerText(strings.Join(d.extensions(), " "), room, value, sizeRet), true
	case C.CL_DEVICE_EXTENSIONS_WITH_VERSION:
		return answerBytes(nameVersions(d.extensions()), room, value, sizeRet), true
	case C.CL_DEVICE_OPENCL_C_FEATURES:
		return answerBytes(d.features(), room, value, sizeRet), true
	case C.CL_DEVICE_OPENCL_C_ALL_VERSIONS:
		return answerBytes(d.languages(), room, value, sizeRet), true
	case C.CL_DEVICE_GLOBAL_MEM_SIZE:
		return answer(d.globalMemory(), room, value, sizeRet), true
	case C.CL_DEVICE_MAX_MEM_ALLOC_SIZE:
		return answer(d.maxAlloc(), room, value, sizeRet), true
	case C.CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE:
		n := uint64(64 << 10)
		if b := d.found.Query(what); len(b) == 8 {
			n = binary.NativeEndian.Uint64(b)
		}
		return answer(min(n, d.maxAlloc()), room, value, sizeRet), true
	case C.CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE, C.CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE:
		if !d.hasGlobals() {
			return answer(uint64(0), room, value, sizeRet), true
		}
	case C.CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED:
		return answerText(conformance, room, value, sizeRet), true
	case C.CL_DEVICE_EXECUTION_CAPABILITIES:
		can := uint64(C.CL_EXEC_KERNEL)
		if d.native() {
			can |= C.CL_EXEC_NATIVE_KERNEL
		}
		return answer(can, room, value, sizeRet), true
	case C.CL_DEVICE_QUEUE_ON_HOST_PROPERTIES:
		return answer(uint64(C.CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE|C.CL_QUEUE_PROFILING_ENABLE), room, value, sizeRet), true
	case C.CL_DEVICE_PREFERRED_INTEROP_USER_SYNC:
		return answerBool(true, room, value, sizeRet), true
	case C.CL_DEVICE_SVM_CAPABILITIES:
		return answer(d.svm(), room, value, sizeRet), true
	}
	return 0, false
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
	text := []byte("OpenCL x.y godwit " + Version)
	text[7], text[9] = byte('0'+v>>22), byte('0'+v>>12&0x3ff)
	return string(text) + ", " + strings.TrimPrefix(d.realVersion(), "OpenCL ")
}

func (d *device) extensions() (list []string) {
	for _, e := range d.found.Info.Extensions {
		if ofLanguage(e) {
			list = append(list, e)
		}
	}
	return append(list, contentSize)
}

// features are the real device's features of OpenCL C without those for what
// there is not.
func (d *device) features() (list []byte) {
	b := d.found.Query(C.CL_DEVICE_OPENCL_C_FEATURES)
	const n = C.sizeof_cl_name_version
	for ; len(b) >= n; b = b[n:] {
		name := string(b[4:n])
		gone := slices.ContainsFunc(absentFeatures, func(f string) bool { return strings.Contains(name, f) })
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
