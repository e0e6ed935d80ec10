//go:build cgo

// One call for a whole command, and thin ones for what go-opencl lacks. See bridge.h.
#include "calls.h"
#include <string.h>
#include <time.h>

// enqueue enqueues a command, with an event where e is not NULL, and moves args behind its own.
static cl_int enqueue(const gw_cmd *c, const uint8_t **args, char *host, cl_uint nw, const cl_event *w, cl_event *e, int32_t *failed_arg, uint32_t *begun)
{
	cl_command_queue q = (cl_command_queue)c->queue;
	cl_mem src = (cl_mem)c->src, dst = (cl_mem)c->dst;
	cl_int err = CL_INVALID_OPERATION;
	*failed_arg = -1;
	switch (c->op) {
	case GW_MARKER:
		err = clEnqueueMarkerWithWaitList(q, nw, w, e);
		break;
	case GW_COPY:
		err = clEnqueueCopyBuffer(q, src, dst, c->src_off, c->dst_off, c->size, nw, w, e);
		break;
	case GW_READ:
		err = clEnqueueReadBuffer(q, src, CL_FALSE, c->src_off, c->size, host, nw, w, e);
		break;
	case GW_WRITE:
		err = clEnqueueWriteBuffer(q, dst, CL_FALSE, c->dst_off, c->size, host, nw, w, e);
		break;
	case GW_FILL:
		err = clEnqueueFillBuffer(q, dst, *args, c->pattern_size, c->dst_off, c->size, nw, w, e);
		break;
	case GW_LAUNCH:
		gw_compiles(0);
		const uint8_t *first = *args;
		err = gw_set_args(c, args, failed_arg);
		if (err == CL_SUCCESS && c->cached)
			err = gw_cached(c, first, nw, w, e, begun);
		else if (err == CL_SUCCESS)
			err = clEnqueueNDRangeKernel(q, (cl_kernel)c->kernel, c->dims, c->offset, c->global, c->has_local ? c->local : NULL, nw, w, e);
		break;
	case GW_SVM_COPY:
		err = clEnqueueSVMMemcpy(q, CL_FALSE, (char *)c->dst + c->dst_off, (char *)c->src + c->src_off, c->size, nw, w, e);
		break;
	case GW_SVM_FILL:
		err = clEnqueueSVMMemFill(q, (void *)c->dst, *args, c->pattern_size, c->size, nw, w, e);
		break;
	case GW_COPY_RECT:
	case GW_READ_RECT:
	case GW_WRITE_RECT:
		err = gw_rect(c, host, nw, w, e);
		break;
	}
	return err;
}

cl_int gw_submit(gw_cmd *c, const gw_cmd *then, uint32_t n, const uint8_t *args, const gw_handle *waits, char *host, gw_handle tag)
{
	cl_event e = NULL;
	cl_uint nw = c->nwaits;
	const cl_event *w = nw ? (const cl_event *)waits : NULL;
	cl_int err = CL_SUCCESS;
	uint32_t i = 0, begun;
	c->event = 0;
	c->no_callback = CL_SUCCESS;
	for (; i <= n; i++, nw = 0, w = NULL) {
		begun = 0;
		err = enqueue(i ? &then[i - 1] : c, &args, host, nw, w, i < n || c->no_event ? NULL : &e, &c->failed_arg, &begun);
		if (err != CL_SUCCESS)
			break;
	}
	c->failed = i;
	if (err != CL_SUCCESS) {
		c->failed += begun;
		if (c->failed == 0)
			return err;
		if (!e && (gw_faulty(6) || clEnqueueMarkerWithWaitList((cl_command_queue)c->queue, 0, NULL, &e) != CL_SUCCESS)) {
			clFinish((cl_command_queue)c->queue);
			e = NULL;
		}
	}
	c->event = (gw_handle)e;
	if (tag && e)
		c->no_callback = gw_listen(e, (gw_tag *)tag);
	return err;
}

// BRIEF is up to how many bytes a blocking call may keep others out where calls are kept apart: it is behind nothing,
// and takes about 0.1 ms; an enqueue and a wait for its end take a third longer.
#define BRIEF (1u << 20)

cl_int gw_transfer(gw_cmd *c, const gw_handle *waits, char *host, uintptr_t landing, int alone)
{
	cl_bool blocking = alone && (c->size <= BRIEF || !gw_is_apart()) ? CL_TRUE : CL_FALSE;
	const cl_event *w = c->nwaits ? (const cl_event *)waits : NULL;
	void *end = landing ? (void *)landing : host;
	cl_event e = NULL;
	cl_int st;
	c->event = 0;
	gw_command(1);
	if (landing && c->op == GW_WRITE)
		memcpy(end, host, c->size);
	if (c->op == GW_READ)
		st = clEnqueueReadBuffer((cl_command_queue)c->queue, (cl_mem)c->src, blocking, c->src_off, c->size, end, c->nwaits, w, &e);
	else
		st = clEnqueueWriteBuffer((cl_command_queue)c->queue, (cl_mem)c->dst, blocking, c->dst_off, c->size, end, c->nwaits, w, &e);
	if (st == CL_SUCCESS) {
		c->event = (gw_handle)e;
		st = blocking ? gw_status(c->event) : gw_wait(c->event); // which flushes
		cl_int fault = gw_faulty(2);
		st = fault ? fault : st;
	}
	if (landing && c->op == GW_READ && st == CL_COMPLETE)
		memcpy(host, end, c->size);
	gw_command(-1);
	return st;
}

cl_int gw_end(gw_handle event)
{
	gw_command(1);
	cl_int st = gw_wait(event), fault = gw_faulty(2);
	gw_command(-1);
	return fault ? fault : st;
}

cl_int gw_status(gw_handle event)
{
	cl_int st = CL_QUEUED;
	cl_int err = clGetEventInfo((cl_event)event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof st, &st, NULL);
	return err == CL_SUCCESS ? st : err;
}

cl_int gw_wait(gw_handle event)
{
	cl_event e = (cl_event)event;
	cl_command_queue q = NULL;
	cl_int st;
	if (clWaitForEvents(1, &e) == CL_SUCCESS)
		return CL_COMPLETE; // it says so where the command failed
	// Or where the wait was refused: then the command goes on, and may use the host's memory.
	if (gw_status(event) > CL_COMPLETE && clGetEventInfo(e, CL_EVENT_COMMAND_QUEUE, sizeof q, &q, NULL) == CL_SUCCESS && q)
		clFlush(q);
	while ((st = gw_status(event)) > CL_COMPLETE)
		nanosleep(&(struct timespec){0, 100000}, NULL);
	return st;
}

void gw_release_events(const gw_handle *events, int n)
{
	for (int i = 0; i < n; i++)
		clReleaseEvent((cl_event)events[i]);
}

cl_int gw_finish(gw_handle queue)
{
	cl_int st = clFinish((cl_command_queue)queue), fault = gw_faulty(2);
	return fault ? fault : st;
}

void gw_times(gw_handle event, uint64_t t[4])
{
	static const cl_profiling_info what[4] = {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT, CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
	for (int i = 0; i < 4; i++) {
		cl_ulong v = 0;
		clGetEventProfilingInfo((cl_event)event, what[i], sizeof v, &v, NULL);
		t[i] = v;
	}
}

