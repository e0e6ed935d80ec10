/* Command buffers do what their commands do when they are enqueued one by one.
 *
 *   command_buffers [PLATFORM [DEVICES]]
 */
#include "command_buffer.h"

#define N 256

static const char *source =
	"kernel void add(global int *y, global const int *x, int n) { size_t i = get_global_id(0); y[i] = x[i] + n; }\n"
	"kernel void twice(global int *y) { y[get_global_id(0)] *= 2; }\n"
	"kernel void share(global int *y, local int *l) { size_t i = get_local_id(0); l[i] = i; barrier(CLK_LOCAL_MEM_FENCE);\n"
	"	y[get_global_id(0)] = l[get_local_size(0) - 1 - i] + 100 * (int)get_local_size(0); }\n";

static struct house *h;
static cl_kernel add, twice, share;
static cl_command_queue loose; /* out of order, on the first device */
static cl_int err;

static cl_command_buffer_khr begin(cl_uint n, const cl_command_queue *q, cl_ulong flags)
{
	cl_properties p[] = {CL_COMMAND_BUFFER_FLAGS_KHR, flags, 0};
	cl_command_buffer_khr b = clCreateCommandBufferKHR(n, q, flags ? p : NULL, &err);
	OK(err);
	return b;
}

static cl_mem ints(int v)
{
	int init[N];
	for (int i = 0; i < N; i++)
		init[i] = v;
	return buffer(h->ctx, CL_MEM_COPY_HOST_PTR, sizeof init, init);
}

#define EXPECT_ALL(q, m, want)                                                                       \
	do {                                                                                         \
		int got_[N];                                                                         \
		OK(clEnqueueReadBuffer(q, m, CL_TRUE, 0, sizeof got_, got_, 0, NULL, NULL));         \
		for (int i = 0; i < N; i++)                                                          \
			if (got_[i] != (want)) {                                                     \
				fprintf(stderr, "%s:%d: [%d] is %d, not %d\n", __FILE__, __LINE__, i, got_[i], (int)(want)); \
				exit(1);                                                             \
			}                                                                            \
	} while (0)

/* Records y = x + n; 0 waits for nothing. */
static cl_sync_point_khr record_add(cl_command_buffer_khr b, cl_command_queue q, cl_mem y, cl_mem x, int n, cl_sync_point_khr after,
				    cl_mutable_command_khr *handle)
{
	size_t size = N;
	cl_sync_point_khr p;
	OK(clSetKernelArg(add, 0, sizeof y, &y));
	OK(clSetKernelArg(add, 1, sizeof x, &x));
	OK(clSetKernelArg(add, 2, sizeof n, &n));
	OK(clCommandNDRangeKernelKHR(b, q, NULL, add, 1, NULL, &size, NULL, after != 0, after ? &after : NULL, &p, handle));
	return p;
}

static cl_uint state(cl_command_buffer_khr b)
{
	cl_uint s = 99;
	OK(clGetCommandBufferInfoKHR(b, CL_COMMAND_BUFFER_STATE_KHR, sizeof s, &s, NULL));
	return s;
}

