/* A kernel that sums vectors.
 *
 *   vectors [PLATFORM]
 */
#include "common.h"

static const char *source =
	"kernel void sums(global const float2 *a, global float *b)\n"
	"{\n"
	"	size_t id = get_global_id(0);\n"
	"	float2 s = 0;\n"
	"	for (int i = 0; i < 4; i++, id += 4)\n"
	"		s += a[id];\n"
	"	b[get_global_id(0)] = s.x + s.y;\n"
	"}\n";

int main(int argc, char **argv)
{
	struct house *h = house(argc > 1 ? argv[1] : "", 1, 0);
	cl_kernel sums = kernel(built(h->ctx, source), "sums");
	float in[32], out[4];
	for (int i = 0; i < 32; i++)
		in[i] = i;
	cl_mem a = buffer(h->ctx, CL_MEM_COPY_HOST_PTR, sizeof in, in);
	cl_mem b = buffer(h->ctx, CL_MEM_READ_WRITE, sizeof out, NULL);
	size_t items = 4;
	OK(clSetKernelArg(sums, 0, sizeof a, &a));
	OK(clSetKernelArg(sums, 1, sizeof b, &b));
	OK(clEnqueueNDRangeKernel(h->q[0], sums, 1, NULL, &items, NULL, 0, NULL, NULL));
	OK(clEnqueueReadBuffer(h->q[0], b, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL));
	for (int i = 0; i < 4; i++)
		CHECK(out[i] == 4 * (4 * i + 25)); /* items i, i + 4, i + 8 and i + 12, both halves */
	puts("OK");
	return 0;
}
