//go:build cgo

// One thread at a time in OpenCL, for platforms that have no locks.
//
// The lock is the process's: a call does not say which platform it is for before it
// looks into an object, and platforms that need this are simulators, where nobody
// counts microseconds. It is recursive, since callbacks may call back. Nothing that
// waits within OpenCL waits for a thread that is still to come in: commands there wait
// for commands only.
#define _GNU_SOURCE
#include "loader.h"
#include <pthread.h>

static pthread_mutex_t one = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int wanted; // atomic: platforms in use that need it

void gw_serial(int more) { __atomic_add_fetch(&wanted, more, __ATOMIC_SEQ_CST); }

int gw_serial_enter(void)
{
	if (!__atomic_load_n(&wanted, __ATOMIC_RELAXED))
		return 0;
	pthread_mutex_lock(&one);
	return 1;
}

void gw_serial_leave(void) { pthread_mutex_unlock(&one); }
