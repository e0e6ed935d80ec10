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
#include "loader.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
static void (*guard)(void); // atomic: the handler; NULL where there is no gate
static int64_t commands;    // atomic: in OpenCL
static int calls;           // atomic: into OpenCL that have returned, up to FIRST
static int launches;        // atomic: up to FIRST
static int ends;            // atomic: of commands, after which the compiler may have come

// FIRST is how many calls and launches, and how many commands beside a launch, may be
// those that compile for the first time.
enum { FIRST = 32 };

static __thread int passes; // this thread sees commands end, for who waits at the closed gate
static int over;            // atomic: nobody passes any more

void gw_pass_gate(void) { passes = 1; }

enum { GUARDED = 1, SERIAL = 2 }; // what a call has entered

int gw_enter(void)
{
	int entered = 0;
	if (__atomic_load_n(&guard, __ATOMIC_RELAXED) && !(passes && !__atomic_load_n(&over, __ATOMIC_RELAXED))) {
		pthread_rwlock_rdlock(&gate); // closed: for ever
		entered = GUARDED;
	}
	return gw_serial_enter() ? entered | SERIAL : entered;
}

void gw_leave(const int *entered)
{
	if (*entered & SERIAL)
		gw_serial_leave();
	if (!(*entered & GUARDED))
		return;
	pthread_rwlock_unlock(&gate);
	if (__atomic_load_n(&calls, __ATOMIC_RELAXED) < FIRST && __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) < FIRST)
		gw_signals_restore();
}

void gw_guard(void (*handler)(void))
{
	__atomic_store_n(&guard, handler, __ATOMIC_RELEASE);
	gw_newest();
	gw_guard_again();
}

void gw_guard_again(void) { atexit(__atomic_load_n(&guard, __ATOMIC_ACQUIRE)); }

void gw_command(int more)
{
	__atomic_add_fetch(&commands, more, __ATOMIC_RELAXED);
	if (more < 0 && __atomic_load_n(&ends, __ATOMIC_RELAXED) > 0) {
		__atomic_sub_fetch(&ends, 1, __ATOMIC_RELAXED);
		gw_signals_restore();
	}
}

void gw_launching(void)
{
	if (__atomic_load_n(&launches, __ATOMIC_RELAXED) >= FIRST || !__atomic_load_n(&guard, __ATOMIC_RELAXED))
		return;
	__atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
	gw_signals_note();
	__atomic_store_n(&ends, FIRST, __ATOMIC_RELAXED);
}

int gw_close_gate(int64_t ns)
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
