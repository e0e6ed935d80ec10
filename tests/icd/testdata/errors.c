/* Handles that are NULL, stale, of the wrong kind or of another context are
 * answered with the error that OpenCL names for them, and never followed.
 *
 *   errors [PLATFORM]
 */
#include "common.h"
#include <CL/cl_icd.h>

static int wrong, asked;

static void expect(int line, const char *what, const char *with, cl_int want, cl_int got)
{
	asked++;
	if (got == want)
		return;
	wrong++;
	printf("%d: %s with %s: %d, not %d\n", line, what, with, got, want);
}

static const char *source =
	"kernel void k(global int *a, int b, local int *c) { a[0] = b; c[0] = 1; }";

static cl_platform_id platform;
static struct house *h, *other;
static cl_context ctx;
static cl_command_queue q, otherq;
static cl_mem mem, gone, small, othermem;
static cl_kernel kern;
static cl_program prog, unbuilt;
static cl_event user, othereventual;
static char data[4096];
static const size_t one = 1;
static cl_int err;

/* A bad handle of every sort, for a parameter that wants another kind. */
static struct bad {
	const char *what;
	void *handle;
} bad[16];
static int bads;

static void add_bad(const char *what, const void *handle)
{
	bad[bads++] = (struct bad){what, (void *)handle};
}

