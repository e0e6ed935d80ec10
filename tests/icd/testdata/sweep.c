/* Sweeps over N buffers, which may be more than a device holds: each is written
 * once, changed by a kernel in every sweep, and read at the end, every word of it.
 * Prints, as JSON, the seconds that the first sweep takes and those that each of the
 * others takes. The context has the first DEVICES devices, and all is done on the
 * first one; the kernel changes each word ROUNDS times.
 *
 *   sweep BUFFERS BYTES SWEEPS [PLATFORM [DEVICES [ROUNDS]]]
 */
#include "common.h"

static const char *source =
	"kernel void advance(global uint *a, uint k, uint rounds) {\n"
	"  size_t i = get_global_id(0);\n"
	"  uint x = a[i];\n"
	"  for (uint r = 0; r < rounds; r++)\n"
	"    x = x * 3 + k;\n"
	"  a[i] = x;\n"
	"}\n";

int main(int argc, char **argv)
{
	CHECK(argc > 3);
	int buffers = atoi(argv[1]), sweeps = atoi(argv[3]);
	size_t bytes = strtoul(argv[2], NULL, 0), words = bytes / 4;
	struct house *h = house(argc > 4 ? argv[4] : "", argc > 5 ? atoi(argv[5]) : 1, 0);
	uint32_t rounds = argc > 6 ? strtoul(argv[6], NULL, 0) : 1;
	cl_command_queue queue = h->q[0];
	cl_program program = built(h->ctx, source);
	cl_kernel advance = kernel(program, "advance");

	cl_mem *all = calloc(buffers, sizeof *all);
	uint32_t *data = malloc(bytes);
	CHECK(all && data);
	for (int b = 0; b < buffers; b++) {
		all[b] = buffer(h->ctx, CL_MEM_READ_WRITE, bytes, NULL);
		for (size_t i = 0; i < words; i++)
			data[i] = i + 7 * b;
		OK(clEnqueueWriteBuffer(queue, all[b], CL_TRUE, 0, bytes, data, 0, NULL, NULL));
	}
	double start = now(), first = 0;
	for (uint32_t s = 0; s < (uint32_t)sweeps; s++) {
		for (int b = 0; b < buffers; b++) {
			OK(clSetKernelArg(advance, 0, sizeof(cl_mem), &all[b]));
			OK(clSetKernelArg(advance, 1, sizeof s, &s));
			OK(clSetKernelArg(advance, 2, sizeof rounds, &rounds));
			OK(clEnqueueNDRangeKernel(queue, advance, 1, NULL, &words, NULL, 0, NULL, NULL));
		}
		if (s == 0) {
			OK(clFinish(queue));
			first = now() - start;
			start = now();
		}
	}
	OK(clFinish(queue));
	double seconds = sweeps > 1 ? (now() - start) / (sweeps - 1) : first;
	uint32_t times = 1, plus = 0;
	for (uint32_t s = 0; s < (uint32_t)sweeps; s++)
		for (uint32_t r = 0; r < rounds; r++) {
			times *= 3;
			plus = plus * 3 + s;
		}
	for (int b = 0; b < buffers; b++) {
		OK(clEnqueueReadBuffer(queue, all[b], CL_TRUE, 0, bytes, data, 0, NULL, NULL));
		for (size_t i = 0; i < words; i++)
			CHECK(data[i] == (uint32_t)(i + 7 * b) * times + plus);
		OK(clReleaseMemObject(all[b]));
	}
	OK(clReleaseKernel(advance));
	OK(clReleaseProgram(program));
	printf("{\"platform\": \"%s\", \"first\": %.6f, \"seconds\": %.6f}\n", h->platform, first, seconds);
	fflush(stdout); /* the figures count, however the process ends */
	leave(h);
	return 0;
}
