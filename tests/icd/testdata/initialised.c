/* What is initialised and what is not, for a checker: every case ends with a launch
 * of a kernel that has the case's name and uses bytes that are all written, or all
 * not. Which is which is in the test that runs this.
 *
 *   initialised [PLATFORM]
 */
#include "common.h"

enum { N = 64, SIZE = N * sizeof(int) };

static const char *source =
	"#define LOOK(name) \\\n"
	"	kernel void name(global const int *a, global int *b) \\\n"
	"	{ \\\n"
	"		b[get_global_id(0)] = a[get_global_id(0)] + 1; \\\n"
	"	}\n"
	"LOOK(unwritten) LOOK(written) LOOK(written_in_parts) LOOK(kernel_then_part) LOOK(filled) LOOK(filled_in_part)\n"
	"LOOK(rectangle) LOOK(beside_the_rectangle) LOOK(copied) LOOK(copied_unwritten) LOOK(in_place_of_a_released_one)\n"
	"LOOK(sub_buffer) LOOK(sub_buffer_unwritten) LOOK(map_written) LOOK(moved) LOOK(moved_unwritten)\n"
	"kernel void set(global int *a) { a[get_global_id(0)] = 7; }\n";

static struct house *h;
static cl_program program;
static cl_mem out;
static int data[N];

static cl_mem empty(void) { return buffer(h->ctx, CL_MEM_READ_WRITE, SIZE, NULL); }

/* Gives the kernel called name n items of m from item first on, which it uses or,
 * where it is called set, writes; as a sub-buffer where that is not all. */
static void on(cl_command_queue q, const char *name, cl_mem m, size_t first, size_t n)
{
	cl_kernel k = kernel(program, name);
	cl_buffer_region r = {first * sizeof(int), n * sizeof(int)};
	cl_mem part = m;
	cl_int err;
	if (n < N) {
		part = clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &r, &err);
		OK(err);
	}
	OK(clSetKernelArg(k, 0, sizeof part, &part));
	if (strcmp(name, "set"))
		OK(clSetKernelArg(k, 1, sizeof out, &out));
	OK(clEnqueueNDRangeKernel(q, k, 1, NULL, &n, NULL, 0, NULL, NULL));
	OK(clFinish(q));
	if (n < N)
		OK(clReleaseMemObject(part));
	OK(clReleaseKernel(k));
}

int main(int argc, char **argv)
{
	h = house(argc > 1 ? argv[1] : "", 0, 0);
	program = built(h->ctx, source);
	out = empty();
	cl_command_queue q = h->q[0], last = h->q[h->n - 1];
	cl_int err;
	const int five = 5;
	const size_t half = SIZE / 2;

	cl_mem a = empty();
	on(q, "unwritten", a, 0, N);

	a = empty();
	OK(clEnqueueWriteBuffer(q, a, CL_TRUE, 0, SIZE, data, 0, NULL, NULL));
	on(q, "written", a, 0, N);

	a = empty();
	OK(clEnqueueWriteBuffer(q, a, CL_TRUE, 0, half, data, 0, NULL, NULL));
	OK(clEnqueueWriteBuffer(q, a, CL_TRUE, half, half, data, 0, NULL, NULL));
	on(q, "written_in_parts", a, 0, N);

	a = empty();
	on(q, "set", a, 0, N);
	OK(clEnqueueWriteBuffer(q, a, CL_TRUE, 0, 16, data, 0, NULL, NULL));
	on(q, "kernel_then_part", a, 0, N);

	a = empty();
	OK(clEnqueueFillBuffer(q, a, &five, sizeof five, 0, SIZE, 0, NULL, NULL));
	on(q, "filled", a, 0, N);
	a = empty();
	OK(clEnqueueFillBuffer(q, a, &five, sizeof five, half, half, 0, NULL, NULL));
	on(q, "filled_in_part", a, N / 2, N / 2);

	/* The right half of eight rows of eight items, then all the rest. */
	const size_t right[3] = {16, 0, 0}, left[3] = {0, 0, 0}, region[3] = {16, 8, 1};
	a = empty();
	OK(clEnqueueWriteBufferRect(q, a, CL_TRUE, right, left, region, 32, 0, 16, 0, data, 0, NULL, NULL));
	cl_mem rows = empty(); /* the right half alone, row by row, and what is beside it */
	OK(clEnqueueCopyBufferRect(q, a, rows, right, left, region, 32, 0, 16, 0, 0, NULL, NULL));
	on(q, "rectangle", rows, 0, N / 2);
	rows = empty();
	OK(clEnqueueCopyBufferRect(q, a, rows, left, left, region, 32, 0, 16, 0, 0, NULL, NULL));
	on(q, "beside_the_rectangle", rows, 0, N / 2);

	a = buffer(h->ctx, CL_MEM_COPY_HOST_PTR, SIZE, data);
	cl_mem b = empty();
	OK(clEnqueueCopyBuffer(q, a, b, 0, half, half, 0, NULL, NULL));
	OK(clEnqueueCopyBuffer(q, a, b, half, 0, half, 0, NULL, NULL));
	on(q, "copied", b, 0, N);
	a = empty(), b = empty();
	on(q, "set", a, 0, N / 2);
	OK(clEnqueueCopyBuffer(q, a, b, 0, 0, SIZE, 0, NULL, NULL));
	on(q, "copied_unwritten", b, N / 2, N / 2);

	a = empty();
	OK(clEnqueueWriteBuffer(q, a, CL_TRUE, 0, SIZE, data, 0, NULL, NULL));
	on(q, "written", a, 0, N);
	OK(clReleaseMemObject(a));
	a = empty();
	on(q, "in_place_of_a_released_one", a, 0, N);

	a = empty();
	on(q, "set", a, N / 2, N / 2);
	on(q, "sub_buffer", a, N / 2, N / 2);
	on(q, "sub_buffer_unwritten", a, 0, N / 2);

	a = empty();
	void *p = clEnqueueMapBuffer(q, a, CL_TRUE, CL_MAP_WRITE, half, half, 0, NULL, NULL, &err);
	OK(err);
	memset(p, 1, half);
	OK(clEnqueueUnmapMemObject(q, a, p, 0, NULL, NULL));
	on(q, "map_written", a, N / 2, N / 2);

	/* The kernels are given the whole buffer, so that all of it is moved. */
	a = empty();
	on(q, "set", a, 0, N / 2);
	cl_kernel k = kernel(program, "written");
	size_t some = N / 2;
	OK(clSetKernelArg(k, 0, sizeof a, &a));
	OK(clSetKernelArg(k, 1, sizeof out, &out));
	OK(clEnqueueNDRangeKernel(last, k, 1, NULL, &some, NULL, 0, NULL, NULL));
	OK(clFinish(last));
	on(last, "moved", a, 0, N / 2);
	on(last, "moved_unwritten", a, N / 2, N / 2);
	puts("OK");
	return 0;
}
