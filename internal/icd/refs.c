//go:build cgo

// Reference counts. They are in C so that a retain, and a release that is not
// the last, never enter Go.
#include "object.h"
#include "_cgo_export.h"

static cl_int retain(void *handle, uint32_t kind, cl_int invalid)
{
	gw_object *o = handle;
	if (!gw_is(handle, kind))
		return invalid;
	if (__builtin_expect(__atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED) > 0, 1))
		return CL_SUCCESS;
	__atomic_fetch_sub(&o->refs, 1, __ATOMIC_RELAXED); // its last release is going on
	return invalid;
}

static cl_int release(void *handle, uint32_t kind, cl_int invalid)
{
	gw_object *o = handle;
	if (!gw_is(handle, kind))
		return invalid;
	int32_t n = __atomic_load_n(&o->refs, __ATOMIC_RELAXED);
	while (n > 1)
		if (__atomic_compare_exchange_n(&o->refs, &n, n - 1, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return CL_SUCCESS;
	GW_IN_GO;
	return gwLastRelease((GoUintptr)handle) ? CL_SUCCESS : invalid;
}

#define COUNTED(what, type, kind, invalid) \
	GW_HIDDEN cl_int gwn_clRetain##what(type o); \
	GW_HIDDEN cl_int gwn_clRelease##what(type o); \
	GW_HIDDEN cl_int gwn_clRetain##what(type o) { return retain(o, kind, invalid); } \
	GW_HIDDEN cl_int gwn_clRelease##what(type o) { return release(o, kind, invalid); }

// Devices of the platform live for ever; sub-devices are counted (info[0]).
#define DEVICE(name, f) \
	GW_HIDDEN cl_int gwn_cl##name(cl_device_id d); \
	GW_HIDDEN cl_int gwn_cl##name(cl_device_id d) \
	{ \
		if (!gw_is(d, GW_DEVICE)) \
			return CL_INVALID_DEVICE; \
		return ((gw_object *)d)->info[0] ? f(d, GW_DEVICE, CL_INVALID_DEVICE) : CL_SUCCESS; \
	}

COUNTED(Context, cl_context, GW_CONTEXT, CL_INVALID_CONTEXT)           // gwn_clRetainContext( gwn_clReleaseContext(
COUNTED(CommandQueue, cl_command_queue, GW_QUEUE, CL_INVALID_COMMAND_QUEUE) // gwn_clRetainCommandQueue( gwn_clReleaseCommandQueue(
COUNTED(MemObject, cl_mem, GW_MEM, CL_INVALID_MEM_OBJECT)              // gwn_clRetainMemObject( gwn_clReleaseMemObject(
COUNTED(Program, cl_program, GW_PROGRAM, CL_INVALID_PROGRAM)           // gwn_clRetainProgram( gwn_clReleaseProgram(
COUNTED(Kernel, cl_kernel, GW_KERNEL, CL_INVALID_KERNEL)               // gwn_clRetainKernel( gwn_clReleaseKernel(
COUNTED(Event, cl_event, GW_EVENT, CL_INVALID_EVENT)                   // gwn_clRetainEvent( gwn_clReleaseEvent(
DEVICE(RetainDevice, retain)                                           // gwn_clRetainDevice(
DEVICE(ReleaseDevice, release)                                         // gwn_clReleaseDevice(
DEVICE(RetainDeviceEXT, retain)                                        // gwn_clRetainDeviceEXT(
DEVICE(ReleaseDeviceEXT, release)                                      // gwn_clReleaseDeviceEXT(
