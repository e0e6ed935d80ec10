//go:build cgo

// Launches with images that are copies of bytes of buffers.
#include "calls.h"
#include <string.h>

// chain is commands of which each comes behind the one before, whatever the order of their queue.
typedef struct chain {
	cl_command_queue q;
	cl_uint nw;
	const cl_event *w;
	cl_event last, next;
} chain;

// follow ends the enqueue of one more.
static cl_int follow(chain *h, cl_int err)
{
	if (err != CL_SUCCESS)
		return err;
	if (h->last)
		clReleaseEvent(h->last);
	h->last = h->next;
	h->nw = 1;
	h->w = &h->last;
	return CL_SUCCESS;
}

static cl_int copy(chain *h, const gw_cache *x, int back, size_t off, const size_t at[3], const size_t sides[3])
{
	cl_mem m = (cl_mem)x->image, b = (cl_mem)x->buffer;
	if (back)
		return follow(h, clEnqueueCopyImageToBuffer(h->q, m, b, at, sides, off, h->nw, h->w, &h->next));
	return follow(h, clEnqueueCopyBufferToImage(h->q, b, m, off, at, sides, h->nw, h->w, &h->next));
}

// copy_all copies an image, row by row where these do not touch.
static cl_int copy_all(chain *h, const gw_cache *x, int back)
{
	size_t row = x->sides[0] * x->pixel;
	if ((x->sides[1] == 1 || x->row == row) && (x->sides[2] == 1 || x->slice == row * x->sides[1]))
		return copy(h, x, back, x->off, (size_t[3]){0}, x->sides);
	cl_int err = CL_SUCCESS;
	for (size_t z = 0; z < x->sides[2]; z++)
		for (size_t y = 0; y < x->sides[1] && err == CL_SUCCESS; y++)
			err = copy(h, x, back, x->off + z * x->slice + y * x->row, (size_t[3]){0, y, z}, (size_t[3]){x->sides[0], 1, 1});
	return err;
}

// caches copies the caches of a launch that has these arguments.
static cl_int caches(chain *h, const gw_cmd *c, const uint8_t *a, int back)
{
	cl_int err = CL_SUCCESS;
	for (uint32_t i = 0; i < c->nargs && err == CL_SUCCESS; i++) {
		uint32_t head[2]; // kind, size
		memcpy(head, a, sizeof head);
		a += sizeof head;
		if (head[0] == GW_ARG_CACHE) {
			gw_cache x;
			memcpy(&x, a, sizeof x);
			if (!back || x.back)
				err = copy_all(h, &x, back);
		}
		a += head[0] == GW_ARG_LOCAL ? 0 : (head[1] + 7) & ~7u;
	}
	return err;
}

cl_int gw_cached(const gw_cmd *c, const uint8_t *args, cl_uint nw, const cl_event *w, cl_event *e, uint32_t *begun)
{
	chain h = {(cl_command_queue)c->queue, nw, w, NULL, NULL};
	cl_int err = caches(&h, c, args, 0);
	if (err == CL_SUCCESS)
		err = follow(&h, clEnqueueNDRangeKernel(h.q, (cl_kernel)c->kernel, c->dims, c->offset, c->global, c->has_local ? c->local : NULL, h.nw, h.w, &h.next));
	if (err == CL_SUCCESS) {
		*begun = 1;
		err = caches(&h, c, args, 1);
	}
	if (err != CL_SUCCESS && !*begun && h.last) { // the caller's blocks are read until then
		clWaitForEvents(1, &h.last);
	} else if (e && *begun) {
		*e = h.last;
		return err;
	}
	if (h.last)
		clReleaseEvent(h.last);
	return err;
}
