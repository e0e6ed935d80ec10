//go:build cgo

// Page-locked host memory, and transfers from and to it.
#include "bridge.h"

void *gw_pin(gw_handle context, gw_handle queue, size_t size, gw_handle *mem, cl_int *err)
{
	cl_mem m = clCreateBuffer((cl_context)context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, NULL, err);
	if (!m)
		return NULL;
	void *host = clEnqueueMapBuffer((cl_command_queue)queue, m, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size, 0, NULL, NULL, err);
	if (*err != CL_SUCCESS || !host) {
		clReleaseMemObject(m);
		return NULL;
	}
	*mem = (gw_handle)m;
	return host;
}

void gw_unpin(gw_handle queue, gw_handle mem, void *host)
{
	if (clEnqueueUnmapMemObject((cl_command_queue)queue, (cl_mem)mem, host, 0, NULL, NULL) == CL_SUCCESS)
		clFinish((cl_command_queue)queue); // of a lost device: nothing is left to finish
	clReleaseMemObject((cl_mem)mem);
}

cl_int gw_move(gw_handle queue, gw_handle mem, size_t off, size_t size, void *host, int write, gw_handle *done)
{
	cl_command_queue q = (cl_command_queue)queue;
	cl_event e = NULL;
	cl_int err = write ? clEnqueueWriteBuffer(q, (cl_mem)mem, CL_FALSE, off, size, host, 0, NULL, &e)
	                   : clEnqueueReadBuffer(q, (cl_mem)mem, CL_FALSE, off, size, host, 0, NULL, &e);
	if (err == CL_SUCCESS) {
		*done = (gw_handle)e;
		clFlush(q);
	}
	return err;
}

cl_int gw_moved(gw_handle done, uint64_t t[4])
{
	cl_int st = gw_wait(done), fault = gw_faulty(2);
	if (t)
		gw_times(done, t);
	clReleaseEvent((cl_event)done);
	return fault ? fault : st;
}
