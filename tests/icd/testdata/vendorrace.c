/* Sub-buffers that come and go while commands are enqueued: what breaks NVIDIA's OpenCL.
 *
 * OpenCL's calls are thread-safe but for clSetKernelArg (OpenCL 3.0 API, 3.2 "Thread-safety"; here each
 * thread has kernels of its own), and memory objects may be released in any order. This program does
 * only what that allows, and checks every word that its kernels wrote.
 *
 *   cc -O2 -o vendorrace vendorrace.c -lOpenCL -lpthread
 *   vendorrace [-d DEVICES] [-t THREADS] [-n COMMANDS] [-o ORDER] [-l LOCKS] [-s SEED]
 *
 *   -d   how many devices of NVIDIA's platform the context has (default all); thread T uses device T mod d
 *   -o   the order in which a thread releases its overlapping sub-buffers: f first made first,
 *        l last made first, r any (default r)
 *   -l   calls that exclude each other by one mutex, letters of: e enqueue, m make sub-buffers,
 *        r release sub-buffers, a set arguments, v release events, w wait (default none)
 *
 * It ends with 0 and says how many commands ran, with 1 if a word is wrong or a call fails, or by a
 * signal inside the library: the number of commands done before it is said from the handler. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOT = 1 << 20, UNIT = 4096, LIVE = 12 };

static cl_context context;
static cl_device_id devices[16];
static cl_uint ndevices, want = 16, nthreads = 4;
static long commands = 200000;
static char order = 'r';
static const char *locks = "";
static unsigned seed = 1;
static atomic_long done;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

static void must(cl_int status, const char *what)
{
	if (status) {
		fprintf(stderr, "%s: %d after %ld commands\n", what, status, (long)done);
		exit(1);
	}
}

static void lock(char c)   { if (strchr(locks, c)) pthread_mutex_lock(&one); }
static void unlock(char c) { if (strchr(locks, c)) pthread_mutex_unlock(&one); }

static void crashed(int sig)
{
	char line[96];
	int n = snprintf(line, sizeof line, "signal %d after %ld commands\n", sig, (long)done);
	if (write(2, line, n) < 0) {}
	_exit(128 + sig);
}

/* sub is a live sub-buffer: which bytes of its root. */
struct sub { cl_mem mem; size_t at, size; };

static void drop(struct sub *live, int *n, int i)
{
	lock('r');
	must(clReleaseMemObject(live[i].mem), "clReleaseMemObject");
	unlock('r');
	memmove(live + i, live + i + 1, (--*n - i) * sizeof *live);
}

static int victim(int n, unsigned *rng)
{
	return order == 'f' ? 0 : order == 'l' ? n - 1 : rand_r(rng) % n;
}

static const char *source =
	"__kernel void add(__global uint *b, uint n, uint v) { for (uint i = get_global_id(0); i < n; i += get_global_size(0)) b[i] += v; }";

