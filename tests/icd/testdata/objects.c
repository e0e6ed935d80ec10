/* When objects end, and who is told: destructor callbacks of buffers, sub-buffers,
 * buffers over shared virtual memory and contexts, callbacks within callbacks, objects
 * that are kept by others; and what objects answer of themselves.
 *
 *   objects [PLATFORM]
 */
#include "common.h"

static struct house *h;
static cl_int err;

/* What callbacks noted, in the order in which they came. */
static volatile int noted[16], notes;

static void note(intptr_t what) { noted[__sync_fetch_and_add(&notes, 1) & 15] = (int)what; }

static int wait_for_notes(int n)
{
	for (double until = now() + 20; notes < n && now() < until;)
		usleep(1000);
	return notes == n;
}

static void CL_CALLBACK buffer_gone(cl_mem m, void *what) { (void)m, note((intptr_t)what); }
static void CL_CALLBACK context_gone(cl_context c, void *what) { (void)c, note((intptr_t)what); }

static cl_event gate(void)
{
	cl_event e = clCreateUserEvent(h->ctx, &err);
	OK(err);
	return e;
}

static void open_gate(cl_event e)
{
	OK(clSetUserEventStatus(e, CL_COMPLETE));
	OK(clReleaseEvent(e));
}

static const char one = 1;

/* A buffer ends once the commands that use it have, last callback first, and what it is
 * a part of after it. */
static void sub_buffers(void)
{
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE, 4096, NULL);
	cl_buffer_region region = {1024, 1024};
	cl_mem s = clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
	OK(err);
	OK(clSetMemObjectDestructorCallback(m, buffer_gone, (void *)1));
	OK(clSetMemObjectDestructorCallback(m, buffer_gone, (void *)2));
	OK(clSetMemObjectDestructorCallback(s, buffer_gone, (void *)3));
	OK(clSetMemObjectDestructorCallback(s, buffer_gone, (void *)4));
	cl_event g = gate();
	notes = 0;
	OK(clEnqueueFillBuffer(h->q[0], s, &one, 1, 0, 1024, 1, &g, NULL));
	OK(clReleaseMemObject(m));
	OK(clReleaseMemObject(s));
	usleep(50000);
	CHECK(notes == 0);
	open_gate(g);
	CHECK(wait_for_notes(4));
	CHECK(noted[0] == 4 && noted[1] == 3 && noted[2] == 2 && noted[3] == 1);
}

/* A buffer over shared virtual memory ends with its last reference, not with that memory. */
static void over_svm(void)
{
	cl_device_svm_capabilities can = 0;
	OK(clGetDeviceInfo(h->dev[0], CL_DEVICE_SVM_CAPABILITIES, sizeof can, &can, NULL));
	if (!can)
		return;
	if (!(can & CL_DEVICE_SVM_FINE_GRAIN_BUFFER))
		CHECK(clSVMAlloc(h->ctx, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, 64, 0) == NULL);
	void *p = clSVMAlloc(h->ctx, CL_MEM_READ_WRITE, 4096, 0);
	CHECK(p);
	cl_mem m = buffer(h->ctx, CL_MEM_USE_HOST_PTR, 4096, p);
	OK(clSetMemObjectDestructorCallback(m, buffer_gone, (void *)1));
	notes = 0;
	OK(clReleaseMemObject(m));
	CHECK(wait_for_notes(1));
	clSVMFree(h->ctx, p);
}

/* The function that frees shared virtual memory is given its queue, released or not. */
static void CL_CALLBACK frees(cl_command_queue q, cl_uint n, void *p[], void *what)
{
	cl_context c = NULL;
	OK(clGetCommandQueueInfo(q, CL_QUEUE_CONTEXT, sizeof c, &c, NULL));
	for (cl_uint i = 0; i < n; i++)
		clSVMFree(c, p[i]);
	note((intptr_t)what);
}

static void freeing(void)
{
	void *p = clSVMAlloc(h->ctx, CL_MEM_READ_WRITE, 4096, 0);
	if (!p)
		return;
	cl_command_queue q = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], NULL, &err);
	OK(err);
	cl_event g = gate();
	notes = 0;
	OK(clEnqueueSVMFree(q, 1, &p, frees, (void *)7, 1, &g, NULL));
	OK(clReleaseCommandQueue(q));
	open_gate(g);
	CHECK(wait_for_notes(1) && noted[0] == 7);
}

