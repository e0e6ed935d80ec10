//go:build cgo

// Launches on a device that runs a command in the thread that enqueues it.
#define _GNU_SOURCE
#include "calls.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif

// processor_ns is this thread's processor time.
static int64_t processor_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// gw_roomy reports whether about as much stack is left to this thread as OpenCL's own threads have, which are of the
// default size. A kernel with barriers may keep the private arrays of all its work-items there. Of a stack that is
// no thread's, as coroutines have, nothing is known.
static int gw_roomy(void)
{
#ifdef __linux__
	static __thread char *end; // the lowest address; it stays what it is
	static __thread size_t all, ours;
	if (!end) {
		pthread_attr_t a;
		void *low = NULL;
		if (pthread_getattr_np(pthread_self(), &a) != 0)
			return 0;
		pthread_attr_getstack(&a, &low, &all);
		pthread_attr_destroy(&a);
		if (pthread_getattr_default_np(&a) != 0)
			return 0;
		pthread_attr_getstacksize(&a, &ours);
		pthread_attr_destroy(&a);
		end = low;
	}
	uintptr_t at = (uintptr_t)__builtin_frame_address(0), low = (uintptr_t)end;
	return low && at >= low && at - low < all && at - low >= ours / 4 * 3;
#else
	return 0;
#endif
}

// floats is a thread's floating-point environment. A kernel finds the one of OpenCL's own threads, without traps, and what it
// does leaves no flags: plain_floats returns what the program had, for own_floats. Kernels on x86-64 compute with SSE alone,
// whose part takes 5 ns to change, and the whole 100.
#ifdef __SSE2__
typedef unsigned floats;
static floats plain_floats(void)
{
	floats was = _mm_getcsr();
	_mm_setcsr(0x1f80); // as threads begin
	return was;
}
static void own_floats(const floats *was) { _mm_setcsr(*was); }
#else
typedef fenv_t floats;
static floats plain_floats(void)
{
	floats was;
	fegetenv(&was);
	fesetenv(FE_DFL_ENV);
	return was;
}
static void own_floats(const floats *was) { fesetenv(was); }
#endif

// gw_takes_faults reports whether a division of integers by zero, which OpenCL's library steps over in a handler, gets there: of a
// thread that blocks the signal it ends the process.
static int gw_takes_faults(void)
{
	sigset_t blocked;
	return pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 && !sigismember(&blocked, SIGFPE);
}

cl_int gw_inline_run(gw_cmd *c, const void *args, gw_args *set, int *ran, int64_t *took)
{
	cl_command_queue q = (cl_command_queue)c->queue;
	*took = 0;
	*ran = GW_ELSEWHERE;
	if (!gw_roomy() || !gw_takes_faults())
		return CL_SUCCESS;
	*ran = GW_REFUSED;
	gw_compiles(0);
	cl_int err = gw_set_args(c, args, set);
	int64_t began = processor_ns();
	floats was = plain_floats();
	if (err == CL_SUCCESS)
		err = gw_run_here(q, (cl_kernel)c->kernel, c->dims, c->offset, c->global, c->has_local ? c->local : NULL);
	own_floats(&was);
	if (err != CL_SUCCESS)
		return err;
	*ran = GW_RAN;
	err = gw_finish(c->queue); // it has ended already: this makes sure
	*took = processor_ns() - began;
	return err;
}
