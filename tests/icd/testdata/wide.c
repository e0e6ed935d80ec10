/* A buffer that is larger than any of two devices of 1 MiB takes, in parts that they hold.
 *
 *   wide [PLATFORM]
 */
#include "common.h"

static const char *source = "kernel void add(global uint *a, uint k) { a[get_global_id(0)] += k; }";

enum { SIZE = 3 << 19, PARTS = 6, PART = SIZE / PARTS };

int main(int argc, char **argv)
{
	struct house *h = house(argc > 1 ? argv[1] : "", 2, 0);
	cl_ulong most = 0, had = 0;
	cl_int err;
	for (int d = 0; d < 2; d++) {
		cl_ulong alloc, memory;
		OK(clGetDeviceInfo(h->dev[d], CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof alloc, &alloc, NULL));
		OK(clGetDeviceInfo(h->dev[d], CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL));
		most = alloc > most ? alloc : most;
		had += memory;
	}
	CHECK(most < SIZE && had >= SIZE);
	cl_mem none = clCreateBuffer(h->ctx, 0, had + 1, NULL, &err); /* more than there is */
	CHECK(!none && err == CL_INVALID_BUFFER_SIZE);
	static uint32_t data[SIZE / 4], got[SIZE / 4];
	none = clCreateBuffer(h->ctx, CL_MEM_USE_HOST_PTR, SIZE, data, &err); /* is stored whole */
	CHECK(!none && err == CL_INVALID_BUFFER_SIZE);

	for (size_t i = 0; i < SIZE / 4; i++)
		data[i] = i * 7;
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, SIZE, data);
	cl_kernel add = kernel(built(h->ctx, source), "add");
	cl_mem parts[PARTS];
	for (int p = 0; p < PARTS; p++) {
		cl_buffer_region r = {(size_t)p * PART, PART};
		parts[p] = clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &r, &err);
		OK(err);
	}
	for (cl_uint round = 1; round <= 4; round++)
		for (int p = 0; p < PARTS; p++) {
			size_t words = PART / 4;
			OK(clSetKernelArg(add, 0, sizeof parts[p], &parts[p]));
			OK(clSetKernelArg(add, 1, sizeof round, &round));
			OK(clEnqueueNDRangeKernel(h->q[(p + round) % 2], add, 1, NULL, &words, NULL, 0, NULL, NULL));
			OK(clFinish(h->q[(p + round) % 2]));
		}
	size_t words = SIZE / 4;
	OK(clSetKernelArg(add, 0, sizeof m, &m)); /* all of it, at once */
	CHECK(clEnqueueNDRangeKernel(h->q[0], add, 1, NULL, &words, NULL, 0, NULL, NULL) == CL_MEM_OBJECT_ALLOCATION_FAILURE);
	CHECK(clEnqueueReadBuffer(h->q[1], m, CL_TRUE, 0, SIZE, got, 0, NULL, NULL) == CL_MEM_OBJECT_ALLOCATION_FAILURE);
	for (int p = 0; p < PARTS; p++)
		OK(clEnqueueReadBuffer(h->q[1], m, CL_TRUE, (size_t)p * PART, PART, (char *)got + p * PART, 0, NULL, NULL));
	for (size_t i = 0; i < SIZE / 4; i++)
		CHECK(got[i] == data[i] + 1 + 2 + 3 + 4);
	for (int p = 0; p < PARTS; p++)
		OK(clReleaseMemObject(parts[p]));
	OK(clReleaseMemObject(m));
	cl_program program;
	OK(clGetKernelInfo(add, CL_KERNEL_PROGRAM, sizeof program, &program, NULL));
	OK(clReleaseKernel(add));
	OK(clReleaseProgram(program));
	leave(h);
	printf("OK\n");
	return 0;
}
