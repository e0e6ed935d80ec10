/* A command of a command buffer that waits by a sync point for a launch that fails does nothing, also on an in-order
 * queue; one that does not wait for it does. The driver fails each kernel.
 *
 *   command_buffer_fails [PLATFORM]
 */
#include "command_buffer.h"

enum { N = 64 };

static cl_mem fill_after(cl_command_buffer_khr b, struct house *h, cl_sync_point_khr after)
{
	cl_uchar zero[N] = {0}, seven = 7;
	cl_mem m = buffer(h->ctx, CL_MEM_COPY_HOST_PTR, N, zero);
	OK(clCommandFillBufferKHR(b, NULL, NULL, m, &seven, 1, 0, N, after != 0, after ? &after : NULL, NULL, NULL));
	return m;
}

int main(int argc, char **argv)
{
	struct house *h = house(argc > 1 ? argv[1] : "Godwit", 1, 0);
	find_command_buffers(h->dev[0]);
	cl_kernel k = kernel(built(h->ctx, "kernel void set(global char *y) { y[get_global_id(0)] = 1; }"), "set");
	cl_mem y = buffer(h->ctx, 0, N, NULL);
	cl_int err;
	cl_command_buffer_khr b = clCreateCommandBufferKHR(1, h->q, NULL, &err);
	OK(err);
	size_t size = N;
	cl_sync_point_khr launch;
	OK(clSetKernelArg(k, 0, sizeof y, &y));
	OK(clCommandNDRangeKernelKHR(b, NULL, NULL, k, 1, NULL, &size, NULL, 0, NULL, &launch, NULL));
	cl_mem waits = fill_after(b, h, launch), does_not = fill_after(b, h, 0);
	OK(clFinalizeCommandBufferKHR(b));
	OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
	clFinish(h->q[0]);

	cl_uchar got[N] = {0};
	OK(clEnqueueReadBuffer(h->q[0], does_not, CL_TRUE, 0, N, got, 0, NULL, NULL));
	CHECK(got[0] == 7 && got[N - 1] == 7);
	err = clEnqueueReadBuffer(h->q[0], waits, CL_TRUE, 0, N, got, 0, NULL, NULL);
	CHECK(err != CL_SUCCESS);
	puts("OK");
	return 0;
}
