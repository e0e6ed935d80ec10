//go:build cgo

#define _GNU_SOURCE
#include "object.h"
#include <pthread.h>
#include <sys/mman.h>

char *gw_arena;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

int gw_arena_open(void)
{
	pthread_mutex_lock(&mu);
	if (!gw_arena) {
		void *p = mmap(NULL, (size_t)GW_SLOTS * sizeof(gw_object), PROT_READ | PROT_WRITE,
		               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p != MAP_FAILED)
			gw_arena = p;
	}
	pthread_mutex_unlock(&mu);
	return gw_arena != NULL;
}
