/* What commands say of themselves while they wait, run and have ended, and when.
 *
 *   states [PLATFORM]
 */
#include "common.h"

static const char *source =
	"kernel void slow(global int *a, int n) { int s = a[0]; for (int i = 0; i < n; i++) s = s * 1664525 + a[i & 3]; a[0] = s; }"
	"kernel void quick(global int *a) { a[0] = 1; }";

static cl_int err;

static cl_int status(cl_event e)
{
	cl_int s;
	OK(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof s, &s, NULL));
	return s;
}

/* A callback that goes on for as long as the program wants. */
static volatile int hold = 1;

static void CL_CALLBACK frees(cl_command_queue q, cl_uint n, void *p[], void *ctx)
{
	(void)q;
	while (hold)
		usleep(1000);
	for (cl_uint i = 0; i < n; i++)
		clSVMFree(ctx, p[i]);
}

/* Waits until a command runs, which was seen to wait before. */
static void runs(cl_event e)
{
	for (double until = now() + 30; status(e) != CL_RUNNING; usleep(1000))
		CHECK(status(e) == CL_SUBMITTED && now() < until);
}

/* On a queue that keeps no times, of a kernel and of a function of the program's. */
static void states(struct house *h, cl_kernel k)
{
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE, 64, NULL);
	cl_int zero = 0, n = 100000000;
	size_t one = 1;
	cl_event g = clCreateUserEvent(h->ctx, &err), e;
	OK(err);
	OK(clEnqueueFillBuffer(h->q[0], m, &zero, 4, 0, 64, 0, NULL, NULL));
	OK(clSetKernelArg(k, 0, sizeof m, &m));
	int seen = 0;
	for (int tries = 0; !seen && tries < 5; tries++, n *= 2) {
		OK(clSetKernelArg(k, 1, sizeof n, &n));
		OK(clEnqueueNDRangeKernel(h->q[0], k, 1, NULL, &one, NULL, 0, NULL, &e));
		OK(clFlush(h->q[0]));
		for (cl_int s; (s = status(e)) != CL_COMPLETE; seen |= s == CL_RUNNING)
			CHECK(s == CL_RUNNING || s == CL_SUBMITTED);
		OK(clReleaseEvent(e));
	}
	CHECK(seen);
	void *p = clSVMAlloc(h->ctx, CL_MEM_READ_WRITE, 64, 0);
	if (p) {
		OK(clEnqueueSVMFree(h->q[0], 1, &p, frees, h->ctx, 1, &g, &e));
		CHECK(status(e) == CL_SUBMITTED);
		OK(clSetUserEventStatus(g, CL_COMPLETE));
		runs(e);
		hold = 0;
		OK(clWaitForEvents(1, &e));
		CHECK(status(e) == CL_COMPLETE);
		OK(clReleaseEvent(e));
	}
	OK(clReleaseEvent(g));
	OK(clReleaseMemObject(m));
}

/* Every command has its times, in order, between two looks at the device's clock. */
static void times(struct house *h)
{
	cl_queue_properties with[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
	cl_command_queue q = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], with, &err);
	OK(err);
	char host[4096];
	int v = 1, n = 0;
	cl_event e[16];
	cl_ulong from, to, hostfrom, hostto, alone;
	cl_int timers = clGetDeviceAndHostTimer(h->dev[0], &from, &hostfrom);
	CHECK(timers == CL_SUCCESS);
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE, sizeof host, NULL);
	void *p = clSVMAlloc(h->ctx, CL_MEM_READ_WRITE, sizeof host, 0);
	OK(clEnqueueFillBuffer(q, m, &v, 4, 0, sizeof host, 0, NULL, &e[n++]));
	OK(clEnqueueMarkerWithWaitList(q, 0, NULL, &e[n++]));
	void *at = clEnqueueMapBuffer(q, m, CL_TRUE, CL_MAP_WRITE, 0, sizeof host, 0, NULL, &e[n++], &err);
	OK(err);
	OK(clEnqueueUnmapMemObject(q, m, at, 0, NULL, &e[n++]));
	OK(clEnqueueMigrateMemObjects(q, 1, &m, 0, 0, NULL, &e[n++]));
	OK(clEnqueueReadBuffer(q, m, CL_TRUE, 0, sizeof host, host, 0, NULL, &e[n++]));
	if (p) {
		OK(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_WRITE, p, sizeof host, 0, NULL, &e[n++]));
		OK(clEnqueueSVMUnmap(q, p, 0, NULL, &e[n++]));
		OK(clEnqueueSVMMemFill(q, p, &v, 4, sizeof host, 0, NULL, &e[n++]));
		OK(clEnqueueSVMMemcpy(q, CL_TRUE, host, p, sizeof host, 0, NULL, &e[n++]));
		OK(clEnqueueSVMMigrateMem(q, 1, (const void **)&p, NULL, 0, 0, NULL, &e[n++]));
		OK(clEnqueueSVMFree(q, 1, &p, NULL, NULL, 0, NULL, &e[n++]));
	}
	OK(clFinish(q));
	OK(clGetDeviceAndHostTimer(h->dev[0], &to, &hostto));
	OK(clGetHostTimer(h->dev[0], &alone));
	CHECK(hostfrom < hostto && hostto <= alone);
	/* Two looks at one clock from two others, some microseconds apart. */
	const cl_ulong slack = 1000000;
	CHECK(to - from < hostto - hostfrom + slack && hostto - hostfrom < to - from + slack);
	for (int i = 0; i < n; i++) {
		cl_ulong t[4], before = from;
		for (int k = 0; k < 4; k++) {
			OK(clGetEventProfilingInfo(e[i], CL_PROFILING_COMMAND_QUEUED + k, sizeof t[k], &t[k], NULL));
			if (t[k] + (k ? 0 : slack) < before || t[k] > to + slack) {
				fprintf(stderr, "command %d: time %d is %lu, not in %lu to %lu\n", i, k, t[k], before, to);
				exit(1);
			}
			before = t[k];
		}
		OK(clReleaseEvent(e[i]));
	}
	OK(clReleaseMemObject(m));
	OK(clReleaseCommandQueue(q));
}

