//go:build cgo

// A program's signal handlers, kept from OpenCL's compiler.
//
// LLVM, the first time it compiles, puts handlers of its own in the place of the
// program's for a dozen signals, to remove temporary files. The first of these
// signals puts back what was there before, whatever the program has set since. A
// library that the program does not know of must not do that to it: so the
// handlers are noted before OpenCL compiles, and put back where they are LLVM's
// afterwards. LLVM does this once in a process, and so do we.
#define _GNU_SOURCE
#include "exit.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

enum { SIGNALS = 32 }; // the classic ones; LLVM has no others

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction noted[SIGNALS]; // protected by mu
static char known[SIGNALS];             // noted has it; protected by mu
static int keeping;                     // atomic: 1 from the start until LLVM has come and gone

// compilers reports whether a handler is the compiler's.
static int compilers(const struct sigaction *a)
{
	Dl_info at;
	if (a->sa_handler == SIG_DFL || a->sa_handler == SIG_IGN)
		return 0;
	return dladdr((void *)a->sa_handler, &at) && at.dli_fname && (strstr(at.dli_fname, "libLLVM") || strstr(at.dli_fname, "libclang"));
}

void gw_exit_keep_signals(void)
{
	__atomic_store_n(&keeping, 1, __ATOMIC_RELEASE);
	gw_signals_note();
}

void gw_signals_note(void)
{
	if (__atomic_load_n(&keeping, __ATOMIC_ACQUIRE) != 1)
		return;
	pthread_mutex_lock(&mu);
	for (int s = 1; s < SIGNALS; s++) {
		struct sigaction a;
		if (sigaction(s, NULL, &a) == 0 && !compilers(&a)) {
			noted[s] = a;
			known[s] = 1;
		}
	}
	pthread_mutex_unlock(&mu);
}

void gw_signals_restore(void)
{
	if (__atomic_load_n(&keeping, __ATOMIC_ACQUIRE) != 1)
		return;
	pthread_mutex_lock(&mu);
	int found = 0;
	for (int s = 1; s < SIGNALS; s++) {
		struct sigaction a;
		if (known[s] && sigaction(s, NULL, &a) == 0 && compilers(&a))
			found |= sigaction(s, &noted[s], NULL) == 0;
	}
	if (found)
		__atomic_store_n(&keeping, 2, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&mu);
}