/* Launches in order, while their queue goes on; arguments are those of the recording. */
static void in_order(void)
{
	cl_command_queue q = h->q[0];
	cl_mem x = ints(1), y = ints(0);
	cl_command_buffer_khr b = begin(1, &q, 0);
	record_add(b, NULL, y, x, 10, 0, NULL);
	size_t size = N;
	OK(clSetKernelArg(twice, 0, sizeof y, &y));
	OK(clCommandNDRangeKernelKHR(b, q, NULL, twice, 1, NULL, &size, NULL, 0, NULL, NULL, NULL));
	EXPECT_ALL(q, y, 0); /* nothing has run, and the queue works */
	CHECK(state(b) == CL_COMMAND_BUFFER_STATE_RECORDING_KHR);
	OK(clFinalizeCommandBufferKHR(b));
	CHECK(state(b) == CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR);
	int two = 2;
	OK(clSetKernelArg(add, 2, sizeof two, &two)); /* is the kernel's, not the recording's */
	for (int round = 1; round <= 3; round++) {
		cl_event e;
		OK(clEnqueueFillBuffer(q, x, &round, sizeof round, 0, sizeof(int) * N, 0, NULL, NULL));
		OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, &e));
		OK(clEnqueueNDRangeKernel(q, twice, 1, NULL, &size, NULL, 0, NULL, NULL));
		EXPECT_ALL(q, y, 4 * (round + 10));
		cl_command_type type;
		cl_command_queue of;
		OK(clGetEventInfo(e, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
		OK(clGetEventInfo(e, CL_EVENT_COMMAND_QUEUE, sizeof of, &of, NULL));
		CHECK(type == CL_COMMAND_COMMAND_BUFFER_KHR && of == q);
		CHECK(clSetUserEventStatus(e, CL_COMPLETE) == CL_INVALID_EVENT);
		OK(clReleaseEvent(e));
	}
	OK(clReleaseCommandBufferKHR(b));
	OK(clReleaseMemObject(x));
	OK(clReleaseMemObject(y));
}

/* Sync points and barriers on an out-of-order queue; copies, rectangles, fills. */
static void out_of_order(void)
{
	cl_mem x = ints(1), y = ints(0), z = ints(0);
	cl_command_buffer_khr b = begin(1, &loose, 0);
	int seven = 7, nine = 9;
	cl_sync_point_khr p[3];
	size_t o[3] = {0}, region[3] = {16, 4, 2}, to[3] = {32, 0, 0};
	OK(clCommandFillBufferKHR(b, NULL, PROPS(NULL) x, &seven, sizeof seven, 0, sizeof(int) * N, 0, NULL, &p[0], NULL));
	OK(clCommandCopyBufferKHR(b, NULL, PROPS(NULL) x, y, 0, 0, sizeof(int) * N, 1, p, &p[1], NULL));
	OK(clCommandBarrierWithWaitListKHR(b, NULL, PROPS(NULL) 0, NULL, NULL, NULL));
	OK(clCommandFillBufferKHR(b, NULL, PROPS(NULL) x, &nine, sizeof nine, 0, sizeof(int) * N, 0, NULL, &p[2], NULL));
	OK(clCommandCopyBufferRectKHR(b, NULL, PROPS(NULL) x, z, o, to, region, 64, 256, 64, 256, 1, &p[2], NULL, NULL));
	OK(clCommandBarrierWithWaitListKHR(b, NULL, PROPS(NULL) 3, p, NULL, NULL));
	OK(clCommandCopyBufferKHR(b, NULL, PROPS(NULL) x, z, 0, 0, 0, 0, NULL, NULL, NULL)); /* of nothing */
	OK(clFinalizeCommandBufferKHR(b));
	for (int round = 0; round < 3; round++) {
		cl_event gate = clCreateUserEvent(h->ctx, &err), e;
		OK(clEnqueueCommandBufferKHR(1, &loose, b, 1, &gate, &e));
		EXPECT_ALL(h->q[0], ints(0), 0);
		OK(clSetUserEventStatus(gate, CL_COMPLETE));
		OK(clWaitForEvents(1, &e));
		EXPECT_ALL(h->q[0], x, 9);
		EXPECT_ALL(h->q[0], y, 7);
		EXPECT_ALL(h->q[0], z, i * 4 / 256 < 2 && i * 4 % 256 / 64 < 4 && i * 4 % 64 >= 32 && i * 4 % 64 < 48 ? 9 : 0);
		OK(clReleaseEvent(e));
		OK(clReleaseEvent(gate));
	}
	OK(clReleaseCommandBufferKHR(b));
}

