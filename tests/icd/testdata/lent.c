/* Threads make buffers over memory of their own, launch on them, and take the memory back as
 * soon as OpenCL says that it is theirs, while others press on the devices' memory: what leaves
 * a device is written back, whoever asked for the room. A byte touched too late is a fault.
 *
 *   lent [PLATFORM [SEED [SECONDS [WAY]]]]
 */
#include "common.h"
#include <pthread.h>
#include <sys/mman.h>

enum { SIZE = 48 << 10, OWNERS = 3, PRESSERS = 2, KEPT = 64, WAYS = 8 };

static struct house *h;
static cl_program prog;
static int seed, only = -1;
static double end;

static cl_uint *lend(int fill)
{
	cl_uint *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	for (int i = 0; i < SIZE / 4; i++)
		p[i] = fill;
	return p;
}

/* The memory is the thread's again. Its addresses are kept for a while, so that nobody else's
 * memory is there. */
static void take_back(void *p)
{
	static void *kept[KEPT];
	static volatile unsigned n;
	OK(mprotect(p, SIZE, PROT_NONE));
	void *old = __sync_lock_test_and_set(&kept[__sync_fetch_and_add(&n, 1) % KEPT], p);
	if (old)
		OK(munmap(old, SIZE));
}

static void CL_CALLBACK gone(cl_mem m, void *p) { (void)m, take_back(p); }

static void CL_CALLBACK ended(cl_event e, cl_int status, void *p)
{
	CHECK(status == CL_COMPLETE);
	OK(clReleaseEvent(e));
	take_back(p);
}

static cl_int launch(cl_command_queue q, cl_kernel k, cl_mem m, cl_event *e)
{
	size_t n = SIZE / 4 / 2;
	OK(clSetKernelArg(k, 0, sizeof m, &m));
	return clEnqueueNDRangeKernel(q, k, 1, NULL, &n, NULL, 0, NULL, e);
}

/* One buffer's life. */
static void life(cl_command_queue q, cl_kernel k, int way, int fill)
{
	cl_int err, status;
	cl_event e;
	cl_buffer_region half = {SIZE / 2, SIZE / 2};
	cl_uint *p = lend(fill), *at;
	cl_mem m = buffer(h->ctx, CL_MEM_USE_HOST_PTR, SIZE, p), part = NULL;
	if (way == 3) {
		part = clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &err);
		OK(err);
	}
	if (way == 4)
		OK(clSetMemObjectDestructorCallback(m, gone, p));
	err = launch(q, k, part ? part : m, &e);
	if (err == CL_MEM_OBJECT_ALLOCATION_FAILURE || err == CL_OUT_OF_RESOURCES) { /* all the room is in use */
		if (part)
			OK(clReleaseMemObject(part));
		OK(clReleaseMemObject(m));
		if (way != 4)
			take_back(p);
		return;
	}
	OK(err);
	switch (way) {
	case 0: /* all has ended before the release */
		OK(clFinish(q));
		OK(clReleaseMemObject(m));
		break;
	case 1: /* and after it */
		OK(clReleaseMemObject(m));
		OK(clFinish(q));
		break;
	case 2:
		OK(clReleaseMemObject(m));
		OK(clWaitForEvents(1, &e));
		break;
	case 3: /* the last view is a part */
		OK(clReleaseMemObject(m));
		OK(clFinish(q));
		OK(clReleaseMemObject(part));
		break;
	case 4: /* the destructor callback takes it back */
		OK(clReleaseMemObject(m));
		break;
	case 5: /* the end of the launch takes it back */
		OK(clReleaseMemObject(m));
		OK(clSetEventCallback(e, CL_COMPLETE, ended, p));
		return;
	case 6: /* an unmap is its last command */
		at = clEnqueueMapBuffer(q, m, CL_TRUE, CL_MAP_READ, 0, SIZE, 0, NULL, NULL, &err);
		OK(err);
		CHECK(at == p);
		for (int i = 0; i < SIZE / 4; i++)
			CHECK(p[i] == (cl_uint)(i < SIZE / 8 ? fill * 3 + i : fill));
		OK(clEnqueueUnmapMemObject(q, m, at, 0, NULL, NULL));
		OK(clReleaseMemObject(m));
		OK(clFinish(q));
		break;
	case 7: /* who asks sees the end */
		OK(clReleaseMemObject(m));
		OK(clFlush(q));
		do {
			OK(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
		} while (status > CL_COMPLETE);
		break;
	}
	OK(clReleaseEvent(e));
	if (way != 4)
		take_back(p);
}

static void *owner(void *number)
{
	unsigned dice = seed * 100 + (long)number;
	cl_command_queue q = h->q[(long)number % h->n];
	cl_kernel k = kernel(prog, "k");
	for (int i = 0; now() < end; i++) {
		life(q, k, only < 0 ? rand_r(&dice) % WAYS : only, i);
		if (i % 3 == 0)
			usleep(i % 50);
	}
	OK(clReleaseKernel(k));
	return NULL;
}

static void *presser(void *number)
{
	cl_command_queue q = h->q[(long)number % h->n];
	cl_kernel k = kernel(prog, "k");
	cl_mem all[6];
	for (int i = 0; i < 6; i++)
		all[i] = buffer(h->ctx, CL_MEM_READ_WRITE, SIZE, NULL);
	for (int i = 0; now() < end; i++) {
		(void)launch(q, k, all[i % 6], NULL); /* it may find no room */
		if (i % 2 == 0)
			OK(clFinish(q));
	}
	for (int i = 0; i < 6; i++)
		OK(clReleaseMemObject(all[i]));
	OK(clReleaseKernel(k));
	return NULL;
}

int main(int argc, char **argv)
{
	h = house(argc > 1 ? argv[1] : "Godwit", 0, 0);
	seed = argc > 2 ? atoi(argv[2]) : 1;
	end = now() + (argc > 3 ? atof(argv[3]) : 2);
	if (argc > 4)
		only = atoi(argv[4]);
	prog = built(h->ctx, "__kernel void k(__global uint *a) { size_t i = get_global_id(0); a[i] = a[i] * 3 + i; }");
	pthread_t t[OWNERS + PRESSERS];
	for (long i = 0; i < OWNERS + PRESSERS; i++)
		CHECK(!pthread_create(&t[i], NULL, i < OWNERS ? owner : presser, (void *)i));
	for (int i = 0; i < OWNERS + PRESSERS; i++)
		CHECK(!pthread_join(t[i], NULL));
	OK(clReleaseProgram(prog));
	leave(h);
	puts("OK");
	return 0;
}
