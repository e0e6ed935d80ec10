//go:build cgo

// Memory of this process's: page-locked, and such that buffers lie in it.
#include "calls.h"
#include <stdlib.h>

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

void gw_unpin(gw_handle queue, gw_handle mem, gw_handle host)
{
	if (clEnqueueUnmapMemObject((cl_command_queue)queue, (cl_mem)mem, (void *)host, 0, NULL, NULL) == CL_SUCCESS)
		clFinish((cl_command_queue)queue); // of a lost device: nothing is left to finish
	clReleaseMemObject((cl_mem)mem);
}

// What implementations want of memory that they are to use where it is.
#define ALIGN 4096

static void CL_CALLBACK gone(cl_mem m, void *memory)
{
	(void)m;
	free(memory);
}

gw_handle gw_direct_buffer(gw_handle context, size_t size, void **memory)
{
	cl_int err;
	if (posix_memalign(memory, size < ALIGN ? 128 : ALIGN, size) != 0)
		return 0;
	cl_mem m = clCreateBuffer((cl_context)context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size, *memory, &err);
	if (m && clSetMemObjectDestructorCallback(m, gone, *memory) == CL_SUCCESS)
		return (gw_handle)m;
	if (m)
		clReleaseMemObject(m);
	free(*memory);
	return 0;
}

// The probe writes by way of OpenCL and looks, writes here and asks OpenCL, and then
// once more the first, since a copy may have been made meanwhile.
int gw_memory_is_direct(gw_handle context, gw_handle queue)
{
	enum { WORDS = 2 * ALIGN / sizeof(uint32_t), AT = 7 };
	cl_command_queue q = (cl_command_queue)queue;
	uint32_t word[3] = {0x600dcafe, 0x12345678, 0x0badf00d}, got = 0;
	void *memory;
	cl_mem m = (cl_mem)gw_direct_buffer(context, WORDS * sizeof got, &memory);
	if (!m)
		return 0;
	volatile uint32_t *p = memory;
	p[AT] = 0;
	int direct = 1;
	for (int i = 0; direct && i < 3; i++) {
		if (i == 1) {
			p[AT] = word[1];
			direct = clEnqueueReadBuffer(q, m, CL_TRUE, AT * sizeof got, sizeof got, &got, 0, NULL, NULL) == CL_SUCCESS && got == word[1];
			continue;
		}
		direct = clEnqueueFillBuffer(q, m, &word[i], sizeof word[i], AT * sizeof got, sizeof got, 0, NULL, NULL) == CL_SUCCESS
		         && clFinish(q) == CL_SUCCESS && p[AT] == word[i];
	}
	clReleaseMemObject(m);
	return direct;
}