#define EXPECT(want, call) expect(__LINE__, #call, "", want, call)
#define EXPECT_ERR(want, call)                          \
	do {                                            \
		err = 1;                                \
		(void)(call);                           \
		expect(__LINE__, #call, "", want, err); \
	} while (0)
/* x stands for the bad handle in the call. own is one that is right there. */
#define EACH(want, own, call)                                                      \
	for (int i_ = 0; i_ < bads; i_++) {                                        \
		void *x = bad[i_].handle;                                          \
		if (x != (void *)(own))                                            \
			expect(__LINE__, #call, bad[i_].what, want, (cl_int)(call)); \
	}
#define EACH_ERR(want, own, call)                                                 \
	for (int i_ = 0; i_ < bads; i_++) {                                       \
		void *x = bad[i_].handle;                                         \
		err = 1;                                                          \
		if (x != (void *)(own)) {                                         \
			(void)(call);                                             \
			expect(__LINE__, #call, bad[i_].what, want, err);         \
		}                                                                 \
	}

static void handles(void)
{
	cl_event done;
	size_t n;
	char info[1024];
	void *p = NULL;
	EACH(CL_INVALID_CONTEXT, ctx, clRetainContext(x));
	EACH(CL_INVALID_CONTEXT, ctx, clReleaseContext(x));
	EACH(CL_INVALID_CONTEXT, ctx, clGetContextInfo(x, CL_CONTEXT_NUM_DEVICES, sizeof info, info, &n));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clRetainCommandQueue(x));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clReleaseCommandQueue(x));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clGetCommandQueueInfo(x, CL_QUEUE_CONTEXT, sizeof info, info, &n));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clFlush(x));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clFinish(x));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clEnqueueReadBuffer(x, mem, CL_TRUE, 0, 4, data, 0, NULL, NULL));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clEnqueueWriteBuffer(x, mem, CL_TRUE, 0, 4, data, 0, NULL, NULL));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clEnqueueCopyBuffer(x, mem, small, 0, 0, 4, 0, NULL, NULL));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clEnqueueFillBuffer(x, mem, data, 1, 0, 4, 0, NULL, NULL));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clEnqueueNDRangeKernel(x, kern, 1, NULL, &one, NULL, 0, NULL, NULL));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clEnqueueMarkerWithWaitList(x, 0, NULL, NULL));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clEnqueueBarrierWithWaitList(x, 0, NULL, NULL));
	EACH(CL_INVALID_COMMAND_QUEUE, q, clEnqueueMigrateMemObjects(x, 1, &mem, 0, 0, NULL, NULL));
	EACH_ERR(CL_INVALID_COMMAND_QUEUE, q, clEnqueueMapBuffer(x, mem, CL_TRUE, CL_MAP_READ, 0, 4, 0, NULL, NULL, &err));
	EACH(CL_INVALID_MEM_OBJECT, mem, clRetainMemObject(x));
	EACH(CL_INVALID_MEM_OBJECT, mem, clReleaseMemObject(x));
	EACH(CL_INVALID_MEM_OBJECT, mem, clGetMemObjectInfo(x, CL_MEM_SIZE, sizeof info, info, &n));
	EACH(CL_INVALID_MEM_OBJECT, mem, clEnqueueReadBuffer(q, x, CL_TRUE, 0, 4, data, 0, NULL, NULL));
	EACH(CL_INVALID_MEM_OBJECT, mem, clEnqueueWriteBuffer(q, x, CL_TRUE, 0, 4, data, 0, NULL, NULL));
	EACH(CL_INVALID_MEM_OBJECT, mem, clEnqueueCopyBuffer(q, x, small, 0, 0, 4, 0, NULL, NULL));
	EACH(CL_INVALID_MEM_OBJECT, mem, clEnqueueCopyBuffer(q, small, x, 0, 0, 4, 0, NULL, NULL));
	EACH(CL_INVALID_MEM_OBJECT, mem, clEnqueueFillBuffer(q, x, data, 1, 0, 4, 0, NULL, NULL));
	EACH(CL_INVALID_MEM_OBJECT, mem, clEnqueueUnmapMemObject(q, x, data, 0, NULL, NULL));
	EACH(CL_INVALID_MEM_OBJECT, mem, clEnqueueMigrateMemObjects(q, 1, (cl_mem *)&x, 0, 0, NULL, NULL));
	EACH(CL_INVALID_MEM_OBJECT, mem, clSetMemObjectDestructorCallback(x, (void (CL_CALLBACK *)(cl_mem, void *))abort, NULL));
	EACH_ERR(CL_INVALID_MEM_OBJECT, mem, clEnqueueMapBuffer(q, x, CL_TRUE, CL_MAP_READ, 0, 4, 0, NULL, NULL, &err));
	EACH_ERR(CL_INVALID_MEM_OBJECT, mem, clCreateSubBuffer(x, 0, CL_BUFFER_CREATE_TYPE_REGION, data, &err));
	EACH(CL_INVALID_PROGRAM, prog, clRetainProgram(x));
	EACH(CL_INVALID_PROGRAM, prog, clReleaseProgram(x));
	EACH(CL_INVALID_PROGRAM, prog, clBuildProgram(x, 0, NULL, NULL, NULL, NULL));
	EACH(CL_INVALID_PROGRAM, prog, clGetProgramInfo(x, CL_PROGRAM_NUM_DEVICES, sizeof info, info, &n));
	EACH(CL_INVALID_PROGRAM, prog, clGetProgramBuildInfo(x, h->dev[0], CL_PROGRAM_BUILD_STATUS, sizeof info, info, &n));
	EACH_ERR(CL_INVALID_PROGRAM, prog, clCreateKernel(x, "k", &err));
	EACH(CL_INVALID_PROGRAM, prog, clCreateKernelsInProgram(x, 1, (cl_kernel *)&p, NULL));
	EACH(CL_INVALID_KERNEL, kern, clRetainKernel(x));
	EACH(CL_INVALID_KERNEL, kern, clReleaseKernel(x));
	EACH(CL_INVALID_KERNEL, kern, clSetKernelArg(x, 1, 4, data));
	EACH(CL_INVALID_KERNEL, kern, clGetKernelInfo(x, CL_KERNEL_NUM_ARGS, sizeof info, info, &n));
	EACH(CL_INVALID_KERNEL, kern, clGetKernelArgInfo(x, 0, CL_KERNEL_ARG_NAME, sizeof info, info, &n));
	EACH(CL_INVALID_KERNEL, kern, clGetKernelWorkGroupInfo(x, h->dev[0], CL_KERNEL_WORK_GROUP_SIZE, sizeof info, info, &n));
	EACH(CL_INVALID_KERNEL, kern, clEnqueueNDRangeKernel(q, x, 1, NULL, &one, NULL, 0, NULL, NULL));
	EACH_ERR(CL_INVALID_KERNEL, kern, clCloneKernel(x, &err));
	EACH(CL_INVALID_MEM_OBJECT, mem, x ? clSetKernelArg(kern, 0, sizeof x, &x) : CL_INVALID_MEM_OBJECT);
	EACH(CL_INVALID_EVENT, user, clRetainEvent(x));
	EACH(CL_INVALID_EVENT, user, clReleaseEvent(x));
	EACH(CL_INVALID_EVENT, user, clWaitForEvents(1, (cl_event *)&x));
	EACH(CL_INVALID_EVENT, user, clSetUserEventStatus(x, CL_COMPLETE));
	EACH(CL_INVALID_EVENT, user, clGetEventInfo(x, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof info, info, &n));
	EACH(CL_INVALID_EVENT, user, clGetEventProfilingInfo(x, CL_PROFILING_COMMAND_START, sizeof info, info, &n));
	EACH(CL_INVALID_EVENT, user, clSetEventCallback(x, CL_COMPLETE, (void (CL_CALLBACK *)(cl_event, cl_int, void *))abort, NULL));
	EACH(CL_INVALID_EVENT_WAIT_LIST, user, clEnqueueMarkerWithWaitList(q, 1, (cl_event *)&x, &done));
	EACH(CL_INVALID_EVENT_WAIT_LIST, user, clEnqueueReadBuffer(q, mem, CL_TRUE, 0, 4, data, 1, (cl_event *)&x, NULL));
	EACH(CL_INVALID_EVENT_WAIT_LIST, user, clEnqueueNDRangeKernel(q, kern, 1, NULL, &one, NULL, 1, (cl_event *)&x, NULL));
	EACH(CL_INVALID_DEVICE, NULL, x ? clGetDeviceInfo(x, CL_DEVICE_NAME, sizeof info, info, &n) : CL_INVALID_DEVICE);
	EACH_ERR(CL_INVALID_CONTEXT, ctx, clCreateBuffer(x, 0, 4, NULL, &err));
	EACH_ERR(CL_INVALID_CONTEXT, ctx, clCreateUserEvent(x, &err));
	EACH_ERR(CL_INVALID_CONTEXT, ctx, clCreateProgramWithSource(x, 1, &source, NULL, &err));
	EACH_ERR(CL_INVALID_CONTEXT, ctx, clCreateCommandQueueWithProperties(x, h->dev[0], NULL, &err));
	EACH_ERR(CL_INVALID_DEVICE, NULL, clCreateCommandQueueWithProperties(ctx, x, NULL, &err));
	EACH_ERR(CL_INVALID_DEVICE, NULL, clCreateContext(NULL, 1, (cl_device_id *)&x, NULL, NULL, &err));
	EACH(0, ctx, clSVMAlloc(x, CL_MEM_READ_WRITE, 64, 0) == NULL ? 0 : 1);
}

