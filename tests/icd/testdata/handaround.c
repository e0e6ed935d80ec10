/* One buffer is handed around N devices: kernels take turns on them, each
 * changing what the one before left. Run on whatever platform is named, it
 * verifies every word and prints, as JSON, the time a hand-over takes beside
 * that of a launch that stays on one device.
 *
 *   handaround BYTES DEVICES ROUNDS [PLATFORM [whole|parts [SECONDS]]]
 *
 * With parts, every kernel is given a sub-buffer: the first, second or last half
 * of the buffer in turns, which overlap by quarters. It goes around for so many SECONDS
 * before it is timed: what a platform opens beside the work is ready then.
 */
#include "common.h"

static const char *source =
	"kernel void advance(global uint *a, uint k) {\n"
	"  size_t i = get_global_id(0);\n"
	"  a[i] = a[i] * 3 + k;\n"
	"}\n";

enum { QUARTERS = 4, HALVES = 3 };

/* What has been done to a quarter: every word is times * its first value + plus. */
static uint32_t times[QUARTERS], plus[QUARTERS];

static struct house *h;
static cl_kernel advance;
static cl_mem all, half[HALVES];
static size_t words;
static int parts;
static uint32_t turn; /* counts the launches, and picks halves */

static cl_event launch(cl_uint device, cl_event after)
{
	int from = parts ? turn % HALVES : 0, to = parts ? from + 2 : QUARTERS;
	size_t global = parts ? words / 2 : words;
	cl_event done;
	OK(clSetKernelArg(advance, 0, sizeof(cl_mem), parts ? &half[from] : &all));
	OK(clSetKernelArg(advance, 1, sizeof turn, &turn));
	OK(clEnqueueNDRangeKernel(h->q[device], advance, 1, NULL, &global, NULL,
				  after ? 1 : 0, after ? &after : NULL, &done));
	OK(clFlush(h->q[device]));
	if (after)
		OK(clReleaseEvent(after));
	for (int i = from; i < to; i++) {
		times[i] *= 3;
		plus[i] = plus[i] * 3 + turn;
	}
	turn++;
	return done;
}

/* Enqueues rounds launches, on device round * every % n, and returns the seconds
 * each took. */
static double go(int rounds, int every)
{
	cl_event last = NULL;
	for (cl_uint i = 0; i < h->n; i++)
		OK(clFinish(h->q[i]));
	double start = now();
	for (int r = 0; r < rounds; r++)
		last = launch(r * every % h->n, last);
	OK(clWaitForEvents(1, &last));
	double each = (now() - start) / rounds;
	OK(clReleaseEvent(last));
	return each;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: handaround BYTES DEVICES ROUNDS [PLATFORM [whole|parts]]\n");
		return 2;
	}
	size_t size = strtoull(argv[1], NULL, 0) & ~(size_t)65535;
	int rounds = atoi(argv[3]);
	parts = argc > 5 && !strcmp(argv[5], "parts");
	CHECK(size > 0 && rounds > 0);
	words = size / 4;
	h = house(argc > 4 ? argv[4] : "", atoi(argv[2]), 0);
	cl_program p = built(h->ctx, source);
	advance = kernel(p, "advance");
	uint32_t *data = malloc(size);
	CHECK(data);
	for (size_t i = 0; i < words; i++)
		data[i] = (uint32_t)i * 2654435761u;
	all = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, data);
	for (int i = 0; i < HALVES; i++) {
		cl_buffer_region r = {i * size / QUARTERS, size / 2};
		cl_int err;
		half[i] = clCreateSubBuffer(all, 0, CL_BUFFER_CREATE_TYPE_REGION, &r, &err);
		OK(err);
	}
	for (int i = 0; i < QUARTERS; i++)
		times[i] = 1;

	int warm = 2 * h->n;
	double until = now() + (argc > 6 ? atof(argv[6]) : 0);
	do
		go(warm, 1);
	while (now() < until);
	double around = go(rounds, 1);
	go(1, 0);
	double stay = go(rounds, 0);

	/* What the last launch left is on device 0. */
	OK(clEnqueueReadBuffer(h->q[0], all, CL_TRUE, 0, size, data, 0, NULL, NULL));
	for (size_t i = 0; i < words; i++) {
		int q = i / (words / QUARTERS);
		uint32_t want = (uint32_t)i * 2654435761u * times[q] + plus[q];
		if (data[i] != want) {
			fprintf(stderr, "word %zu is %u, not %u\n", i, data[i], want);
			return 1;
		}
	}
	printf("{\"platform\": \"%s\", \"devices\": %u, \"bytes\": %zu, \"rounds\": %d, \"parts\": %s, "
	       "\"warm\": %d, \"us_per_handover\": %.2f, \"us_per_launch_staying\": %.2f, \"gb_per_s\": %.2f, \"verified\": true}\n",
	       h->platform, h->n, size, rounds, parts ? "true" : "false", warm, around * 1e6,
	       stay * 1e6, (parts ? size / 2 : size) / around / 1e9);
	fflush(stdout); /* a platform that crashes below has been measured */
	OK(clReleaseKernel(advance));
	OK(clReleaseProgram(p));
	for (int i = 0; i < HALVES; i++)
		OK(clReleaseMemObject(half[i]));
	OK(clReleaseMemObject(all));
	leave(h);
	free(data);
	return 0;
}
