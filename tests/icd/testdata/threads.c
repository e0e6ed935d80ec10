/* Many threads use one context at once: queues, buffers, sub-buffers, events, callbacks
 * and contexts come and go, and every result and every callback is accounted for.
 *
 *   threads [PLATFORM [SECONDS]]
 */
#include "common.h"
#include <pthread.h>

#define THREADS 8

static struct house *h;
static cl_program prog;
static volatile int asked, called; /* callbacks */
static double end;

/* Lets go what waits for the gate, where it is given one. */
static void CL_CALLBACK ended(cl_event e, cl_int status, void *gate)
{
	cl_uint refs = 0;
	CHECK(status >= CL_COMPLETE);
	OK(clGetEventInfo(e, CL_EVENT_REFERENCE_COUNT, sizeof refs, &refs, NULL));
	CHECK(refs > 0);
	if (gate) {
		OK(clSetUserEventStatus(gate, CL_COMPLETE));
		OK(clReleaseEvent(gate));
	}
	__sync_fetch_and_add(&called, 1);
}

static void CL_CALLBACK gone(cl_mem m, void *unused) { (void)m, (void)unused, __sync_fetch_and_add(&called, 1); }

static int drawn(unsigned *seed, int n) { return rand_r(seed) % n; }

/* A queue of the thread's own, or one that all share. */
static cl_command_queue queue(unsigned *seed)
{
	cl_int err;
	int d = drawn(seed, h->n);
	if (drawn(seed, 3)) {
		OK(clRetainCommandQueue(h->q[d]));
		return h->q[d];
	}
	cl_queue_properties how[] = {CL_QUEUE_PROPERTIES, drawn(seed, 4), 0};
	cl_command_queue q = clCreateCommandQueueWithProperties(h->ctx, h->dev[d], how, &err);
	OK(err);
	return q;
}

/* Reads part of m after an event, by one way of several. */
static void fetch(unsigned *seed, cl_command_queue q, cl_mem m, cl_event after, int got[256])
{
	cl_int err;
	cl_event e;
	void *p;
	switch (drawn(seed, 3)) {
	case 0:
		OK(clEnqueueReadBuffer(q, m, CL_TRUE, 1024, 1024, got, 1, &after, NULL));
		break;
	case 1:
		p = clEnqueueMapBuffer(q, m, CL_TRUE, CL_MAP_READ, 1024, 1024, 1, &after, NULL, &err);
		OK(err);
		memcpy(got, p, 1024);
		OK(clEnqueueUnmapMemObject(q, m, p, 0, NULL, NULL));
		break;
	default:
		OK(clEnqueueReadBuffer(q, m, CL_FALSE, 1024, 1024, got, 1, &after, &e));
		if (drawn(seed, 2))
			OK(clWaitForEvents(1, &e));
		else
			OK(clFinish(q));
		OK(clReleaseEvent(e));
	}
}

/* A fill, a kernel on another device that the fill's callback lets go, a read. */
static void turn(unsigned *seed, cl_kernel k)
{
	cl_int err, value = drawn(seed, 1000), more = 5;
	int got[256];
	size_t items = 256;
	cl_command_queue q = queue(seed);
	cl_mem m = buffer(h->ctx, 0, 4096, NULL);
	cl_buffer_region region = {1024, 1024};
	cl_mem s = clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
	OK(err);
	cl_event gate = clCreateUserEvent(h->ctx, &err), filled, added;
	OK(err);
	OK(clRetainEvent(gate));
	__sync_fetch_and_add(&asked, 4);
	OK(clSetMemObjectDestructorCallback(m, gone, NULL));
	OK(clSetMemObjectDestructorCallback(s, gone, NULL));
	OK(clEnqueueFillBuffer(q, s, &value, 4, 0, 1024, 0, NULL, &filled));
	OK(clSetEventCallback(filled, CL_COMPLETE, ended, gate));
	OK(clSetKernelArg(k, 0, sizeof s, &s));
	OK(clSetKernelArg(k, 1, sizeof more, &more));
	OK(clEnqueueNDRangeKernel(h->q[drawn(seed, h->n)], k, 1, NULL, &items, NULL, 1, &gate, &added));
	OK(clSetEventCallback(added, drawn(seed, 2) ? CL_COMPLETE : CL_RUNNING, ended, NULL));
	if (drawn(seed, 2))
		OK(clWaitForEvents(1, &filled));
	OK(clReleaseEvent(filled));
	fetch(seed, q, m, added, got);
	for (int i = 0; i < 256; i++)
		CHECK(got[i] == value + more);
	OK(clReleaseEvent(added));
	OK(clReleaseEvent(gate));
	OK(clReleaseMemObject(m));
	OK(clReleaseMemObject(s));
	OK(clReleaseCommandQueue(q));
	if (drawn(seed, 16) == 0) {
		cl_context c = clCreateContext(NULL, h->n, h->dev, NULL, NULL, &err);
		OK(err);
		m = buffer(c, 0, 64, NULL);
		OK(clReleaseContext(c));
		OK(clReleaseMemObject(m));
	}
}

static void *work(void *number)
{
	unsigned seed = 1 + (unsigned)(intptr_t)number;
	cl_kernel k = kernel(prog, "add");
	do
		turn(&seed, k);
	while (now() < end);
	OK(clReleaseKernel(k));
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	h = house(argc > 1 ? argv[1] : "", 0, 0);
	prog = built(h->ctx, "kernel void add(global int *a, int n) { a[get_global_id(0)] += n; }");
	end = now() + (argc > 2 ? atof(argv[2]) : 1);
	for (intptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	for (double until = now() + 20; called < asked && now() < until;)
		usleep(1000);
	printf("%d of %d callbacks\n", called, asked);
	CHECK(called == asked && asked >= 4 * THREADS);
	OK(clReleaseProgram(prog));
	leave(h);
	printf("OK\n");
	return 0;
}
