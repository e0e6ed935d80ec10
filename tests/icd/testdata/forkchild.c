/* A child made by fork while OpenCL is in use ends without a hang, whichever way
 * it ends, and its parent goes on undisturbed.
 *
 *   forkchild [PLATFORM]
 */
#include "common.h"
#include <signal.h>
#include <sys/wait.h>

static void reap(pid_t child, const char *how)
{
	int status;
	for (int i = 0; i < 1000; i++) {
		pid_t p = waitpid(child, &status, WNOHANG);
		CHECK(p >= 0);
		if (p == child) {
			if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
				fprintf(stderr, "child that ended by %s: status %x\n", how, status);
				exit(1);
			}
			return;
		}
		usleep(10000);
	}
	fprintf(stderr, "child that ended by %s hangs\n", how);
	kill(child, SIGKILL);
	exit(1);
}

/* In a child nothing works and nothing waits, and says so, but that releases succeed. */
static void refused(struct house *h, cl_mem m)
{
	cl_uint word;
	cl_event e;
	cl_int err;
	CHECK(clFinish(h->q[0]) == CL_OUT_OF_RESOURCES);
	CHECK(clFlush(h->q[0]) == CL_OUT_OF_RESOURCES);
	CHECK(clEnqueueMarkerWithWaitList(h->q[0], 0, NULL, &e) == CL_OUT_OF_RESOURCES);
	CHECK(clEnqueueReadBuffer(h->q[0], m, CL_TRUE, 0, sizeof word, &word, 0, NULL, NULL) == CL_OUT_OF_RESOURCES);
	CHECK(clGetMemObjectInfo(m, CL_MEM_REFERENCE_COUNT, sizeof word, &word, NULL) != CL_SUCCESS);
	CHECK(clRetainMemObject(m) != CL_SUCCESS);
	CHECK(!clCreateBuffer(h->ctx, 0, 64, NULL, &err) && err != CL_SUCCESS);
	CHECK(clGetDeviceIDs(NULL, CL_DEVICE_TYPE_ALL, 0, NULL, &word) != CL_SUCCESS);
	CHECK(clReleaseMemObject(m) == CL_SUCCESS);
	CHECK(clReleaseCommandQueue(h->q[0]) == CL_SUCCESS);
	_exit(0);
}

int main(int argc, char **argv)
{
	enum { N = 1 << 20 };
	static char data[N];
	struct house *h = house(argc > 1 ? argv[1] : "", 0, 0);
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE, N, NULL);
	for (int round = 0; round < 5; round++) {
		for (cl_uint i = 0; i < h->n; i++)
			OK(clEnqueueWriteBuffer(h->q[i], m, CL_FALSE, 0, N, data, 0, NULL, NULL));
		fflush(NULL);
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			_exit(0);
		reap(child, "_exit");
		child = fork();
		CHECK(child >= 0);
		if (child == 0)
			exit(0); /* runs what was registered with atexit */
		reap(child, "exit");
		child = fork();
		CHECK(child >= 0);
		if (child == 0)
			refused(h, m);
		reap(child, "_exit after calls");
		child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
		reap(child, "exec");
		CHECK(system("exit 0") == 0);
		for (cl_uint i = 0; i < h->n; i++)
			OK(clFinish(h->q[i]));
	}
	OK(clReleaseMemObject(m));
	leave(h);
	printf("OK\n");
	return 0;
}
