//go:build cgo

// Rectangles: one command of ours, one of OpenCL's or, where that refuses it, one for each row.
#include "calls.h"
#include <stdlib.h>

// rect_whole enqueues a rectangle as one command.
static cl_int rect_whole(const gw_cmd *c, char *host, cl_uint nw, const cl_event *w, cl_event *e)
{
	cl_command_queue q = (cl_command_queue)c->queue;
	const size_t *n = c->region, src[3] = {c->src_off, 0, 0}, dst[3] = {c->dst_off, 0, 0}, zero[3] = {0, 0, 0};
	size_t sp = n[2] > 1 ? c->src_pitch[1] : 0, dp = n[2] > 1 ? c->dst_pitch[1] : 0; // 0: OpenCL works it out
	if (c->op == GW_COPY_RECT)
		return clEnqueueCopyBufferRect(q, (cl_mem)c->src, (cl_mem)c->dst, src, dst, n, c->src_pitch[0], sp, c->dst_pitch[0], dp, nw, w, e);
	if (c->op == GW_READ_RECT)
		return clEnqueueReadBufferRect(q, (cl_mem)c->src, CL_FALSE, src, zero, n, c->src_pitch[0], sp, c->dst_pitch[0], dp, host, nw, w, e);
	return clEnqueueWriteBufferRect(q, (cl_mem)c->dst, CL_FALSE, dst, zero, n, c->dst_pitch[0], dp, c->src_pitch[0], sp, host, nw, w, e);
}

// rect_row enqueues row k.
static cl_int rect_row(const gw_cmd *c, char *host, size_t k, cl_uint nw, const cl_event *w, cl_event *e)
{
	cl_command_queue q = (cl_command_queue)c->queue;
	size_t y = k % c->region[1], z = k / c->region[1], n = c->region[0];
	size_t src = z * c->src_pitch[1] + y * c->src_pitch[0], dst = z * c->dst_pitch[1] + y * c->dst_pitch[0];
	if (c->op == GW_COPY_RECT)
		return clEnqueueCopyBuffer(q, (cl_mem)c->src, (cl_mem)c->dst, c->src_off + src, c->dst_off + dst, n, nw, w, e);
	if (c->op == GW_READ_RECT)
		return clEnqueueReadBuffer(q, (cl_mem)c->src, CL_FALSE, c->src_off + src, n, host + dst, nw, w, e);
	return clEnqueueWriteBuffer(q, (cl_mem)c->dst, CL_FALSE, c->dst_off + dst, n, host + src, nw, w, e);
}

// rect_rows enqueues a rectangle row by row. The last row waits for the others, so that its event
// is the end of them all.
static cl_int rect_rows(const gw_cmd *c, char *host, cl_uint nw, const cl_event *w, cl_event *e)
{
	size_t n = c->region[1] * c->region[2], k = 0;
	cl_event *done = calloc(n + nw, sizeof *done);
	cl_int err = done ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
	for (; k + 1 < n && err == CL_SUCCESS; k += err == CL_SUCCESS)
		err = rect_row(c, host, k, nw, w, &done[k]);
	if (err == CL_SUCCESS) {
		for (cl_uint i = 0; i < nw; i++)
			done[k + i] = w[i];
		err = rect_row(c, host, k, (cl_uint)(k + nw), k + nw ? done : NULL, e);
	}
	if (err != CL_SUCCESS)
		clFinish((cl_command_queue)c->queue); // what was accepted must not outlive the refusal
	for (size_t i = 0; done && i < k; i++)
		clReleaseEvent(done[i]);
	free(done);
	return err;
}

cl_int gw_rect(const gw_cmd *c, char *host, cl_uint nw, const cl_event *w, cl_event *e)
{
	if (!c->by_rows) {
		cl_int err = rect_whole(c, host, nw, w, e);
		if (err != CL_MEM_COPY_OVERLAP && err != CL_INVALID_VALUE)
			return err;
	}
	return rect_rows(c, host, nw, w, e);
}
