/* An OpenCL driver whose one device does nothing, at once: what a program pays on it
 * is what calls cost, Godwit's share of them foremost. Buffers are memory and
 * transfers move bytes, but a kernel runs nothing, and takes as long as it is told to.
 *
 *   gcc -O2 -pthread -shared -fPIC -o libinstant.so instant*.c
 *
 * INSTANT_NAME       the platform's name ("Instant"); one with NVIDIA in it makes Godwit
 *                    treat it as NVIDIA's
 * INSTANT_KERNEL_US  how long each kernel keeps its queue busy (0)
 * INSTANT_FAIL       the nth kernel, from 1, and all after it fail (-5)
 *
 * What a command does is done when it is enqueued; when it ends is a time, so that
 * nothing here has threads but callbacks that are set before then. Commands of one
 * queue follow each other, and on whatever they wait for.
 *
 * Here are the platform, its device, contexts and the table of functions;
 * instant_commands.c and instant_programs.c put the rest into it.
 */
#include "instant.h"

cl_icd_dispatch table;
struct _cl_device_id device;
static struct _cl_platform_id platform;
static const char *name = "Instant";

static cl_int CL_API_CALL platforms(cl_uint n, cl_platform_id *list, cl_uint *num)
{
	if (num)
		*num = 1;
	if (list && n)
		*list = &platform;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id p, cl_platform_info what, INFO)
{
	(void)p;
	switch (what) {
	case CL_PLATFORM_NAME: case CL_PLATFORM_VENDOR: return TEXT(name);
	case CL_PLATFORM_VERSION: return TEXT("OpenCL 3.0 instant");
	case CL_PLATFORM_PROFILE: return TEXT("FULL_PROFILE");
	case CL_PLATFORM_EXTENSIONS: return TEXT("cl_khr_icd");
	case CL_PLATFORM_ICD_SUFFIX_KHR: return TEXT("INSTANT");
	}
	return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL devices(cl_platform_id p, cl_device_type t, cl_uint n, cl_device_id *list, cl_uint *num)
{
	(void)p;
	if (!(t & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)))
		return CL_DEVICE_NOT_FOUND;
	if (num)
		*num = 1;
	if (list && n)
		*list = &device;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id d, cl_device_info what, INFO)
{
	(void)d;
	switch (what) {
	case CL_DEVICE_NAME: case CL_DEVICE_VENDOR: return TEXT(name);
	case CL_DEVICE_VERSION: return TEXT("OpenCL 3.0 instant");
	case CL_DEVICE_OPENCL_C_VERSION: return TEXT("OpenCL C 1.2 ");
	case CL_DRIVER_VERSION: return TEXT("1");
	case CL_DEVICE_PROFILE: return TEXT("FULL_PROFILE");
	case CL_DEVICE_EXTENSIONS: return TEXT("cl_khr_byte_addressable_store");
	case CL_DEVICE_TYPE: return ANSWER(cl_device_type, CL_DEVICE_TYPE_GPU);
	case CL_DEVICE_PLATFORM: return ANSWER(cl_platform_id, &platform);
	case CL_DEVICE_GLOBAL_MEM_SIZE: return ANSWER(cl_ulong, 4ull << 30);
	case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return ANSWER(cl_ulong, 1ull << 30);
	case CL_DEVICE_LOCAL_MEM_SIZE: return ANSWER(cl_ulong, 48 << 10);
	case CL_DEVICE_MEM_BASE_ADDR_ALIGN: return ANSWER(cl_uint, 4096);
	case CL_DEVICE_MAX_WORK_GROUP_SIZE: return ANSWER(size_t, 1024);
	case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS: return ANSWER(cl_uint, 3);
	case CL_DEVICE_MAX_WORK_ITEM_SIZES: return answer((size_t[]){1024, 1024, 64}, 3 * sizeof(size_t), room, to, need);
	case CL_DEVICE_MAX_COMPUTE_UNITS: return ANSWER(cl_uint, 1);
	case CL_DEVICE_ADDRESS_BITS: return ANSWER(cl_uint, 64);
	case CL_DEVICE_AVAILABLE: case CL_DEVICE_COMPILER_AVAILABLE: case CL_DEVICE_LINKER_AVAILABLE: case CL_DEVICE_ENDIAN_LITTLE: return ANSWER(cl_bool, CL_TRUE);
	case CL_DEVICE_QUEUE_ON_HOST_PROPERTIES: return ANSWER(cl_command_queue_properties, CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
	case CL_DEVICE_MAX_PARAMETER_SIZE: return ANSWER(size_t, 4096);
	case CL_DEVICE_EXECUTION_CAPABILITIES: return ANSWER(cl_device_exec_capabilities, CL_EXEC_KERNEL);
	}
	return answer(&(cl_ulong){0}, 4, room, to, need);
}

static cl_context CL_API_CALL context(const cl_context_properties *props, cl_uint n, const cl_device_id *list, void (CL_CALLBACK *f)(const char *, const void *, size_t, void *), void *user, cl_int *err)
{
	(void)props; (void)n; (void)list; (void)f; (void)user;
	if (err)
		*err = CL_SUCCESS;
	return made(sizeof(struct _cl_context));
}

COUNTED(context, cl_context, )

static cl_int CL_API_CALL unsupported(void) { return CL_INVALID_OPERATION; }

__attribute__((constructor)) static void fill_table(void)
{
	void **entry = (void **)&table;
	for (size_t i = 0; i < sizeof table / sizeof *entry; i++)
		entry[i] = (void *)unsupported;
	if (getenv("INSTANT_NAME"))
		name = getenv("INSTANT_NAME");
	platform.o = (struct object){&table, 1};
	device.o = (struct object){&table, 1};
	table.clGetPlatformIDs = platforms; table.clGetPlatformInfo = platform_info;
	table.clGetDeviceIDs = devices; table.clGetDeviceInfo = device_info;
	table.clCreateContext = context; table.clRetainContext = retain_context; table.clReleaseContext = release_context;
	fill_commands();
	fill_programs();
}

__attribute__((visibility("default"))) void *CL_API_CALL clGetExtensionFunctionAddress(const char *f)
{
	return strcmp(f, "clIcdGetPlatformIDsKHR") == 0 ? (void *)platforms : strcmp(f, "clGetPlatformInfo") == 0 ? (void *)platform_info : NULL;
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id p, cl_platform_info what, INFO)
{
	return platform_info(p, what, room, to, need);
}
