/* cl_khr_command_buffer 0.9.8, _mutable_dispatch 0.9.5 and _multi_device 0.9.2, as
 * far as the test programs use them: installed headers may be older. Each function
 * is a variable of its name, which find_command_buffers sets. With
 * COMMAND_BUFFER_0_9_0 it is what that version has. */
#ifndef COMMAND_BUFFER_H
#define COMMAND_BUFFER_H
#include "common.h"

typedef struct _cl_command_buffer_khr *cl_command_buffer_khr;
typedef struct _cl_mutable_command_khr *cl_mutable_command_khr;
typedef cl_uint cl_sync_point_khr;

typedef struct {
	cl_uint arg_index;
	size_t arg_size;
	const void *arg_value;
} cl_mutable_dispatch_arg_khr;

typedef struct {
	cl_uint param_name;
	size_t param_value_size;
	const void *param_value;
} cl_mutable_dispatch_exec_info_khr;

typedef struct {
#ifdef COMMAND_BUFFER_0_9_0
	cl_uint type;
	const void *next;
#endif
	cl_mutable_command_khr command;
	cl_uint num_args, num_svm_args, num_exec_infos, work_dim;
	const cl_mutable_dispatch_arg_khr *arg_list, *arg_svm_list;
	const cl_mutable_dispatch_exec_info_khr *exec_info_list;
	const size_t *global_work_offset, *global_work_size, *local_work_size;
} cl_mutable_dispatch_config_khr;

typedef struct {
	cl_uint type;
	const void *next;
	cl_uint num_mutable_dispatch;
	const cl_mutable_dispatch_config_khr *mutable_dispatch_list;
} cl_mutable_base_config_khr;

enum {
	CL_INVALID_COMMAND_BUFFER_KHR = -1138,
	CL_INVALID_SYNC_POINT_WAIT_LIST_KHR = -1139,
	CL_INCOMPATIBLE_COMMAND_QUEUE_KHR = -1140,
	CL_INVALID_MUTABLE_COMMAND_KHR = -1141,

	CL_COMMAND_BUFFER_FLAGS_KHR = 0x1293,
	CL_COMMAND_BUFFER_MUTABLE_DISPATCH_ASSERTS_KHR = 0x12B7,
	CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR = 1,
	CL_COMMAND_BUFFER_MUTABLE_KHR = 2,
	CL_COMMAND_BUFFER_DEVICE_SIDE_SYNC_KHR = 4,

	CL_COMMAND_BUFFER_QUEUES_KHR = 0x1294,
	CL_COMMAND_BUFFER_NUM_QUEUES_KHR = 0x1295,
	CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR = 0x1296,
	CL_COMMAND_BUFFER_STATE_KHR = 0x1297,
	CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR = 0x1298,
	CL_COMMAND_BUFFER_CONTEXT_KHR = 0x1299,
	CL_COMMAND_BUFFER_STATE_RECORDING_KHR = 0,
	CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR = 1,
	CL_COMMAND_BUFFER_STATE_FINALIZED_KHR = 2,
	CL_COMMAND_BUFFER_STATE_PENDING_KHR = 2, /* before 0.9.8 */
	CL_COMMAND_COMMAND_BUFFER_KHR = 0x12A8,

	CL_MUTABLE_DISPATCH_UPDATABLE_FIELDS_KHR = 0x12B1,
	CL_MUTABLE_DISPATCH_ASSERTS_KHR = 0x12B8,
	CL_MUTABLE_DISPATCH_ASSERT_NO_ADDITIONAL_WORK_GROUPS_KHR = 1,
	CL_MUTABLE_DISPATCH_GLOBAL_OFFSET_KHR = 1,
	CL_MUTABLE_DISPATCH_GLOBAL_SIZE_KHR = 2,
	CL_MUTABLE_DISPATCH_LOCAL_SIZE_KHR = 4,
	CL_MUTABLE_DISPATCH_ARGUMENTS_KHR = 8,
	CL_MUTABLE_DISPATCH_EXEC_INFO_KHR = 16,
	CL_STRUCTURE_TYPE_MUTABLE_DISPATCH_CONFIG_KHR = 0,

	CL_MUTABLE_COMMAND_COMMAND_QUEUE_KHR = 0x12A0,
	CL_MUTABLE_COMMAND_COMMAND_BUFFER_KHR = 0x12A1,
	CL_MUTABLE_COMMAND_PROPERTIES_ARRAY_KHR = 0x12A2,
	CL_MUTABLE_DISPATCH_KERNEL_KHR = 0x12A3,
	CL_MUTABLE_DISPATCH_DIMENSIONS_KHR = 0x12A4,
	CL_MUTABLE_DISPATCH_GLOBAL_WORK_OFFSET_KHR = 0x12A5,
	CL_MUTABLE_DISPATCH_GLOBAL_WORK_SIZE_KHR = 0x12A6,
	CL_MUTABLE_DISPATCH_LOCAL_WORK_SIZE_KHR = 0x12A7,
	CL_MUTABLE_COMMAND_COMMAND_TYPE_KHR = 0x12AD,

	CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR = 0x12A9,
	CL_DEVICE_COMMAND_BUFFER_SUPPORTED_QUEUE_PROPERTIES_KHR = 0x129A,
	CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR = 0x12AA,
	CL_DEVICE_COMMAND_BUFFER_NUM_SYNC_DEVICES_KHR = 0x12AB,
	CL_DEVICE_MUTABLE_DISPATCH_CAPABILITIES_KHR = 0x12B0,
	CL_PLATFORM_COMMAND_BUFFER_CAPABILITIES_KHR = 0x0908,
};