/* work is a thread with a queue, a root and a kernel of its own; they share context and library. */
static void *work(void *arg)
{
	long t = (long)arg;
	unsigned rng = seed * 1000 + t;
	cl_int e;
	cl_device_id dev = devices[t % ndevices];
	cl_command_queue q = clCreateCommandQueueWithProperties(context, dev, NULL, &e); must(e, "queue");
	cl_program p = clCreateProgramWithSource(context, 1, &source, NULL, &e); must(e, "program");
	must(clBuildProgram(p, 1, &dev, "", NULL, NULL), "build");
	cl_kernel k = clCreateKernel(p, "add", &e); must(e, "kernel");
	cl_mem root = clCreateBuffer(context, CL_MEM_READ_WRITE, ROOT, NULL, &e); must(e, "buffer");
	cl_uint *model = calloc(1, ROOT), *got = malloc(ROOT), zero = 0;
	must(clEnqueueFillBuffer(q, root, &zero, 4, 0, ROOT, 0, NULL, NULL), "fill");
	struct sub live[LIVE];
	int n = 0;
	for (long i = 0; i < commands / nthreads; i++) {
		if (n == LIVE || (n > 1 && rand_r(&rng) % 3 == 0))
			drop(live, &n, victim(n, &rng));
		size_t units = ROOT / UNIT, at = rand_r(&rng) % units, len = 1 + rand_r(&rng) % (units - at);
		cl_buffer_region r = {at * UNIT, len * UNIT};
		lock('m');
		cl_mem m = clCreateSubBuffer(root, 0, CL_BUFFER_CREATE_TYPE_REGION, &r, &e);
		unlock('m');
		must(e, "clCreateSubBuffer");
		live[n++] = (struct sub){m, r.origin, r.size};
		struct sub *s = &live[rand_r(&rng) % n];
		cl_uint words = s->size / 4, v = rand_r(&rng);
		lock('a');
		must(clSetKernelArg(k, 0, sizeof s->mem, &s->mem), "arg");
		must(clSetKernelArg(k, 1, 4, &words), "arg");
		must(clSetKernelArg(k, 2, 4, &v), "arg");
		unlock('a');
		size_t global = 1024;
		cl_event ev = NULL;
		lock('e');
		must(clEnqueueNDRangeKernel(q, k, 1, NULL, &global, NULL, 0, NULL, i % 4 ? NULL : &ev), "clEnqueueNDRangeKernel");
		unlock('e');
		for (cl_uint w = 0; w < words; w++)
			model[s->at / 4 + w] += v;
		if (ev) {
			if (i % 32 == 0) { lock('w'); must(clWaitForEvents(1, &ev), "wait"); unlock('w'); }
			lock('v'); must(clReleaseEvent(ev), "clReleaseEvent"); unlock('v');
		}
		if (i % 256 == 255) {
			lock('w');
			must(clEnqueueReadBuffer(q, root, CL_TRUE, 0, ROOT, got, 0, NULL, NULL), "read");
			unlock('w');
			if (memcmp(got, model, ROOT)) {
				fprintf(stderr, "thread %ld: a wrong word after %ld commands\n", t, (long)done);
				exit(1);
			}
		}
		done++;
	}
	while (n)
		drop(live, &n, victim(n, &rng));
	must(clFinish(q), "finish");
	clReleaseMemObject(root); clReleaseKernel(k); clReleaseProgram(p); clReleaseCommandQueue(q);
	free(model); free(got);
	return NULL;
}

int main(int argc, char **argv)
{
	for (int c; (c = getopt(argc, argv, "d:t:n:o:l:s:")) != -1;)
		switch (c) {
		case 'd': want = atoi(optarg); break;
		case 't': nthreads = atoi(optarg); break;
		case 'n': commands = atol(optarg); break;
		case 'o': order = *optarg; break;
		case 'l': locks = optarg; break;
		case 's': seed = atoi(optarg); break;
		default: return 2;
		}
	signal(SIGSEGV, crashed); signal(SIGABRT, crashed); signal(SIGBUS, crashed); signal(SIGFPE, crashed);
	cl_platform_id platforms[8];
	cl_uint np;
	must(clGetPlatformIDs(8, platforms, &np), "platforms");
	cl_platform_id p = platforms[0];
	for (cl_uint i = 0; i < np && i < 8; i++) { /* the first platform, where none is NVIDIA's */
		char name[256];
		clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL);
		if (strstr(name, "NVIDIA")) p = platforms[i];
	}
	must(clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, 16, devices, &ndevices), "devices");
	if (ndevices > want) ndevices = want;
	cl_int e;
	context = clCreateContext(NULL, ndevices, devices, NULL, NULL, &e); must(e, "context");
	pthread_t threads[256];
	for (long t = 0; t < nthreads; t++)
		pthread_create(&threads[t], NULL, work, (void *)t);
	for (cl_uint t = 0; t < nthreads; t++)
		pthread_join(threads[t], NULL);
	clReleaseContext(context);
	printf("%ld commands, %u threads, %u devices, order %c, locks \"%s\": no crash, every word right\n", (long)done, nthreads, ndevices, order, locks);
	return 0;
}