/* Two replays under way, and an in-order command buffer on an out-of-order queue. */
static void pending(void)
{
	cl_mem x = ints(1), y = ints(0);
	cl_command_buffer_khr b = begin(1, h->q, CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR);
	record_add(b, NULL, y, x, 1, 0, NULL);
	record_add(b, NULL, x, y, 1, 0, NULL);
	OK(clFinalizeCommandBufferKHR(b));
	cl_event gate = clCreateUserEvent(h->ctx, &err), e[3];
	for (int i = 0; i < 3; i++)
		OK(clEnqueueCommandBufferKHR(1, i == 1 ? h->q : &loose, b, i < 2, i < 2 ? &gate : NULL, &e[i]));
	OK(clSetUserEventStatus(gate, CL_COMPLETE));
	OK(clWaitForEvents(3, e));
	EXPECT_ALL(h->q[0], x, 7);
	OK(clReleaseCommandBufferKHR(b));
}

/* A chain over all devices, and back. */
static void many(void)
{
	cl_mem x = ints(1), y = ints(0);
	cl_command_buffer_khr b = begin(h->n, h->q, 0);
	cl_sync_point_khr p = 0;
	for (cl_uint i = 0; i < 2 * h->n; i++)
		p = record_add(b, h->q[i % h->n], i % 2 ? x : y, i % 2 ? y : x, 1, p, NULL);
	cl_mutable_command_khr last, copy;
	record_add(b, h->q[0], y, x, 100, p, &last);
	OK(clFinalizeCommandBufferKHR(b));
	cl_command_queue other[MOST_DEVICES];
	for (cl_uint i = 0; i < h->n; i++)
		other[i] = clCreateCommandQueueWithProperties(h->ctx, h->dev[i], NULL, &err);
	for (int round = 1; round <= 3; round++) {
		cl_event e;
		cl_command_queue of;
		OK(clEnqueueCommandBufferKHR(round % 2 ? 0 : h->n, round % 2 ? NULL : other, b, 0, NULL, &e));
		OK(clGetEventInfo(e, CL_EVENT_COMMAND_QUEUE, sizeof of, &of, NULL));
		CHECK(of == (h->n > 1 ? NULL : other[0]) || (h->n == 1 && round % 2 && of == h->q[0]));
		OK(clWaitForEvents(1, &e));
		EXPECT_ALL(h->q[h->n - 1], x, 1 + 2 * (int)h->n * round);
		EXPECT_ALL(h->q[0], y, 101 + 2 * (int)h->n * round);
		OK(clReleaseEvent(e));
	}
	/* The same list on the last device alone, and on the devices in another order. */
	int now = 1 + 6 * h->n;
	cl_command_buffer_khr one = clRemapCommandBufferKHR(b, CL_TRUE, 1, &other[h->n - 1], 1, &last, &copy, &err);
	OK(err);
	cl_command_queue mirror[MOST_DEVICES];
	for (cl_uint i = 0; i < h->n; i++)
		mirror[i] = h->q[h->n - 1 - i];
	cl_command_buffer_khr turned = clRemapCommandBufferKHR(b, CL_FALSE, h->n, mirror, 0, NULL, NULL, &err);
	OK(err);
	OK(clReleaseCommandBufferKHR(b));
	cl_command_buffer_khr of;
	cl_command_queue on;
	OK(clGetMutableCommandInfoKHR(copy, CL_MUTABLE_COMMAND_COMMAND_BUFFER_KHR, sizeof of, &of, NULL));
	OK(clGetMutableCommandInfoKHR(copy, CL_MUTABLE_COMMAND_COMMAND_QUEUE_KHR, sizeof on, &on, NULL));
	CHECK(of == one && on == other[h->n - 1]);
	CHECK(clGetMutableCommandInfoKHR(last, CL_MUTABLE_COMMAND_COMMAND_BUFFER_KHR, sizeof of, &of, NULL) == CL_INVALID_MUTABLE_COMMAND_KHR);
	cl_event e;
	OK(clEnqueueCommandBufferKHR(0, NULL, one, 0, NULL, &e));
	OK(clEnqueueCommandBufferKHR(0, NULL, turned, 1, &e, NULL));
	for (cl_uint i = 0; i < h->n; i++)
		OK(clFinish(h->q[i]));
	EXPECT_ALL(h->q[0], x, now + 4 * (int)h->n);
	EXPECT_ALL(h->q[0], y, now + 4 * (int)h->n + 100);
	OK(clReleaseCommandBufferKHR(one));
	OK(clReleaseCommandBufferKHR(turned));
}

