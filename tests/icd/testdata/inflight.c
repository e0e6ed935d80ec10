/* Ends with work in flight, in a way named by its argument:
 *
 *   inflight HOW [PLATFORM]
 *
 *   exit      exit() right after enqueueing
 *   return    return from main
 *   building  exit() while another thread builds a program
 *   gated     exit() with commands behind a user event that nobody sets
 *   callback  exit() with callbacks to come
 *   thread    exit() from a thread that is not the first
 *   quick     _exit()
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

static void *builds(void *arg)
{
	(void)arg;
	for (int i = 0;; i++) {
		char text[512];
		snprintf(text, sizeof text, "kernel void k%d_%d(global int *a) { a[0] = %d; }", getpid(), i, i);
		const char *s = text;
		cl_int err;
		cl_program p = clCreateProgramWithSource(h->ctx, 1, &s, NULL, &err);
		if (err == CL_SUCCESS && clBuildProgram(p, 0, NULL, NULL, NULL, NULL) == CL_SUCCESS)
			clReleaseProgram(p);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	enum { N = 1 << 16 };
	static int calls;
	static cl_uint data[N];
	const char *how = argc > 1 ? argv[1] : "exit";
	h = house(argc > 2 ? argv[2] : "", 0, 0);
	/* A program that no cache of kernels knows, so that it is compiled now, and
	 * by some platforms when it is first launched: while the process ends. */
	char text[1024];
	snprintf(text, sizeof text, "%s\n// %d %f\n kernel void unused%d(global int *a) { *a = %d; }\n", source, getpid(), now(), getpid(), getpid());
	cl_program p = built(h->ctx, text);
	cl_kernel spin = kernel(p, "spin");
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE, sizeof data, NULL);
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
	pthread_t t;
	if (!strcmp(how, "building")) {
		CHECK(pthread_create(&t, NULL, builds, NULL) == 0);
		usleep(20000 + getpid() % 64 * 1000);
	} else if (!strcmp(how, "thread")) {
		CHECK(pthread_create(&t, NULL, leaves, NULL) == 0);
		pthread_join(t, NULL);
	} else if (!strcmp(how, "quick")) {
		_exit(0);
	} else if (!strcmp(how, "return")) {
		return 0;
	}
	exit(0);
}
