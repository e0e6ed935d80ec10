//go:build cgo

// The signal stack of a thread that is in Go.
//
// Go runs on stacks of its own, too small for a signal's frame, so a signal that comes
// there needs another one. The runtime notes a thread's signal stack at its first call
// and relies on it for the thread's life. But the stack is the program's: it may be
// disabled, freed, replaced or too small at any later call, and when the process exits.
//
// So a thread of the program's has a signal stack of ours while it is in Go, which the
// runtime finds at the first call and at every other; it gets its own back when it
// leaves. A thread that had none keeps ours, as it would keep the runtime's.
#define _GNU_SOURCE
#include "object.h"
#include <pthread.h>
#include <sys/mman.h>

// SIZE is more than LLVM wants: it replaces a stack of less than 64 KiB and a bit.
enum { SIZE = 128 << 10 };

static __thread void *ours;
static pthread_key_t key; // its destructor frees ours
static int has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void destroy(void *stack)
{
	stack_t now, none = {.ss_flags = SS_DISABLE};
	if (sigaltstack(NULL, &now) == 0 && now.ss_sp == stack)
		sigaltstack(&none, NULL);
	ours = NULL;
	munmap(stack, SIZE);
}

static void make_key(void) { has_key = pthread_key_create(&key, destroy) == 0; }

static void *create(void)
{
	pthread_once(&once, make_key);
	void *stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return NULL;
	if (!has_key || pthread_setspecific(key, stack) != 0) {
		munmap(stack, SIZE);
		return NULL;
	}
	return stack;
}

stack_t gw_enter_go(void)
{
	stack_t programs;
	if (!ours)
		ours = create();
	// It fails where the thread runs on its signal stack, which then stays.
	if (!ours || sigaltstack(&(stack_t){.ss_sp = ours, .ss_size = SIZE}, &programs) != 0 || programs.ss_sp == ours)
		programs.ss_flags = SS_DISABLE;
	return programs;
}

void gw_leave_go(const stack_t *programs)
{
	if (!(programs->ss_flags & SS_DISABLE))
		sigaltstack(programs, NULL);
}
