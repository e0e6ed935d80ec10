/* The same allocator, called in a C loop: what a replay by the host is measured
 * against. Reads a stream from standard input: align, size, slots, operations,
 * rounds; then operations of size and slot. Prints ns of each round. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "godwit_alloc.h"

struct op {
  uint64_t size, slot;
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(void) {
  uint64_t h[5];
  if (fread(h, 8, 5, stdin) != 5) return 1;
  uint64_t align = h[0], size = h[1], slots = h[2], n = h[3];
  struct op *ops = malloc(n * sizeof *ops);
  uint64_t *held = malloc(slots * sizeof *held);
  if (fread(ops, sizeof *ops, n, stdin) != n) return 1;
  for (uint64_t r = 0; r < h[4]; r++) {
    void *a = godwit_alloc_open(size, (uint32_t)slots);
    double before = now();
    for (uint64_t i = 0; i < n; i++) {
      if (ops[i].size)
        held[ops[i].slot] = godwit_alloc_alloc(a, (ops[i].size + align - 1) & ~(align - 1), align, 0);
      else if (held[ops[i].slot] != GODWIT_NO_ROOM)
        godwit_alloc_free(a, held[ops[i].slot]);
    }
    printf("%.0f\n", now() - before);
    fflush(stdout);
    godwit_alloc_close(a);
  }
  return 0;
}
