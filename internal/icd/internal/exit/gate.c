//go:build cgo

// The end of a process that does not know it uses us.
//
// A library that runs in somebody else's program cannot have its commands drained
// before exit: exit comes when it comes, destroys the statics of every library,
// LLVM's among them, and OpenCL's threads go on compiling and running in the
// ruins. So there is a gate before every call into OpenCL, closed for good by a
// handler of exit, which then waits for the commands that OpenCL has.
//
// It comes before whatever libraries have registered for exit: see newest.c. It does
// its work once.
#define _GNU_SOURCE
#include "exit.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
static void (*handler)(void); // atomic; NULL where there is no gate yet
static int led;               // atomic: what others register leads to ours again
static int64_t commands;      // atomic: in OpenCL
static int calls;             // atomic: into OpenCL that have returned, up to FIRST
static int launches;          // atomic: up to FIRST
static int ends;              // atomic: of commands, after which the compiler may have come

// FIRST is how many calls and launches, and how many commands beside a launch, may be
// those that compile for the first time.
enum { FIRST = 32 };

static __thread int passes; // this thread sees commands end, for who waits at the closed gate
static int over;            // atomic: nobody passes any more

void gw_exit_watches(void) { passes = 1; }

int gw_exit_enter(void)
{
	if (!__atomic_load_n(&handler, __ATOMIC_RELAXED) || (passes && !__atomic_load_n(&over, __ATOMIC_RELAXED)))
		return 0;
	pthread_rwlock_rdlock(&gate); // closed: for ever
	return 1;
}

void gw_exit_leave(int entered)
{
	if (!entered)
		return;
	pthread_rwlock_unlock(&gate);
	if (__atomic_load_n(&calls, __ATOMIC_RELAXED) < FIRST && __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) < FIRST)
		gw_exit_compiled();
}

void gw_exit_guard(void (*h)(void), int lead)
{
	__atomic_store_n(&led, lead, __ATOMIC_RELAXED);
	__atomic_store_n(&handler, h, __ATOMIC_RELEASE);
	if (lead)
		gw_newest();
	gw_guard_again();
}

void gw_guard_again(void)
{
	void (*h)(void) = __atomic_load_n(&handler, __ATOMIC_ACQUIRE);
	if (h)
		atexit(h);
}

// gw_exit_compiled: what has compiled may have set signal handlers, and registered
// handlers of exit.
void gw_exit_compiled(void)
{
	gw_signals_restore();
	if (!__atomic_load_n(&led, __ATOMIC_RELAXED) || gw_newest())
		gw_guard_again();
}

void gw_exit_commands(int more)
{
	__atomic_add_fetch(&commands, more, __ATOMIC_RELAXED);
	if (more < 0 && __atomic_load_n(&ends, __ATOMIC_RELAXED) > 0) {
		__atomic_sub_fetch(&ends, 1, __ATOMIC_RELAXED);
		gw_exit_compiled();
	}
}

void gw_exit_compiles(int more)
{
	if (more < 0)
		gw_exit_compiled();
	else if (more > 0)
		gw_signals_note();
	else if (__atomic_load_n(&launches, __ATOMIC_RELAXED) < FIRST && __atomic_load_n(&handler, __ATOMIC_RELAXED)) {
		__atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
		gw_signals_note();
		__atomic_store_n(&ends, FIRST, __ATOMIC_RELAXED);
	}
}

int gw_exit_close(int64_t ns)
{
	struct timespec until, now;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ns / 1000000000;
	until.tv_nsec += ns % 1000000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	int err = pthread_rwlock_timedwrlock(&gate, &until);
	while (__atomic_load_n(&commands, __ATOMIC_ACQUIRE) > 0) {
		clock_gettime(CLOCK_REALTIME, &now);
		if (now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec > until.tv_nsec))
			err = ETIMEDOUT;
		if (err == ETIMEDOUT)
			break;
		nanosleep(&(struct timespec){0, 100000}, NULL);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	return err;
}
