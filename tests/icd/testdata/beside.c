/* Migrations beside kernels: eight buffers are migrated from the first device to the second while a kernel
 * fills the second, the first, or both. Prints, as JSON lines, the rate of the copies alone and beside the
 * kernel, and how much longer the kernel takes beside them. Every word is checked at the end.
 *
 *   beside [PLATFORM [MIB [ROUNDS [TURNS]]]]
 *
 * ROUNDS is of the kernels' loops; 0 has each kernel take about 8 ms.
 */
#include "common.h"
#include <sched.h>

static const char *source =
	"kernel void mark(global uint *a, uint v, ulong n) { for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) a[i] = v + (uint)i; }\n"
	"kernel void arithmetic(global float *a, uint rounds, uint n) {\n"
	"  float x = get_global_id(0) * 1e-6f;\n"
	"  for (uint i = 0; i < rounds; i++) x = fma(x, 1.0001f, 1e-7f);\n"
	"  a[get_global_id(0) % n] = x;\n"
	"}\n"
	"kernel void memory(global float4 *a, uint rounds, uint n) {\n"
	"  for (uint r = 0; r < rounds; r++)\n"
	"    for (uint i = get_global_id(0); i < n / 4; i += get_global_size(0)) a[i] = a[i] * 0.5f + 1.5f;\n"
	"}\n";

enum { BUFFERS = 8, MOST_TURNS = 99 };
static struct house *h;
static cl_command_queue second[2]; /* of each device: kernels run here */
static cl_kernel mark, fill[2];
static cl_mem buf[BUFFERS], scratch[2];
static cl_ulong words;
static cl_uint stamp, scratch_words;

static void home(void)
{
	size_t global = 1 << 12;
	stamp++;
	for (int i = 0; i < BUFFERS; i++) {
		cl_uint v = stamp * 977 + i;
		OK(clSetKernelArg(mark, 0, sizeof buf[i], &buf[i]));
		OK(clSetKernelArg(mark, 1, sizeof v, &v));
		OK(clSetKernelArg(mark, 2, sizeof words, &words));
		OK(clEnqueueNDRangeKernel(h->q[0], mark, 1, NULL, &global, NULL, 0, NULL, NULL));
	}
	OK(clFinish(h->q[0]));
}

static cl_event copies(void)
{
	cl_event e;
	OK(clEnqueueMigrateMemObjects(h->q[1], BUFFERS, buf, 0, 0, NULL, &e));
	OK(clFlush(h->q[1]));
	return e;
}

static cl_event run(int device, int what, cl_uint rounds, size_t global)
{
	cl_event e;
	OK(clSetKernelArg(fill[what], 0, sizeof scratch[device], &scratch[device]));
	OK(clSetKernelArg(fill[what], 1, sizeof rounds, &rounds));
	OK(clSetKernelArg(fill[what], 2, sizeof scratch_words, &scratch_words));
	OK(clEnqueueNDRangeKernel(second[device], fill[what], 1, NULL, &global, NULL, 0, NULL, &e));
	OK(clFlush(second[device]));
	return e;
}

static int ended(cl_event e)
{
	cl_int st;
	OK(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof st, &st, NULL));
	CHECK(st >= 0);
	return st == CL_COMPLETE;
}

/* until looks at all events until they have ended, and says when each had: seconds after start. */
static void until(double start, cl_event *e, int n, double *at)
{
	for (int left = n; left; sched_yield())
		for (int i = 0; i < n; i++)
			if (e[i] && ended(e[i])) {
				at[i] = now() - start;
				OK(clReleaseEvent(e[i]));
				e[i] = NULL;
				left--;
			}
}