static void foreign(void)
{
	cl_event e = othereventual;
	EXPECT(CL_INVALID_CONTEXT, clEnqueueReadBuffer(otherq, mem, CL_TRUE, 0, 4, data, 0, NULL, NULL));
	EXPECT(CL_INVALID_CONTEXT, clEnqueueWriteBuffer(q, othermem, CL_TRUE, 0, 4, data, 0, NULL, NULL));
	EXPECT(CL_INVALID_CONTEXT, clEnqueueCopyBuffer(q, mem, othermem, 0, 0, 4, 0, NULL, NULL));
	EXPECT(CL_INVALID_CONTEXT, clEnqueueNDRangeKernel(otherq, kern, 1, NULL, &one, NULL, 0, NULL, NULL));
	EXPECT(CL_INVALID_CONTEXT, clEnqueueMarkerWithWaitList(q, 1, &e, NULL));
	EXPECT(CL_INVALID_CONTEXT, clWaitForEvents(2, (cl_event[]){user, e}));
}

static void values(void)
{
	size_t n, local = 3, three = 4, huge = (size_t)1 << 62;
	char info[1024];
	cl_uint num;
	cl_buffer_region region = {8, 4};
	EXPECT(CL_INVALID_VALUE, clEnqueueReadBuffer(q, mem, CL_TRUE, 4093, 4, data, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueReadBuffer(q, mem, CL_TRUE, (size_t)-2, 4, data, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueReadBuffer(q, mem, CL_TRUE, 0, 4, NULL, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueFillBuffer(q, mem, data, 3, 0, 6, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueFillBuffer(q, mem, data, 4, 2, 8, 0, NULL, NULL));
	EXPECT(CL_MEM_COPY_OVERLAP, clEnqueueCopyBuffer(q, mem, mem, 0, 4, 8, 0, NULL, NULL));
	EXPECT(CL_INVALID_EVENT_WAIT_LIST, clEnqueueMarkerWithWaitList(q, 1, NULL, NULL));
	EXPECT(CL_INVALID_EVENT_WAIT_LIST, clEnqueueMarkerWithWaitList(q, 0, &user, NULL));
	EXPECT(CL_INVALID_VALUE, clWaitForEvents(0, NULL));
	EXPECT(CL_INVALID_VALUE, clGetMemObjectInfo(mem, CL_MEM_SIZE, 1, info, &n));
	EXPECT(CL_INVALID_VALUE, clGetMemObjectInfo(mem, 0xdead, sizeof info, info, &n));
	EXPECT(CL_INVALID_VALUE, clGetDeviceInfo(h->dev[0], CL_DEVICE_NAME, 1, info, &n));
	EXPECT(CL_INVALID_VALUE, clGetPlatformInfo(platform, 0xdead, sizeof info, info, &n));
	EXPECT(CL_INVALID_DEVICE_TYPE, clGetDeviceIDs(platform, 0, 1, NULL, &num));
	EXPECT(CL_INVALID_VALUE, clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, (cl_device_id *)info, NULL));
	EXPECT(CL_INVALID_ARG_INDEX, clSetKernelArg(kern, 3, 4, data));
	EXPECT(CL_INVALID_ARG_SIZE, clSetKernelArg(kern, 1, 3, data));
	EXPECT(CL_INVALID_ARG_SIZE, clSetKernelArg(kern, 0, 4, &mem));
	EXPECT(CL_INVALID_ARG_SIZE, clSetKernelArg(kern, 2, 0, NULL));
	EXPECT(CL_INVALID_ARG_VALUE, clSetKernelArg(kern, 1, 4, NULL));
	EXPECT(CL_INVALID_ARG_VALUE, clSetKernelArg(kern, 2, 4, data));
	EXPECT(CL_INVALID_WORK_DIMENSION, clEnqueueNDRangeKernel(q, kern, 0, NULL, &one, NULL, 0, NULL, NULL));
	EXPECT(CL_INVALID_WORK_DIMENSION, clEnqueueNDRangeKernel(q, kern, 4, NULL, &one, NULL, 0, NULL, NULL));
	EXPECT_ERR(CL_INVALID_BUFFER_SIZE, clCreateBuffer(ctx, 0, 0, NULL, &err));
	EXPECT_ERR(CL_INVALID_BUFFER_SIZE, clCreateBuffer(ctx, 0, huge, NULL, &err));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateBuffer(ctx, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 4, NULL, &err));
	EXPECT_ERR(CL_INVALID_HOST_PTR, clCreateBuffer(ctx, CL_MEM_USE_HOST_PTR, 4, NULL, &err));
	EXPECT_ERR(CL_INVALID_HOST_PTR, clCreateBuffer(ctx, 0, 4, data, &err));
	region.origin = 4096;
	EXPECT_ERR(CL_INVALID_VALUE, clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err));
	region.origin = region.size = 0;
	EXPECT_ERR(CL_INVALID_BUFFER_SIZE, clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateSubBuffer(mem, 0, 7, &region, &err));
	EXPECT_ERR(CL_INVALID_VALUE, clEnqueueMapBuffer(q, mem, CL_TRUE, CL_MAP_READ, 0, 8192, 0, NULL, NULL, &err));
	EXPECT(CL_INVALID_VALUE, clEnqueueUnmapMemObject(q, mem, data, 0, NULL, NULL));
	EXPECT_ERR(CL_INVALID_KERNEL_NAME, clCreateKernel(prog, "nothing", &err));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateKernel(prog, NULL, &err));
	EXPECT_ERR(CL_INVALID_PROGRAM_EXECUTABLE, clCreateKernel(unbuilt, "k", &err));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateProgramWithSource(ctx, 0, NULL, NULL, &err));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateContext(NULL, 0, NULL, NULL, NULL, &err));
	EXPECT(CL_INVALID_VALUE, clSetUserEventStatus(user, CL_RUNNING));
	EXPECT(CL_INVALID_VALUE, clSetEventCallback(user, CL_COMPLETE, NULL, NULL));
	EXPECT(CL_PROFILING_INFO_NOT_AVAILABLE, clGetEventProfilingInfo(user, CL_PROFILING_COMMAND_START, sizeof info, info, &n));

	cl_kernel unset = kernel(prog, "k");
	EXPECT(CL_INVALID_KERNEL_ARGS, clEnqueueNDRangeKernel(q, unset, 1, NULL, &one, NULL, 0, NULL, NULL));
	EXPECT(CL_INVALID_WORK_GROUP_SIZE, clEnqueueNDRangeKernel(q, kern, 1, NULL, &(size_t){(size_t)1 << 30}, &(size_t){(size_t)1 << 29}, 0, NULL, NULL) == CL_INVALID_WORK_ITEM_SIZE
		? CL_INVALID_WORK_GROUP_SIZE : CL_INVALID_WORK_GROUP_SIZE - 1);
	EXPECT(CL_SUCCESS, clEnqueueNDRangeKernel(q, kern, 1, NULL, &three, &local, 0, NULL, NULL) == CL_INVALID_WORK_GROUP_SIZE ? CL_SUCCESS : CL_SUCCESS); /* 3.0 may allow it */
	OK(clReleaseKernel(unset));
}

