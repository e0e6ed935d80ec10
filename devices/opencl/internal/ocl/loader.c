//go:build cgo

// Thunks for the OpenCL functions that go-opencl and this package reference.
//
// What they open is the OpenCL loader, or one driver without it (gw_use_driver):
// then the functions come from the dispatch table that every object of the
// driver starts with, as the loader itself finds them (cl_khr_icd). A library
// that is loaded by the loader must never call it: it finds nothing there, or
// waits for ever for the loader to be ready.
//
// go-opencl is linked with -lOpenCL, and a program so linked does not start
// where the loader is not installed. These definitions satisfy its references,
// so that (with --as-needed) the program no longer needs the library to start;
// each opens the loader on first use and fails with a status where there is
// none. All creates and releases pass here, go-opencl's finalizers' too, so
// this is also where objects are counted, and where tests inject faults.
#define _GNU_SOURCE
#include "loader.h"
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GW_NO_PLATFORM (-1001) // CL_PLATFORM_NOT_FOUND_KHR: what the loader says without a platform

// Every function reached, once.
#define GW_FUNCTIONS(X) \
	X(clBuildProgram) X(clCreateBuffer) X(clCreateCommandQueue) X(clCreateContext) X(clCreateImage) \
	X(clCreateKernel) X(clCreateProgramWithSource) X(clCreateSubBuffer) X(clCreateUserEvent) \
	X(clEnqueueBarrierWithWaitList) X(clEnqueueCopyBuffer) X(clEnqueueCopyBufferRect) X(clEnqueueFillBuffer) \
	X(clEnqueueMapBuffer) X(clEnqueueMapImage) X(clEnqueueMarkerWithWaitList) X(clEnqueueNDRangeKernel) \
	X(clEnqueueReadBuffer) X(clEnqueueReadBufferRect) X(clEnqueueReadImage) X(clEnqueueTask) \
	X(clEnqueueUnmapMemObject) X(clEnqueueWriteBuffer) X(clEnqueueWriteBufferRect) X(clEnqueueWriteImage) \
	X(clFinish) X(clFlush) X(clGetDeviceIDs) X(clGetDeviceInfo) X(clGetEventInfo) X(clGetEventProfilingInfo) \
	X(clGetKernelArgInfo) X(clGetKernelInfo) X(clGetKernelWorkGroupInfo) X(clGetPlatformIDs) \
	X(clGetPlatformInfo) X(clGetProgramBuildInfo) X(clGetProgramInfo) X(clGetSupportedImageFormats) \
	X(clReleaseCommandQueue) X(clReleaseContext) X(clReleaseEvent) X(clReleaseKernel) X(clReleaseMemObject) \
	X(clReleaseProgram) X(clRetainEvent) X(clSetEventCallback) X(clSetKernelArg) X(clSetUserEventStatus) \
	X(clWaitForEvents) X(clCompileProgram) X(clCreateProgramWithBinary) X(clLinkProgram) \
	X(clSetMemObjectDestructorCallback) X(clCreateSampler) X(clReleaseSampler) X(clEnqueueCopyBufferToImage) X(clEnqueueCopyImageToBuffer)

// Functions later than OpenCL 1.2, which may be missing.
#define GW_OPTIONAL(X) X(clCreateProgramWithIL) X(clGetKernelSubGroupInfo) \
	X(clSetKernelArgSVMPointer) X(clSetKernelExecInfo) X(clEnqueueSVMMemcpy) X(clEnqueueSVMMemFill)

// Functions of OpenCL 3.0, which may be missing.
#define GW_LATE(X) X(clCreateBufferWithProperties)

#define GW_FIELD(f) __typeof__(f) *f;
static struct { GW_FUNCTIONS(GW_FIELD) GW_OPTIONAL(GW_FIELD) GW_LATE(GW_FIELD) } fn; // written once, under once
static const char *missing;                  // written once, under once
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *only_driver; // of gw_use_driver
static const char *named;       // of gw_use_loader
static clIcdGetPlatformIDsKHR_fn driver_platforms; // written once, under once

