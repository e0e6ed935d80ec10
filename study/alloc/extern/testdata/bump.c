/* First fit over a sorted list, in the plainest C: what a user's allocator may
 * look like. Built with -DCRASH, -DHANG, -DOVERLAP, -DWILD, -DEXIT or -DNOISE it
 * misbehaves at its 20th allocation; with -DBINARY it is choosy about sizes. With
 * -DTAIL it does not look at the region's end behind other chunks, with -DLOST it
 * forgets to forget the last of three or more chunks, with -DCROOKED what comes after
 * two frees is askew, with -DSHORT a hole that is a little too small will do. With
 * -DGODWIT_ALLOC_HANDLES chunks are freed by their address in this process. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "godwit_alloc.h"

struct chunk {
  uint64_t addr, size;
  struct chunk *next;
};

struct heap {
  uint64_t size, allocs, frees;
  struct chunk *first;
};

uint32_t godwit_alloc_abi(void) { return GODWIT_ALLOC_ABI; }

void *godwit_alloc_open(uint64_t size, uint32_t chunks) {
  (void)chunks;
#ifdef BINARY
  if (size & (size - 1)) return NULL; /* manages powers of two alone */
#endif
  struct heap *h = calloc(1, sizeof *h);
  h->size = size;
  return h;
}

void godwit_alloc_close(void *a) {
  struct heap *h = a;
  while (h->first) {
    struct chunk *c = h->first;
    h->first = c->next;
    free(c);
  }
  free(h);
}

#ifdef GODWIT_ALLOC_HANDLES
#define HANDLE , uint64_t *handle
#define IS(c, x) ((uint64_t)(uintptr_t)(c) == (x))
#else
#define HANDLE
#define IS(c, x) ((c)->addr == (x))
#endif

uint64_t godwit_alloc_alloc(void *a, uint64_t size, uint64_t align, uint64_t hint HANDLE) {
  (void)hint;
  struct heap *h = a;
  if (++h->allocs == 20) {
#ifdef CRASH
    fprintf(stderr, "about to crash\n");
    *(volatile int *)16 = 1;
#endif
#ifdef HANG
    for (;;) pause();
#endif
#ifdef OVERLAP
    return h->first->addr & ~(align - 1);
#endif
#ifdef WILD
    return h->size - h->size % align + align;
#endif
#ifdef EXIT
    exit(7);
#endif
#ifdef NOISE
    printf("chatter on standard output\n");
#endif
  }
  uint64_t at = 0;
  struct chunk **link = &h->first;
  for (; *link; link = &(*link)->next) {
#ifdef SHORT
    if ((*link)->addr > at && (*link)->addr - at >= size - size / 2) break;
#endif
    if ((*link)->addr >= at && (*link)->addr - at >= size) break;
    at = ((*link)->addr + (*link)->size + align - 1) & ~(align - 1);
  }
#ifdef TAIL
  if (!*link && (at >= h->size || !at && size > h->size)) return GODWIT_NO_ROOM;
#else
  if (!*link && (at > h->size || h->size - at < size)) return GODWIT_NO_ROOM;
#endif
#ifdef CROOKED
  if (h->frees >= 2) at += align / 2;
#endif
  struct chunk *c = malloc(sizeof *c);
  c->addr = at, c->size = size, c->next = *link;
  *link = c;
#ifdef GODWIT_ALLOC_HANDLES
  *handle = (uint64_t)(uintptr_t)c;
#endif
  return at;
}

void godwit_alloc_free(void *a, uint64_t what) {
  struct heap *h = a;
  h->frees++;
  for (struct chunk **link = &h->first; *link; link = &(*link)->next) {
    if (IS(*link, what)) {
      struct chunk *c = *link;
#ifdef LOST
      if (!c->next && link != &h->first && link != &h->first->next) return;
#endif
      *link = c->next;
      free(c);
      return;
    }
  }
}