/* Updates of values, buffers, sizes, offsets, local memory. */
static void updates(void)
{
	cl_command_queue q = h->q[h->n - 1];
	cl_mem x = ints(1), y = ints(0), z = ints(0);
	cl_command_buffer_khr b = begin(1, &q, CL_COMMAND_BUFFER_MUTABLE_KHR | CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR);
	cl_mutable_command_khr first, second;
	record_add(b, NULL, y, x, 1, 0, &first);
	size_t size = N, half = N / 2, group = 16, local = 64, eight = 8;
	OK(clSetKernelArg(share, 0, sizeof z, &z));
	OK(clSetKernelArg(share, 1, 16 * sizeof(int), NULL));
	OK(clCommandNDRangeKernelKHR(b, NULL, NULL, share, 1, NULL, &size, &group, 0, NULL, NULL, &second));
	OK(clFinalizeCommandBufferKHR(b));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	EXPECT_ALL(q, y, 2);
	EXPECT_ALL(q, z, 15 - i % 16 + 1600);

	int n = 5;
	cl_mutable_dispatch_arg_khr value = {2, sizeof n, &n};
	OK(update_one(b, (cl_mutable_dispatch_config_khr){.command = first, .num_args = 1, .arg_list = &value}));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	EXPECT_ALL(q, y, 6);
	OK(update_one(b, (cl_mutable_dispatch_config_khr){.command = first, .global_work_offset = &half, .global_work_size = &half}));
	n = 50; /* what was passed was copied */
	int zero = 0;
	OK(clEnqueueFillBuffer(q, y, &zero, sizeof zero, 0, sizeof(int) * N, 0, NULL, NULL));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	EXPECT_ALL(q, y, i < N / 2 ? 0 : 6);

	cl_mutable_dispatch_arg_khr swap[] = {{0, sizeof x, &x}, {1, sizeof y, &y}, value};
	cl_mutable_dispatch_arg_khr room = {1, 64 * sizeof(int), NULL};
	OK(update_one(b, (cl_mutable_dispatch_config_khr){.command = first, .num_args = 3, .arg_list = swap, .work_dim = 1}));
	OK(update_one(b, (cl_mutable_dispatch_config_khr){.command = second, .num_args = 1, .arg_list = &room, .local_work_size = &local}));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	EXPECT_ALL(q, x, i < N / 2 ? 1 : 56);
	EXPECT_ALL(q, z, 63 - i % 64 + 6400);

	/* A replay under way keeps what it was enqueued with; a launch may come to do nothing, and something again. */
	cl_event gate = clCreateUserEvent(h->ctx, &err);
	size_t nothing = 0;
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 1, &gate, NULL));
	OK(update_one(b, (cl_mutable_dispatch_config_khr){.command = first, .global_work_size = &nothing}));
	OK(update_one(b, (cl_mutable_dispatch_config_khr){.command = second, .local_work_size = &eight}));
	OK(clSetUserEventStatus(gate, CL_COMPLETE));
	EXPECT_ALL(q, z, 63 - i % 64 + 6400);
	OK(clEnqueueFillBuffer(q, x, &zero, sizeof zero, 0, sizeof(int) * N, 0, NULL, NULL));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	EXPECT_ALL(q, x, 0);
	EXPECT_ALL(q, z, 7 - i % 8 + 800);
	OK(update_one(b, (cl_mutable_dispatch_config_khr){.command = first, .global_work_size = &half}));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	EXPECT_ALL(q, x, i < N / 2 ? 0 : 56);

	size_t got[2];
	cl_kernel k;
	cl_uint dims, type;
	OK(clGetMutableCommandInfoKHR(first, CL_MUTABLE_DISPATCH_GLOBAL_WORK_SIZE_KHR, sizeof *got, got, NULL));
	OK(clGetMutableCommandInfoKHR(first, CL_MUTABLE_DISPATCH_LOCAL_WORK_SIZE_KHR, sizeof *got, got + 1, NULL));
	OK(clGetMutableCommandInfoKHR(first, CL_MUTABLE_DISPATCH_KERNEL_KHR, sizeof k, &k, NULL));
	OK(clGetMutableCommandInfoKHR(first, CL_MUTABLE_DISPATCH_DIMENSIONS_KHR, sizeof dims, &dims, NULL));
	OK(clGetMutableCommandInfoKHR(first, CL_MUTABLE_COMMAND_COMMAND_TYPE_KHR, sizeof type, &type, NULL));
	CHECK(got[0] == half && got[1] == 0 && k == add && dims == 1 && type == CL_COMMAND_NDRANGE_KERNEL);
	OK(clGetMutableCommandInfoKHR(second, CL_MUTABLE_DISPATCH_LOCAL_WORK_SIZE_KHR, sizeof *got, got, NULL));
	CHECK(got[0] == eight);
	OK(clReleaseCommandBufferKHR(b));
}