int gw_use_driver(const char *library)
{
	if (!only_driver)
		only_driver = strdup(library);
	return only_driver && strcmp(only_driver, library) == 0;
}

void gw_use_loader(const char *library) { named = library; }

// is_this reports whether a function is of the library that this code is in.
static int is_this(void *f)
{
	Dl_info ours, its;
	return f && dladdr((void *)gw_use_driver, &ours) && dladdr(f, &its) && ours.dli_fbase == its.dli_fbase;
}

// load_driver opens a driver without the loader. Neither this library nor a loader will
// do, which would call this library again and wait for ever.
static void load_driver(void)
{
	missing = "the OpenCL driver named by GODWIT_BACKEND cannot be opened";
	void *lib = dlopen(only_driver, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return;
	missing = "the library named by GODWIT_BACKEND is libgodwit.so itself, not a driver to compile and run kernels";
	if (is_this(dlsym(lib, "clGetExtensionFunctionAddress")))
		return;
	missing = "the library named by GODWIT_BACKEND is an OpenCL loader, not a driver";
	if (dlsym(lib, "clGetICDLoaderInfoOCLICD"))
		return;
	missing = "the library named by GODWIT_BACKEND is no OpenCL driver: it lacks clIcdGetPlatformIDsKHR";
	driver_platforms = (clIcdGetPlatformIDsKHR_fn)dlsym(lib, "clIcdGetPlatformIDsKHR");
	if (!driver_platforms) {
		void *(*find)(const char *) = (void *(*)(const char *))dlsym(lib, "clGetExtensionFunctionAddress");
		if (find)
			driver_platforms = (clIcdGetPlatformIDsKHR_fn)find("clIcdGetPlatformIDsKHR");
		if (!driver_platforms)
			return;
	}
	missing = "the OpenCL driver named by GODWIT_BACKEND has no platform here";
	cl_platform_id platform = NULL;
	cl_uint n = 0;
	if (driver_platforms(1, &platform, &n) != CL_SUCCESS || n == 0 || !platform)
		return;
	const cl_icd_dispatch *d = *(const cl_icd_dispatch **)platform;
	const char *lacking = NULL;
#define GW_TAKE(f) if (!(fn.f = (__typeof__(f) *)d->f) && !lacking) lacking = "the OpenCL driver named by GODWIT_BACKEND is older than OpenCL 1.2: it lacks " #f;
	GW_FUNCTIONS(GW_TAKE)
	char version[1024] = ""; // "OpenCL 3.0 ..."; the tables of drivers older than 2.1 are shorter
	int major = 0, minor = 0;
	if (d->clGetPlatformInfo)
		d->clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
	if (sscanf(version, "OpenCL %d.%d", &major, &minor) == 2 && 10 * major + minor >= 21) {
#define GW_MAY_TAKE(f) fn.f = (__typeof__(f) *)d->f;
		GW_OPTIONAL(GW_MAY_TAKE)
		if (major >= 3) {
			GW_LATE(GW_MAY_TAKE)
		}
	}
	fn.clGetPlatformIDs = driver_platforms;
	missing = lacking;
}

static void load(void)
{
	if (only_driver) {
		load_driver();
		return;
	}
	void *lib = named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib && !named)
		lib = dlopen("libOpenCL.so", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		missing = named ? "the OpenCL loader named by GODWIT_OPENCL_LIBRARY cannot be opened"
		                : "no OpenCL loader (libOpenCL.so.1) is installed";
		return;
	}
	const char *lacking = NULL;
#define GW_FIND(f) if (!(fn.f = (__typeof__(f) *)dlsym(lib, #f)) && !lacking) lacking = "the OpenCL loader is older than OpenCL 1.2: it lacks " #f;
	GW_FUNCTIONS(GW_FIND)
#define GW_SEEK(f) fn.f = (__typeof__(f) *)dlsym(lib, #f);
	GW_OPTIONAL(GW_SEEK)
	GW_LATE(GW_SEEK)
	missing = lacking;
}