int main(int argc, char **argv)
{
	size_t size = (size_t)(argc > 2 ? atoi(argv[2]) : 128) << 20;
	int rounds = argc > 3 ? atoi(argv[3]) : 0, turns = argc > 4 ? atoi(argv[4]) : 9;
	CHECK(size && turns > 0 && turns <= MOST_TURNS);
	words = size / 4;
	h = house(argc > 1 ? argv[1] : "", 2, 0);
	cl_program p = built(h->ctx, source);
	mark = kernel(p, "mark");
	fill[0] = kernel(p, "arithmetic");
	fill[1] = kernel(p, "memory");
	size_t space = rounds ? 1 << 20 : 512 << 20;
	scratch_words = space / 4;
	for (int i = 0; i < BUFFERS; i++)
		buf[i] = buffer(h->ctx, CL_MEM_READ_WRITE, size, NULL);
	for (int i = 0; i < 2; i++) {
		cl_int err;
		scratch[i] = buffer(h->ctx, CL_MEM_READ_WRITE, space, NULL);
		second[i] = clCreateCommandQueueWithProperties(h->ctx, h->dev[i], NULL, &err);
		OK(err);
	}
	for (int i = 0; i < 3; i++) { /* links open, blocks are made */
		double at;
		home();
		cl_event e = copies();
		until(now(), &e, 1, &at);
	}
	static const char *names[] = {"arithmetic", "memory"}, *places[] = {"destination", "source", "both"};
	for (int what = 0; what < 2; what++) {
		size_t global = rounds ? 1 << 12 : what ? 132 * 2048 : (size_t)132 * 2048 * 64;
		cl_uint r = rounds ? rounds : 16;
		double at[3], took = 0;
		for (int device = 0; device < 2; device++) {
			cl_event e = run(device, what, r, global);
			until(now(), &e, 1, &took);
		}
		for (took = 0; !rounds && took < 2e-3; r *= took < 2e-3 ? 4 : 1) {
			double start = now();
			cl_event e = run(0, what, r, global);
			until(start, &e, 1, &took);
		}
		if (!rounds)
			r = r * 8e-3 / took;
		for (int where = 0; where < 3; where++) {
			double alone[MOST_TURNS], with[MOST_TURNS], kalone[MOST_TURNS], kwith[MOST_TURNS];
			for (int t = 0; t < turns; t++) {
				home();
				double start = now();
				cl_event e[3] = {copies()};
				until(start, e, 1, &alone[t]);
				for (int beside = 0; beside < 2; beside++) {
					if (beside)
						home();
					int n = 0;
					start = now();
					if (where != 1)
						e[n++] = run(1, what, r, global);
					if (where != 0)
						e[n++] = run(0, what, r, global);
					int kernels = n;
					if (beside)
						e[n++] = copies();
					until(start, e, n, at);
					double k = kernels > 1 && at[1] > at[0] ? at[1] : at[0];
					if (beside) {
						kwith[t] = k;
						with[t] = at[n - 1];
					} else
						kalone[t] = k;
				}
			}
			double a = median(alone, turns), w = median(with, turns), ka = median(kalone, turns), kw = median(kwith, turns);
			printf("{\"platform\": \"%s\", \"kernel\": \"%s\", \"fills\": \"%s\", \"alone_gb_per_s\": %.1f, \"beside_gb_per_s\": %.1f, \"of_alone\": %.2f, "
			       "\"kernel_ms\": %.2f, \"kernel_longer\": %.2f}\n", h->platform, names[what], places[where],
			       BUFFERS * size / a / 1e9, BUFFERS * size / w / 1e9, a / w, ka * 1e3, kw / ka);
		}
	}
	uint32_t *got = malloc(size);
	CHECK(got);
	for (int i = 0; i < BUFFERS; i++) {
		OK(clEnqueueReadBuffer(h->q[1], buf[i], CL_TRUE, 0, size, got, 0, NULL, NULL));
		for (size_t w = 0; w < words; w++)
			CHECK(got[w] == stamp * 977 + i + (uint32_t)w);
		OK(clReleaseMemObject(buf[i]));
	}
	for (int i = 0; i < 2; i++) {
		OK(clReleaseMemObject(scratch[i]));
		OK(clReleaseCommandQueue(second[i]));
		OK(clReleaseKernel(fill[i]));
	}
	OK(clReleaseKernel(mark));
	OK(clReleaseProgram(p));
	leave(h);
	free(got);
	puts("OK");
	return 0;
}
