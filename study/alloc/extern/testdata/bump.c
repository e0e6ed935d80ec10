/* First fit over a sorted list, in the plainest C: what a user's allocator may
 * look like. Built with -DCRASH, -DHANG, -DOVERLAP, -DWILD, -DEXIT or -DNOISE it
 * misbehaves at its 20th allocation; with -DBINARY it is choosy about sizes. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "godwit_alloc.h"

struct chunk {
  uint64_t addr, size;
  struct chunk *next;
};

struct heap {
  uint64_t size, allocs;
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

uint64_t godwit_alloc_alloc(void *a, uint64_t size, uint64_t align, uint64_t hint) {
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
    if ((*link)->addr >= at && (*link)->addr - at >= size) break;
    at = ((*link)->addr + (*link)->size + align - 1) & ~(align - 1);
  }
  if (!*link && (at > h->size || h->size - at < size)) return GODWIT_NO_ROOM;
  struct chunk *c = malloc(sizeof *c);
  c->addr = at, c->size = size, c->next = *link;
  *link = c;
  return at;
}

void godwit_alloc_free(void *a, uint64_t addr) {
  struct heap *h = a;
  for (struct chunk **link = &h->first; *link; link = &(*link)->next) {
    if ((*link)->addr == addr) {
      struct chunk *c = *link;
      *link = c->next;
      free(c);
      return;
    }
  }
}