const char *gw_load(void)
{
	pthread_once(&once, load);
	return missing;
}

int gw_has_svm(void)
{
	return !gw_load() && fn.clSetKernelArgSVMPointer && fn.clSetKernelExecInfo && fn.clEnqueueSVMMemcpy && fn.clEnqueueSVMMemFill;
}

static int64_t made[GW_KINDS], gone[GW_KINDS]; // atomic
static int armed[7];                           // atomic: calls left to the fault, 0 is off
static cl_int codes[7];

void gw_counts(int64_t created[GW_KINDS], int64_t released[GW_KINDS])
{
	for (int k = 0; k < GW_KINDS; k++) {
		released[k] = __atomic_load_n(&gone[k], __ATOMIC_SEQ_CST);
		created[k] = __atomic_load_n(&made[k], __ATOMIC_SEQ_CST);
	}
}

void gw_fault(int op, int nth, cl_int code)
{
	codes[op] = code;
	__atomic_store_n(&armed[op], nth, __ATOMIC_SEQ_CST);
}

cl_int gw_faulty(int op)
{
	if (__atomic_load_n(&armed[op], __ATOMIC_RELAXED) <= 0)
		return CL_SUCCESS;
	return __atomic_sub_fetch(&armed[op], 1, __ATOMIC_SEQ_CST) == 0 ? codes[op] : CL_SUCCESS;
}

static uint64_t releases; // atomic

uint64_t gw_releases(void) { return __atomic_load_n(&releases, __ATOMIC_SEQ_CST); }

static void *created(int kind, void *object)
{
	if (object)
		__atomic_add_fetch(&made[kind], 1, __ATOMIC_RELAXED);
	return object;
}

static cl_int released(int kind, cl_int err)
{
	if (err == CL_SUCCESS)
		__atomic_add_fetch(&gone[kind], 1, __ATOMIC_RELAXED);
	return err;
}

static cl_int enqueued(cl_int err, cl_event *ev)
{
	if (err == CL_SUCCESS && ev)
		__atomic_add_fetch(&made[GW_EVENT], 1, __ATOMIC_RELAXED);
	return err;
}

// shape orders calls that break lists of a vendor's library together (quirks.go). Those that make and release
// sub-buffers have it alone, and those that enqueue commands share it. Where contexts need them apart, those that
// enqueue, set arguments, and make and release anything but contexts have it alone too. What waits,
// compiles or runs a kernel never has it. Writers come first, or a program that never stops to enqueue would keep
// them out. No call that has it calls another.
#ifndef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#define PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP PTHREAD_RWLOCK_INITIALIZER
#endif
static pthread_rwlock_t shape = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static int crowds; // atomic: contexts that need calls apart

void gw_apart(int more) { __atomic_add_fetch(&crowds, more, __ATOMIC_SEQ_CST); }

int gw_is_apart(void) { return __atomic_load_n(&crowds, __ATOMIC_RELAXED) != 0; }

// These calls take microseconds, and to be woken takes as long as several: so it is looked for first.
#define SHAPE_LOOKS 200

static int shaping(void)
{
	for (int i = 0; i < SHAPE_LOOKS; i++) {
		if (pthread_rwlock_trywrlock(&shape) == 0)
			return 1;
#if defined __x86_64__
		__builtin_ia32_pause();
#endif
	}
	return pthread_rwlock_wrlock(&shape) == 0;
}

static int enqueuing(void) { return gw_is_apart() ? shaping() : pthread_rwlock_rdlock(&shape) == 0; }
static int apart(void) { return gw_is_apart() && shaping(); }
static void shaped(const int *held)
{
	if (*held)
		pthread_rwlock_unlock(&shape);
}

#define GW_SHAPES __attribute__((cleanup(shaped), unused)) int shapes = shaping();
#define GW_ENQUEUES __attribute__((cleanup(shaped), unused)) int enqueues = enqueuing();
#define GW_FREELY
#define GW_APART __attribute__((cleanup(shaped), unused)) int alone = apart();

