/* A program with signal handlers of its own keeps them: those that it set before
 * the first OpenCL call, and those that it set after; and so it keeps what it blocks,
 * what it ignores, which of its calls are interrupted, and its own signal stack.
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

static void interrupts(int sig) { came[sig]++; }

static char *stack; /* the program's own, for signals */
enum { STACK = 1 << 16 };

static void on_stack(int sig)
{
	char here;
	came[sig] += &here >= stack && &here < stack + STACK;
}

static const int early[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF, SIGURG, SIGPIPE, SIGWINCH, SIGQUIT, SIGBUS, SIGILL, SIGABRT, SIGTRAP};
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

/* Sent as a signal, a fault is a signal. */
static void sent_faults(void)
{
	static const int sigs[] = {SIGBUS, SIGILL, SIGABRT};
	for (size_t i = 0; i < COUNT(sigs); i++) {
		int before = came[sigs[i]];
		CHECK(raise(sigs[i]) == 0);
		CHECK(came[sigs[i]] == before + 1);
	}
	work(1);
}

/* A blocked signal comes to who waits for it and to nobody else: not to a thread that
 * the program does not know, to end the process. */
static void blocked(void)
{
	sigset_t set, old;
	struct timespec limit = {5, 0};
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	sigaddset(&set, SIGXCPU);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, &old) == 0);
	for (int i = 0; i < 20; i++) {
		int sig = i % 2 ? SIGXCPU : SIGRTMIN + 3;
		CHECK(kill(getpid(), sig) == 0);
		work(1);
		CHECK(sigtimedwait(&set, NULL, &limit) == sig);
	}
	CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
}

/* A call that the program wants interrupted is, and one that it wants restarted is. */
static void interrupted(void)
{
	int pipes[2];
	char c;
	struct itimerval soon = {{0, 0}, {0, 20000}};
	CHECK(pipe(pipes) == 0);
	int before = came[SIGVTALRM] + came[SIGALRM];
	CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0); /* SIGALRM restarts; the child writes later */
	pid_t child = fork();
	if (child == 0) {
		usleep(200000);
		_exit(write(pipes[1], "x", 1) != 1);
	}
	CHECK(read(pipes[0], &c, 1) == 1);
	CHECK(came[SIGVTALRM] + came[SIGALRM] == before + 1);
	while (waitpid(child, NULL, 0) < 0)
		CHECK(errno == EINTR);
	child = fork();
	if (child == 0) {
		usleep(50000);
		_exit(kill(getppid(), SIGUSR1) != 0);
	}
	before = came[SIGUSR1];
	CHECK(read(pipes[0], &c, 1) < 0 && errno == EINTR);
	CHECK(came[SIGUSR1] == before + 1);
	while (waitpid(child, NULL, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(close(pipes[0]) == 0);
	before = came[SIGPIPE];
	CHECK(write(pipes[1], "x", 1) < 0 && errno == EPIPE);
	CHECK(came[SIGPIPE] == before + 1);
	CHECK(close(pipes[1]) == 0);
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
	struct sigaction eintr = {.sa_handler = interrupts}, own = {.sa_handler = on_stack, .sa_flags = SA_ONSTACK};
	CHECK(sigaction(SIGUSR1, &eintr, NULL) == 0);
	stack = malloc(STACK);
	stack_t st = {.ss_sp = stack, .ss_size = STACK};
	CHECK(sigaltstack(&st, NULL) == 0);
	CHECK(sigaction(SIGTRAP, &own, NULL) == 0);
	signal(SIGXFSZ, SIG_IGN);

	h = house(argc > 1 ? argv[1] : "", 0, 0);
	add = kernel(built(h->ctx, source), "add");
	cl_uint zero[N] = {0};
	m = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero, zero);
	for (int i = 0; i < 200; i++) /* long before the first kernel is compiled */
		OK(clEnqueueWriteBuffer(h->q[0], m, CL_TRUE, 0, sizeof zero, zero, 0, NULL, NULL));
	work(3);
	for (size_t i = 0; i < COUNT(late); i++)
		set(late[i]);
	/* Twice: LLVM, under PoCL, puts handlers of its own before a program's, which
	 * hand on the first signal. */
	for (int i = 0; i < 2; i++) {
		raised(early, COUNT(early));
		raised(late, COUNT(late));
		faults();
		sent_faults();
		blocked();
		interrupted();
	}
	CHECK(sigaction(SIGXFSZ, NULL, &a) == 0 && a.sa_handler == SIG_IGN);

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