/* A context ends after all that is in it, and tells last callback first. */
static void contexts(void)
{
	cl_context c = clCreateContext(NULL, h->n, h->dev, NULL, NULL, &err);
	OK(err);
	OK(clSetContextDestructorCallback(c, context_gone, (void *)1));
	OK(clSetContextDestructorCallback(c, context_gone, (void *)2));
	cl_command_queue q = clCreateCommandQueueWithProperties(c, h->dev[0], NULL, &err);
	OK(err);
	cl_mem m = buffer(c, CL_MEM_READ_WRITE, 4096, NULL);
	OK(clSetMemObjectDestructorCallback(m, buffer_gone, (void *)3));
	cl_event g = clCreateUserEvent(c, &err), e;
	OK(err);
	notes = 0;
	OK(clReleaseContext(c)); /* kept by what is in it */
	OK(clEnqueueFillBuffer(q, m, &one, 1, 0, 4096, 1, &g, &e));
	cl_context is;
	OK(clGetMemObjectInfo(m, CL_MEM_CONTEXT, sizeof is, &is, NULL));
	CHECK(is == c);
	OK(clReleaseMemObject(m));
	OK(clReleaseCommandQueue(q));
	OK(clSetUserEventStatus(g, CL_COMPLETE));
	OK(clReleaseEvent(g));
	OK(clWaitForEvents(1, &e)); /* by its event alone */
	CHECK(wait_for_notes(1) && noted[0] == 3);
	OK(clReleaseEvent(e));
	CHECK(wait_for_notes(3) && noted[1] == 2 && noted[2] == 1);
}

/* Callbacks may use OpenCL, short of waiting: here the second, which the first asks
 * for, lets go what the program waits for. */
static cl_event inner;

static void CL_CALLBACK second(cl_event e, cl_int status, void *what)
{
	cl_uint refs = 0;
	OK(clGetEventInfo(e, CL_EVENT_REFERENCE_COUNT, sizeof refs, &refs, NULL));
	CHECK(refs >= 1 && status == CL_COMPLETE);
	note((intptr_t)what);
	OK(clSetUserEventStatus(inner, CL_COMPLETE));
}

static void CL_CALLBACK first(cl_event e, cl_int status, void *what)
{
	CHECK(status == CL_COMPLETE);
	note((intptr_t)what);
	OK(clSetEventCallback(e, CL_COMPLETE, second, (void *)2));
	OK(clReleaseEvent(e)); /* the program's reference, which was the last */
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE, 64, NULL);
	OK(clEnqueueFillBuffer(h->q[h->n - 1], m, &one, 1, 0, 64, 0, NULL, NULL));
	OK(clFlush(h->q[h->n - 1]));
	OK(clReleaseMemObject(m));
}

static void callbacks(void)
{
	cl_event e;
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE, 64, NULL);
	char got = 0;
	inner = gate();
	notes = 0;
	OK(clEnqueueFillBuffer(h->q[0], m, &one, 1, 0, 64, 0, NULL, &e));
	OK(clSetEventCallback(e, CL_COMPLETE, first, (void *)1));
	OK(clEnqueueReadBuffer(h->q[h->n - 1], m, CL_TRUE, 0, 1, &got, 1, &inner, NULL));
	CHECK(got == 1 && notes == 2 && noted[0] == 1 && noted[1] == 2);
	OK(clReleaseEvent(inner));
	OK(clReleaseMemObject(m));
}