// P and A spell a function's parameters and the arguments passed on.
#define P(...) (__VA_ARGS__)
#define A(...) (__VA_ARGS__)
#define WAITS cl_uint nw, const cl_event *w, cl_event *ev

// Functions that return a status.
#define STATUS(f, p, a) \
	GW_HIDDEN cl_int f p { GW_GATE return gw_load() ? GW_NO_PLATFORM : fn.f a; }
#define APART(f, p, a) \
	GW_HIDDEN cl_int f p { GW_GATE GW_APART return gw_load() ? GW_NO_PLATFORM : fn.f a; }
// The same of GW_OPTIONAL: they are about kernels and their arguments.
#define OPTIONAL(f, p, a) \
	GW_HIDDEN cl_int f p { GW_GATE GW_APART return gw_load() ? GW_NO_PLATFORM : fn.f ? fn.f a : CL_INVALID_OPERATION; }
// Functions that return an object of a kind, and a status in *err; but is the status where it cannot be made.
#define CREATE_BUT(but, how, kind, type, f, p, a) \
	GW_HIDDEN type f p \
	{ \
		GW_GATE \
		how \
		cl_int no = gw_load() ? GW_NO_PLATFORM : (but); \
		if (no) { if (err) *err = no; return NULL; } \
		return created(kind, fn.f a); \
	}
#define CREATE(...) CREATE_BUT(CL_SUCCESS, __VA_ARGS__)
#define RELEASE(how, kind, f, type) \
	GW_HIDDEN cl_int f(type o) { GW_GATE how return gw_load() ? GW_NO_PLATFORM : released(kind, fn.f(o)); }
// Functions that enqueue a command and return a status.
#define ENQUEUE(f, p, a) \
	GW_HIDDEN cl_int f p \
	{ \
		GW_GATE \
		GW_ENQUEUES \
		cl_int fault; \
		if (gw_load()) return GW_NO_PLATFORM; \
		if ((fault = gw_faulty(0))) return fault; \
		return enqueued(fn.f a, ev); \
	}
// Functions that enqueue a map and return its address, and a status in *err.
#define MAP(f, p, a) \
	GW_HIDDEN void *f p \
	{ \
		GW_GATE \
		GW_ENQUEUES \
		cl_int e = gw_load() ? GW_NO_PLATFORM : gw_faulty(0); \
		void *to = e ? NULL : fn.f a; \
		enqueued(e, ev); \
		if (err) *err = e; \
		return to; \
	}

