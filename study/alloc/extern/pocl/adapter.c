/* PoCL's bufalloc.c behind the functions of godwit_alloc.h. Compiled at run time with
 * the bufalloc.c of an installed PoCL source package; nothing of PoCL is here.
 * STRATEGY is one of PoCL's. */
#include <stdint.h>
#include <stdlib.h>
#include "bufalloc.c"
#include "godwit_alloc.h"

#define BASE 65536 /* not 0, which it takes for failure; a multiple of all alignments */
#define BUCKETS 4096

/* PoCL frees by chunk, godwit by address: live chunks are found by a hash of it. */
struct pocl {
  memory_region_t region;
  chunk_info_t *bucket[BUCKETS], *next[MAX_CHUNKS_IN_REGION];
};

static chunk_info_t **at(struct pocl *p, uint64_t addr) {
  chunk_info_t **c = &p->bucket[addr * 0x9E3779B97F4A7C15ull >> 52];
  while (*c && (*c)->start_address != addr) c = &p->next[*c - p->region.all_chunks];
  return c;
}

uint32_t godwit_alloc_abi(void) { return GODWIT_ALLOC_ABI; }

void *godwit_alloc_open(uint64_t size, uint32_t chunks) {
  struct pocl *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  (void)chunks; /* it has room for MAX_CHUNKS_IN_REGION, whatever is wanted */
  pocl_init_mem_region(&p->region, BASE, size);
  p->region.strategy = STRATEGY;
  return p;
}

void godwit_alloc_close(void *allocator) { free(allocator); }

uint64_t godwit_alloc_alloc(void *allocator, uint64_t size, uint64_t align, uint64_t hint) {
  struct pocl *p = allocator;
  (void)hint;
  p->region.alignment = align;
  chunk_info_t *c = pocl_alloc_buffer_from_region(&p->region, size);
  if (!c) return GODWIT_NO_ROOM;
  chunk_info_t **end = at(p, c->start_address);
  p->next[c - p->region.all_chunks] = NULL;
  *end = c;
  return c->start_address - BASE;
}

void godwit_alloc_free(void *allocator, uint64_t addr) {
  struct pocl *p = allocator;
  chunk_info_t **link = at(p, addr + BASE), *c = *link;
  *link = p->next[c - p->region.all_chunks];
  pocl_free_chunk(c);
}
