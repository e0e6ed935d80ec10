/* Sub-buffers that overlap, and their buffer, used on all devices: every view has the latest bytes,
 * whoever wrote them by whatever view. The first cases are those that PoCL's issues 1962 (a failed
 * assertion) and 1969 (wrong content) have; the last is a random walk beside plain memory.
 *
 *   overlaps [PLATFORM [DEVICES [STEPS [SEED]]]]
 */
#include "common.h"

static const char *source =
	"kernel void set(global uchar *p, uchar v) { p[get_global_id(0)] = v; }\n"
	"kernel void add(global uchar *p, global const uchar *q) { size_t i = get_global_id(0); p[i] += q[i]; }\n"
	"kernel void between(global uchar *p, global const uchar *whole, ulong at) { size_t i = get_global_id(0); p[i] = whole[at + i] + 1; }\n";

static struct house *h;
static cl_program prog;
static cl_kernel set, add, between;
static size_t align; /* of sub-buffers, in bytes */
enum { BLOCKS = 16 };
static size_t size; /* of the buffer: BLOCKS alignments */
static unsigned char *want, *got;
static cl_mem all;
static cl_event last; /* each command waits for the one before: the devices have queues of their own */

static cl_mem part(size_t from, size_t n)
{
	cl_int err;
	cl_buffer_region r = {from, n};
	cl_mem m = clCreateSubBuffer(all, 0, CL_BUFFER_CREATE_TYPE_REGION, &r, &err);
	OK(err);
	return m;
}

static const cl_event *before(void) { return last ? &last : NULL; }

static void followed(cl_event e)
{
	if (last)
		OK(clReleaseEvent(last));
	last = e;
}

static void launch(cl_uint device, cl_kernel k, size_t n)
{
	cl_event e;
	OK(clEnqueueNDRangeKernel(h->q[device % h->n], k, 1, NULL, &n, NULL, last != NULL, before(), &e));
	followed(e);
}

static void sets(cl_uint device, cl_mem m, size_t from, size_t n, unsigned char v)
{
	OK(clSetKernelArg(set, 0, sizeof m, &m));
	OK(clSetKernelArg(set, 1, 1, &v));
	launch(device, set, n);
	memset(want + from, v, n);
}

static void adds(cl_uint device, cl_mem to, size_t at, cl_mem from, size_t off, size_t n)
{
	OK(clSetKernelArg(add, 0, sizeof to, &to));
	OK(clSetKernelArg(add, 1, sizeof from, &from));
	launch(device, add, n);
	for (size_t i = 0; i < n; i++)
		want[at + i] += want[off + i];
}

static void same(cl_uint device, cl_mem m, size_t from, size_t n, int line)
{
	OK(clEnqueueReadBuffer(h->q[device % h->n], m, CL_TRUE, 0, n, got, last != NULL, before(), NULL));
	for (size_t i = 0; i < n; i++)
		if (got[i] != want[from + i]) {
			fprintf(stderr, "line %d: by device %u byte %zu of %zu at %zu is %u, not %u\n", line, device % h->n, i, n, from, got[i], want[from + i]);
			exit(1);
		}
}

#define SAME(device, m, from, n) same(device, m, from, n, __LINE__)

static void begins(void)
{
	for (size_t i = 0; i < size; i++)
		want[i] = (unsigned char)(i * 7 + 1);
	OK(clEnqueueWriteBuffer(h->q[0], all, CL_TRUE, 0, size, want, last != NULL, before(), NULL));
}

/* Two parts of a buffer in one launch, of odd sizes, again and again, where the parts of the time
 * before are gone. */
static void odd(void)
{
	const size_t n = align - 1;
	begins();
	for (cl_uint i = 0; i < 6; i++) {
		size_t off = (1 + i % 3) * align;
		cl_mem p = part(0, n), q = part(off, n);
		adds(i, p, 0, q, off, n);
		OK(clReleaseMemObject(p));
		OK(clReleaseMemObject(q));
	}
	SAME(0, all, 0, size);
	SAME(1, all, 0, size);
}

/* Parts that overlap each other are written on several devices, and read by each other and as the
 * whole. */
static void crossing(void)
{
	begins();
	cl_mem a = part(0, 2 * align), b = part(align, 2 * align), c = part(0, 3 * align), twin = part(align, 2 * align);
	sets(0, a, 0, 2 * align, 1);
	sets(1, b, align, 2 * align, 2);
	SAME(0, a, 0, 2 * align);
	SAME(2, c, 0, 3 * align);
	SAME(0, all, 0, size);
	sets(3, c, 0, 3 * align, 3);
	SAME(1, b, align, 2 * align);
	SAME(4, twin, align, 2 * align);
	sets(5, twin, align, 2 * align, 4);
	SAME(0, b, align, 2 * align);
	sets(6, all, 0, size, 5);
	SAME(7, a, 0, 2 * align);
	sets(0, a, 0, 1, 6); /* one byte: the rest is the whole's */
	SAME(1, all, 0, size);
	adds(1, a, 0, all, 0, align); /* the whole and a part of it in one launch */
	SAME(0, c, 0, 3 * align);
	/* A part that was written outlives its name. */
	sets(1, b, align, 2 * align, 9);
	OK(clReleaseMemObject(b));
	SAME(0, all, 0, size);
	SAME(2, twin, align, 2 * align);
	OK(clReleaseMemObject(a));
	OK(clReleaseMemObject(c));
	OK(clReleaseMemObject(twin));
}

