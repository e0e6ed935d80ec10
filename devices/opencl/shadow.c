//go:build cgo

// Commands by kernels, which Oclgrind's check for uninitialised reads follows; see
// shadow.go for why. Everything here is called in the worker's thread.
#include "shadow.h"
#include <stdlib.h>
#include <string.h>

struct gw_shadow {
	cl_context context;
	cl_program program;
	cl_kernel copy, touch;
};

// A structure is copied by llvm.memcpy, which takes the state of the bytes along and
// does not complain of what is uninitialised: it is used by nobody yet. Were it not
// volatile, the compiler would make a load and a store of a small one.
static const char *source =
	"typedef struct { uchar b[65536]; } huge;\n"
	"typedef struct { uchar b[1024]; } large;\n"
	"typedef struct { uchar b[32]; } small;\n"
	"#define STEP(type) for (; n >= sizeof(type); n -= sizeof(type), dst += sizeof(type), src += sizeof(type)) \\\n"
	"	*(volatile global type *)dst = *(volatile global const type *)src;\n"
	"typedef struct { uchar b[1]; } one;\n"
	"kernel void godwit_copy(global uchar *to, global const uchar *from, ulong bytes, ulong rows, ulong slices,\n"
	"                        ulong to_at, ulong to_row, ulong to_slice, ulong from_at, ulong from_row, ulong from_slice)\n"
	"{\n"
	"	for (ulong z = 0; z < slices; z++)\n"
	"		for (ulong y = 0; y < rows; y++) {\n"
	"			global uchar *dst = to + to_at + y * to_row + z * to_slice;\n"
	"			global const uchar *src = from + from_at + y * from_row + z * from_slice;\n"
	"			ulong n = bytes;\n"
	"			STEP(huge) STEP(large) STEP(small) STEP(one)\n"
	"		}\n"
	"}\n"
	"kernel void godwit_touch(global uchar *whole) {}\n";

int gw_shadow_wanted(void)
{
	const char *v = getenv("OCLGRIND_UNINITIALIZED");
	return v && !strcmp(v, "1"); // as Oclgrind reads it
}

gw_shadow *gw_shadow_new(gw_handle context, cl_int *err)
{
	gw_shadow *s = calloc(1, sizeof *s);
	*err = CL_OUT_OF_HOST_MEMORY;
	if (!s)
		return NULL;
	s->context = (cl_context)context;
	s->program = clCreateProgramWithSource(s->context, 1, &source, NULL, err);
	if (*err == CL_SUCCESS)
		*err = clBuildProgram(s->program, 0, NULL, "", NULL, NULL);
	if (*err == CL_SUCCESS)
		s->copy = clCreateKernel(s->program, "godwit_copy", err);
	if (*err == CL_SUCCESS)
		s->touch = clCreateKernel(s->program, "godwit_touch", err);
	if (*err == CL_SUCCESS)
		return s;
	gw_shadow_free(s);
	return NULL;
}

void gw_shadow_free(gw_shadow *s)
{
	if (s->touch)
		clReleaseKernel(s->touch);
	if (s->copy)
		clReleaseKernel(s->copy);
	if (s->program)
		clReleaseProgram(s->program);
	free(s);
}

cl_int gw_shadow_fresh(gw_shadow *s, gw_handle queue, gw_handle mem)
{
	cl_command_queue q = (cl_command_queue)queue;
	cl_mem m = (cl_mem)mem;
	size_t one = 1;
	// A write of nothing leaves a shadow of no bytes, and a kernel that is given a
	// buffer without shadow makes one for all of it, uninitialised.
	cl_int err = clEnqueueWriteBuffer(q, m, CL_FALSE, 0, 0, &one, 0, NULL, NULL);
	if (err == CL_SUCCESS)
		err = clSetKernelArg(s->touch, 0, sizeof m, &m);
	if (err == CL_SUCCESS)
		err = clEnqueueNDRangeKernel(q, s->touch, 1, NULL, &one, NULL, 0, NULL, NULL);
	cl_int end = clFinish(q);
	return err == CL_SUCCESS ? end : err;
}

