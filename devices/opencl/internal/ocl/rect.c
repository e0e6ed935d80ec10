//go:build cgo

// Rectangles: one command of ours, one or several of OpenCL's.
#include "calls.h"
#include <stdlib.h>

// rect_slices enqueues slices [first, first+n) of a rectangle.
static cl_int rect_slices(gw_cmd *c, char *host, size_t first, size_t n, cl_uint nw, const cl_event *w, cl_event *e)
{
	cl_command_queue q = (cl_command_queue)c->queue;
	size_t region[3] = {c->region[0], c->region[1], n}, zero[3] = {0, 0, 0};
	size_t src = c->src_off + first * c->src_pitch[1], dst = c->dst_off + first * c->dst_pitch[1];
	size_t so[3] = {src, 0, 0}, dof[3] = {dst, 0, 0};
	size_t sp = n > 1 ? c->src_pitch[1] : 0, dp = n > 1 ? c->dst_pitch[1] : 0; // 0: OpenCL works it out
	if (c->op == GW_COPY_RECT)
		return clEnqueueCopyBufferRect(q, (cl_mem)c->src, (cl_mem)c->dst, so, dof, region, c->src_pitch[0], sp, c->dst_pitch[0], dp, nw, w, e);
	if (c->op == GW_READ_RECT)
		return clEnqueueReadBufferRect(q, (cl_mem)c->src, CL_FALSE, so, zero, region, c->src_pitch[0], sp, c->dst_pitch[0], dp, host + first * c->dst_pitch[1], nw, w, e);
	return clEnqueueWriteBufferRect(q, (cl_mem)c->dst, CL_FALSE, dof, zero, region, c->dst_pitch[0], dp, c->src_pitch[0], sp, host + first * c->src_pitch[1], nw, w, e);
}

// rect_piece enqueues slice k, or where the rectangle goes by rows row k.
static cl_int rect_piece(gw_cmd *c, char *host, size_t k, cl_uint nw, const cl_event *w, cl_event *e)
{
	if (!c->by_rows)
		return rect_slices(c, host, k, 1, nw, w, e);
	size_t y = k % c->region[1], z = k / c->region[1];
	return clEnqueueCopyBuffer((cl_command_queue)c->queue, (cl_mem)c->src, (cl_mem)c->dst, c->src_off + z * c->src_pitch[1] + y * c->src_pitch[0],
	                           c->dst_off + z * c->dst_pitch[1] + y * c->dst_pitch[0], c->region[0], nw, w, e);
}

cl_int gw_rect(gw_cmd *c, char *host, cl_uint nw, const cl_event *w, cl_event *e)
{
	size_t n = c->region[2], k = 0;
	int whole = n == 1 || (c->src_pitch[1] % c->src_pitch[0] == 0 && c->dst_pitch[1] % c->dst_pitch[0] == 0
	                       && c->src_pitch[1] >= c->region[1] * c->src_pitch[0] && c->dst_pitch[1] >= c->region[1] * c->dst_pitch[0]);
	if (whole && !c->by_rows) {
		cl_int err = rect_slices(c, host, 0, n, nw, w, e);
		if (err != CL_MEM_COPY_OVERLAP || c->op != GW_COPY_RECT)
			return err;
		c->by_rows = 1; // there is none: who called has looked
	}
	if (c->by_rows)
		n *= c->region[1];
	cl_event *done = calloc(n + nw, sizeof *done);
	cl_int err = done ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
	for (; k + 1 < n && err == CL_SUCCESS; k += err == CL_SUCCESS)
		err = rect_piece(c, host, k, nw, w, &done[k]);
	if (err == CL_SUCCESS) {
		for (cl_uint i = 0; i < nw; i++)
			done[k + i] = w[i];
		err = rect_piece(c, host, k, (cl_uint)(k + nw), k + nw ? done : NULL, e);
	}
	if (err != CL_SUCCESS)
		clFinish((cl_command_queue)c->queue); // what was accepted must not outlive the refusal
	for (size_t i = 0; done && i < k; i++)
		clReleaseEvent(done[i]);
	free(done);
	return err;
}
