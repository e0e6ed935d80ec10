//go:build cgo

#define _GNU_SOURCE
#include "object.h"
#include <pthread.h>
#include <sys/mman.h>

char *gw_arena;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; // of all that follows
static uint32_t used;                                  // slots ever taken
static uint32_t head, tail;                            // free list, oldest first: index + 1
static uint32_t freed;                                 // its length

// Slots rest for so many frees before they serve again, so that a handle which
// a program goes on using after its release is told from a live one.
#define REST 4096

static gw_object *at(uint32_t i) { return (gw_object *)gw_arena + i; }

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

gw_object *gw_take(void)
{
	gw_object *o = NULL;
	pthread_mutex_lock(&mu);
	if (freed > REST || (freed > 0 && used == GW_SLOTS)) {
		o = at(head - 1);
		head = o->next;
		freed--;
	} else if (used < GW_SLOTS) {
		o = at(used++);
	}
	pthread_mutex_unlock(&mu);
	if (!o)
		return NULL;
	o->dispatch = &gw_dispatch;
	o->next = 0;
	__atomic_store_n(&o->refs, 1, __ATOMIC_RELAXED);
	return o;
}

void gw_free(gw_object *o)
{
	pthread_mutex_lock(&mu);
	__atomic_store_n(&o->kind, GW_NONE, __ATOMIC_RELEASE);
	uint32_t i = (uint32_t)(o - at(0)) + 1;
	if (freed++ == 0)
		head = i;
	else
		at(tail - 1)->next = i;
	tail = i;
	pthread_mutex_unlock(&mu);
}