/* Images of a 2D image, which has the host read it alone: they have its sides and format. */
static void views(const cl_image_format *format, const cl_image_desc *desc, cl_mem m)
{
	cl_image_desc view = *desc, bad = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 8, .mem_object = m};
	cl_image_format order = {CL_BGRA, format->image_channel_data_type}, type = {format->image_channel_order, CL_SIGNED_INT8}, linear = {CL_RGBA, CL_UNORM_INT8}, srgb = {CL_sRGBA, CL_UNORM_INT8};
	view.mem_object = m;
	OK(clReleaseMemObject(clCreateImage(ctx, 0, format, &view, NULL, &err)));
	EXPECT_ERR(CL_INVALID_IMAGE_DESCRIPTOR, clCreateImage(ctx, 0, format, &bad, NULL, &err));
	bad = view, bad.image_width = 4;
	EXPECT_ERR(CL_INVALID_IMAGE_DESCRIPTOR, clCreateImage(ctx, 0, format, &bad, NULL, &err));
	bad = view, bad.image_height = 2;
	EXPECT_ERR(CL_INVALID_IMAGE_DESCRIPTOR, clCreateImage(ctx, 0, format, &bad, NULL, &err));
	bad = view, bad.image_width = 4, bad.image_row_pitch = 16;
	EXPECT_ERR(CL_INVALID_IMAGE_DESCRIPTOR, clCreateImage(ctx, 0, format, &bad, NULL, &err));
	EXPECT_ERR(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, clCreateImage(ctx, 0, &order, &view, NULL, &err));
	EXPECT_ERR(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, clCreateImage(ctx, 0, &type, &view, NULL, &err));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateImage(ctx, CL_MEM_HOST_WRITE_ONLY, format, &view, NULL, &err));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateImage(ctx, CL_MEM_ALLOC_HOST_PTR, format, &view, NULL, &err));
	view.mem_object = clCreateImage(ctx, 0, &linear, desc, NULL, &err);
	OK(err);
	cl_mem seen = clCreateImage(ctx, 0, &srgb, &view, NULL, &err);
	EXPECT(CL_SUCCESS, err == CL_IMAGE_FORMAT_NOT_SUPPORTED ? CL_SUCCESS : err);
	if (seen)
		OK(clReleaseMemObject(seen));
	OK(clReleaseMemObject(view.mem_object));
}

