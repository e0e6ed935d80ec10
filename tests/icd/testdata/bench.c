/* What a program on one device pays per call, per byte and in threads. Prints one
 * JSON object of numbers; run it on two platforms and compare.
 *
 *   bench [PLATFORM [BYTES [SECONDS]]]
 *
 * BYTES is the size for throughput (16 MiB), SECONDS what each figure may take
 * (0.5). Figures are medians of samples where one call is long enough to time.
 */
#include "common.h"

static const char *source =
	"kernel void nothing(global uint *a) { if (get_global_id(0) == 0) a[0]++; }\n"
	"kernel void triad(global float *a, global const float *b, global const float *c) {\n"
	"  size_t i = get_global_id(0);\n"
	"  a[i] = b[i] + 0.5f * c[i];\n"
	"}\n"
	"kernel void flops(global float *a, uint n) {\n"
	"  size_t i = get_global_id(0);\n"
	"  float x = a[i], y = 0.5f;\n"
	"  for (uint k = 0; k < n; k++) { x = x * y + 0.25f; y = y * x + 0.125f; }\n"
	"  a[i] = x + y;\n"
	"}\n";

static struct house *h;
static cl_command_queue q;
static double budget = 0.5;
static int printed;

static void show(const char *name, double v)
{
	printf("%s\"%s\": %.4f", printed++ ? ", " : "{", name, v);
	fflush(stdout);
}

/* Median seconds of f, called for as long as the budget lasts. */
enum { MOST = 4000, WARM = 3 };
static double timed(void (*f)(void))
{
	static double t[MOST];
	int n = 0;
	for (int i = 0; i < WARM; i++)
		f();
	double end = now() + budget;
	do {
		double s = now();
		f();
		t[n++] = now() - s;
	} while (n < MOST && now() < end);
	return median(t, n);
}

static cl_kernel nothing, triad, flops;
static cl_mem small, a, b, c;
static size_t size = 16 << 20, mib = 1 << 20;
static char *host;
static const size_t one = 64;

static void finish_one(void)
{
	OK(clEnqueueNDRangeKernel(q, nothing, 1, NULL, &one, NULL, 0, NULL, NULL));
	OK(clFinish(q));
}

enum { BATCH = 1000 };
static void batch(void)
{
	for (int i = 0; i < BATCH; i++)
		OK(clEnqueueNDRangeKernel(q, nothing, 1, NULL, &one, NULL, 0, NULL, NULL));
	OK(clFinish(q));
}

static double enqueue_seconds; /* of the last batch_enqueue, without the finish */
static void batch_with_args(void)
{
	double s = now();
	for (int i = 0; i < BATCH; i++) {
		OK(clSetKernelArg(nothing, 0, sizeof small, &small));
		OK(clEnqueueNDRangeKernel(q, nothing, 1, NULL, &one, NULL, 0, NULL, NULL));
	}
	enqueue_seconds = now() - s;
	OK(clFinish(q));
}

static void write_mib(void) { OK(clEnqueueWriteBuffer(q, a, CL_TRUE, 0, mib, host, 0, NULL, NULL)); }
static void read_mib(void) { OK(clEnqueueReadBuffer(q, a, CL_TRUE, 0, mib, host, 0, NULL, NULL)); }
static void write_4(void) { OK(clEnqueueWriteBuffer(q, a, CL_TRUE, 0, 4, host, 0, NULL, NULL)); }
static void write_all(void) { OK(clEnqueueWriteBuffer(q, a, CL_TRUE, 0, size, host, 0, NULL, NULL)); }
static void read_all(void) { OK(clEnqueueReadBuffer(q, a, CL_TRUE, 0, size, host, 0, NULL, NULL)); }

static void copy_all(void)
{
	OK(clEnqueueCopyBuffer(q, a, b, 0, 0, size, 0, NULL, NULL));
	OK(clFinish(q));
}

static void map_all(void)
{
	cl_int err;
	void *p = clEnqueueMapBuffer(q, a, CL_TRUE, CL_MAP_READ, 0, size, 0, NULL, NULL, &err);
	OK(err);
	OK(clEnqueueUnmapMemObject(q, a, p, 0, NULL, NULL));
	OK(clFinish(q));
}

static void triad_all(void)
{
	size_t n = size / sizeof(float);
	OK(clEnqueueNDRangeKernel(q, triad, 1, NULL, &n, NULL, 0, NULL, NULL));
	OK(clFinish(q));
}

static cl_uint turns; /* as many as make a launch long beside its overhead */
static void flops_all(void)
{
	size_t n = size / 64;
	OK(clEnqueueNDRangeKernel(q, flops, 1, NULL, &n, NULL, 0, NULL, NULL));
	OK(clFinish(q));
}

static void new_buffer(void)
{
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE, mib, NULL);
	OK(clEnqueueWriteBuffer(q, m, CL_TRUE, 0, 4, host, 0, NULL, NULL));
	OK(clReleaseMemObject(m));
}