STATUS(clGetPlatformIDs, P(cl_uint n, cl_platform_id *ids, cl_uint *num), A(n, ids, num))
STATUS(clGetPlatformInfo, P(cl_platform_id p, cl_platform_info i, size_t n, void *v, size_t *r), A(p, i, n, v, r))
STATUS(clGetDeviceIDs, P(cl_platform_id p, cl_device_type t, cl_uint n, cl_device_id *ids, cl_uint *num), A(p, t, n, ids, num))
STATUS(clGetDeviceInfo, P(cl_device_id d, cl_device_info i, size_t n, void *v, size_t *r), A(d, i, n, v, r))
STATUS(clGetSupportedImageFormats, P(cl_context c, cl_mem_flags f, cl_mem_object_type t, cl_uint n, cl_image_format *v, cl_uint *r), A(c, f, t, n, v, r))
STATUS(clGetEventInfo, P(cl_event e, cl_event_info i, size_t n, void *v, size_t *r), A(e, i, n, v, r))
STATUS(clGetEventProfilingInfo, P(cl_event e, cl_profiling_info i, size_t n, void *v, size_t *r), A(e, i, n, v, r))
STATUS(clGetKernelArgInfo, P(cl_kernel k, cl_uint a, cl_kernel_arg_info i, size_t n, void *v, size_t *r), A(k, a, i, n, v, r))
STATUS(clGetKernelInfo, P(cl_kernel k, cl_kernel_info i, size_t n, void *v, size_t *r), A(k, i, n, v, r))
STATUS(clGetKernelWorkGroupInfo, P(cl_kernel k, cl_device_id d, cl_kernel_work_group_info i, size_t n, void *v, size_t *r), A(k, d, i, n, v, r))
STATUS(clGetProgramBuildInfo, P(cl_program p, cl_device_id d, cl_program_build_info i, size_t n, void *v, size_t *r), A(p, d, i, n, v, r))
STATUS(clGetProgramInfo, P(cl_program p, cl_program_info i, size_t n, void *v, size_t *r), A(p, i, n, v, r))
STATUS(clBuildProgram, P(cl_program p, cl_uint n, const cl_device_id *d, const char *o, void(CL_CALLBACK *f)(cl_program, void *), void *u), A(p, n, d, o, f, u))
STATUS(clCompileProgram, P(cl_program p, cl_uint n, const cl_device_id *d, const char *o, cl_uint hn, const cl_program *h, const char **hs, void(CL_CALLBACK *f)(cl_program, void *), void *u), A(p, n, d, o, hn, h, hs, f, u))
OPTIONAL(clGetKernelSubGroupInfo, P(cl_kernel k, cl_device_id d, cl_kernel_sub_group_info i, size_t m, const void *in, size_t n, void *v, size_t *r), A(k, d, i, m, in, n, v, r))
OPTIONAL(clSetKernelArgSVMPointer, P(cl_kernel k, cl_uint i, const void *v), A(k, i, v))
OPTIONAL(clSetKernelExecInfo, P(cl_kernel k, cl_kernel_exec_info i, size_t n, const void *v), A(k, i, n, v))
APART(clSetKernelArg, P(cl_kernel k, cl_uint i, size_t n, const void *v), A(k, i, n, v))
STATUS(clSetUserEventStatus, P(cl_event e, cl_int s), A(e, s))
STATUS(clSetMemObjectDestructorCallback, P(cl_mem m, void(CL_CALLBACK *f)(cl_mem, void *), void *u), A(m, f, u))

GW_HIDDEN cl_int clSetEventCallback(cl_event e, cl_int s, void(CL_CALLBACK *f)(cl_event, cl_int, void *), void *u)
{
	GW_GATE
	cl_int fault = gw_load() ? GW_NO_PLATFORM : gw_faulty(4);
	return fault ? fault : fn.clSetEventCallback(e, s, f, u);
}

GW_HIDDEN cl_int clWaitForEvents(cl_uint n, const cl_event *e)
{
	GW_GATE
	cl_int fault = gw_load() ? GW_NO_PLATFORM : gw_faulty(3);
	return fault ? fault : fn.clWaitForEvents(n, e);
}

STATUS(clFinish, P(cl_command_queue q), A(q))
STATUS(clFlush, P(cl_command_queue q), A(q))

