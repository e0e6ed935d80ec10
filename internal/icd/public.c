//go:build cgo

// What libgodwit.so exports: the two functions that a loader looks for. Nothing
// else is visible under a name of OpenCL's.
#include "object.h"
#include "_cgo_export.h"
#include <pthread.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int gw_ended;

// A fork's child has one thread and none of Go's: nothing works there, and an
// exec or _exit is all that it may do.
static void in_child(void) { __atomic_store_n(&gw_ended, GW_FORKED, __ATOMIC_RELAXED); }

static void begin(void)
{
	pthread_atfork(NULL, NULL, in_child);
	gwOnStarted(); // which returns once the runtime runs
	gw_share_signals();
}

// The end of the process; see devices/opencl/gate.c. It is called several times.
void gw_at_exit(void)
{
	int running = GW_RUNNING;
	if (!__atomic_compare_exchange_n(&gw_ended, &running, GW_EXITING, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	GW_IN_GO;
	gwOnExit();
}

PUBLIC cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint n, cl_platform_id *platforms, cl_uint *num)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (gw_over())
		return CL_PLATFORM_NOT_FOUND_KHR;
	GW_IN_GO;
	pthread_once(&once, begin);
	sigset_t blocked; // by the threads that the library underneath starts with this
	gw_block_signals(&blocked);
	cl_int err = gwGetPlatformIDs(n, platforms, num);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	return err;
}

// cl_pocl_content_size, whose function has no place in the dispatch table.
static cl_int CL_API_CALL set_content_size_buffer(cl_mem buffer, cl_mem size)
{
	if (gw_over())
		return CL_OUT_OF_RESOURCES;
	GW_IN_GO;
	return gwSetContentSizeBuffer((GoUintptr)buffer, (GoUintptr)size);
}

const struct gw_entry *gw_command_buffer_functions = gw_command_buffers;

static void *function_named(const struct gw_entry *e, const char *name)
{
	for (; e && e->name; e++)
		if (strcmp(e->name, name) == 0)
			return e->function;
	return NULL;
}

PUBLIC void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
	if (!name)
		return NULL;
	if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
		return (void *)clIcdGetPlatformIDsKHR;
	if (strcmp(name, "clSetContentSizeBufferPoCL") == 0)
		return (void *)set_content_size_buffer;
	if (strcmp(name, "clCreateProgramWithILKHR") == 0)
		name = "clCreateProgramWithIL";
	void *f = function_named(gw_entries, name);
	return f ? f : function_named(gw_command_buffer_functions, name);
}

void *gwc_GetExtensionFunctionAddress(const char *name) { return gw_over() ? NULL : clGetExtensionFunctionAddress(name); }

void *gwc_GetExtensionFunctionAddressForPlatform(cl_platform_id p, const char *name)
{
	return gw_is(p, GW_PLATFORM) ? gwc_GetExtensionFunctionAddress(name) : NULL;
}
