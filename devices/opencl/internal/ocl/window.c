//go:build cgo

// Windows: memory that OpenCL did not make, and copies that it does not do.
#include "calls.h"
#include <CL/cl_ext.h>

// cl_khr_external_memory, cl_khr_external_memory_opaque_fd.
#define EXTERNAL_MEMORY_OPAQUE_FD 0x2060
#define MEM_DEVICE_HANDLE_LIST 0x2051

gw_handle gw_import(gw_handle context, gw_handle device, int fd, size_t size, cl_int *err)
{
	const cl_mem_properties p[] = {EXTERNAL_MEMORY_OPAQUE_FD, (cl_mem_properties)fd, MEM_DEVICE_HANDLE_LIST, (cl_mem_properties)device, 0, 0};
	return (gw_handle)clCreateBufferWithProperties((cl_context)context, p, CL_MEM_READ_WRITE, size, NULL, err);
}

int gw_poll_event(uint64_t event)
{
	cl_int st = gw_status((gw_handle)event);
	return st == CL_COMPLETE ? 1 : st < 0 ? st : 0;
}

void gw_hop_ended(uint64_t tag, uint64_t id, int32_t status)
{
	gw_tag *t = (gw_tag *)(uintptr_t)tag;
	// A gate that failed is a wait that did.
	gw_sink_tell(t->sink, id, status < 0 ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : status > 0 ? GW_HOP_FAILED : CL_COMPLETE);
}
