/* Command buffers that are misused are answered with the errors that OpenCL names.
 *
 *   command_buffer_errors [PLATFORM]
 */
#include "command_buffer.h"

static int wrong, asked;
static cl_int err;

static void expect(int line, const char *what, cl_int want, cl_int got)
{
	asked++;
	if (got == want)
		return;
	wrong++;
	printf("%d: %s: %d, not %d\n", line, what, got, want);
}

#define EXPECT(want, call) expect(__LINE__, #call, want, call)
#define REFUSES(want, call)                                          \
	do {                                                         \
		err = 1;                                             \
		void *made_ = (call);                                \
		expect(__LINE__, #call, want, made_ ? CL_SUCCESS : err); \
	} while (0)

static const char *source = "kernel void k(global int *y, int n, local int *l) { l[0] = n; y[get_global_id(0)] += l[0]; }\n"
			    "kernel void nop(void) {}\n"
			    "kernel __attribute__((reqd_work_group_size(4, 1, 1))) void four(global int *y) { y[get_global_id(0)] = 4; }\n";

static struct house *h, *other;
static cl_command_queue q, otherq;
static cl_mem mem, small, othermem, gone;
static cl_kernel kern, nop, four, unset, otherkernel;
static const size_t one = 1, four1 = 4, zero3[3], region[3] = {4, 1, 1}, far[3] = {60, 0, 0};
static const int v = 7;
static size_t huge = (size_t)1 << 63;

static cl_command_buffer_khr buf(cl_ulong flags)
{
	cl_properties p[] = {CL_COMMAND_BUFFER_FLAGS_KHR, flags, 0};
	cl_command_buffer_khr b = clCreateCommandBufferKHR(1, &q, flags ? p : NULL, &err);
	OK(err);
	return b;
}

static void creation(void)
{
	cl_command_queue two[] = {q, otherq}, none[] = {q, NULL}, wrongs[] = {(cl_command_queue)mem};
	cl_properties flag[] = {CL_COMMAND_BUFFER_FLAGS_KHR, 8, 0}, name[] = {12345, 1, 0}, asserts[] = {CL_COMMAND_BUFFER_MUTABLE_DISPATCH_ASSERTS_KHR, 2, 0},
		      twice[] = {CL_COMMAND_BUFFER_FLAGS_KHR, 1, CL_COMMAND_BUFFER_FLAGS_KHR, 1, 0}, sync[] = {CL_COMMAND_BUFFER_FLAGS_KHR, CL_COMMAND_BUFFER_DEVICE_SIDE_SYNC_KHR, 0};
	REFUSES(CL_INVALID_VALUE, clCreateCommandBufferKHR(0, &q, NULL, &err));
	REFUSES(CL_INVALID_VALUE, clCreateCommandBufferKHR(1, NULL, NULL, &err));
	REFUSES(CL_INVALID_VALUE, clCreateCommandBufferKHR(0xffffffff, NULL, NULL, &err));
	REFUSES(CL_INVALID_COMMAND_QUEUE, clCreateCommandBufferKHR(2, none, NULL, &err));
	REFUSES(CL_INVALID_COMMAND_QUEUE, clCreateCommandBufferKHR(1, wrongs, NULL, &err));
	REFUSES(CL_INVALID_CONTEXT, clCreateCommandBufferKHR(2, two, NULL, &err));
	REFUSES(CL_INVALID_VALUE, clCreateCommandBufferKHR(1, &q, flag, &err));
	REFUSES(CL_INVALID_VALUE, clCreateCommandBufferKHR(1, &q, name, &err));
	REFUSES(CL_INVALID_VALUE, clCreateCommandBufferKHR(1, &q, twice, &err));
	REFUSES(CL_INVALID_VALUE, clCreateCommandBufferKHR(1, &q, asserts, &err));
	if (h->n > 1)
		REFUSES(CL_INCOMPATIBLE_COMMAND_QUEUE_KHR, clCreateCommandBufferKHR(2, h->q, sync, &err));
	cl_command_buffer_khr b = clCreateCommandBufferKHR(1, &q, sync, &err);
	EXPECT(CL_SUCCESS, err);
	OK(clReleaseCommandBufferKHR(b));
	void *bad[] = {NULL, b, q, mem, h->ctx, kern, h->dev[0], (void *)8, (void *)&v};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		cl_command_buffer_khr x = bad[i];
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clRetainCommandBufferKHR(x));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clReleaseCommandBufferKHR(x));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clFinalizeCommandBufferKHR(x));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clEnqueueCommandBufferKHR(0, NULL, x, 0, NULL, NULL));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clGetCommandBufferInfoKHR(x, CL_COMMAND_BUFFER_STATE_KHR, 0, NULL, NULL));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clCommandBarrierWithWaitListKHR(x, NULL, NULL, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clCommandCopyBufferKHR(x, NULL, NULL, mem, small, 0, 0, 4, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clCommandCopyBufferRectKHR(x, NULL, NULL, mem, small, zero3, zero3, region, 0, 0, 0, 0, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clCommandFillBufferKHR(x, NULL, NULL, mem, &v, 4, 0, 4, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clCommandNDRangeKernelKHR(x, NULL, NULL, kern, 1, NULL, &one, NULL, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clCommandSVMMemcpyKHR(x, NULL, NULL, &err, &v, 4, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clCommandSVMMemFillKHR(x, NULL, NULL, &err, &v, 4, 4, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clCommandCopyImageKHR(x, NULL, NULL, mem, mem, zero3, zero3, region, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_COMMAND_BUFFER_KHR, clUpdateMutableCommandsKHR(x, 0, NULL, NULL));
		EXPECT(CL_INVALID_MUTABLE_COMMAND_KHR, clGetMutableCommandInfoKHR((cl_mutable_command_khr)x, CL_MUTABLE_COMMAND_COMMAND_TYPE_KHR, 0, NULL, NULL));
		REFUSES(CL_INVALID_COMMAND_BUFFER_KHR, clRemapCommandBufferKHR(x, CL_FALSE, 1, &q, 0, NULL, NULL, &err));
	}
}

/* What every recording function checks, by the call with queue, properties, sync points and handle. */
#define EVERY(call)                                                                                                   \
	do {                                                                                                          \
		cl_command_buffer_khr b = buf(0);                                                                     \
		cl_mutable_command_khr handle = NULL, *noHandle = NULL;                                               \
		cl_sync_point_khr bad = 0, next = 1, later = 0x80000000u, *p;                                         \
		cl_uint n;                                                                                            \
		cl_command_queue in;                                                                                  \
		const cl_properties *props, property[] = {77, 1, 0};                                                  \
		(void)handle;                                                                                         \
		in = otherq, props = NULL, n = 0, p = NULL;                                                           \
		EXPECT(CL_INVALID_CONTEXT, call);                                                                     \
		in = (cl_command_queue)mem;                                                                           \
		EXPECT(CL_INVALID_COMMAND_QUEUE, call);                                                               \
		in = second;                                                                                          \
		EXPECT(CL_INVALID_COMMAND_QUEUE, call);                                                               \
		in = NULL, props = property;                                                                          \
		EXPECT(CL_INVALID_VALUE, call);                                                                       \
		props = NULL, n = 1;                                                                                  \
		EXPECT(CL_INVALID_SYNC_POINT_WAIT_LIST_KHR, call);                                                    \
		n = 0xffffffff;                                                                                       \
		EXPECT(CL_INVALID_SYNC_POINT_WAIT_LIST_KHR, call);                                                    \
		n = 0, p = &bad;                                                                                      \
		EXPECT(CL_INVALID_SYNC_POINT_WAIT_LIST_KHR, call);                                                    \
		n = 1;                                                                                                \
		EXPECT(CL_INVALID_SYNC_POINT_WAIT_LIST_KHR, call);                                                    \
		p = &next; /* its own, and that of the other buffer, which has one command */                         \
		EXPECT(CL_INVALID_SYNC_POINT_WAIT_LIST_KHR, call);                                                    \
		p = &later;                                                                                           \
		EXPECT(CL_INVALID_SYNC_POINT_WAIT_LIST_KHR, call);                                                    \
		n = 0, p = NULL;                                                                                      \
		EXPECT(CL_SUCCESS, call);                                                                             \
		n = 1, p = &next;                                                                                     \
		EXPECT(CL_SUCCESS, call);                                                                             \
		if (#call[9] != 'N') {                                                                                \
			noHandle = &handle, n = 0, p = NULL;                                                          \
			EXPECT(CL_INVALID_VALUE, call);                                                               \
			noHandle = NULL;                                                                              \
		}                                                                                                     \
		OK(clFinalizeCommandBufferKHR(b));                                                                    \
		EXPECT(CL_INVALID_OPERATION, call);                                                                   \
		OK(clReleaseCommandBufferKHR(b));                                                                     \
	} while (0)

static void recording(void)
{
	cl_command_queue second = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], NULL, &err);
	int *shared = clSVMAlloc(h->ctx, CL_MEM_READ_WRITE, 64, 0);
	EVERY(clCommandBarrierWithWaitListKHR(b, in, props, n, p, NULL, noHandle));
	EVERY(clCommandCopyBufferKHR(b, in, props, mem, small, 0, 0, 4, n, p, NULL, noHandle));
	EVERY(clCommandCopyBufferRectKHR(b, in, props, mem, small, zero3, zero3, region, 0, 0, 0, 0, n, p, NULL, noHandle));
	EVERY(clCommandFillBufferKHR(b, in, props, mem, &v, 4, 0, 4, n, p, NULL, noHandle));
	EVERY(clCommandNDRangeKernelKHR(b, in, props, nop, 1, NULL, &one, NULL, n, p, NULL, noHandle));
	if (shared) {
		EVERY(clCommandSVMMemcpyKHR(b, in, props, shared + 4, shared, 4, n, p, NULL, noHandle));
		EVERY(clCommandSVMMemFillKHR(b, in, props, shared, &v, 4, 4, n, p, NULL, noHandle));
	}
	cl_command_buffer_khr b = buf(0);
	EXPECT(CL_INVALID_MEM_OBJECT, clCommandCopyBufferKHR(b, NULL, NULL, NULL, small, 0, 0, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_MEM_OBJECT, clCommandCopyBufferKHR(b, NULL, NULL, mem, gone, 0, 0, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_CONTEXT, clCommandCopyBufferKHR(b, NULL, NULL, mem, othermem, 0, 0, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandCopyBufferKHR(b, NULL, NULL, mem, small, 0, 61, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandCopyBufferKHR(b, NULL, NULL, mem, small, huge, 0, huge, 0, NULL, NULL, NULL));
	EXPECT(CL_MEM_COPY_OVERLAP, clCommandCopyBufferKHR(b, NULL, NULL, mem, mem, 0, 2, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandCopyBufferRectKHR(b, NULL, NULL, mem, small, zero3, far, (size_t[3]){8, 1, 1}, 0, 0, 0, 0, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandCopyBufferRectKHR(b, NULL, NULL, mem, small, NULL, zero3, region, 0, 0, 0, 0, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandCopyBufferRectKHR(b, NULL, NULL, mem, small, zero3, zero3, zero3, 0, 0, 0, 0, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandCopyBufferRectKHR(b, NULL, NULL, mem, small, zero3, zero3, region, 3, 0, 0, 0, 0, NULL, NULL, NULL));
	EXPECT(CL_MEM_COPY_OVERLAP, clCommandCopyBufferRectKHR(b, NULL, NULL, mem, mem, zero3, (size_t[3]){2, 0, 0}, region, 0, 0, 0, 0, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_MEM_OBJECT, clCommandFillBufferKHR(b, NULL, NULL, NULL, &v, 4, 0, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_CONTEXT, clCommandFillBufferKHR(b, NULL, NULL, othermem, &v, 4, 0, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandFillBufferKHR(b, NULL, NULL, mem, NULL, 4, 0, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandFillBufferKHR(b, NULL, NULL, mem, &v, 0, 0, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandFillBufferKHR(b, NULL, NULL, mem, &v, 3, 0, 3, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandFillBufferKHR(b, NULL, NULL, mem, &v, 256, 0, 256, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandFillBufferKHR(b, NULL, NULL, mem, &v, 4, 2, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandFillBufferKHR(b, NULL, NULL, mem, &v, 4, 0, 6, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandFillBufferKHR(b, NULL, NULL, mem, &v, 4, 1024, 4, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_MEM_OBJECT, clCommandCopyImageKHR(b, NULL, NULL, mem, mem, zero3, zero3, region, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_MEM_OBJECT, clCommandCopyBufferToImageKHR(b, NULL, NULL, mem, mem, 0, zero3, region, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_MEM_OBJECT, clCommandCopyImageToBufferKHR(b, NULL, NULL, mem, mem, zero3, region, 0, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_MEM_OBJECT, clCommandFillImageKHR(b, NULL, NULL, mem, &v, zero3, region, 0, NULL, NULL, NULL));
	if (shared) {
		EXPECT(CL_INVALID_VALUE, clCommandSVMMemcpyKHR(b, NULL, NULL, NULL, shared, 4, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_VALUE, clCommandSVMMemcpyKHR(b, NULL, NULL, shared, NULL, 4, 0, NULL, NULL, NULL));
		EXPECT(CL_MEM_COPY_OVERLAP, clCommandSVMMemcpyKHR(b, NULL, NULL, shared, shared + 1, 8, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_VALUE, clCommandSVMMemFillKHR(b, NULL, NULL, NULL, &v, 4, 4, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_VALUE, clCommandSVMMemFillKHR(b, NULL, NULL, shared, NULL, 4, 4, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_VALUE, clCommandSVMMemFillKHR(b, NULL, NULL, shared, &v, 3, 3, 0, NULL, NULL, NULL));
		EXPECT(CL_INVALID_VALUE, clCommandSVMMemFillKHR(b, NULL, NULL, (char *)shared + 1, &v, 4, 4, 0, NULL, NULL, NULL));
	}
	cl_properties cached[] = {CL_MUTABLE_DISPATCH_UPDATABLE_FIELDS_KHR, 1 << 27, 1}, no[] = {CL_MUTABLE_DISPATCH_ASSERTS_KHR, 1, 0}, many[] = {CL_MUTABLE_DISPATCH_ASSERTS_KHR, 2, 0};
	EXPECT(CL_INVALID_VALUE, clCommandNDRangeKernelKHR(b, NULL, cached, nop, 1, NULL, &one, NULL, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandNDRangeKernelKHR(b, NULL, no, nop, 1, NULL, &one, NULL, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clCommandNDRangeKernelKHR(b, NULL, many, nop, 1, NULL, &one, &one, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_KERNEL, clCommandNDRangeKernelKHR(b, NULL, NULL, NULL, 1, NULL, &one, NULL, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_CONTEXT, clCommandNDRangeKernelKHR(b, NULL, NULL, otherkernel, 1, NULL, &one, NULL, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_KERNEL_ARGS, clCommandNDRangeKernelKHR(b, NULL, NULL, unset, 1, NULL, &one, NULL, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_WORK_DIMENSION, clCommandNDRangeKernelKHR(b, NULL, NULL, nop, 0, NULL, &one, NULL, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_WORK_DIMENSION, clCommandNDRangeKernelKHR(b, NULL, NULL, nop, 4, NULL, &one, NULL, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_WORK_GROUP_SIZE, clCommandNDRangeKernelKHR(b, NULL, NULL, four, 1, NULL, &four1, &one, 0, NULL, NULL, NULL));
	EXPECT(CL_INVALID_GLOBAL_OFFSET, clCommandNDRangeKernelKHR(b, NULL, NULL, nop, 1, &(size_t){~(size_t)0}, &four1, &one, 0, NULL, NULL, NULL));
	/* None of this has left a command. */
	cl_sync_point_khr p = 99;
	OK(clCommandBarrierWithWaitListKHR(b, NULL, NULL, 0, NULL, &p, NULL));
	CHECK(p == 1);
	OK(clReleaseCommandBufferKHR(b));
	if (shared)
		clSVMFree(h->ctx, shared);
	OK(clReleaseCommandQueue(second));
}

static void enqueuing(void)
{
	cl_command_buffer_khr b = buf(0);
	cl_event user = clCreateUserEvent(h->ctx, &err), foreign = clCreateUserEvent(other->ctx, &err);
	cl_command_queue two[] = {q, q}, onother[] = {h->q[h->n - 1]}, none = NULL;
	EXPECT(CL_INVALID_OPERATION, clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	OK(clFinalizeCommandBufferKHR(b));
	EXPECT(CL_INVALID_OPERATION, clFinalizeCommandBufferKHR(b));
	EXPECT(CL_INVALID_VALUE, clEnqueueCommandBufferKHR(1, NULL, b, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueCommandBufferKHR(0xffffffff, NULL, b, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueCommandBufferKHR(0xffffffff, &q, b, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueCommandBufferKHR(0, &q, b, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueCommandBufferKHR(2, two, b, 0, NULL, NULL));
	EXPECT(CL_INVALID_COMMAND_QUEUE, clEnqueueCommandBufferKHR(1, &none, b, 0, NULL, NULL));
	EXPECT(CL_INVALID_CONTEXT, clEnqueueCommandBufferKHR(1, &otherq, b, 0, NULL, NULL));
	EXPECT(h->n > 1 ? CL_INVALID_DEVICE : CL_SUCCESS, clEnqueueCommandBufferKHR(1, onother, b, 0, NULL, NULL));
	EXPECT(CL_INVALID_EVENT_WAIT_LIST, clEnqueueCommandBufferKHR(0, NULL, b, 1, NULL, NULL));
	EXPECT(CL_INVALID_EVENT_WAIT_LIST, clEnqueueCommandBufferKHR(0, NULL, b, 0, &user, NULL));
	EXPECT(CL_INVALID_EVENT_WAIT_LIST, clEnqueueCommandBufferKHR(0, NULL, b, 1, (cl_event *)&q, NULL));
	EXPECT(CL_INVALID_CONTEXT, clEnqueueCommandBufferKHR(0, NULL, b, 1, &foreign, NULL));
	cl_event e; /* of a buffer without commands, and of a wait that fails */
	EXPECT(CL_SUCCESS, clEnqueueCommandBufferKHR(0, NULL, b, 1, &user, &e));
	OK(clSetUserEventStatus(user, -9));
	EXPECT(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, clWaitForEvents(1, &e));
	EXPECT(CL_SUCCESS, clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	char room[64];
	EXPECT(CL_INVALID_VALUE, clGetCommandBufferInfoKHR(b, 1, sizeof room, room, NULL));
	for (cl_uint what = CL_COMMAND_BUFFER_QUEUES_KHR; what <= CL_COMMAND_BUFFER_CONTEXT_KHR; what++) {
		size_t n = 99;
		EXPECT(CL_SUCCESS, clGetCommandBufferInfoKHR(b, what, 0, NULL, &n));
		CHECK((what == CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR) == (n == 0));
		if (n)
			EXPECT(CL_INVALID_VALUE, clGetCommandBufferInfoKHR(b, what, n - 1, room, NULL));
	}
	OK(clReleaseEvent(e));
	OK(clReleaseEvent(user));
	OK(clReleaseEvent(foreign));
	OK(clReleaseCommandBufferKHR(b));
}

static void updating(void)
{
	cl_command_buffer_khr b = buf(CL_COMMAND_BUFFER_MUTABLE_KHR), fixed = buf(0);
	cl_mutable_command_khr all, some, foreign;
	cl_properties few[] = {CL_MUTABLE_DISPATCH_UPDATABLE_FIELDS_KHR, 0, 0};
	size_t n = 16, l = 4, bad = 0;
	OK(clCommandNDRangeKernelKHR(b, NULL, NULL, kern, 1, NULL, &n, &l, 0, NULL, NULL, &all));
	OK(clCommandNDRangeKernelKHR(b, NULL, few, kern, 1, NULL, &n, &l, 0, NULL, NULL, &some));
	OK(clCommandNDRangeKernelKHR(fixed, NULL, NULL, kern, 1, NULL, &n, &l, 0, NULL, NULL, &foreign));
	int five = 5;
	cl_mutable_dispatch_arg_khr value = {1, 4, &five}, nowhere = {9, 4, &five}, wide = {1, 8, &five}, nothing = {1, 4, NULL}, to = {0, sizeof gone, &gone},
				    off = {0, sizeof othermem, &othermem}, local = {2, 16, &five}, less = {2, 0, NULL}, roomy = {2, huge, NULL};
	cl_mutable_dispatch_exec_info_khr info = {12345, 8, &five};
	cl_mutable_dispatch_config_khr c = {.command = all, .num_args = 1, .arg_list = &value};
	EXPECT(CL_INVALID_OPERATION, update_one(b, c)); /* not finalised */
	OK(clFinalizeCommandBufferKHR(b));
	OK(clFinalizeCommandBufferKHR(fixed));
	c.command = foreign;
	EXPECT(CL_INVALID_OPERATION, update_one(fixed, c)); /* not mutable */
	EXPECT(CL_INVALID_MUTABLE_COMMAND_KHR, update_one(b, c));
	c.command = NULL;
	EXPECT(CL_INVALID_MUTABLE_COMMAND_KHR, update_one(b, c));
	c.command = (cl_mutable_command_khr)b;
	EXPECT(CL_INVALID_MUTABLE_COMMAND_KHR, update_one(b, c));
	cl_uint type = 0, types[] = {0, 7};
	const void *configs[] = {&c, NULL};
	c.command = all;
	EXPECT(CL_SUCCESS, clUpdateMutableCommandsKHR(b, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clUpdateMutableCommandsKHR(b, 1, NULL, configs));
	EXPECT(CL_INVALID_VALUE, clUpdateMutableCommandsKHR(b, 1, &type, NULL));
	EXPECT(CL_INVALID_VALUE, clUpdateMutableCommandsKHR(b, 0xffffffff, &type, NULL));
	EXPECT(CL_INVALID_VALUE, clUpdateMutableCommandsKHR(b, 0, &type, configs));
	EXPECT(CL_INVALID_VALUE, clUpdateMutableCommandsKHR(b, 1, types + 1, configs));
	EXPECT(CL_INVALID_VALUE, clUpdateMutableCommandsKHR(b, 1, types, configs + 1));
#define UPDATE(want, ...) EXPECT(want, update_one(b, (cl_mutable_dispatch_config_khr){__VA_ARGS__}))
	UPDATE(CL_INVALID_VALUE, .command = all, .num_args = 1);
	UPDATE(CL_INVALID_VALUE, .command = all, .num_args = 0xffffffff);
	UPDATE(CL_INVALID_VALUE, .command = all, .arg_list = &value);
	UPDATE(CL_INVALID_VALUE, .command = all, .num_svm_args = 1);
	UPDATE(CL_INVALID_VALUE, .command = all, .num_exec_infos = 1);
	UPDATE(CL_INVALID_VALUE, .command = all, .exec_info_list = &info);
	UPDATE(CL_INVALID_ARG_INDEX, .command = all, .num_args = 1, .arg_list = &nowhere);
	UPDATE(CL_INVALID_ARG_SIZE, .command = all, .num_args = 1, .arg_list = &wide);
	UPDATE(CL_INVALID_ARG_VALUE, .command = all, .num_args = 1, .arg_list = &nothing);
	UPDATE(CL_INVALID_MEM_OBJECT, .command = all, .num_args = 1, .arg_list = &to);
	UPDATE(CL_INVALID_MEM_OBJECT, .command = all, .num_args = 1, .arg_list = &off);
	UPDATE(CL_INVALID_ARG_VALUE, .command = all, .num_args = 1, .arg_list = &local);
	UPDATE(CL_INVALID_ARG_SIZE, .command = all, .num_args = 1, .arg_list = &less);
	UPDATE(CL_OUT_OF_RESOURCES, .command = all, .num_args = 1, .arg_list = &roomy);
	UPDATE(CL_INVALID_OPERATION, .command = all, .work_dim = 2);
	UPDATE(CL_INVALID_WORK_GROUP_SIZE, .command = all, .local_work_size = &bad);
	UPDATE(CL_INVALID_OPERATION, .command = some, .num_args = 1, .arg_list = &value);
	UPDATE(CL_INVALID_OPERATION, .command = some, .num_svm_args = 1, .arg_svm_list = &value);
	UPDATE(CL_INVALID_OPERATION, .command = some, .num_exec_infos = 1, .exec_info_list = &info);
	UPDATE(CL_INVALID_OPERATION, .command = some, .global_work_offset = &bad);
	UPDATE(CL_INVALID_OPERATION, .command = some, .global_work_size = &n);
	UPDATE(CL_INVALID_OPERATION, .command = some, .local_work_size = &l);
	/* All or nothing: the first of two is right. */
	cl_mutable_dispatch_config_khr pair[] = {c, {.command = all, .num_args = 1, .arg_list = &roomy}};
	const void *both[] = {pair, pair + 1};
	types[1] = 0;
	EXPECT(CL_OUT_OF_RESOURCES, clUpdateMutableCommandsKHR(b, 2, types, both));
	pair[1] = (cl_mutable_dispatch_config_khr){.command = some, .num_args = 1, .arg_list = &value};
	EXPECT(CL_INVALID_OPERATION, clUpdateMutableCommandsKHR(b, 2, types, both));
	int got = -1, zero = 0;
	OK(clEnqueueFillBuffer(q, mem, &zero, 4, 0, 64, 0, NULL, NULL));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	OK(clEnqueueReadBuffer(q, mem, CL_TRUE, 0, 4, &got, 0, NULL, NULL));
	CHECK(got == 2); /* twice the one that was recorded */
	for (cl_uint what = CL_MUTABLE_COMMAND_COMMAND_QUEUE_KHR; what <= CL_MUTABLE_COMMAND_COMMAND_TYPE_KHR; what++) {
		size_t size = 99;
		int known = what <= CL_MUTABLE_DISPATCH_LOCAL_WORK_SIZE_KHR || what == CL_MUTABLE_COMMAND_COMMAND_TYPE_KHR;
		EXPECT(known ? CL_SUCCESS : CL_INVALID_VALUE, clGetMutableCommandInfoKHR(some, what, 0, NULL, &size));
		if (known)
			EXPECT(CL_INVALID_VALUE, clGetMutableCommandInfoKHR(some, what, size - 1, &got, NULL));
	}
	/* Remaps. */
	cl_command_queue two[] = {q, otherq}, none = NULL;
	cl_mutable_command_khr out;
	REFUSES(CL_INVALID_VALUE, clRemapCommandBufferKHR(b, CL_FALSE, 0, &q, 0, NULL, NULL, &err));
	REFUSES(CL_INVALID_VALUE, clRemapCommandBufferKHR(b, CL_FALSE, 1, NULL, 0, NULL, NULL, &err));
	REFUSES(CL_INVALID_VALUE, clRemapCommandBufferKHR(b, CL_FALSE, 2, two, 0, NULL, NULL, &err));
	REFUSES(CL_INVALID_VALUE, clRemapCommandBufferKHR(b, CL_FALSE, 1, &q, 1, NULL, &out, &err));
	REFUSES(CL_INVALID_VALUE, clRemapCommandBufferKHR(b, CL_FALSE, 1, &q, 1, &all, NULL, &err));
	REFUSES(CL_INVALID_VALUE, clRemapCommandBufferKHR(b, CL_FALSE, 1, &q, 0, &all, &out, &err));
	REFUSES(CL_INVALID_VALUE, clRemapCommandBufferKHR(b, CL_FALSE, 1, &q, 1, &foreign, &out, &err));
	REFUSES(CL_INVALID_COMMAND_QUEUE, clRemapCommandBufferKHR(b, CL_FALSE, 1, &none, 0, NULL, NULL, &err));
	REFUSES(CL_INVALID_CONTEXT, clRemapCommandBufferKHR(b, CL_FALSE, 1, &otherq, 0, NULL, NULL, &err));
	OK(clReleaseCommandBufferKHR(b));
	OK(clReleaseCommandBufferKHR(fixed));
}

/* A great many commands, and one command that waits for all of them. */
static void many(void)
{
	enum { N = 5000 };
	static cl_sync_point_khr p[N];
	cl_command_buffer_khr b = buf(0);
	for (int i = 0; i < N; i++)
		OK(clCommandFillBufferKHR(b, NULL, NULL, mem, &i, 4, i % 16 * 4, 4, i > 0, i > 0 ? &p[i - 1] : NULL, &p[i], NULL));
	OK(clCommandBarrierWithWaitListKHR(b, NULL, NULL, N, p, NULL, NULL));
	OK(clFinalizeCommandBufferKHR(b));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	int got;
	OK(clEnqueueReadBuffer(q, mem, CL_TRUE, (N - 1) % 16 * 4, 4, &got, 0, NULL, NULL));
	CHECK(got == N - 1);
	OK(clReleaseCommandBufferKHR(b));
}

int main(int argc, char **argv)
{
	h = house(argc > 1 ? argv[1] : "Godwit", 0, 0);
	other = house(argc > 1 ? argv[1] : "Godwit", 1, 0);
	find_command_buffers(h->dev[0]);
	q = h->q[0], otherq = other->q[0];
	mem = buffer(h->ctx, 0, 1024, NULL), small = buffer(h->ctx, 0, 64, NULL), othermem = buffer(other->ctx, 0, 64, NULL);
	gone = buffer(h->ctx, 0, 64, NULL);
	OK(clReleaseMemObject(gone));
	cl_program p = built(h->ctx, source), op = built(other->ctx, source);
	kern = kernel(p, "k"), unset = kernel(p, "k"), nop = kernel(p, "nop"), four = kernel(p, "four"), otherkernel = kernel(op, "nop");
	int n = 1;
	OK(clSetKernelArg(kern, 0, sizeof mem, &mem));
	OK(clSetKernelArg(kern, 1, sizeof n, &n));
	OK(clSetKernelArg(kern, 2, 16, NULL));
	OK(clSetKernelArg(four, 0, sizeof mem, &mem));
	creation();
	recording();
	enqueuing();
	updating();
	many();
	printf("%d of %d calls answered wrongly\n%s", wrong, asked, wrong ? "" : "OK\n");
	return wrong != 0;
}