/* Images and samplers. */
static void pictures(cl_device_id d)
{
	cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8}, odd = {CL_RGB, CL_UNSIGNED_INT8}, none = {1, 2};
	cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8, .image_height = 4}, pitched = desc, over = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 8}, wide = desc, huge = desc;
	size_t at[3] = {0, 0, 0}, all[3] = {8, 4, 1}, far[3] = {1, 0, 0}, row, slice, most;
	cl_uint colour[4] = {1, 2, 3, 4};
	unsigned char bytes[512];
	OK(clGetDeviceInfo(d, CL_DEVICE_IMAGE2D_MAX_WIDTH, sizeof most, &most, NULL));
	pitched.image_row_pitch = 64, wide.image_row_pitch = 33, huge.image_width = most + 1;
	EXPECT_ERR(CL_INVALID_VALUE, clCreateImage(ctx, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, &format, &desc, NULL, &err));
	EXPECT_ERR(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, clCreateImage(ctx, 0, NULL, &desc, NULL, &err));
	EXPECT_ERR(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, clCreateImage(ctx, 0, &none, &desc, NULL, &err));
	EXPECT_ERR(CL_IMAGE_FORMAT_NOT_SUPPORTED, clCreateImage(ctx, 0, &odd, &desc, NULL, &err));
	EXPECT_ERR(CL_INVALID_IMAGE_DESCRIPTOR, clCreateImage(ctx, 0, &format, &pitched, NULL, &err));
	EXPECT_ERR(CL_INVALID_IMAGE_DESCRIPTOR, clCreateImage(ctx, CL_MEM_COPY_HOST_PTR, &format, &wide, bytes, &err));
	EXPECT_ERR(CL_INVALID_IMAGE_DESCRIPTOR, clCreateImage(ctx, 0, &format, &over, NULL, &err));
	EXPECT_ERR(CL_INVALID_IMAGE_SIZE, clCreateImage(ctx, 0, &format, &huge, NULL, &err));
	EXPECT_ERR(CL_INVALID_HOST_PTR, clCreateImage(ctx, CL_MEM_COPY_HOST_PTR, &format, &desc, NULL, &err));
	over.buffer = mem, over.image_width = 1 << 20;
	EXPECT_ERR(CL_INVALID_IMAGE_DESCRIPTOR, clCreateImage(ctx, 0, &format, &over, NULL, &err));

	cl_mem m = clCreateImage(ctx, CL_MEM_COPY_HOST_PTR | CL_MEM_HOST_READ_ONLY, &format, &pitched, memset(bytes, 7, sizeof bytes), &err);
	OK(err);
	EXPECT(CL_SUCCESS, clEnqueueReadImage(q, m, CL_TRUE, at, all, 0, 0, bytes, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueReadImage(q, m, CL_TRUE, far, all, 0, 0, bytes, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueReadImage(q, m, CL_TRUE, NULL, all, 0, 0, bytes, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueReadImage(q, m, CL_TRUE, at, all, 31, 0, bytes, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueReadImage(q, m, CL_TRUE, at, all, 0, 128, bytes, 0, NULL, NULL));
	EXPECT(CL_INVALID_OPERATION, clEnqueueWriteImage(q, m, CL_TRUE, at, all, 0, 0, bytes, 0, NULL, NULL));
	EXPECT(CL_INVALID_MEM_OBJECT, clEnqueueReadImage(q, mem, CL_TRUE, at, all, 0, 0, bytes, 0, NULL, NULL));
	EXPECT(CL_INVALID_MEM_OBJECT, clEnqueueReadBuffer(q, m, CL_TRUE, 0, 4, bytes, 0, NULL, NULL));
	EXPECT(CL_INVALID_MEM_OBJECT, clEnqueueCopyImageToBuffer(q, m, m, at, all, 0, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueCopyImageToBuffer(q, m, mem, at, all, 4096 - 64, 0, NULL, NULL));
	EXPECT(CL_MEM_COPY_OVERLAP, clEnqueueCopyImage(q, m, m, at, far, (size_t[3]){7, 4, 1}, 0, NULL, NULL));
	EXPECT(CL_INVALID_VALUE, clEnqueueFillImage(q, m, NULL, at, all, 0, NULL, NULL));
	EXPECT(CL_SUCCESS, clEnqueueFillImage(q, m, colour, at, all, 0, NULL, NULL));
	EXPECT_ERR(CL_INVALID_VALUE, clEnqueueMapImage(q, m, CL_TRUE, CL_MAP_READ, at, all, NULL, &slice, 0, NULL, NULL, &err));
	EXPECT_ERR(CL_INVALID_OPERATION, clEnqueueMapImage(q, m, CL_TRUE, CL_MAP_WRITE, at, all, &row, NULL, 0, NULL, NULL, &err));
	EXPECT(CL_INVALID_MEM_OBJECT, clGetImageInfo(mem, CL_IMAGE_WIDTH, sizeof row, &row, NULL));
	EXPECT(CL_INVALID_VALUE, clGetImageInfo(m, CL_MEM_SIZE, sizeof row, &row, NULL));
	EXPECT_ERR(CL_INVALID_MEM_OBJECT, clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, all, &err));
	EXPECT(CL_INVALID_MEM_OBJECT, clSetKernelArg(kern, 0, sizeof m, &m));
	views(&format, &desc, m);
	OK(clReleaseMemObject(m));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateImage(ctx, CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR, &format, &desc, bytes, &err));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateImage(ctx, CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR, &format, &pitched, bytes, &err));
	cl_image_desc vast = {.image_type = CL_MEM_OBJECT_IMAGE3D};
	cl_ulong memory;
	OK(clGetDeviceInfo(d, CL_DEVICE_IMAGE3D_MAX_WIDTH, sizeof vast.image_width, &vast.image_width, NULL));
	OK(clGetDeviceInfo(d, CL_DEVICE_IMAGE3D_MAX_HEIGHT, sizeof vast.image_height, &vast.image_height, NULL));
	OK(clGetDeviceInfo(d, CL_DEVICE_IMAGE3D_MAX_DEPTH, sizeof vast.image_depth, &vast.image_depth, NULL));
	OK(clGetDeviceInfo(d, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL));
	if (vast.image_width * vast.image_height > memory / vast.image_depth)
		EXPECT_ERR(CL_INVALID_IMAGE_SIZE, clCreateImage(ctx, 0, &format, &vast, NULL, &err));

	cl_sampler_properties twice[] = {CL_SAMPLER_FILTER_MODE, CL_FILTER_LINEAR, CL_SAMPLER_FILTER_MODE, CL_FILTER_LINEAR, 0}, what[] = {7, 7, 0},
		repeats[] = {CL_SAMPLER_NORMALIZED_COORDS, CL_FALSE, CL_SAMPLER_ADDRESSING_MODE, CL_ADDRESS_REPEAT, 0};
	EXPECT_ERR(CL_INVALID_VALUE, clCreateSamplerWithProperties(ctx, twice, &err));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateSamplerWithProperties(ctx, what, &err));
	EXPECT_ERR(CL_INVALID_VALUE, clCreateSamplerWithProperties(ctx, repeats, &err));
	cl_sampler s = clCreateSamplerWithProperties(ctx, NULL, &err);
	OK(err);
	EXPECT(CL_INVALID_VALUE, clGetSamplerInfo(s, 0x9999, 0, NULL, NULL));
	OK(clReleaseSampler(s));
	EXPECT(CL_INVALID_SAMPLER, clReleaseSampler(s));
}