/* Sub-devices are kept by their contexts, and devices of the platform live for ever. */
static void subdevices(void)
{
	cl_uint units, n = 0, refs;
	OK(clGetDeviceInfo(h->dev[0], CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
	if (units < 2)
		return;
	cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, units / 2, 0};
	cl_device_id parts[2];
	OK(clCreateSubDevices(h->dev[0], equally, 2, parts, &n));
	cl_context c = clCreateContext(NULL, 2, parts, NULL, NULL, &err);
	OK(err);
	for (int i = 0; i < 2; i++)
		OK(clReleaseDevice(parts[i]));
	OK(clGetDeviceInfo(parts[1], CL_DEVICE_REFERENCE_COUNT, sizeof refs, &refs, NULL));
	CHECK(refs == 1);
	cl_command_queue q[2];
	for (int i = 0; i < 2; i++) {
		q[i] = clCreateCommandQueueWithProperties(c, parts[i], NULL, &err);
		OK(err);
	}
	OK(clReleaseContext(c));
	cl_mem m = buffer(c, CL_MEM_READ_WRITE, 4096, NULL);
	char got = 0;
	OK(clEnqueueFillBuffer(q[0], m, &one, 1, 0, 4096, 0, NULL, NULL));
	OK(clEnqueueReadBuffer(q[1], m, CL_TRUE, 4095, 1, &got, 0, NULL, NULL));
	CHECK(got == 1);
	OK(clReleaseMemObject(m));
	for (int i = 0; i < 2; i++)
		OK(clReleaseCommandQueue(q[i]));
	for (double until = now() + 20; clRetainDevice(parts[0]) == CL_SUCCESS; usleep(1000)) {
		OK(clReleaseDevice(parts[0]));
		CHECK(now() < until);
	}
	OK(clReleaseDevice(h->dev[0]));
	OK(clRetainDevice(h->dev[0]));
}

/* An info query answers what it is about, with its size, and wants the room for it. */
#define ANSWERS(type, value, query, object, what)                                                       \
	do {                                                                                            \
		type is_;                                                                               \
		size_t size_ = 0;                                                                       \
		OK(query(object, what, 0, NULL, &size_));                                               \
		CHECK(size_ == sizeof is_);                                                             \
		CHECK(query(object, what, sizeof is_ - 1, &is_, NULL) == CL_INVALID_VALUE);             \
		OK(query(object, what, sizeof is_, &is_, NULL));                                        \
		CHECK(is_ == (value));                                                                  \
	} while (0)

static void infos(void)
{
	static char data[4096] __attribute__((aligned(4096)));
	cl_mem m = buffer(h->ctx, CL_MEM_USE_HOST_PTR, 4096, data);
	cl_buffer_region region = {1024, 512};
	cl_mem s = clCreateSubBuffer(m, CL_MEM_READ_ONLY, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
	OK(err);
	for (int sub = 0; sub < 2; sub++) {
		cl_mem o = sub ? s : m;
		ANSWERS(cl_mem_object_type, CL_MEM_OBJECT_BUFFER, clGetMemObjectInfo, o, CL_MEM_TYPE);
		ANSWERS(cl_mem_flags, CL_MEM_USE_HOST_PTR | (sub ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE), clGetMemObjectInfo, o, CL_MEM_FLAGS);
		ANSWERS(size_t, sub ? 512 : 4096, clGetMemObjectInfo, o, CL_MEM_SIZE);
		ANSWERS(char *, data + (sub ? 1024 : 0), clGetMemObjectInfo, o, CL_MEM_HOST_PTR);
		ANSWERS(cl_uint, 0, clGetMemObjectInfo, o, CL_MEM_MAP_COUNT);
		ANSWERS(cl_uint, sub ? 1 : 2, clGetMemObjectInfo, o, CL_MEM_REFERENCE_COUNT);
		ANSWERS(cl_context, h->ctx, clGetMemObjectInfo, o, CL_MEM_CONTEXT);
		ANSWERS(cl_mem, sub ? m : NULL, clGetMemObjectInfo, o, CL_MEM_ASSOCIATED_MEMOBJECT);
		ANSWERS(size_t, sub ? 1024 : 0, clGetMemObjectInfo, o, CL_MEM_OFFSET);
		ANSWERS(cl_bool, CL_FALSE, clGetMemObjectInfo, o, CL_MEM_USES_SVM_POINTER);
	}
	OK(clReleaseMemObject(s));
	OK(clReleaseMemObject(m));
	cl_event e[2] = {gate()};
	OK(clEnqueueMarkerWithWaitList(h->q[0], 1, e, &e[1]));
	for (int i = 0; i < 2; i++) {
		ANSWERS(cl_context, h->ctx, clGetEventInfo, e[i], CL_EVENT_CONTEXT);
		ANSWERS(cl_command_queue, i ? h->q[0] : NULL, clGetEventInfo, e[i], CL_EVENT_COMMAND_QUEUE);
		ANSWERS(cl_command_type, i ? CL_COMMAND_MARKER : CL_COMMAND_USER, clGetEventInfo, e[i], CL_EVENT_COMMAND_TYPE);
		ANSWERS(cl_uint, 1, clGetEventInfo, e[i], CL_EVENT_REFERENCE_COUNT);
		ANSWERS(cl_int, CL_SUBMITTED, clGetEventInfo, e[i], CL_EVENT_COMMAND_EXECUTION_STATUS);
		CHECK(clGetEventInfo(e[i], 0x2222, 8, data, NULL) == CL_INVALID_VALUE);
	}
	open_gate(e[0]);
	OK(clWaitForEvents(1, &e[1]));
	ANSWERS(cl_int, CL_COMPLETE, clGetEventInfo, e[1], CL_EVENT_COMMAND_EXECUTION_STATUS);
	CHECK(clGetEventProfilingInfo(e[1], CL_PROFILING_COMMAND_QUEUED, 8, data, NULL) == CL_PROFILING_INFO_NOT_AVAILABLE);
	OK(clReleaseEvent(e[1]));
}

int main(int argc, char **argv)
{
	h = house(argc > 1 ? argv[1] : "", 0, 0);
	sub_buffers();
	over_svm();
	freeing();
	contexts();
	callbacks();
	subdevices();
	infos();
	leave(h);
	printf("OK\n");
	return 0;
}
