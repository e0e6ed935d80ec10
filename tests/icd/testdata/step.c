/* 200 small launches by turns on two devices, whose end the host waits for: the calls that a replayed graph of BenchmarkStep
 * makes of the library. Median of turns, in microseconds.
 *
 *   step [PLATFORM [TURNS]]
 */
#include "common.h"

#define LAUNCHES 200
#define EACH 8

static const char *source = "kernel void four(global float *c, global const float *a, global const float *b, uint n) {"
			    " uint i = get_global_id(0); c[i] = a[i] + b[i] * n; }";

static int less(const void *a, const void *b)
{
	double x = *(double *)a, y = *(double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	struct house *h = house(argc > 1 ? argv[1] : "NVIDIA", 2, 0);
	int turns = argc > 2 ? atoi(argv[2]) : 300;
	cl_program p = built(h->ctx, source);
	cl_kernel k[2] = {kernel(p, "four"), kernel(p, "four")};
	cl_mem m[2][EACH];
	float zero = 0;
	for (int d = 0; d < 2; d++)
		for (int i = 0; i < EACH; i++) {
			m[d][i] = buffer(h->ctx, 0, 4096, NULL);
			OK(clEnqueueFillBuffer(h->q[d], m[d][i], &zero, 4, 0, 4096, 0, NULL, NULL));
		}
	double *took = calloc(turns, sizeof *took);
	size_t size = 1024;
	for (int t = 0; t < turns; t++) {
		double start = now();
		for (cl_uint i = 0; i < LAUNCHES; i++) {
			int d = i % 2, n = i / 2;
			OK(clSetKernelArg(k[d], 0, sizeof(cl_mem), &m[d][n % EACH]));
			OK(clSetKernelArg(k[d], 1, sizeof(cl_mem), &m[d][(n + 1) % EACH]));
			OK(clSetKernelArg(k[d], 2, sizeof(cl_mem), &m[d][(n + 3) % EACH]));
			OK(clSetKernelArg(k[d], 3, sizeof(cl_uint), &i));
			OK(clEnqueueNDRangeKernel(h->q[d], k[d], 1, NULL, &size, NULL, 0, NULL, NULL));
		}
		for (int d = 0; d < 2; d++)
			OK(clFlush(h->q[d]));
		for (int d = 0; d < 2; d++)
			OK(clFinish(h->q[d]));
		took[t] = (now() - start) * 1e6;
	}
	qsort(took, turns, sizeof *took, less);
	printf("%d launches on two devices: %.1f us (%.1f to %.1f)\n", LAUNCHES, took[turns / 2], took[turns / 10], took[turns * 9 / 10]);
	return 0;
}