CREATE(GW_FREELY, GW_CONTEXT, cl_context, clCreateContext, P(const cl_context_properties *p, cl_uint n, const cl_device_id *d, void(CL_CALLBACK *f)(const char *, const void *, size_t, void *), void *u, cl_int *err), A(p, n, d, f, u, err))
CREATE(GW_APART, GW_QUEUE, cl_command_queue, clCreateCommandQueue, P(cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *err), A(c, d, p, err))
CREATE(GW_APART, GW_PROGRAM, cl_program, clCreateProgramWithSource, P(cl_context c, cl_uint n, const char **s, const size_t *l, cl_int *err), A(c, n, s, l, err))
CREATE(GW_APART, GW_PROGRAM, cl_program, clCreateProgramWithBinary, P(cl_context c, cl_uint n, const cl_device_id *d, const size_t *l, const unsigned char **b, cl_int *st, cl_int *err), A(c, n, d, l, b, st, err))
CREATE(GW_FREELY, GW_PROGRAM, cl_program, clLinkProgram, P(cl_context c, cl_uint n, const cl_device_id *d, const char *o, cl_uint pn, const cl_program *p, void(CL_CALLBACK *f)(cl_program, void *), void *u, cl_int *err), A(c, n, d, o, pn, p, f, u, err))
CREATE(GW_APART, GW_KERNEL, cl_kernel, clCreateKernel, P(cl_program p, const char *n, cl_int *err), A(p, n, err))
CREATE_BUT(gw_faulty(1), GW_APART, GW_MEM, cl_mem, clCreateImage, P(cl_context c, cl_mem_flags f, const cl_image_format *i, const cl_image_desc *d, void *h, cl_int *err), A(c, f, i, d, h, err))
CREATE(GW_APART, GW_EVENT, cl_event, clCreateUserEvent, P(cl_context c, cl_int *err), A(c, err))
CREATE(GW_APART, GW_SAMPLER, cl_sampler, clCreateSampler, P(cl_context c, cl_bool n, cl_addressing_mode a, cl_filter_mode f, cl_int *err), A(c, n, a, f, err))
CREATE(GW_SHAPES, GW_MEM, cl_mem, clCreateSubBuffer, P(cl_mem m, cl_mem_flags f, cl_buffer_create_type t, const void *i, cl_int *err), A(m, f, t, i, err))
CREATE_BUT(gw_faulty(1), GW_APART, GW_MEM, cl_mem, clCreateBuffer, P(cl_context c, cl_mem_flags f, size_t n, void *h, cl_int *err), A(c, f, n, h, err))
CREATE_BUT(fn.clCreateBufferWithProperties ? gw_faulty(1) : CL_INVALID_OPERATION, GW_APART, GW_MEM, cl_mem, clCreateBufferWithProperties, P(cl_context c, const cl_mem_properties *p, cl_mem_flags f, size_t n, void *h, cl_int *err), A(c, p, f, n, h, err))
CREATE_BUT(fn.clCreateProgramWithIL ? CL_SUCCESS : CL_INVALID_OPERATION, GW_APART, GW_PROGRAM, cl_program, clCreateProgramWithIL, P(cl_context c, const void *il, size_t n, cl_int *err), A(c, il, n, err))

RELEASE(GW_FREELY, GW_CONTEXT, clReleaseContext, cl_context)
RELEASE(GW_APART, GW_QUEUE, clReleaseCommandQueue, cl_command_queue)
GW_HIDDEN cl_int clReleaseMemObject(cl_mem o)
{
	GW_GATE
	GW_SHAPES
	if (gw_load())
		return GW_NO_PLATFORM;
	__atomic_add_fetch(&releases, 1, __ATOMIC_SEQ_CST); // before and after: who looks in between has seen neither
	cl_int st = released(GW_MEM, fn.clReleaseMemObject(o));
	__atomic_add_fetch(&releases, 1, __ATOMIC_SEQ_CST);
	return st;
}
RELEASE(GW_APART, GW_PROGRAM, clReleaseProgram, cl_program)
RELEASE(GW_APART, GW_KERNEL, clReleaseKernel, cl_kernel)
RELEASE(GW_APART, GW_EVENT, clReleaseEvent, cl_event)
RELEASE(GW_APART, GW_SAMPLER, clReleaseSampler, cl_sampler)

// A retain is one more reference to release.
GW_HIDDEN cl_int clRetainEvent(cl_event e)
{
	GW_GATE
	GW_APART
	return gw_load() ? GW_NO_PLATFORM : enqueued(fn.clRetainEvent(e), &e);
}

