//go:build cgo

// The library, and who may call it: see cuda.h.
#define _GNU_SOURCE
#include "cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int forked;  // written in the child only
static int exiting; // atomic
static int inside;  // atomic: threads in calls

static void in_child(void) { forked = 1; }

static void once(void) { pthread_atfork(NULL, NULL, in_child); }

gw_cuda *gw_cuda_open(const char *library, const char **lacking, const char **why)
{
	static pthread_once_t watch = PTHREAD_ONCE_INIT;
	*lacking = NULL;
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL); // never closed: it has threads
	if (!lib) {
		*why = dlerror();
		return NULL;
	}
	gw_cuda *c = calloc(1, sizeof *c);
	if (!c) {
		*why = "out of memory";
		return NULL;
	}
#define CU_FIND(field, symbol, params) \
	if (!(c->field = (int(*) params)dlsym(lib, symbol)) && !*lacking) \
		*lacking = symbol;
	CU_FUNCTIONS(CU_FIND)
	if (*lacking) {
		*why = "it is older than CUDA 11.4";
		free(c);
		return NULL;
	}
	pthread_once(&watch, once);
	return c;
}

int gw_cuda_forked(void) { return forked; }

int gw_cuda_enter(void)
{
	if (forked)
		return 0;
	__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&exiting, __ATOMIC_SEQ_CST))
		return 1;
	__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	return 0;
}

void gw_cuda_stay(void)
{
	while (!gw_cuda_enter())
		pause();
}

void gw_cuda_leave(void) { __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST); }

// exits is a handler of exit. Handlers run newest first, so that the library's own, which
// destroy what it needs, run when nobody is inside any more. What is in a GPU's queues then
// ends with the process.
static void exits(void)
{
	if (forked)
		return; // who was inside is not in this process
	__atomic_store_n(&exiting, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 10000 && __atomic_load_n(&inside, __ATOMIC_SEQ_CST) > 0; i++)
		nanosleep(&(struct timespec){0, 100000}, NULL); // at most a second
}

void gw_cuda_guard_again(void) { atexit(exits); }
