/* A program with signal handlers of its own keeps them: those that it set before
 * the first OpenCL call, and those that it set after.
 *
 *   signals [PLATFORM]
 */
#include "common.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

static const char *source = "kernel void add(global uint *a, uint k) { a[get_global_id(0)] += k; }";

static volatile sig_atomic_t came[NSIG];

static void handler(int sig)
{
	volatile char room[16384]; /* more than a small stack has */
	memset((char *)room, sig, sizeof room);
	came[sig] += room[sig] == sig;
}

static char *page; /* whose first write faults */

static void fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	came[sig]++;
	if ((char *)info->si_addr < page || (char *)info->si_addr >= page + 4096)
		abort(); /* not ours */
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void set(int sig)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
	CHECK(sigaction(sig, &a, NULL) == 0);
}

static const int early[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF, SIGURG, SIGPIPE, SIGWINCH, SIGQUIT};
static const int late[] = {SIGUSR2, SIGIO, SIGTTOU, SIGVTALRM, SIGTSTP};
#define COUNT(a) (sizeof a / sizeof *a)

static struct house *h;
static cl_kernel add;
static cl_mem m;
enum { N = 4096 };
static cl_uint total;

static void work(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		cl_uint k = 1, out[N];
		size_t global = N;
		cl_command_queue q = h->q[i % h->n];
		OK(clSetKernelArg(add, 0, sizeof m, &m));
		OK(clSetKernelArg(add, 1, sizeof k, &k));
		OK(clEnqueueNDRangeKernel(q, add, 1, NULL, &global, NULL, 0, NULL, NULL));
		OK(clEnqueueReadBuffer(q, m, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL));
		total++;
		for (int j = 0; j < N; j++)
			CHECK(out[j] == total);
	}
}

static void raised(const int *sigs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int before = came[sigs[i]];
		CHECK(kill(getpid(), sigs[i]) == 0);
		for (int t = 0; came[sigs[i]] == before && t < 2000; t++)
			usleep(1000);
		if (came[sigs[i]] == before) {
			fprintf(stderr, "handler of %s was not called\n", strsignal(sigs[i]));
			exit(1);
		}
		work(1);
	}
}

static void faults(void)
{
	int before = came[SIGSEGV];
	CHECK(mprotect(page, 4096, PROT_NONE) == 0);
	*(volatile char *)page = 1;
	CHECK(came[SIGSEGV] == before + 1);
	work(1);
}

int main(int argc, char **argv)
{
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	struct sigaction a = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGSEGV, &a, NULL) == 0);
	for (size_t i = 0; i < COUNT(early); i++)
		set(early[i]);

	h = house(argc > 1 ? argv[1] : "", 0, 0);
	add = kernel(built(h->ctx, source), "add");
	cl_uint zero[N] = {0};
	m = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero, zero);
	work(3);
	for (size_t i = 0; i < COUNT(late); i++)
		set(late[i]);
	/* Twice: LLVM, under PoCL, puts handlers of its own before a program's, which
	 * hand on the first signal. */
	for (int i = 0; i < 2; i++) {
		raised(early, COUNT(early));
		raised(late, COUNT(late));
		faults();
	}

	/* A timer's signals, a thousand a second, while work goes on. */
	struct itimerval often = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
	int before = came[SIGALRM];
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	double end = now() + 0.5;
	while (now() < end)
		work(10);
	CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
	CHECK(came[SIGALRM] > before + 50);

	/* Children are reaped by the program, not behind its back. */
	pid_t child = fork();
	if (child == 0)
		_exit(7);
	int status = 0;
	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	work(3);
	faults();

	/* A handler that is the default still ends the program. */
	child = fork();
	if (child == 0) {
		signal(SIGTERM, SIG_DFL);
		raise(SIGTERM);
		_exit(1);
	}
	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	printf("OK\n");
	return 0;
}
