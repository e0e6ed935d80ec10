//go:build cgo

#include "calls.h"
#include <stdlib.h>
#include <string.h>

gw_args *gw_args_new(void) { return calloc(1, sizeof(gw_args)); }

void gw_args_free(gw_args *s)
{
	free(s->bytes);
	free(s);
}

// keep takes over what the arguments were set to: n bytes of a.
static void keep(gw_args *s, const uint8_t *a, size_t n, uint64_t releases)
{
	s->len = 0;
	if (s->cap < n) {
		uint8_t *more = realloc(s->bytes, 2 * n);
		if (!more)
			return;
		s->bytes = more;
		s->cap = 2 * n;
	}
	memcpy(s->bytes, a, n);
	s->len = n;
	s->releases = releases;
}

static cl_int set_arg(cl_kernel k, uint32_t i, uint32_t kind, uint32_t size, const uint8_t *v)
{
	cl_int fault = gw_faulty(5);
	if (fault)
		return fault;
	if (kind == GW_ARG_SVM) {
		void *p;
		memcpy(&p, v, sizeof p);
		return clSetKernelArgSVMPointer(k, i, p);
	}
	if (kind == GW_ARG_CACHE)
		size = sizeof(cl_mem); // the first of a gw_cache
	return clSetKernelArg(k, i, size, kind == GW_ARG_LOCAL ? NULL : v);
}

// set_reached tells OpenCL what a kernel reaches by pointers in memory.
static cl_int set_reached(const gw_cmd *c, const uint8_t *a)
{
	void *few[16], **p = c->nreached <= 16 ? few : malloc(c->nreached * sizeof *p);
	if (!p)
		return CL_OUT_OF_HOST_MEMORY;
	for (uint32_t i = 0; i < c->nreached; i++, a += 16)
		memcpy(&p[i], a + 8, sizeof p[i]);
	cl_int err = clSetKernelExecInfo((cl_kernel)c->kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, c->nreached * sizeof *p, p);
	if (p != few)
		free(p);
	return err;
}

cl_int gw_set_args(const gw_cmd *c, const uint8_t **args, int32_t *failed_arg)
{
	gw_args *set = (gw_args *)c->set;
	const uint8_t *a = *args, *first = a;
	uint64_t releases = gw_releases();
	size_t known = set && set->releases == releases ? set->len : 0;
	if (set)
		set->len = 0; // a failure leaves who knows what
	for (uint32_t i = 0; i < c->nargs; i++) {
		uint32_t head[2]; // kind, size
		memcpy(head, a, sizeof head);
		size_t at = (size_t)(a - first), n = sizeof head + (head[0] == GW_ARG_LOCAL ? 0 : (head[1] + 7) & ~7u);
		if (at + n > known || memcmp(set->bytes + at, a, n) != 0) {
			cl_int err = set_arg((cl_kernel)c->kernel, i, head[0], head[1], a + sizeof head);
			if (err != CL_SUCCESS) {
				*failed_arg = (int32_t)i;
				return err;
			}
			if (at + n <= known) { // the one behind may be told by another offset
				uint32_t was[2];
				memcpy(was, set->bytes + at, sizeof was);
				if (was[0] != head[0] || was[1] != head[1])
					known = 0;
			}
		}
		a += n;
	}
	if (set)
		keep(set, first, (size_t)(a - first), releases);
	*args = a + 16 * (size_t)c->nreached;
	return c->nreached ? set_reached(c, a) : CL_SUCCESS;
}
