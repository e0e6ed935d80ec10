//go:build cgo

// Launches on a device that runs a command in the thread that enqueues it.
#include "calls.h"
#include <time.h>

static int64_t ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

cl_int gw_inline_run(gw_cmd *c, const void *args, gw_args *set, int processor, int64_t *took)
{
	cl_command_queue q = (cl_command_queue)c->queue;
	gw_compiles(0);
	cl_int err = gw_set_args(c, args, set);
	clockid_t clock = processor ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC; // the former is a system call
	int64_t began = ns(clock);
	if (err == CL_SUCCESS)
		err = clEnqueueNDRangeKernel(q, (cl_kernel)c->kernel, c->dims, c->offset, c->global, c->has_local ? c->local : NULL, 0, NULL, NULL);
	if (err == CL_SUCCESS)
		err = clFinish(q); // it has ended already: this makes sure
	*took = ns(clock) - began;
	return err;
}