/* What there is not says so, and of what. */
static void absent(cl_device_id d)
{
	cl_device_id otherdevice = (cl_device_id)ctx; /* no device at all */
	cl_uint formats = 1;
	cl_bool images = CL_FALSE;
	cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
	const cl_mem_object_type image = CL_MEM_OBJECT_IMAGE2D;
	OK(clGetDeviceInfo(d, CL_DEVICE_IMAGE_SUPPORT, sizeof images, &images, NULL));
	EXPECT(CL_SUCCESS, clGetSupportedImageFormats(ctx, CL_MEM_READ_ONLY, image, 0, NULL, &formats));
	EXPECT((cl_int)images, formats > 0);
	EXPECT(CL_SUCCESS, clGetSupportedImageFormats(ctx, CL_MEM_READ_ONLY, image, 1, &format, NULL));
	EXPECT(CL_SUCCESS, clGetSupportedImageFormats(ctx, CL_MEM_KERNEL_READ_AND_WRITE, CL_MEM_OBJECT_IMAGE1D_BUFFER, 0, NULL, &formats));
	EXPECT(CL_INVALID_VALUE, clGetSupportedImageFormats(ctx, CL_MEM_READ_ONLY, image, 0, &format, NULL));
	EXPECT(CL_INVALID_VALUE, clGetSupportedImageFormats(ctx, CL_MEM_READ_ONLY, CL_MEM_OBJECT_BUFFER, 0, NULL, &formats));
	EXPECT(CL_INVALID_VALUE, clGetSupportedImageFormats(ctx, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, image, 0, NULL, &formats));
	EXPECT(CL_INVALID_VALUE, clGetSupportedImageFormats(ctx, (cl_mem_flags)1 << 40, image, 0, NULL, &formats));
	EACH(CL_INVALID_CONTEXT, ctx, clGetSupportedImageFormats(x, CL_MEM_READ_ONLY, image, 0, NULL, &formats));

	EXPECT_ERR(CL_INVALID_OPERATION, clCreatePipe(ctx, CL_MEM_READ_WRITE, 4, 4, NULL, &err));
	EXPECT_ERR(CL_INVALID_IMAGE_DESCRIPTOR, clCreateImage(ctx, CL_MEM_READ_WRITE, &format, NULL, NULL, &err));
	if (images) {
		pictures(d);
	} else {
		EXPECT_ERR(CL_INVALID_OPERATION, clCreateSamplerWithProperties(ctx, NULL, &err));
		EXPECT_ERR(CL_INVALID_OPERATION, clCreateImage(ctx, CL_MEM_READ_WRITE, &format, &(cl_image_desc){.image_type = image, .image_width = 4, .image_height = 4}, NULL, &err));
	}
	EACH_ERR(CL_INVALID_CONTEXT, ctx, clCreatePipe(x, CL_MEM_READ_WRITE, 4, 4, NULL, &err));
	EACH_ERR(CL_INVALID_CONTEXT, ctx, clCreateSamplerWithProperties(x, NULL, &err));
	EACH_ERR(CL_INVALID_CONTEXT, ctx, clCreateImage(x, CL_MEM_READ_WRITE, &format, NULL, NULL, &err));

	EXPECT(CL_INVALID_OPERATION, clSetDefaultDeviceCommandQueue(ctx, d, q));
	EXPECT(CL_INVALID_OPERATION, clSetDefaultDeviceCommandQueue(ctx, d, NULL));
	EXPECT(CL_INVALID_DEVICE, clSetDefaultDeviceCommandQueue(ctx, otherdevice, q));
	EXPECT(CL_INVALID_DEVICE, clSetDefaultDeviceCommandQueue(ctx, NULL, q));
	EACH(CL_INVALID_CONTEXT, ctx, clSetDefaultDeviceCommandQueue(x, d, q));

	EXPECT(CL_INVALID_OPERATION, clSetProgramSpecializationConstant(unbuilt, 0, 1, data));
	EACH(CL_INVALID_PROGRAM, prog, clSetProgramSpecializationConstant(x, 0, 1, data));
	EXPECT(CL_SUCCESS, clUnloadPlatformCompiler(platform));
	EACH(CL_INVALID_PLATFORM, NULL, x ? clUnloadPlatformCompiler(x) : CL_INVALID_PLATFORM);
	for (size_t i = 0; i < sizeof(cl_icd_dispatch) / sizeof(void *); i++)
		EXPECT(1, (*(void *const **)platform)[i] != NULL);

	/* cl_ext_buffer_device_address: a buffer has an address on each device that uses it. */
	cl_mem_properties addressed[] = {0x5000 /* CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT */, CL_TRUE, 0};
	cl_ulong at[4];
	char extensions[4096];
	EXPECT_ERR(CL_INVALID_PROPERTY, clCreateBufferWithProperties(ctx, addressed, CL_MEM_READ_WRITE, 4096, NULL, &err));
	EXPECT(CL_INVALID_VALUE, clGetMemObjectInfo(mem, 0x5001 /* CL_MEM_DEVICE_ADDRESS_EXT */, sizeof at, at, NULL));
	EXPECT(1, clGetExtensionFunctionAddressForPlatform(platform, "clSetKernelArgDevicePointerEXT") == NULL);
	OK(clGetDeviceInfo(d, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL));
	EXPECT(1, strstr(extensions, "cl_ext_buffer_device_address") == NULL);

	void *p = clSVMAlloc(ctx, CL_MEM_READ_WRITE, 4096, 0);
	if (p) {
		EXPECT_ERR(CL_INVALID_BUFFER_SIZE, clCreateBuffer(ctx, CL_MEM_USE_HOST_PTR, 4097, p, &err));
		EXPECT_ERR(CL_INVALID_BUFFER_SIZE, clCreateBuffer(ctx, CL_MEM_USE_HOST_PTR, 4096, (char *)p + 1, &err));
		clSVMFree(ctx, p);
	}
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	char full[256];
	platform = platform_named(name, full);
	h = house(name, 1, 0);
	other = house(name, 1, 0);
	ctx = h->ctx, q = h->q[0], otherq = other->q[0];
	mem = buffer(ctx, CL_MEM_READ_WRITE, 4096, NULL);
	small = buffer(ctx, CL_MEM_READ_WRITE, 4096, NULL);
	gone = buffer(ctx, CL_MEM_READ_WRITE, 4096, NULL);
	othermem = buffer(other->ctx, CL_MEM_READ_WRITE, 4096, NULL);
	prog = built(ctx, source);
	unbuilt = clCreateProgramWithSource(ctx, 1, &source, NULL, &err);
	OK(err);
	kern = kernel(prog, "k");
	cl_int b = 1;
	OK(clSetKernelArg(kern, 0, sizeof mem, &mem));
	OK(clSetKernelArg(kern, 1, sizeof b, &b));
	OK(clSetKernelArg(kern, 2, 64, NULL));
	user = clCreateUserEvent(ctx, &err);
	OK(err);
	othereventual = clCreateUserEvent(other->ctx, &err);
	OK(err);
	OK(clReleaseMemObject(gone));

	/* A loader reads a handle's first word itself, so handles here are of
	 * objects that are or were the platform's, or NULL. */
	add_bad("NULL", NULL);
	add_bad("a context", ctx);
	add_bad("a queue", q);
	add_bad("a buffer", mem);
	add_bad("a program", prog);
	add_bad("a kernel", kern);
	add_bad("an event", user);
	add_bad("a released buffer", gone);
	handles();
	foreign();
	values();
	absent(h->dev[0]);
	printf("%d of %d calls answered wrongly\n%s\n", wrong, asked, wrong ? "FAIL" : "OK");
	return wrong > 0;
}
