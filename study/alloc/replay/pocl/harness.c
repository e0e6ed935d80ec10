/* Times PoCL's bufalloc.c on a stream of operations. Compiled at run time with
 * the bufalloc.c of an installed PoCL source package; nothing of PoCL is here.
 *
 * usage: harness tight|wasteful repeats seconds < stream
 * stream: six uint64: align, region, slots, warm, ops, 0; then for each
 * operation uint64 size (0 frees), uint32 slot, uint32 0. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bufalloc.c"

struct op { uint64_t size; uint32_t slot, pad; };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static memory_region_t region;
static chunk_info_t **held;
static uint64_t failures, hash;

static void one(const struct op *o) {
  if (o->size == 0) {
    if (held[o->slot]) pocl_free_chunk(held[o->slot]);
    held[o->slot] = NULL;
    return;
  }
  held[o->slot] = pocl_alloc_buffer_from_region(&region, o->size);
  if (!held[o->slot]) failures++;
}

int main(int argc, char **argv) {
  uint64_t h[6];
  if (argc != 4 || fread(h, 8, 6, stdin) != 6) return 2;
  struct op *ops = malloc(h[4] * sizeof *ops);
  if (!ops || fread(ops, sizeof *ops, h[4], stdin) != h[4]) return 2;
  held = calloc(h[2] + 1, sizeof *held);
  int repeats = atoi(argv[2]);
  double limit = atof(argv[3]) * 1e9 / repeats;
  for (int r = 0; r < repeats; r++) {
    memset(held, 0, h[2] * sizeof *held);
    pocl_init_mem_region(&region, h[0], h[1]); /* not 0: it takes address 0 for failure elsewhere */
    region.strategy = strcmp(argv[1], "tight") ? BALLOCS_WASTEFUL : BALLOCS_TIGHT;
    region.alignment = h[0];
    failures = 0;
    hash = 14695981039346656037ull;
    for (uint64_t i = 0; i < h[3]; i++) one(&ops[i]);
    uint64_t warm_failures = failures, i = h[3];
    double start = now(), t = start;
    while (i < h[4] && t - start < limit) {
      for (int k = 0; k < 64 && i < h[4]; k++) one(&ops[i++]);
      t = now();
    }
    printf("%.3f %llu %llu %llu\n", (t - start) / (i - h[3]), (unsigned long long)(i - h[3]),
           (unsigned long long)warm_failures, (unsigned long long)failures);
  }
  /* Where everything went, untimed: FNV-1a over the addresses, ~0 for none. */
  memset(held, 0, h[2] * sizeof *held);
  pocl_init_mem_region(&region, h[0], h[1]);
  region.strategy = strcmp(argv[1], "tight") ? BALLOCS_WASTEFUL : BALLOCS_TIGHT;
  region.alignment = h[0];
  uint64_t n = h[4] < 20000 ? h[4] : 20000;
  for (uint64_t i = 0; i < n; i++) {
    one(&ops[i]);
    if (ops[i].size == 0) continue;
    uint64_t a = held[ops[i].slot] ? held[ops[i].slot]->start_address - h[0] : ~0ull;
    for (int b = 0; b < 8; b++) hash = (hash ^ (a >> 8 * b & 255)) * 1099511628211ull;
  }
  printf("hash %llu\n", (unsigned long long)hash);
  return 0;
}