static int threads(void)
{
	char line[256];
	int n = -1;
	FILE *f = fopen("/proc/self/status", "r");
	CHECK(f);
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "Threads: %d", &n) == 1)
			break;
	fclose(f);
	return n;
}

/* n writes on an out-of-order queue wait for one user event. Returns the seconds
 * that one took, from its enqueue to the end of all, and how many threads there
 * were when all were in flight. */
static double gated(int n, int *in_flight)
{
	cl_queue_properties props[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
	cl_int err;
	cl_command_queue ooo = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], props, &err);
	OK(err);
	cl_event gate = clCreateUserEvent(h->ctx, &err);
	OK(err);
	double s = now();
	for (int i = 0; i < n; i++)
		OK(clEnqueueWriteBuffer(ooo, b, CL_FALSE, (size_t)i * 4 % size, 4, host, 1, &gate, NULL));
	OK(clFlush(ooo));
	*in_flight = threads();
	OK(clSetUserEventStatus(gate, CL_COMPLETE));
	OK(clFinish(ooo));
	double each = (now() - s) / n;
	OK(clReleaseEvent(gate));
	OK(clReleaseCommandQueue(ooo));
	return each;
}

static void retains(void)
{
	enum { N = 2000000 };
	double s = now();
	for (int i = 0; i < N; i++)
		clRetainMemObject(a);
	double up = now();
	for (int i = 0; i < N; i++)
		clReleaseMemObject(a);
	double down = now();
	show("retain_ns", (up - s) / N * 1e9);
	show("release_ns", (down - up) / N * 1e9);
	cl_uint count;
	OK(clGetMemObjectInfo(a, CL_MEM_REFERENCE_COUNT, sizeof count, &count, NULL));
	CHECK(count == 1);
	s = now();
	for (int i = 0; i < N / 10; i++)
		clGetMemObjectInfo(a, CL_MEM_SIZE, sizeof(size_t), &(size_t){0}, NULL);
	show("info_ns", (now() - s) / (N / 10) * 1e9);
}

int main(int argc, char **argv)
{
	if (argc > 2)
		size = strtoull(argv[2], NULL, 0);
	if (argc > 3)
		budget = atof(argv[3]);
	CHECK(size >= mib);
	turns = 4 * (size / mib);
	h = house(argc > 1 ? argv[1] : "", 1, 0);
	q = h->q[0];
	fprintf(stderr, "%s\n", h->platform);
	cl_program p = built(h->ctx, source);
	nothing = kernel(p, "nothing");
	triad = kernel(p, "triad");
	flops = kernel(p, "flops");
	host = malloc(size);
	CHECK(host);
	memset(host, 1, size);
	cl_uint zero = 0;
	small = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 4, &zero);
	a = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, host);
	b = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, host);
	c = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, host);
	OK(clSetKernelArg(nothing, 0, sizeof small, &small));
	OK(clSetKernelArg(triad, 0, sizeof a, &a));
	OK(clSetKernelArg(triad, 1, sizeof b, &b));
	OK(clSetKernelArg(triad, 2, sizeof c, &c));
	OK(clSetKernelArg(flops, 0, sizeof a, &a));
	OK(clSetKernelArg(flops, 1, sizeof turns, &turns));

	show("ndrange_finish_us", timed(finish_one) * 1e6);
	show("launch_us", timed(batch) / BATCH * 1e6);
	show("launch_with_args_us", timed(batch_with_args) / BATCH * 1e6);
	show("enqueue_us", enqueue_seconds / BATCH * 1e6);
	show("write_4_us", timed(write_4) * 1e6);
	show("write_1mib_us", timed(write_mib) * 1e6);
	show("read_1mib_us", timed(read_mib) * 1e6);
	show("buffer_us", timed(new_buffer) * 1e6);
	show("write_gbs", size / timed(write_all) / 1e9);
	show("read_gbs", size / timed(read_all) / 1e9);
	show("map_gbs", size / timed(map_all) / 1e9);
	show("copy_gbs", size / timed(copy_all) / 1e9);
	show("triad_gbs", 3.0 * size / timed(triad_all) / 1e9);
	show("gflops", 4.0 * turns * (size / 64) / timed(flops_all) / 1e9);
	retains();
	int few, many;
	gated(10, &few);
	show("gated_write_us", gated(15000, &many) * 1e6);
	gated(10, &few);
	gated(10000, &many);
	show("threads_at_10", few);
	show("threads_at_10000", many);
	printf("}\n");

	OK(clReleaseMemObject(small));
	OK(clReleaseMemObject(a));
	OK(clReleaseMemObject(b));
	OK(clReleaseMemObject(c));
	OK(clReleaseKernel(nothing));
	OK(clReleaseKernel(triad));
	OK(clReleaseKernel(flops));
	OK(clReleaseProgram(p));
	leave(h);
	free(host);
	return 0;
}
