/* An OpenCL loader in which any platform imports memory by descriptor: it maps
 * the file. Everything else is the real loader's. With a fake of CUDA's library whose memory is
 * files, tests have windows without a GPU. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static cl_int answer(size_t n, void *v, size_t *r, const void *what, size_t size)
{
	if (r)
		*r = size;
	if (!v)
		return CL_SUCCESS;
	if (n < size)
		return CL_INVALID_VALUE;
	memcpy(v, what, size);
	return CL_SUCCESS;
}

/* uuid is that of the fake GPU that a device stands for: the devices of a platform in turns. */
static cl_int uuid(cl_device_id d, unsigned char u[16])
{
	cl_platform_id p;
	cl_device_id all[64];
	cl_uint n = 0;
	if (clGetDeviceInfo(d, CL_DEVICE_PLATFORM, sizeof p, &p, NULL) != CL_SUCCESS || clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, 64, all, &n) != CL_SUCCESS)
		return CL_INVALID_DEVICE;
	for (cl_uint i = 0; i < n && i < 64; i++)
		if (all[i] == d)
			memset(u, (int)i + 1, 16);
	return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id d, cl_device_info what, size_t n, void *v, size_t *r)
{
	static __typeof__(clGetDeviceInfo) *next;
	const cl_uint types[] = {0x2060};
	unsigned char u[16] = {0};
	switch (what) {
	case 0x204F:
		return answer(n, v, r, types, sizeof types);
	case 0x106A:
		return uuid(d, u) == CL_SUCCESS ? answer(n, v, r, u, sizeof u) : CL_INVALID_DEVICE;
	case CL_DRIVER_VERSION: {
		const char *version = getenv("GODWIT_SHIM_DRIVER"); /* or one that is known to be good */
		if (!version)
			version = "580.159.04";
		return answer(n, v, r, version, strlen(version) + 1);
	}
	}
	if (!next)
		next = (__typeof__(next))dlsym(RTLD_NEXT, "clGetDeviceInfo");
	return next(d, what, n, v, r);
}

struct mapping { void *at; size_t size; };

static void CL_CALLBACK gone(cl_mem m, void *arg)
{
	(void)m;
	struct mapping *x = arg;
	munmap(x->at, x->size);
	free(x);
}

cl_mem clCreateBufferWithProperties(cl_context c, const cl_mem_properties *p, cl_mem_flags f, size_t n, void *h, cl_int *err)
{
	(void)h;
	if (!p || p[0] != 0x2060 || p[2] != 0x2051 || n >= 512u << 20 || getenv("GODWIT_SHIM_CRASHES"))
		abort(); /* as the vendor's */
	struct mapping *x = malloc(sizeof *x);
	*x = (struct mapping){mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, (int)p[1], 0), n};
	if (x->at == MAP_FAILED) {
		free(x);
		*err = CL_OUT_OF_RESOURCES;
		return NULL;
	}
	cl_mem m = clCreateBuffer(c, f | CL_MEM_USE_HOST_PTR, n, x->at, err);
	if (m && clSetMemObjectDestructorCallback(m, gone, x) == CL_SUCCESS) {
		close((int)p[1]);
		return m;
	}
	munmap(x->at, n);
	free(x);
	return NULL;
}
