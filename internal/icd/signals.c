//go:build cgo

// Signals that the Go runtime and the program both have use for.
//
// Of most signals the runtime leaves a program its handler. It takes SIGURG, with
// which it interrupts its own threads, without ever calling the program's; and faults,
// of which it passes on those that are not its own, but not those that somebody has
// sent. So what the program had is noted before the runtime starts, and once it has
// started a handler that calls the right one, or both, takes their place.
//
// The runtime's threads, and those that the library underneath starts, take no other
// signals: a signal that all of a program's threads block, for one of them to wait for,
// would else find a thread that does not. Threads block what was blocked where they were
// started, the runtime's what was blocked where this was loaded; so that is nearly
// everything, for as long as that takes.
#define _GNU_SOURCE
#include "object.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static const int shared[] = {SIGURG, SIGSEGV, SIGBUS};
enum { SHARED = sizeof shared / sizeof *shared };

static struct sigaction programs[NSIG], runtimes[NSIG]; // written before they are used
static sigset_t loaders;                                // what the thread that loads this blocks

// Constructors with a priority run before those without; of those, Go's runs first, and
// has started the runtime's first thread when it returns.
__attribute__((constructor(101))) static void note(void)
{
	for (int i = 0; i < SHARED; i++)
		sigaction(shared[i], NULL, &programs[shared[i]]);
	gw_block_signals(&loaders);
}

__attribute__((constructor)) static void unblock(void) { pthread_sigmask(SIG_SETMASK, &loaders, NULL); }

void gw_block_signals(sigset_t *before)
{
	// Faults, and what the runtime sends its threads.
	static const int taken[] = {SIGURG, SIGPIPE, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
	sigset_t most;
	sigfillset(&most);
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		sigdelset(&most, taken[i]);
	pthread_sigmask(SIG_BLOCK, &most, before);
}

static void give(const struct sigaction *to, int sig, siginfo_t *info, void *context)
{
	if (to->sa_flags & SA_SIGINFO)
		to->sa_sigaction(sig, info, context);
	else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN)
		to->sa_handler(sig);
}

static void both(int sig, siginfo_t *info, void *context)
{
	const struct sigaction *program = &programs[sig], *runtime = &runtimes[sig];
	if (sig != SIGURG) {
		give(info->si_code <= 0 ? program : runtime, sig, info, context); // sent, or its own fault
		return;
	}
	give(runtime, sig, info, context);
	if (info->si_code != SI_TKILL || info->si_pid != getpid()) // the runtime's own
		give(program, sig, info, context);
}

// whose is the library that a function is of.
static void *whose(void *function)
{
	Dl_info at;
	return dladdr(function, &at) ? at.dli_fbase : NULL;
}

void gw_share_signals(void)
{
	for (int i = 0; i < SHARED; i++) {
		int sig = shared[i];
		struct sigaction *r = &runtimes[sig];
		if (programs[sig].sa_handler == SIG_DFL || programs[sig].sa_handler == SIG_IGN || sigaction(sig, NULL, r) != 0)
			continue;
		if (!(r->sa_flags & SA_SIGINFO) || whose((void *)r->sa_sigaction) != whose((void *)both))
			continue; // the program has set it again meanwhile
		struct sigaction mine = *r;
		mine.sa_sigaction = both;
		sigaction(sig, &mine, NULL);
	}
}
