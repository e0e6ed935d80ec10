/* What the test programs share: errors end the program with their line, and a
 * platform is chosen by part of its name. */
#ifndef COMMON_H
#define COMMON_H
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OK(call)                                                               \
	do {                                                                   \
		cl_int ok_ = (call);                                           \
		if (ok_ != CL_SUCCESS) {                                       \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, \
				#call, ok_);                                   \
			exit(1);                                               \
		}                                                              \
	} while (0)

#define CHECK(yes)                                                             \
	do {                                                                   \
		if (!(yes)) {                                                  \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__,       \
				__LINE__, #yes);                               \
			exit(1);                                               \
		}                                                              \
	} while (0)

static inline double now(void) /* seconds */
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static inline int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static inline double median(double *v, int n)
{
	qsort(v, n, sizeof *v, ascending);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* The first platform whose name has this part in it; its name goes to name. */
static inline cl_platform_id platform_named(const char *part, char name[256])
{
	cl_platform_id all[16];
	cl_uint n = 0;
	OK(clGetPlatformIDs(16, all, &n));
	for (cl_uint i = 0; i < n && i < 16; i++) {
		OK(clGetPlatformInfo(all[i], CL_PLATFORM_NAME, 256, name, NULL));
		if (strstr(name, part))
			return all[i];
	}
	fprintf(stderr, "no platform is called *%s*, of %u\n", part, n);
	exit(2);
}

#define MOST_DEVICES 64

/* A context with the first n devices of a platform (all where n is 0) and an
 * in-order queue for each. */
struct house {
	char platform[256];
	cl_uint n;
	cl_device_id dev[MOST_DEVICES];
	cl_context ctx;
	cl_command_queue q[MOST_DEVICES];
};

static inline struct house *house(const char *part, cl_uint n,
				  cl_command_queue_properties props)
{
	struct house *h = calloc(1, sizeof *h);
	cl_uint have;
	cl_int err;
	cl_platform_id p = platform_named(part, h->platform);
	OK(clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, MOST_DEVICES, h->dev, &have));
	h->n = n ? n : have;
	if (h->n > have) {
		fprintf(stderr, "%s has %u devices, not %u\n", h->platform, have, n);
		exit(2);
	}
	cl_context_properties cp[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)p, 0};
	h->ctx = clCreateContext(cp, h->n, h->dev, NULL, NULL, &err);
	OK(err);
	cl_queue_properties qp[] = {CL_QUEUE_PROPERTIES, props, 0};
	for (cl_uint i = 0; i < h->n; i++) {
		h->q[i] = clCreateCommandQueueWithProperties(h->ctx, h->dev[i], qp, &err);
		OK(err);
	}
	return h;
}

static inline cl_program built(cl_context ctx, const char *source)
{
	cl_int err;
	cl_program p = clCreateProgramWithSource(ctx, 1, &source, NULL, &err);
	OK(err);
	OK(clBuildProgram(p, 0, NULL, NULL, NULL, NULL));
	return p;
}

static inline cl_kernel kernel(cl_program p, const char *name)
{
	cl_int err;
	cl_kernel k = clCreateKernel(p, name, &err);
	OK(err);
	return k;
}

static inline cl_mem buffer(cl_context ctx, cl_mem_flags flags, size_t size, void *host)
{
	cl_int err;
	cl_mem m = clCreateBuffer(ctx, flags, size, host, &err);
	OK(err);
	return m;
}

static inline void leave(struct house *h)
{
	for (cl_uint i = 0; i < h->n; i++)
		OK(clReleaseCommandQueue(h->q[i]));
	OK(clReleaseContext(h->ctx));
	free(h);
}

#endif
