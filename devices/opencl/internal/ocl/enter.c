//go:build cgo

// The way into OpenCL: a guard, where there is one, and a lock for platforms that have
// no locks of their own.
//
// The lock is the process's: a call does not say which platform it is for before it
// looks into an object, and platforms that need this are simulators, where nobody
// counts microseconds. It is recursive, since callbacks may call back. Nothing that
// waits within OpenCL waits for a thread that is still to come in: commands there wait
// for commands only.
#define _GNU_SOURCE
#include "loader.h"
#include <pthread.h>

static gw_guard guard;      // written before guarded
static int guarded;         // atomic: there is a guard
static pthread_mutex_t one = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int wanted; // atomic: platforms in use that need the lock

void gw_set_guard(void *enter, void *leave, void *compiles, void *commands, void *watches)
{
	if (!enter)
		return;
	guard = (gw_guard){(int (*)(void))enter, (void (*)(int))leave, (void (*)(int))compiles, (void (*)(int))commands, (void (*)(void))watches};
	__atomic_store_n(&guarded, 1, __ATOMIC_RELEASE);
}

static int has_guard(void) { return __atomic_load_n(&guarded, __ATOMIC_ACQUIRE); }

void gw_serial(int more) { __atomic_add_fetch(&wanted, more, __ATOMIC_SEQ_CST); }

enum { LOCKED = 1, GUARD = 2 }; // what a call has entered; the guard's answer comes above

int gw_enter(void)
{
	int entered = has_guard() ? GUARD | guard.enter() << 2 : 0;
	if (__atomic_load_n(&wanted, __ATOMIC_RELAXED)) {
		pthread_mutex_lock(&one);
		entered |= LOCKED;
	}
	return entered;
}

void gw_leave(const int *entered)
{
	if (*entered & LOCKED)
		pthread_mutex_unlock(&one);
	if (*entered & GUARD)
		guard.leave(*entered >> 2);
}

void gw_compiles(int more)
{
	if (has_guard())
		guard.compiles(more);
}

void gw_command(int more)
{
	if (has_guard())
		guard.commands(more);
}

void gw_watches(void)
{
	if (has_guard())
		guard.watches();
}
