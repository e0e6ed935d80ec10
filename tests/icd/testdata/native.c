/* Native kernels: functions of the program's between kernels of devices, on the same buffers.
 *
 *   native [PLATFORM [DEVICES]]
 */
#include "common.h"

static const char *source = "kernel void twice(global int *a) { a[get_global_id(0)] *= 2; }\n";

enum { N = 1024 };

struct args {
	char tag;
	int *a, *b, *part;
	long n;
};

static int calls;

static void CL_CALLBACK add(void *p)
{
	struct args *x = p;
	CHECK(x->tag == 't' && x->n == N);
	CHECK(x->part == x->b + N / 2); /* a part of a buffer that is there too */
	for (long i = 0; i < x->n; i++)
		x->a[i] += x->b[i];
	x->part[0] = 1000;
	__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
}

static void CL_CALLBACK nothing(void *p)
{
	CHECK(p == NULL);
	__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
}

static void CL_CALLBACK first_is_7(void *p)
{
	**(int **)p = 7;
}

/* A function of a part of a buffer leaves the rest to who has mapped it. */
static void beside_a_map(cl_command_queue q, cl_mem whole, cl_mem part)
{
	cl_int err;
	int got[2];
	void *place = NULL;
	const void *at = &place;
	int *rest = clEnqueueMapBuffer(q, whole, CL_TRUE, CL_MAP_WRITE, 0, N / 2 * sizeof(int), 0, NULL, NULL, &err);
	OK(err);
	OK(clEnqueueNativeKernel(q, first_is_7, &place, sizeof place, 1, &part, &at, 0, NULL, NULL));
	CHECK(clEnqueueNativeKernel(q, first_is_7, &place, sizeof place, 1, &whole, &at, 0, NULL, NULL) == CL_INVALID_OPERATION);
	rest[0] = 5;
	OK(clEnqueueUnmapMemObject(q, whole, rest, 0, NULL, NULL));
	OK(clEnqueueReadBuffer(q, whole, CL_TRUE, 0, 4, &got[0], 0, NULL, NULL));
	OK(clEnqueueReadBuffer(q, whole, CL_TRUE, N / 2 * sizeof(int), 4, &got[1], 0, NULL, NULL));
	CHECK(got[0] == 5 && got[1] == 7);
}

static void refused(struct house *h, cl_mem a)
{
	cl_command_queue q = h->q[0];
	struct args x = {'t', NULL, NULL, NULL, N};
	const void *at = &x.a, *beyond = &x + 1;
	cl_mem none = NULL;
	CHECK(clEnqueueNativeKernel(NULL, nothing, NULL, 0, 0, NULL, NULL, 0, NULL, NULL) == CL_INVALID_COMMAND_QUEUE);
	CHECK(clEnqueueNativeKernel(q, NULL, NULL, 0, 0, NULL, NULL, 0, NULL, NULL) == CL_INVALID_VALUE);
	CHECK(clEnqueueNativeKernel(q, nothing, NULL, 8, 0, NULL, NULL, 0, NULL, NULL) == CL_INVALID_VALUE);
	CHECK(clEnqueueNativeKernel(q, nothing, &x, 0, 0, NULL, NULL, 0, NULL, NULL) == CL_INVALID_VALUE);
	CHECK(clEnqueueNativeKernel(q, nothing, NULL, 0, 1, &a, &at, 0, NULL, NULL) == CL_INVALID_VALUE);
	CHECK(clEnqueueNativeKernel(q, nothing, &x, sizeof x, 1, NULL, &at, 0, NULL, NULL) == CL_INVALID_VALUE);
	CHECK(clEnqueueNativeKernel(q, nothing, &x, sizeof x, 1, &a, NULL, 0, NULL, NULL) == CL_INVALID_VALUE);
	CHECK(clEnqueueNativeKernel(q, nothing, &x, sizeof x, 0, &a, NULL, 0, NULL, NULL) == CL_INVALID_VALUE);
	CHECK(clEnqueueNativeKernel(q, nothing, &x, sizeof x, 1, &a, &beyond, 0, NULL, NULL) == CL_INVALID_VALUE);
	CHECK(clEnqueueNativeKernel(q, nothing, &x, sizeof x, 1, &none, &at, 0, NULL, NULL) == CL_INVALID_MEM_OBJECT);
	CHECK(clEnqueueNativeKernel(q, nothing, NULL, 0, 0, NULL, NULL, 1, NULL, NULL) == CL_INVALID_EVENT_WAIT_LIST);
}

