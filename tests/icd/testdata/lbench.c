/* What a launch costs the program, without and with an event of its own, and a blocking transfer of
 * 1 MiB of pageable memory, on the first device. It writes 4 MiB before, as most programs do.
 * Prints one JSON object of medians; run it on two platforms in turns and compare.
 *
 *   lbench [PLATFORM [SAMPLES]]
 */
#include "common.h"

static const char *source = "kernel void nothing(global uint *a) { if (get_global_id(0) == 0) a[0]++; }\n";

enum { BATCH = 1000, MOST = 1000 };

static struct house *h;
static cl_command_queue q;
static cl_kernel nothing;
static cl_mem m;
static char *host;
static const size_t mib = 1 << 20, global = 64;

static void launches(int with)
{
	static cl_event e[BATCH];
	for (int i = 0; i < BATCH; i++)
		OK(clEnqueueNDRangeKernel(q, nothing, 1, NULL, &global, NULL, 0, NULL, with ? &e[i] : NULL));
	OK(clFinish(q));
	for (int i = 0; with && i < BATCH; i++)
		OK(clReleaseEvent(e[i]));
}

static void without_event(void) { launches(0); }
static void with_event(void) { launches(1); }
static void writes(void) { OK(clEnqueueWriteBuffer(q, m, CL_TRUE, 0, mib, host, 0, NULL, NULL)); }
static void reads(void) { OK(clEnqueueReadBuffer(q, m, CL_TRUE, 0, mib, host, 0, NULL, NULL)); }

static double timed(void (*f)(void), int samples)
{
	static double t[MOST];
	f();
	for (int i = 0; i < samples; i++) {
		double s = now();
		f();
		t[i] = now() - s;
	}
	return median(t, samples) * 1e6;
}

int main(int argc, char **argv)
{
	int samples = argc > 2 ? atoi(argv[2]) : 20;
	CHECK(samples > 0 && samples <= MOST / 10);
	h = house(argc > 1 ? argv[1] : "", 1, 0);
	q = h->q[0];
	fprintf(stderr, "%s\n", h->platform);
	cl_program p = built(h->ctx, source);
	nothing = kernel(p, "nothing");
	host = calloc(4, mib);
	CHECK(host);
	m = buffer(h->ctx, CL_MEM_READ_WRITE, 4 * mib, NULL);
	OK(clEnqueueWriteBuffer(q, m, CL_TRUE, 0, 4 * mib, host, 0, NULL, NULL));
	OK(clSetKernelArg(nothing, 0, sizeof m, &m));
	printf("{\"launch_us\": %.3f, \"launch_event_us\": %.3f, \"write_1mib_us\": %.3f, \"read_1mib_us\": %.3f}\n",
	       timed(without_event, samples) / BATCH, timed(with_event, samples) / BATCH, timed(writes, 10 * samples), timed(reads, 10 * samples));
	OK(clReleaseMemObject(m));
	OK(clReleaseKernel(nothing));
	OK(clReleaseProgram(p));
	leave(h);
	free(host);
	return 0;
}
