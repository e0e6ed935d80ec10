/* Ends with work in flight, in a way named by its argument:
 *
 *   inflight HOW NUMBER [PLATFORM]
 *
 *   exit      exit() right after enqueueing
 *   return    return from main
 *   building  exit() while another thread builds a program
 *   gated     exit() with commands behind a user event that nobody sets
 *   callback  exit() with callbacks to come
 *   thread    exit() from a thread that is not the first
 *   stranger  exit() from a thread that has not called OpenCL, while others compile
 *   quick     quick_exit()
 *   now       _exit()
 *
 * Programs of the same number, other than 0, have the same kernels, which a cache may
 * have: then they run while the process ends. Else they are compiled meanwhile, by some
 * platforms when they are first launched. Number 0 is like no other, ever.
 */
#include "common.h"
#include <pthread.h>

static const char *source =
	"kernel void spin(global uint *a, uint n) {\n"
	"  uint x = a[get_global_id(0)];\n"
	"  for (uint i = 0; i < n; i++) x = x * 1664525u + 1013904223u;\n"
	"  a[get_global_id(0)] = x;\n"
	"}\n";

static struct house *h;
static char number[64]; /* a part of the names of kernels, which caches look at */
static unsigned pause_us; /* before the process ends, where others go on meanwhile */

static void CL_CALLBACK told(cl_event e, cl_int status, void *arg)
{
	(void)e, (void)status;
	__atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static void *leaves(void *arg)
{
	(void)arg;
	OK(clFlush(h->q[0]));
	exit(0);
}

/* Builds and runs programs. From the moment at which the process ends it may fail. */
static void *builds(void *arg)
{
	cl_mem m = arg;
	for (int i = 0;; i++) {
		char text[512], name[96];
		snprintf(name, sizeof name, "k%s_%d", number, i);
		snprintf(text, sizeof text, "kernel void %s(global uint *a) { a[get_global_id(0)] += %d; }", name, i);
		const char *s = text;
		cl_int err;
		size_t global = 256;
		cl_program p = clCreateProgramWithSource(h->ctx, 1, &s, NULL, &err);
		if (err == CL_SUCCESS)
			err = clBuildProgram(p, 0, NULL, NULL, NULL, NULL);
		cl_kernel k = err == CL_SUCCESS ? clCreateKernel(p, name, &err) : NULL;
		if (err == CL_SUCCESS)
			err = clSetKernelArg(k, 0, sizeof m, &m);
		if (err == CL_SUCCESS)
			err = clEnqueueNDRangeKernel(h->q[0], k, 1, NULL, &global, NULL, 0, NULL, NULL);
		if (err == CL_SUCCESS)
			err = clFinish(h->q[0]);
		if (err != CL_SUCCESS)
			usleep(10000);
	}
	return NULL;
}

/* A stranger to OpenCL, there before its first call. */
static void *stranger(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&h, __ATOMIC_ACQUIRE))
		usleep(100);
	usleep(pause_us);
	printf("in flight\n");
	exit(0);
}

int main(int argc, char **argv)
{
	enum { N = 1 << 16 };
	static int calls;
	static cl_uint data[N];
	const char *how = argc > 1 ? argv[1] : "exit";
	snprintf(number, sizeof number, "%s", argc > 2 ? argv[2] : "0");
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (!strcmp(number, "0"))
		snprintf(number, sizeof number, "%d_%lld_%ld", getpid(), (long long)t.tv_sec, t.tv_nsec);
	pause_us = t.tv_nsec / 1000 % (strcmp(how, "stranger") ? 80000 : 600000);
	pthread_t other;
	if (!strcmp(how, "stranger"))
		CHECK(pthread_create(&other, NULL, stranger, NULL) == 0);
	__atomic_store_n(&h, house(argc > 3 ? argv[3] : "", 0, 0), __ATOMIC_RELEASE);
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE, sizeof data, NULL);
	if (!strcmp(how, "stranger"))
		builds(m);
	char text[1024];
	snprintf(text, sizeof text, "%s\nkernel void unused%s(global int *a) { *a = 1; }\n", source, number);
	cl_program p = built(h->ctx, text);
	cl_kernel spin = kernel(p, "spin");
	cl_uint turns = 300;
	size_t global = N;
	OK(clSetKernelArg(spin, 0, sizeof m, &m));
	OK(clSetKernelArg(spin, 1, sizeof turns, &turns));
	cl_int err;
	cl_event gate = clCreateUserEvent(h->ctx, &err), e;
	OK(err);
	int gated = !strcmp(how, "gated");
	for (int i = 0; i < 12; i++) {
		cl_command_queue q = h->q[i % h->n];
		OK(clEnqueueWriteBuffer(q, m, CL_FALSE, 0, sizeof data, data, gated, gated ? &gate : NULL, NULL));
		OK(clEnqueueNDRangeKernel(q, spin, 1, NULL, &global, NULL, 0, NULL, &e));
		if (!strcmp(how, "callback"))
			OK(clSetEventCallback(e, CL_COMPLETE, told, &calls));
		OK(clEnqueueReadBuffer(q, m, CL_FALSE, 0, sizeof data, data, 1, &e, NULL));
		OK(clFlush(q));
		OK(clReleaseEvent(e));
	}
	printf("in flight\n");
	fflush(stdout);
	if (!strcmp(how, "building")) {
		CHECK(pthread_create(&other, NULL, builds, m) == 0);
		usleep(pause_us);
	} else if (!strcmp(how, "thread")) {
		CHECK(pthread_create(&other, NULL, leaves, NULL) == 0);
		pthread_join(other, NULL);
	} else if (!strcmp(how, "quick")) {
		quick_exit(0);
	} else if (!strcmp(how, "now")) {
		_exit(0);
	} else if (!strcmp(how, "return")) {
		return 0;
	}
	exit(0);
}
