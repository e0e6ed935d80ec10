/* What a thread of the program's does to its signal stack between two calls, and before
 * its end, is its own affair: it takes the stack away, frees it, has another, or none;
 * signals that come while it is in a call find one all the same, and after a call it has
 * what it had. Nor does a callback harm the thread that it runs on.
 *
 *   sigstack PLATFORM
 */
#define _GNU_SOURCE
#include "common.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { STACK = 64 << 10, SIZE = 1 << 20 };

static struct house *h;
static pthread_t target;
static volatile sig_atomic_t stop, came;

static void handler(int sig)
{
	(void)sig;
	came++;
}

/* Signals, with which Go's runtime interrupts threads too, come all the time. */
static void *send(void *unused)
{
	while (!stop) {
		pthread_kill(target, SIGURG);
		pthread_kill(target, SIGUSR1);
		usleep(50);
	}
	return unused;
}

static void *room(void)
{
	void *p = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

static void use(void *stack, int flags)
{
	CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK, .ss_flags = flags}, NULL) == 0);
}

static void has(const void *stack)
{
	stack_t now;
	CHECK(sigaltstack(NULL, &now) == 0);
	CHECK(now.ss_sp == stack && !(now.ss_flags & SS_DISABLE));
}

static void work(void)
{
	static const cl_uint pattern = 7;
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE, SIZE, NULL);
	for (int i = 0; i < 300; i++)
		OK(clEnqueueFillBuffer(h->q[i % h->n], m, &pattern, sizeof pattern, 0, SIZE, 0, NULL, NULL));
	for (cl_uint i = 0; i < h->n; i++)
		OK(clFinish(h->q[i]));
	OK(clReleaseMemObject(m));
}

static void *thread(void *first)
{
	target = pthread_self();
	stop = 0;
	pthread_t sender;
	CHECK(pthread_create(&sender, NULL, send, NULL) == 0);
	void *a = room(), *b = room();
	if (first) {
		use(a, 0);
		work();
		has(a);
	} else {
		work();
	}
	use(b, 0);
	CHECK(munmap(a, STACK) == 0);
	work();
	has(b);
	use(NULL, SS_DISABLE);
	CHECK(munmap(b, STACK) == 0);
	work();
	stop = 1;
	CHECK(pthread_join(sender, NULL) == 0);
	return NULL;
}

/* A callback of an event takes the signal stack of its thread away. Signals come to that
 * thread then, and to what runs there after. */
static long called; /* the thread */

static void CL_CALLBACK take_away(cl_event e, cl_int status, void *left)
{
	(void)e, (void)status;
	use(NULL, SS_DISABLE);
	__atomic_store_n(&called, syscall(SYS_gettid), __ATOMIC_RELAXED);
	__atomic_sub_fetch((int *)left, 1, __ATOMIC_RELEASE);
}

static void *send_called(void *unused)
{
	while (!stop) {
		syscall(SYS_tgkill, getpid(), __atomic_load_n(&called, __ATOMIC_RELAXED), SIGURG);
		usleep(20);
	}
	return unused;
}

static void callbacks(void)
{
	enum { N = 10000 };
	int left = N;
	pthread_t sender;
	stop = 0;
	CHECK(pthread_create(&sender, NULL, send_called, NULL) == 0);
	for (int i = 0; i < N; i++) {
		cl_event e;
		OK(clEnqueueMarkerWithWaitList(h->q[0], 0, NULL, &e));
		OK(clSetEventCallback(e, CL_COMPLETE, take_away, &left));
		OK(clReleaseEvent(e));
	}
	OK(clFinish(h->q[0]));
	while (__atomic_load_n(&left, __ATOMIC_ACQUIRE) > 0)
		usleep(50);
	stop = 1;
	CHECK(pthread_join(sender, NULL) == 0);
}

int main(int argc, char **argv)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
	CHECK(argc > 1 && sigaction(SIGUSR1, &a, NULL) == 0);
	void *early = room();
	use(early, 0);
	h = house(argv[1], 0, 0); /* the first call, with a stack */
	has(early);
	for (int first = 0; first < 2; first++) {
		pthread_t t;
		CHECK(pthread_create(&t, NULL, thread, first ? h : NULL) == 0);
		CHECK(pthread_join(t, NULL) == 0);
	}
	thread(h);
	CHECK(munmap(early, STACK) == 0);
	callbacks();
	CHECK(came > 0);
	printf("OK\n");
	return 0; /* with what exit does in a thread that had a stack */
}