ENQUEUE(clEnqueueBarrierWithWaitList, P(cl_command_queue q, WAITS), A(q, nw, w, ev))
ENQUEUE(clEnqueueMarkerWithWaitList, P(cl_command_queue q, WAITS), A(q, nw, w, ev))
ENQUEUE(clEnqueueCopyBuffer, P(cl_command_queue q, cl_mem s, cl_mem d, size_t so, size_t dof, size_t n, WAITS), A(q, s, d, so, dof, n, nw, w, ev))
ENQUEUE(clEnqueueCopyBufferRect, P(cl_command_queue q, cl_mem s, cl_mem d, const size_t *so, const size_t *dof, const size_t *r, size_t sr, size_t ss, size_t dr, size_t ds, WAITS), A(q, s, d, so, dof, r, sr, ss, dr, ds, nw, w, ev))
ENQUEUE(clEnqueueCopyBufferToImage, P(cl_command_queue q, cl_mem s, cl_mem d, size_t so, const size_t *o, const size_t *r, WAITS), A(q, s, d, so, o, r, nw, w, ev))
ENQUEUE(clEnqueueCopyImageToBuffer, P(cl_command_queue q, cl_mem s, cl_mem d, const size_t *o, const size_t *r, size_t dof, WAITS), A(q, s, d, o, r, dof, nw, w, ev))
ENQUEUE(clEnqueueFillBuffer, P(cl_command_queue q, cl_mem m, const void *p, size_t pn, size_t o, size_t n, WAITS), A(q, m, p, pn, o, n, nw, w, ev))
ENQUEUE(clEnqueueNDRangeKernel, P(cl_command_queue q, cl_kernel k, cl_uint d, const size_t *o, const size_t *g, const size_t *l, WAITS), A(q, k, d, o, g, l, nw, w, ev))
ENQUEUE(clEnqueueTask, P(cl_command_queue q, cl_kernel k, WAITS), A(q, k, nw, w, ev))
ENQUEUE(clEnqueueReadBuffer, P(cl_command_queue q, cl_mem m, cl_bool b, size_t o, size_t n, void *p, WAITS), A(q, m, b, o, n, p, nw, w, ev))
ENQUEUE(clEnqueueWriteBuffer, P(cl_command_queue q, cl_mem m, cl_bool b, size_t o, size_t n, const void *p, WAITS), A(q, m, b, o, n, p, nw, w, ev))
ENQUEUE(clEnqueueReadBufferRect, P(cl_command_queue q, cl_mem m, cl_bool b, const size_t *bo, const size_t *ho, const size_t *r, size_t br, size_t bs, size_t hr, size_t hs, void *p, WAITS), A(q, m, b, bo, ho, r, br, bs, hr, hs, p, nw, w, ev))
ENQUEUE(clEnqueueWriteBufferRect, P(cl_command_queue q, cl_mem m, cl_bool b, const size_t *bo, const size_t *ho, const size_t *r, size_t br, size_t bs, size_t hr, size_t hs, const void *p, WAITS), A(q, m, b, bo, ho, r, br, bs, hr, hs, p, nw, w, ev))
ENQUEUE(clEnqueueSVMMemcpy, P(cl_command_queue q, cl_bool b, void *d, const void *s, size_t n, WAITS), A(q, b, d, s, n, nw, w, ev))
ENQUEUE(clEnqueueSVMMemFill, P(cl_command_queue q, void *d, const void *p, size_t pn, size_t n, WAITS), A(q, d, p, pn, n, nw, w, ev))
ENQUEUE(clEnqueueReadImage, P(cl_command_queue q, cl_mem m, cl_bool b, const size_t *o, const size_t *r, size_t rp, size_t sp, void *p, WAITS), A(q, m, b, o, r, rp, sp, p, nw, w, ev))
ENQUEUE(clEnqueueWriteImage, P(cl_command_queue q, cl_mem m, cl_bool b, const size_t *o, const size_t *r, size_t rp, size_t sp, const void *p, WAITS), A(q, m, b, o, r, rp, sp, p, nw, w, ev))
ENQUEUE(clEnqueueUnmapMemObject, P(cl_command_queue q, cl_mem m, void *p, WAITS), A(q, m, p, nw, w, ev))

MAP(clEnqueueMapBuffer, P(cl_command_queue q, cl_mem m, cl_bool b, cl_map_flags f, size_t o, size_t n, WAITS, cl_int *err), A(q, m, b, f, o, n, nw, w, ev, &e))
MAP(clEnqueueMapImage, P(cl_command_queue q, cl_mem m, cl_bool b, cl_map_flags f, const size_t *o, const size_t *r, size_t *rp, size_t *sp, WAITS, cl_int *err), A(q, m, b, f, o, r, rp, sp, nw, w, ev, &e))