/* A recording function's parameters: properties came with 0.9.5. */
#ifdef COMMAND_BUFFER_0_9_0
#define RECORDS cl_command_buffer_khr, cl_command_queue
#define PROPS(p)
#else
#define RECORDS cl_command_buffer_khr, cl_command_queue, const cl_properties *
#define PROPS(p) p,
#endif
#define POINTS cl_uint, const cl_sync_point_khr *, cl_sync_point_khr *, cl_mutable_command_khr *
#define SPACE const size_t *, const size_t *, const size_t *

/* f(result, name, parameters): all functions. */
#define COMMAND_BUFFER_FUNCTIONS(f)                                                                                    \
	f(cl_command_buffer_khr, clCreateCommandBufferKHR, cl_uint, const cl_command_queue *, const cl_properties *, cl_int *) \
	f(cl_int, clRetainCommandBufferKHR, cl_command_buffer_khr)                                                     \
	f(cl_int, clReleaseCommandBufferKHR, cl_command_buffer_khr)                                                    \
	f(cl_int, clFinalizeCommandBufferKHR, cl_command_buffer_khr)                                                   \
	f(cl_int, clEnqueueCommandBufferKHR, cl_uint, cl_command_queue *, cl_command_buffer_khr, cl_uint, const cl_event *, cl_event *) \
	f(cl_int, clCommandBarrierWithWaitListKHR, RECORDS, POINTS)                                                    \
	f(cl_int, clCommandCopyBufferKHR, RECORDS, cl_mem, cl_mem, size_t, size_t, size_t, POINTS)                     \
	f(cl_int, clCommandCopyBufferRectKHR, RECORDS, cl_mem, cl_mem, SPACE, size_t, size_t, size_t, size_t, POINTS)  \
	f(cl_int, clCommandFillBufferKHR, RECORDS, cl_mem, const void *, size_t, size_t, size_t, POINTS)               \
	f(cl_int, clCommandNDRangeKernelKHR, cl_command_buffer_khr, cl_command_queue, const cl_properties *, cl_kernel, cl_uint, SPACE, POINTS) \
	f(cl_int, clCommandSVMMemcpyKHR, RECORDS, void *, const void *, size_t, POINTS)                                \
	f(cl_int, clCommandSVMMemFillKHR, RECORDS, void *, const void *, size_t, size_t, POINTS)                       \
	f(cl_int, clCommandCopyImageKHR, RECORDS, cl_mem, cl_mem, SPACE, POINTS)                                       \
	f(cl_int, clCommandCopyBufferToImageKHR, RECORDS, cl_mem, cl_mem, size_t, const size_t *, const size_t *, POINTS) \
	f(cl_int, clCommandCopyImageToBufferKHR, RECORDS, cl_mem, cl_mem, const size_t *, const size_t *, size_t, POINTS) \
	f(cl_int, clCommandFillImageKHR, RECORDS, cl_mem, const void *, const size_t *, const size_t *, POINTS)        \
	f(cl_int, clGetCommandBufferInfoKHR, cl_command_buffer_khr, cl_uint, size_t, void *, size_t *)                 \
	f(cl_int, clGetMutableCommandInfoKHR, cl_mutable_command_khr, cl_uint, size_t, void *, size_t *)               \
	f(cl_command_buffer_khr, clRemapCommandBufferKHR, cl_command_buffer_khr, cl_bool, cl_uint, const cl_command_queue *, cl_uint, \
	  const cl_mutable_command_khr *, cl_mutable_command_khr *, cl_int *)                                          \
	COMMAND_BUFFER_UPDATE(f)
#ifdef COMMAND_BUFFER_0_9_0
#define COMMAND_BUFFER_UPDATE(f) f(cl_int, clUpdateMutableCommandsKHR, cl_command_buffer_khr, const cl_mutable_base_config_khr *)
#else
#define COMMAND_BUFFER_UPDATE(f) f(cl_int, clUpdateMutableCommandsKHR, cl_command_buffer_khr, cl_uint, const cl_uint *, const void **)
#endif

#define DECLARE(result, name, ...) static result (*name)(__VA_ARGS__) __attribute__((unused));
COMMAND_BUFFER_FUNCTIONS(DECLARE)

static inline void find_command_buffers(cl_device_id d)
{
	cl_platform_id p;
	OK(clGetDeviceInfo(d, CL_DEVICE_PLATFORM, sizeof p, &p, NULL));
#define FIND(result, name, ...)                                                         \
	*(void **)&name = clGetExtensionFunctionAddressForPlatform(p, #name);           \
	if (!name) {                                                                    \
		fprintf(stderr, "no %s\n", #name);                                      \
		exit(2);                                                                \
	}
	COMMAND_BUFFER_FUNCTIONS(FIND)
}

/* Updates one launch. */
static inline cl_int update_one(cl_command_buffer_khr b, cl_mutable_dispatch_config_khr c)
{
#ifdef COMMAND_BUFFER_0_9_0
	c.type = 1;
	cl_mutable_base_config_khr base = {0, NULL, 1, &c};
	return clUpdateMutableCommandsKHR(b, &base);
#else
	cl_uint type = CL_STRUCTURE_TYPE_MUTABLE_DISPATCH_CONFIG_KHR;
	const void *one = &c;
	return clUpdateMutableCommandsKHR(b, 1, &type, &one);
#endif
}

#endif
