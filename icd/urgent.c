//go:build cgo

// SIGURG, which the Go runtime takes.
//
// The runtime interrupts its own threads with SIGURG, and takes the handler that a
// program has set for it without ever calling it. So what the program had is noted
// before the runtime starts, and once it has started a handler that calls both
// takes their place. Of every other signal the runtime leaves a program its
// handler, or passes on to it what is not its own.
#define _GNU_SOURCE
#include "object.h"
#include <signal.h>
#include <unistd.h>

static struct sigaction programs, runtimes; // written before they are used

// Constructors with a priority run before those without, such as Go's.
__attribute__((constructor(101))) static void note(void) { sigaction(SIGURG, NULL, &programs); }

static void both(int sig, siginfo_t *info, void *context)
{
	runtimes.sa_sigaction(sig, info, context);
	if (info->si_code == SI_TKILL && info->si_pid == getpid())
		return; // the runtime's own
	if (programs.sa_flags & SA_SIGINFO)
		programs.sa_sigaction(sig, info, context);
	else
		programs.sa_handler(sig);
}

void gw_share_urgent(void)
{
	if (programs.sa_handler == SIG_DFL || programs.sa_handler == SIG_IGN)
		return;
	if (sigaction(SIGURG, NULL, &runtimes) != 0 || runtimes.sa_handler == programs.sa_handler || !(runtimes.sa_flags & SA_SIGINFO))
		return; // the program has set it again meanwhile
	struct sigaction shared = runtimes;
	shared.sa_sigaction = both;
	sigaction(SIGURG, &shared, NULL);
}
