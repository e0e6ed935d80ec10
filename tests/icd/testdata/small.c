/* What the smallest steps of a program take: a launch of one work-item and a blocking read of the
 * 4 bytes that it wrote, on one device or going round all of them; writes that a user event gates.
 * Prints one JSON object of medians; run it on two platforms and compare.
 *
 *   small [PLATFORM [DEVICES [SECONDS [THINK]]]]
 *
 * DEVICES is how many the context has (1), SECONDS what each figure may take (0.5), after as many that
 * do not count, THINK how many
 * microseconds the program does something else for between two steps (0), which do not count.
 */
#include "common.h"
#include <sys/resource.h>

static const char *source = "kernel void next(global uint *a) { a[0]++; }\n";

static struct house *h;
static cl_kernel next;
static cl_mem m;
static cl_uint steps; /* so far */
static double think;  /* seconds */

/* step launches on a device and reads. */
static void step(cl_uint device)
{
	const size_t one = 1;
	cl_uint got;
	OK(clEnqueueNDRangeKernel(h->q[device], next, 1, NULL, &one, NULL, 0, NULL, NULL));
	OK(clEnqueueReadBuffer(h->q[device], m, CL_TRUE, 0, sizeof got, &got, 0, NULL, NULL));
	CHECK(got == ++steps);
}

static double processor(void)
{
	struct rusage u;
	CHECK(getrusage(RUSAGE_SELF, &u) == 0);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* run prints the median microseconds of a step, and the mean of processor time. */
static void run(const char *name, cl_uint devices, double budget)
{
	enum { MOST = 100000, WARM = 200 };
	static double t[MOST];
	int n = 0;
	double end = now() + budget, s;
	for (int i = 0; i < WARM || now() < end; i++) /* and whatever compiles beside it is done */
		step(i % devices);
	double cpu = processor();
	end = now() + budget;
	do {
		for (s = now() + think; now() < s;)
			;
		s = now();
		step(n % devices);
		t[n++] = now() - s;
	} while (n < MOST && s < end);
	cpu = (processor() - cpu) / n - think;
	printf("\"%s_us\": %.3f, \"%s_cpu_us\": %.3f, ", name, median(t, n) * 1e6, name, cpu * 1e6);
}

/* gated prints what one of n writes takes that one user event holds, from its enqueue to the end
 * of all. */
static void gated(int n)
{
	cl_queue_properties props[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
	cl_int err;
	cl_command_queue q = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], props, &err);
	OK(err);
	cl_event gate = clCreateUserEvent(h->ctx, &err);
	OK(err);
	const size_t size = 1 << 20;
	cl_mem b = buffer(h->ctx, CL_MEM_READ_WRITE, size, NULL);
	char host[4] = {0};
	double s = now();
	for (int i = 0; i < n; i++)
		OK(clEnqueueWriteBuffer(q, b, CL_FALSE, (size_t)i * 4 % size, 4, host, 1, &gate, NULL));
	OK(clFlush(q));
	double enqueued = now();
	OK(clSetUserEventStatus(gate, CL_COMPLETE));
	OK(clFinish(q));
	double done = now();
	printf("\"gated_write_us\": %.3f, \"gated_enqueue_us\": %.3f}\n", (done - s) / n * 1e6, (enqueued - s) / n * 1e6);
	OK(clReleaseMemObject(b));
	OK(clReleaseEvent(gate));
	OK(clReleaseCommandQueue(q));
}

int main(int argc, char **argv)
{
	cl_uint devices = argc > 2 ? atoi(argv[2]) : 1;
	double budget = argc > 3 ? atof(argv[3]) : 0.5;
	think = argc > 4 ? atof(argv[4]) / 1e6 : 0;
	h = house(argc > 1 ? argv[1] : "", devices, 0);
	fprintf(stderr, "%s\n", h->platform);
	cl_program p = built(h->ctx, source);
	next = kernel(p, "next");
	cl_uint zero = 0;
	m = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero, &zero);
	OK(clSetKernelArg(next, 0, sizeof m, &m));
	printf("{");
	run("stay", 1, budget);
	run("round", devices, budget);
	gated(15000);
	OK(clReleaseMemObject(m));
	OK(clReleaseKernel(next));
	OK(clReleaseProgram(p));
	leave(h);
	return 0;
}