/* A part is written from what the whole has elsewhere, handed on from device to device. */
static void handed(void)
{
	begins();
	for (cl_uint i = 0; i + 1 < BLOCKS; i++) {
		cl_mem p = part((i + 1) * align, align);
		cl_ulong at = i * align;
		OK(clSetKernelArg(between, 0, sizeof p, &p));
		OK(clSetKernelArg(between, 1, sizeof all, &all));
		OK(clSetKernelArg(between, 2, sizeof at, &at));
		launch(i, between, align);
		for (size_t k = 0; k < align; k++)
			want[at + align + k] = want[at + k] + 1;
		OK(clReleaseMemObject(p));
	}
	SAME(0, all, 0, size);
}

static unsigned draw(unsigned n)
{
	static unsigned long s;
	if (n == 0)
		return 0;
	s = s ? s : 88172645463325252ul;
	s ^= s << 13, s ^= s >> 7, s ^= s << 17;
	return (unsigned)(s >> 20) % n;
}

static void walk(int steps)
{
	enum { PARTS = 12 };
	static struct { cl_mem m; size_t from, n; } p[PARTS + 1];
	begins();
	p[PARTS].m = all, p[PARTS].n = size;
	for (int i = 0; i < steps; i++) {
		int k = draw(PARTS + 1), j = draw(PARTS + 1);
		if (k < PARTS && (!p[k].m || draw(8) == 0)) {
			if (p[k].m)
				OK(clReleaseMemObject(p[k].m));
			p[k].from = draw(BLOCKS) * align;
			p[k].n = 1 + draw((unsigned)(size - p[k].from));
			p[k].m = part(p[k].from, p[k].n);
		}
		if (j < PARTS && !p[j].m)
			j = PARTS;
		size_t from = p[k].from, n = p[k].n, off = draw(n), len = 1 + draw((unsigned)(n - off));
		cl_uint d = draw(h->n);
		cl_command_queue q = h->q[d];
		cl_event e;
		unsigned char v = (unsigned char)draw(256);
		switch (draw(6)) {
		case 0:
			sets(d, p[k].m, from, len, v);
			break;
		case 1:
			SAME(d, p[k].m, from, n);
			break;
		case 2:
			memset(want + from + off, v, len);
			OK(clEnqueueWriteBuffer(q, p[k].m, CL_TRUE, off, len, want + from + off, last != NULL, before(), NULL));
			break;
		case 3:
			memset(want + from + off, v, len);
			OK(clEnqueueFillBuffer(q, p[k].m, &v, 1, off, len, last != NULL, before(), &e));
			followed(e);
			break;
		case 4: { /* to the start of another, where the two are apart */
			size_t m = len < p[j].n ? len : p[j].n;
			if (from + off < p[j].from + m && p[j].from < from + off + m)
				break;
			memmove(want + p[j].from, want + from + off, m);
			OK(clEnqueueCopyBuffer(q, p[k].m, p[j].m, off, 0, m, last != NULL, before(), &e));
			followed(e);
			break;
		}
		case 5: { /* by the host */
			cl_int err;
			unsigned char *at = clEnqueueMapBuffer(q, p[k].m, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, off, len, last != NULL, before(), NULL, &err);
			OK(err);
			CHECK(memcmp(at, want + from + off, len) == 0);
			memset(at, v, len);
			memset(want + from + off, v, len);
			OK(clEnqueueUnmapMemObject(q, p[k].m, at, 0, NULL, &e));
			followed(e);
			break;
		}
		}
	}
	SAME(0, all, 0, size);
	for (int k = 0; k < PARTS; k++)
		if (p[k].m)
			OK(clReleaseMemObject(p[k].m));
}

int main(int argc, char **argv)
{
	h = house(argc > 1 ? argv[1] : "", argc > 2 ? atoi(argv[2]) : 0, 0);
	for (int i = argc > 4 ? atoi(argv[4]) : 0; i > 0; i--)
		draw(2);
	for (cl_uint i = 0; i < h->n; i++) {
		cl_uint bits;
		OK(clGetDeviceInfo(h->dev[i], CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL));
		align = bits / 8 > align ? bits / 8 : align;
	}
	size = BLOCKS * align;
	want = malloc(size);
	got = malloc(size);
	CHECK(want && got);
	prog = built(h->ctx, source);
	set = kernel(prog, "set"), add = kernel(prog, "add"), between = kernel(prog, "between");
	all = buffer(h->ctx, CL_MEM_READ_WRITE, size, NULL);
	odd();
	crossing();
	handed();
	walk(argc > 3 ? atoi(argv[3]) : 500);
	if (last)
		OK(clReleaseEvent(last));
	OK(clReleaseMemObject(all));
	OK(clReleaseKernel(set));
	OK(clReleaseKernel(add));
	OK(clReleaseKernel(between));
	OK(clReleaseProgram(prog));
	leave(h);
	free(want);
	free(got);
	printf("OK\n");
	return 0;
}
