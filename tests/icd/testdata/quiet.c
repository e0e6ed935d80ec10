/* Launches that nobody asks after, and then somebody does, in each way there is. For
 * in-order queues of one device; on testdata/instant.c, whose kernels run nothing.
 *
 *   quiet PLATFORM [fails]    fails: the platform's kernels do
 */
#include "common.h"
#include <stdatomic.h>

static const char *source = "kernel void nothing(global uint *a, uint b) { a[get_global_id(0)] += b; }\n";

static struct house *h;
static cl_command_queue q;
static cl_kernel k;
static cl_uint zeros[64];

static void launches(int n, cl_mem m)
{
	size_t size = 64;
	OK(clSetKernelArg(k, 0, sizeof m, &m));
	for (int i = 0; i < n; i++) {
		OK(clSetKernelArg(k, 1, sizeof(cl_uint), &(cl_uint){(cl_uint)i / 3}));
		OK(clEnqueueNDRangeKernel(q, k, 1, NULL, &size, NULL, 0, NULL, NULL));
	}
}

static atomic_int told;
static void CL_CALLBACK tell(cl_event e, cl_int status, void *user)
{
	(void)e; (void)user;
	CHECK(status == CL_COMPLETE);
	told++;
}
static void CL_CALLBACK gone(cl_mem m, void *user) { (void)m; (void)user; told++; }

static void until_told(int n)
{
	for (double end = now() + 20; told < n;) {
		CHECK(now() < end);
		usleep(100);
	}
}

static cl_int status(cl_event e)
{
	cl_int st;
	OK(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof st, &st, NULL));
	return st;
}

/* crossing: launches of two queues wait for each other's, and both are told of. */
static void crossing(cl_mem m)
{
	cl_int err;
	cl_command_queue first = q, other = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], NULL, &err);
	OK(err);
	for (int i = 0; i < 100; i++) {
		q = i % 2 ? other : first;
		launches(3, m);
	}
	cl_event e;
	OK(clEnqueueMarkerWithWaitList(first, 0, NULL, &e));
	OK(clFinish(other));
	OK(clWaitForEvents(1, &e));
	CHECK(status(e) == CL_COMPLETE);
	OK(clReleaseEvent(e));
	OK(clReleaseCommandQueue(other));
	q = first;
}

int main(int argc, char **argv)
{
	cl_int err;
	cl_uint word = 7;
	h = house(argc > 1 ? argv[1] : "", 1, 0);
	q = h->q[0];
	cl_program p = built(h->ctx, source);
	k = kernel(p, "nothing");
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros);
	if (argc > 2) {
		launches(10, m);
		OK(clFinish(q)); /* events say how commands ended, and there is none */
		CHECK(clEnqueueReadBuffer(q, m, CL_TRUE, 0, 4, &word, 0, NULL, NULL) != CL_SUCCESS);
		return 0;
	}
	for (int round = 0; round < 20; round++) {
		launches(50, m);
		OK(clFinish(q));
		launches(50, m);
		OK(clEnqueueReadBuffer(q, m, CL_TRUE, 0, 4, &word, 0, NULL, NULL));
		CHECK(word == 0);
		launches(50, m);
		cl_event e;
		OK(clEnqueueMarkerWithWaitList(q, 0, NULL, &e));
		OK(clSetEventCallback(e, CL_COMPLETE, tell, NULL));
		launches(50, m);
		until_told(2 * round + 1);
		CHECK(status(e) == CL_COMPLETE);
		OK(clReleaseEvent(e));
		cl_mem other = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros);
		OK(clSetMemObjectDestructorCallback(other, gone, NULL));
		launches(5, other); /* after a command of another kind, which may not have ended */
		launches(5, m);
		OK(clReleaseMemObject(other)); /* and nobody waits */
		until_told(2 * round + 2);
		launches(50, m);
		cl_command_queue q2 = clCreateCommandQueueWithProperties(h->ctx, h->dev[0], NULL, &err);
		OK(err);
		OK(clEnqueueWriteBuffer(q2, m, CL_FALSE, 0, sizeof zeros, zeros, 0, NULL, NULL));
		launches(50, m); /* on two queues, by turns */
		OK(clEnqueueReadBuffer(q2, m, CL_TRUE, 4, 4, &word, 0, NULL, NULL));
		OK(clReleaseCommandQueue(q2));
		launches(50, m);
		crossing(m);
	}
	OK(clReleaseMemObject(m));
	OK(clReleaseKernel(k));
	OK(clReleaseProgram(p));
	leave(h); /* with commands in flight */
	printf("OK\n");
	return 0;
}
