/* Computes with what nobody wrote: what a checker has to find.
 *
 *   uninitialised [PLATFORM]
 */
#include "common.h"

static const char *source =
	"kernel void more(global const int *a, global int *b)\n"
	"{\n"
	"	b[get_global_id(0)] = a[get_global_id(0)] + 1;\n"
	"}\n";

int main(int argc, char **argv)
{
	struct house *h = house(argc > 1 ? argv[1] : "", 1, 0);
	cl_kernel more = kernel(built(h->ctx, source), "more");
	cl_mem a = buffer(h->ctx, CL_MEM_READ_WRITE, 64, NULL);
	cl_mem b = buffer(h->ctx, CL_MEM_READ_WRITE, 64, NULL);
	size_t items = 4;
	OK(clSetKernelArg(more, 0, sizeof a, &a));
	OK(clSetKernelArg(more, 1, sizeof b, &b));
	OK(clEnqueueNDRangeKernel(h->q[0], more, 1, NULL, &items, NULL, 0, NULL, NULL));
	OK(clFinish(h->q[0]));
	return 0;
}