int main(int argc, char **argv)
{
	struct house *h = house(argc > 1 ? argv[1] : "", argc > 2 ? atoi(argv[2]) : 0, 0);
	cl_int err, first[N], got[N];
	cl_device_exec_capabilities can;
	OK(clGetDeviceInfo(h->dev[0], CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, NULL));
	if (!(can & CL_EXEC_NATIVE_KERNEL)) {
		CHECK(clEnqueueNativeKernel(h->q[0], nothing, NULL, 0, 0, NULL, NULL, 0, NULL, NULL) == CL_INVALID_OPERATION);
		printf("none here\nOK\n");
		return 0;
	}
	cl_program prog = built(h->ctx, source);
	cl_kernel twice = kernel(prog, "twice");
	for (int i = 0; i < N; i++)
		first[i] = i;
	cl_mem a = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof first, first);
	cl_mem b = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof first, first);
	cl_buffer_region half = {sizeof first / 2, sizeof first / 2};
	cl_mem part = clCreateSubBuffer(b, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &err);
	OK(err);
	refused(h, a);
	CHECK(calls == 0);

	/* On the last device a kernel, then the function by the first, then a kernel by the last. */
	const size_t n = N;
	struct args x = {'t', NULL, NULL, NULL, N};
	cl_mem list[] = {a, b, part};
	const void *at[] = {&x.a, &x.b, &x.part};
	cl_command_queue q = h->q[0], other = h->q[h->n - 1];
	cl_event gate = clCreateUserEvent(h->ctx, &err), e[3];
	OK(err);
	OK(clSetKernelArg(twice, 0, sizeof a, &a));
	OK(clEnqueueNDRangeKernel(other, twice, 1, NULL, &n, NULL, 1, &gate, &e[0]));
	OK(clEnqueueNativeKernel(q, add, &x, sizeof x, 3, list, at, 1, &e[0], &e[1]));
	x.tag = 'x'; /* the arguments were copied */
	OK(clEnqueueNDRangeKernel(other, twice, 1, NULL, &n, NULL, 1, &e[1], &e[2]));
	cl_command_type type;
	OK(clGetEventInfo(e[1], CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
	CHECK(type == CL_COMMAND_NATIVE_KERNEL);
	CHECK(calls == 0);
	OK(clSetUserEventStatus(gate, CL_COMPLETE));
	OK(clWaitForEvents(3, e));
	CHECK(calls == 1);
	OK(clEnqueueReadBuffer(q, a, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
	for (int i = 0; i < N; i++)
		CHECK(got[i] == 2 * (2 * i + i));
	OK(clEnqueueReadBuffer(other, part, CL_TRUE, 0, 8, got, 0, NULL, NULL));
	CHECK(got[0] == 1000 && got[1] == N / 2 + 1);
	cl_uint maps;
	OK(clGetMemObjectInfo(a, CL_MEM_MAP_COUNT, sizeof maps, &maps, NULL));
	CHECK(maps == 0);

	OK(clEnqueueNativeKernel(q, nothing, NULL, 0, 0, NULL, NULL, 0, NULL, NULL));
	OK(clFinish(q));
	CHECK(calls == 2);

	/* What it waits for fails: it is not called, and the buffers are as they were. */
	cl_event failing = clCreateUserEvent(h->ctx, &err), dead;
	OK(err);
	x.tag = 't';
	OK(clEnqueueNativeKernel(q, add, &x, sizeof x, 3, list, at, 1, &failing, &dead));
	OK(clSetUserEventStatus(failing, -5));
	CHECK(clWaitForEvents(1, &dead) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
	OK(clFinish(q));
	CHECK(calls == 2);
	OK(clEnqueueReadBuffer(other, a, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
	CHECK(got[1] == 6);
	cl_mem c = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof first, first);
	cl_mem half_of_c = clCreateSubBuffer(c, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &err);
	OK(err);
	beside_a_map(q, c, half_of_c);
	OK(clReleaseMemObject(half_of_c));
	OK(clReleaseMemObject(c));

	for (int i = 0; i < 3; i++)
		OK(clReleaseEvent(e[i]));
	OK(clReleaseEvent(gate));
	OK(clReleaseEvent(failing));
	OK(clReleaseEvent(dead));
	OK(clReleaseMemObject(part));
	OK(clReleaseMemObject(a));
	OK(clReleaseMemObject(b));
	OK(clReleaseKernel(twice));
	OK(clReleaseProgram(prog));
	leave(h);
	printf("OK\n");
	return 0;
}