#ifndef COMMAND_BUFFER_0_9_0
/* Arguments that come after the recording; before 0.9.8 that is an error. */
static void deferred(void)
{
	cl_mem x = ints(3), y = ints(0);
	cl_command_buffer_khr b = begin(1, h->q, CL_COMMAND_BUFFER_MUTABLE_KHR);
	cl_program p = built(h->ctx, source);
	cl_kernel fresh = kernel(p, "add");
	cl_mutable_command_khr c;
	cl_sync_point_khr at;
	size_t size = N;
	OK(clSetKernelArg(fresh, 1, sizeof x, &x));
	OK(clCommandNDRangeKernelKHR(b, NULL, NULL, fresh, 1, NULL, &size, NULL, 0, NULL, &at, &c));
	OK(clCommandCopyBufferKHR(b, NULL, NULL, y, x, 0, 0, sizeof(int) * N, 1, &at, NULL, NULL));
	OK(clReleaseKernel(fresh));
	OK(clReleaseProgram(p));
	OK(clFinalizeCommandBufferKHR(b));
	CHECK(state(b) == CL_COMMAND_BUFFER_STATE_FINALIZED_KHR);
	CHECK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL) == CL_INVALID_OPERATION);
	int n = 4;
	cl_mutable_dispatch_arg_khr args[] = {{0, sizeof y, &y}, {2, sizeof n, &n}};
	OK(update_one(b, (cl_mutable_dispatch_config_khr){.command = c, .num_args = 1, .arg_list = args}));
	CHECK(state(b) == CL_COMMAND_BUFFER_STATE_FINALIZED_KHR);
	OK(update_one(b, (cl_mutable_dispatch_config_khr){.command = c, .num_args = 1, .arg_list = args + 1}));
	CHECK(state(b) == CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR);
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	EXPECT_ALL(h->q[0], x, 11);
	OK(clReleaseCommandBufferKHR(b));
}
#endif