/* A command is queued when the program enqueues it, however long it then waits: before one that
 * is enqueued later and has ended by the time that the gate opens. */
static void queued(struct house *h, cl_program p)
{
	cl_queue_properties with[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
	cl_command_queue q[2];
	for (int i = 0; i < 2; i++) {
		q[i] = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], with, &err);
		OK(err);
	}
	cl_kernel k = kernel(p, "quick");
	cl_mem m[2] = {buffer(h->ctx, CL_MEM_READ_WRITE, 1 << 20, NULL), buffer(h->ctx, CL_MEM_READ_WRITE, 4096, NULL)};
	static char host[1 << 20];
	cl_event gate = clCreateUserEvent(h->ctx, &err), e[5], later;
	OK(err);
	const size_t one = 1;
	int v = 1, n = 0;
	OK(clSetKernelArg(k, 0, sizeof m[0], &m[0]));
	OK(clEnqueueNDRangeKernel(q[0], k, 1, NULL, &one, NULL, 1, &gate, &e[n++]));
	OK(clEnqueueWriteBuffer(q[0], m[0], CL_FALSE, 0, 4, host, 0, NULL, &e[n++]));
	OK(clEnqueueWriteBuffer(q[0], m[0], CL_FALSE, 0, sizeof host, host, 0, NULL, &e[n++]));
	OK(clEnqueueFillBuffer(q[0], m[0], &v, 4, 0, 4096, 0, NULL, &e[n++]));
	OK(clEnqueueMarkerWithWaitList(q[0], 0, NULL, &e[n++]));
	OK(clSetKernelArg(k, 0, sizeof m[1], &m[1]));
	OK(clEnqueueNDRangeKernel(q[1], k, 1, NULL, &one, NULL, 0, NULL, &later));
	OK(clWaitForEvents(1, &later));
	OK(clSetUserEventStatus(gate, CL_COMPLETE));
	OK(clWaitForEvents(n, e));
	cl_ulong ended;
	OK(clGetEventProfilingInfo(later, CL_PROFILING_COMMAND_END, sizeof ended, &ended, NULL));
	for (int i = 0; i < n; i++) {
		cl_ulong t[2];
		for (int j = 0; j < 2; j++)
			OK(clGetEventProfilingInfo(e[i], CL_PROFILING_COMMAND_QUEUED + j, sizeof t[j], &t[j], NULL));
		if (t[0] >= ended || t[1] < t[0]) {
			fprintf(stderr, "gated command %d: queued at %lu and submitted at %lu; a later one ended at %lu\n", i, t[0], t[1], ended);
			exit(1);
		}
		OK(clReleaseEvent(e[i]));
	}
	OK(clReleaseEvent(later));
	OK(clReleaseEvent(gate));
	OK(clReleaseKernel(k));
	for (int i = 0; i < 2; i++) {
		OK(clReleaseMemObject(m[i]));
		OK(clReleaseCommandQueue(q[i]));
	}
}

int main(int argc, char **argv)
{
	struct house *h = house(argc > 1 ? argv[1] : "", 0, 0);
	cl_program p = built(h->ctx, source);
	cl_kernel k = kernel(p, "slow");
	states(h, k);
	times(h);
	queued(h, p);
	OK(clReleaseKernel(k));
	OK(clReleaseProgram(p));
	leave(h);
	printf("OK\n");
	return 0;
}
