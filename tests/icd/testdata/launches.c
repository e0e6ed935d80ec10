/* Launches and reads of a word, between launches with events, callbacks, a second queue, times, gates, failures and
 * errors.
 *
 *   launches [PLATFORM [DEVICES]]
 */
#include "common.h"

static const char *source =
	"kernel void next(global uint *a) { a[get_global_id(0)]++; }"
	"kernel void spin(global uint *a, uint n) { uint x = 1; for (uint i = 0; i < n; i++) x = x * 1664525 + a[1]; a[0] += x | 1; }";

static struct house *h;
static cl_mem m;
static cl_kernel next, spin;
static cl_uint want; /* in the first word */
static cl_int err;
static volatile int called;

static void CL_CALLBACK count(cl_event e, cl_int status, void *user)
{
	(void)e;
	CHECK(status == CL_COMPLETE && user == &called);
	__atomic_add_fetch(&called, 1, __ATOMIC_SEQ_CST);
}

static cl_uint first(cl_command_queue q, cl_uint n, const cl_event *waits)
{
	cl_uint got;
	OK(clEnqueueReadBuffer(q, m, CL_TRUE, 0, sizeof got, &got, n, waits, NULL));
	return got;
}

static void launch(cl_command_queue q, cl_uint n, const cl_event *waits, cl_event *e)
{
	const size_t one = 1;
	OK(clEnqueueNDRangeKernel(q, next, 1, NULL, &one, NULL, n, waits, e));
}

static cl_int status(cl_event e)
{
	cl_int s;
	OK(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof s, &s, NULL));
	return s;
}

/* steps launches and reads, going round the devices. */
static void steps(int n)
{
	for (int i = 0; i < n; i++) {
		cl_command_queue q = h->q[i % h->n];
		launch(q, 0, NULL, NULL);
		CHECK(first(q, 0, NULL) == ++want);
	}
}

/* told: who asks for the end of a launch is told of it, once. */
static void told(cl_command_queue q, cl_command_queue other)
{
	int before = called;
	cl_event e;
	launch(q, 0, NULL, &e);
	OK(clSetEventCallback(e, CL_COMPLETE, count, (void *)&called));
	CHECK(first(other, 1, &e) == ++want);
	CHECK(status(e) == CL_COMPLETE);
	for (double until = now() + 60; __atomic_load_n(&called, __ATOMIC_SEQ_CST) != before + 1; usleep(100))
		CHECK(now() < until);
	OK(clReleaseEvent(e));
}

/* gated: a launch behind a user event waits, and so does what comes after it in its queue. */
static void gated(cl_command_queue q, cl_int how)
{
	cl_event gate = clCreateUserEvent(h->ctx, &err), held, after;
	OK(err);
	launch(q, 1, &gate, &held);
	launch(q, 0, NULL, &after);
	CHECK(status(held) > CL_COMPLETE && status(after) > CL_COMPLETE);
	OK(clSetUserEventStatus(gate, how));
	OK(clFinish(q));
	CHECK((status(held) < 0) == (how < 0));
	want += how < 0 ? 0 : 1;
	if (status(after) == CL_COMPLETE) {
		want++;
		CHECK(first(q, 0, NULL) == want);
	} else { /* what the first was to write is lost until it is written again */
		cl_uint both[2] = {want, 0};
		OK(clEnqueueWriteBuffer(q, m, CL_TRUE, 0, sizeof both, both, 0, NULL, NULL));
	}
	OK(clReleaseEvent(held));
	OK(clReleaseEvent(after));
	OK(clReleaseEvent(gate));
}

/* timed: a queue with times has those of each launch. */
static void timed(cl_device_id d)
{
	cl_queue_properties props[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
	cl_command_queue q = clCreateCommandQueueWithProperties(h->ctx, d, props, &err);
	OK(err);
	cl_event e;
	launch(q, 0, NULL, &e);
	CHECK(first(q, 0, NULL) == ++want);
	cl_ulong t[4];
	for (int i = 0; i < 4; i++)
		OK(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_QUEUED + i, sizeof t[i], &t[i], NULL));
	CHECK(t[0] <= t[1] && t[1] <= t[2] && t[2] <= t[3]);
	OK(clReleaseEvent(e));
	OK(clReleaseCommandQueue(q));
}

/* refused: a launch with an error is refused as ever, and the next one runs. */
static void refused(cl_command_queue q)
{
	const size_t one = 1, three = 3, zero = 0;
	CHECK(clEnqueueNDRangeKernel(q, next, 4, NULL, &one, NULL, 0, NULL, NULL) == CL_INVALID_WORK_DIMENSION);
	CHECK(clEnqueueNDRangeKernel(q, next, 1, NULL, &one, &zero, 0, NULL, NULL) != CL_SUCCESS);
	CHECK(clEnqueueNDRangeKernel(q, next, 1, NULL, &one, &three, 0, NULL, NULL) != CL_SUCCESS);
	cl_kernel unset = kernel(built(h->ctx, source), "spin");
	CHECK(clEnqueueNDRangeKernel(q, unset, 1, NULL, &one, NULL, 0, NULL, NULL) == CL_INVALID_KERNEL_ARGS);
	cl_program p;
	OK(clGetKernelInfo(unset, CL_KERNEL_PROGRAM, sizeof p, &p, NULL));
	OK(clReleaseKernel(unset));
	OK(clReleaseProgram(p));
	steps(1);
}

/* slower: one of many short launches takes long. */
static void slower(cl_command_queue q)
{
	const size_t one = 1;
	OK(clSetKernelArg(spin, 0, sizeof m, &m));
	for (cl_uint i = 0, n = 1; i < 400; i++, n = i == 300 ? 1000000 : 1) {
		OK(clSetKernelArg(spin, 1, sizeof n, &n));
		OK(clEnqueueNDRangeKernel(q, spin, 1, NULL, &one, NULL, 0, NULL, NULL));
	}
	want = first(q, 0, NULL);
}

int main(int argc, char **argv)
{
	h = house(argc > 1 ? argv[1] : "", argc > 2 ? atoi(argv[2]) : 1, 0);
	cl_program p = built(h->ctx, source);
	next = kernel(p, "next");
	spin = kernel(p, "spin");
	cl_uint zero[2] = {0, 0};
	m = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero, zero);
	OK(clSetKernelArg(next, 0, sizeof m, &m));
	cl_queue_properties props[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
	cl_command_queue other = clCreateCommandQueueWithProperties(h->ctx, h->dev[h->n - 1], props, &err);
	OK(err);
	for (int i = 0; i < 20; i++) {
		steps(200);
		told(h->q[0], other);
		told(other, h->q[0]);
		gated(h->q[0], CL_COMPLETE);
		gated(h->q[h->n - 1], -5);
		timed(h->dev[0]);
		refused(h->q[0]);
	}
	slower(h->q[0]);
	steps(200);
	OK(clReleaseCommandQueue(other));
	OK(clReleaseMemObject(m));
	OK(clReleaseKernel(next));
	OK(clReleaseKernel(spin));
	OK(clReleaseProgram(p));
	leave(h);
	printf("OK\n");
	return 0;
}