#ifdef COMMAND_BUFFER_0_9_0
/* Until an enqueue has ended the command buffer is Pending, and not enqueued again. */
static void sequential(void)
{
	cl_mem x = ints(1), y = ints(0);
	cl_command_buffer_khr b = begin(1, h->q, 0);
	record_add(b, NULL, y, x, 1, 0, NULL);
	OK(clFinalizeCommandBufferKHR(b));
	for (int i = 0; i < 3; i++) {
		cl_event gate = clCreateUserEvent(h->ctx, &err), e;
		CHECK(state(b) == CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR);
		OK(clEnqueueCommandBufferKHR(0, NULL, b, 1, &gate, &e));
		CHECK(state(b) == CL_COMMAND_BUFFER_STATE_PENDING_KHR);
		CHECK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL) == CL_INVALID_OPERATION);
		OK(clSetUserEventStatus(gate, CL_COMPLETE));
		OK(clWaitForEvents(1, &e));
		OK(clReleaseEvent(gate));
		OK(clReleaseEvent(e));
	}
	EXPECT_ALL(h->q[0], y, 2);
	OK(clReleaseCommandBufferKHR(b));
}
#endif

static void svm(void)
{
	cl_device_svm_capabilities can = 0;
	for (cl_uint i = 0; i < h->n; i++)
		if (clGetDeviceInfo(h->dev[i], CL_DEVICE_SVM_CAPABILITIES, sizeof can, &can, NULL) || !can)
			return;
	cl_command_queue q = h->q[h->n - 1];
	int *a = clSVMAlloc(h->ctx, CL_MEM_READ_WRITE, N * sizeof(int), 0), *c = clSVMAlloc(h->ctx, CL_MEM_READ_WRITE, N * sizeof(int), 0), v = 6, n = 1;
	cl_command_buffer_khr b = begin(1, &q, CL_COMMAND_BUFFER_MUTABLE_KHR);
	cl_sync_point_khr p[2];
	cl_mutable_command_khr k;
	size_t size = N;
	OK(clCommandSVMMemFillKHR(b, NULL, PROPS(NULL) a, &v, sizeof v, N * sizeof(int), 0, NULL, &p[0], NULL));
	OK(clSetKernelArgSVMPointer(add, 0, c));
	OK(clSetKernelArgSVMPointer(add, 1, a));
	OK(clSetKernelArg(add, 2, sizeof n, &n));
	OK(clCommandNDRangeKernelKHR(b, NULL, NULL, add, 1, NULL, &size, NULL, 1, p, &p[1], &k));
	OK(clCommandSVMMemcpyKHR(b, NULL, PROPS(NULL) a, c, N * sizeof(int), 1, p + 1, NULL, NULL));
	OK(clFinalizeCommandBufferKHR(b));
	for (n = 1; n < 4; n++) {
		cl_mutable_dispatch_arg_khr arg[] = {{2, sizeof n, &n}}, to[] = {{0, 0, n % 2 ? c : a}};
		OK(update_one(b, (cl_mutable_dispatch_config_khr){.command = k, .num_args = 1, .arg_list = arg, .num_svm_args = 1, .arg_svm_list = to}));
		OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
		OK(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, a, N * sizeof(int), 0, NULL, NULL));
		int want = n == 2 ? 7 : 6 + n; /* what c has is of the round before */
		CHECK(a[0] == want && a[N - 1] == want);
		OK(clEnqueueSVMUnmap(q, a, 0, NULL, NULL));
	}
	OK(clFinish(q));
	OK(clReleaseCommandBufferKHR(b));
	clSVMFree(h->ctx, a);
	clSVMFree(h->ctx, c);
}