// end is one end of a copy: a buffer, and the bytes to its first row, from row to row
// and from slice to slice.
struct end {
	cl_mem mem;
	cl_ulong at, row, slice;
};

// copy enqueues a copy of rows of n bytes: one work-item, since OCLGRIND_QUICK leaves
// out work-groups.
static cl_int copy(gw_shadow *s, gw_cmd *c, struct end dst, struct end src, cl_ulong n, cl_ulong rows, cl_ulong slices)
{
	const struct { size_t size; const void *value; } args[] = {
		{sizeof dst.mem, &dst.mem}, {sizeof src.mem, &src.mem}, {sizeof n, &n}, {sizeof rows, &rows}, {sizeof slices, &slices},
		{sizeof dst.at, &dst.at}, {sizeof dst.row, &dst.row}, {sizeof dst.slice, &dst.slice},
		{sizeof src.at, &src.at}, {sizeof src.row, &src.row}, {sizeof src.slice, &src.slice},
	};
	for (cl_uint i = 0; i < sizeof args / sizeof *args; i++) {
		cl_int err = clSetKernelArg(s->copy, i, args[i].size, args[i].value);
		if (err != CL_SUCCESS)
			return err;
	}
	size_t one = 1;
	cl_event e = NULL;
	cl_int err = clEnqueueNDRangeKernel((cl_command_queue)c->queue, s->copy, 1, NULL, &one, NULL, 0, NULL, &e);
	c->event = (gw_handle)e;
	return err;
}

// bring copies bytes of the host, which are initialised, by way of a buffer of their own.
static cl_int bring(gw_shadow *s, gw_cmd *c, const void *bytes, size_t size, struct end src, size_t n, size_t rows, size_t slices)
{
	cl_int err;
	src.mem = clCreateBuffer(s->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, (void *)bytes, &err);
	if (err != CL_SUCCESS)
		return err;
	struct end dst = {(cl_mem)c->dst, c->dst_off, c->dst_pitch[0], c->dst_pitch[1]};
	err = copy(s, c, dst, src, n, rows, slices);
	clFinish((cl_command_queue)c->queue); // before it goes
	clReleaseMemObject(src.mem);
	return err;
}

// fill brings the pattern, as often as it fits.
static cl_int fill(gw_shadow *s, gw_cmd *c, const void *pattern)
{
	char *bytes = malloc(c->size);
	if (!bytes)
		return CL_OUT_OF_HOST_MEMORY;
	for (size_t i = 0; i < c->size; i += c->pattern_size)
		memcpy(bytes + i, pattern, c->pattern_size);
	cl_int err = bring(s, c, bytes, c->size, (struct end){0}, c->size, 1, 1);
	free(bytes);
	return err;
}

cl_int gw_shadow_submit(gw_shadow *s, gw_cmd *c, const void *args, void *host)
{
	struct end src = {(cl_mem)c->src, c->src_off, c->src_pitch[0], c->src_pitch[1]};
	struct end dst = {(cl_mem)c->dst, c->dst_off, c->dst_pitch[0], c->dst_pitch[1]};
	const size_t *region = c->region;
	size_t reach = (region[2] - 1) * c->src_pitch[1] + (region[1] - 1) * c->src_pitch[0] + region[0];
	c->failed_arg = -1;
	c->event = 0;
	switch (c->op) {
	case GW_WRITE:
		return bring(s, c, host, c->size, (struct end){0}, c->size, 1, 1);
	case GW_WRITE_RECT:
		return bring(s, c, host, reach, (struct end){.row = src.row, .slice = src.slice}, region[0], region[1], region[2]);
	case GW_FILL:
		return fill(s, c, args);
	case GW_COPY:
		return copy(s, c, dst, src, c->size, 1, 1);
	case GW_COPY_RECT:
		return copy(s, c, dst, src, region[0], region[1], region[2]);
	}
	return gw_submit(c, args, NULL, NULL, host, NULL); // what changes no bytes, or by a kernel
}
