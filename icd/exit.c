//go:build cgo

// The earliest word of a process's end.
//
// Handlers of exit run newest first, and a library's statics are destroyed by such
// handlers, registered when each static is first used: by LLVM under PoCL, in a
// thread of its own, in the middle of compiling a kernel. No handler of ours can
// be newer than one that is registered after the program has called exit, or just
// before. But exit begins with the destructors of thread-local objects of the
// thread that calls it, before any handler: so every thread that calls us has one.
// The end of a thread runs it too; then there is nothing to do.
#define _GNU_SOURCE
#include "object.h"
#include <dlfcn.h>
#include <string.h>
#include <unwind.h>

__thread char gw_known;

// What C++ registers the destructors of thread_local objects with.
extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *dso);
extern void *__dso_handle;

// looks_for_exit stops at a frame of exit.
static _Unwind_Reason_Code looks_for_exit(struct _Unwind_Context *frame, void *found)
{
	Dl_info at;
	// exit does not return from its last call, so the address after that may be
	// another function's.
	uintptr_t ip = _Unwind_GetIP(frame) - 1;
	if (dladdr((void *)ip, &at) && at.dli_sname && strcmp(at.dli_sname, "exit") == 0) {
		*(int *)found = 1;
		return _URC_END_OF_STACK;
	}
	return _URC_NO_REASON;
}

static void thread_ends(void *unused)
{
	(void)unused;
	int exiting = 0;
	_Unwind_Backtrace(looks_for_exit, &exiting);
	if (exiting)
		gw_at_exit();
}

void gw_know(void)
{
	gw_known = 1;
	__cxa_thread_atexit_impl(thread_ends, NULL, &__dso_handle);
}