/* A command buffer keeps queues, kernels, and the buffers of copies. */
static void keeps(void)
{
	cl_command_queue q = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], NULL, &err);
	cl_mem x = ints(2), y = ints(0);
	cl_command_buffer_khr b = begin(1, &q, 0);
	OK(clCommandCopyBufferKHR(b, NULL, PROPS(NULL) x, y, 0, 0, sizeof(int) * N, 0, NULL, NULL, NULL));
	cl_uint refs;
	OK(clGetMemObjectInfo(x, CL_MEM_REFERENCE_COUNT, sizeof refs, &refs, NULL));
	CHECK(refs == 2);
	OK(clRetainMemObject(y));
	OK(clReleaseMemObject(x));
	OK(clReleaseMemObject(y));
	OK(clReleaseCommandQueue(q));
	OK(clFinalizeCommandBufferKHR(b));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	OK(clRetainCommandBufferKHR(b));
	OK(clReleaseCommandBufferKHR(b));
	OK(clGetCommandBufferInfoKHR(b, CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR, sizeof refs, &refs, NULL));
	CHECK(refs == 1);
	OK(clReleaseCommandBufferKHR(b));
	CHECK(clReleaseCommandBufferKHR(b) == CL_INVALID_COMMAND_BUFFER_KHR);
	EXPECT_ALL(h->q[0], y, 2); /* what was enqueued goes on */
	OK(clGetMemObjectInfo(y, CL_MEM_REFERENCE_COUNT, sizeof refs, &refs, NULL));
	CHECK(refs == 1);
	b = begin(1, h->q, 0); /* one that is never finalised */
	OK(clCommandCopyBufferKHR(b, NULL, PROPS(NULL) y, y, 0, 512, 512, 0, NULL, NULL, NULL));
	OK(clReleaseCommandBufferKHR(b));
	/* Buffers that are arguments it does not keep; then it is refused, and nothing of it runs. */
	x = ints(1);
	b = begin(1, h->q, 0);
	int five = 5;
	OK(clCommandFillBufferKHR(b, NULL, PROPS(NULL) y, &five, sizeof five, 0, sizeof(int) * N, 0, NULL, NULL, NULL));
	record_add(b, NULL, y, x, 1, 0, NULL);
	OK(clFinalizeCommandBufferKHR(b));
	OK(clReleaseMemObject(x));
	CHECK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL) == CL_INVALID_MEM_OBJECT);
	EXPECT_ALL(h->q[0], y, 2);
	OK(clReleaseCommandBufferKHR(b));
}

static void profiles(void)
{
	cl_queue_properties props[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
	cl_command_queue q = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], props, &err);
	cl_mem x = ints(1), y = ints(0);
	cl_command_buffer_khr b = begin(1, &q, 0);
	enum { MANY = 50 };
	for (int i = 0; i < MANY; i++)
		record_add(b, NULL, i % 2 ? x : y, i % 2 ? y : x, 1, 0, NULL);
	OK(clFinalizeCommandBufferKHR(b));
	cl_event e;
	cl_ulong t[4];
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, &e));
	OK(clWaitForEvents(1, &e));
	for (int i = 0; i < 4; i++)
		OK(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_QUEUED + i, sizeof t[i], t + i, NULL));
	CHECK(t[0] && t[0] <= t[1] && t[1] <= t[2] && t[2] <= t[3]);
	CHECK(t[3] - t[2] > MANY * 50); /* all of it, and not its end alone: a launch takes some of them */
	OK(clReleaseEvent(e));
	OK(clEnqueueCommandBufferKHR(1, h->q, b, 0, NULL, &e)); /* which does not profile */
	CHECK(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof *t, t, NULL) == CL_PROFILING_INFO_NOT_AVAILABLE);
	OK(clReleaseCommandBufferKHR(b));
}

int main(int argc, char **argv)
{
	h = house(argc > 1 ? argv[1] : "Godwit", argc > 2 ? atoi(argv[2]) : 0, 0);
	find_command_buffers(h->dev[0]);
	cl_program p = built(h->ctx, source);
	add = kernel(p, "add");
	twice = kernel(p, "twice");
	share = kernel(p, "share");
	cl_queue_properties props[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
	loose = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], props, &err);
	OK(err);
	in_order();
	out_of_order();
	pending();
	many();
	updates();
#ifndef COMMAND_BUFFER_0_9_0
	deferred();
#else
	sequential();
#endif
	svm();
	keeps();
	profiles();
	puts("OK");
	return 0;
}
