/* The process that a shared library's allocator runs in: godwit-allochost LIBRARY.
 * File descriptor 3 is memory shared with godwit, 4 brings commands and 5 takes
 * replies, a byte each. The stream and what is to be done with it are in the
 * shared memory, which is mapped read-only where godwit relies on it. Whatever
 * the library does to this process, godwit checks the answers and knows from
 * `done` which operation was the last. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NO_ROOM UINT64_MAX

/* As struct header, op and the offsets in shm.go. */
struct op {
  uint64_t size; /* 0 frees the slot */
  uint32_t slot, life;
};

struct request { /* page 0, read-only here */
  uint64_t magic, capacity;
  uint64_t size, align, ops, slots, warm, batch, stop, each;
  struct op step;
};

struct reply { /* page 1 */
  volatile uint64_t done;
  uint64_t failures, answer;
  char error[256];
};

#define MAGIC 0x31746c6c61776f67ull
#define PAGE 4096

static const struct request *rq;
static const struct op *ops;
static struct reply *rp;
static uint64_t *answers;
static double *batch_ns, *op_ns;

static void *(*lib_open)(uint64_t, uint32_t);
static void (*lib_close)(void *);
static uint64_t (*lib_alloc)(void *, uint64_t, uint64_t, uint64_t);
static uint64_t (*lib_alloc2)(void *, uint64_t, uint64_t, uint64_t, uint64_t *); /* with a handle; NULL: lib_alloc */
static void (*lib_free)(void *, uint64_t);

static uint64_t *held;    /* by slot: the address */
static uint64_t *handles; /* by slot: what free gets */
static void *lib;

static void say(char c) {
  if (write(5, &c, 1) != 1) _exit(0);
}

static void fail(const char *what, const char *why) {
  snprintf(rp->error, sizeof rp->error, "%s: %s", what, why ? why : "no reason given");
  say('E');
  _exit(1);
}

static void *symbol(void *so, const char *name) {
  void *p = dlsym(so, name);
  if (!p) fail(name, "the library does not export it");
  return p;
}

static void *map(uint64_t offset, uint64_t bytes, int prot) {
  void *p = mmap(NULL, bytes, prot, MAP_SHARED, 3, (off_t)offset);
  if (p == MAP_FAILED) _exit(2);
  return p;
}

static uint64_t pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/* Starts over with an empty allocator; 0 where there is no memory for it. */
static int start(void) {
  if (lib) lib_close(lib);
  lib = NULL;
  free(held);
  held = malloc((rq->slots ? rq->slots : 1) * 2 * sizeof *held);
  if (!held) return 0;
  handles = held + rq->slots;
  for (uint64_t i = 0; i < rq->slots; i++) held[i] = NO_ROOM;
  lib = lib_open(rq->size, (uint32_t)rq->slots);
  return 1;
}

static inline uint64_t apply(const struct op *o, uint64_t align) {
  uint64_t *at = &held[o->slot], *handle = &handles[o->slot];
  if (!o->size) {
    if (*at != NO_ROOM) lib_free(lib, *handle);
    return 0;
  }
  uint64_t size = (o->size + align - 1) & ~(align - 1);
  if (!lib) return *at = NO_ROOM; /* it cannot manage the region's size */
  if (lib_alloc2) return *at = lib_alloc2(lib, size, align, o->life, handle);
  return *at = *handle = lib_alloc(lib, size, align, o->life);
}

static void play(void) {
  for (uint64_t i = 0; i < rq->ops; i++) {
    answers[i] = apply(&ops[i], rq->align);
    rp->done = i + 1;
    if (rq->stop && ops[i].size && answers[i] == NO_ROOM) break;
  }
}

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static uint64_t run(uint64_t from, uint64_t to) {
  uint64_t failures = 0, align = rq->align;
  for (uint64_t i = from; i < to; i++) failures += apply(&ops[i], align) == NO_ROOM;
  return failures;
}

/* The operations past warm in batches, by this thread's processor time, and in another pass one by one, by the clock. */
static int measure(void) {
  if (!start()) return 0;
  uint64_t failures = run(0, rq->warm), done = 0;
  for (uint64_t i = rq->warm, k = 0; i < rq->ops; i += rq->batch, k++) {
    uint64_t to = i + rq->batch < rq->ops ? i + rq->batch : rq->ops;
    double before = now(CLOCK_THREAD_CPUTIME_ID);
    failures += run(i, to);
    batch_ns[k] = now(CLOCK_THREAD_CPUTIME_ID) - before;
    rp->done = ++done;
  }
  rp->failures = failures;
  if (!rq->each) return 1;
  if (!start()) return 0;
  for (uint64_t i = 0; i < rq->ops; i++) {
    double before = now(CLOCK_MONOTONIC);
    apply(&ops[i], rq->align);
    op_ns[i] = now(CLOCK_MONOTONIC) - before;
    rp->done = ++done;
  }
  return 1;
}

int main(int argc, char **argv) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  struct stat st;
  if (argc != 2 || fstat(3, &st) != 0) {
    fprintf(stderr, "godwit starts this program; see godwit replay --help\n");
    return 2;
  }
  dup2(2, 1); /* what the library prints is no reply */
  fcntl(3, F_SETFD, FD_CLOEXEC), fcntl(4, F_SETFD, FD_CLOEXEC), fcntl(5, F_SETFD, FD_CLOEXEC);
  rq = map(0, PAGE, PROT_READ);
  rp = map(PAGE, PAGE, PROT_READ | PROT_WRITE);
  if (rq->magic != MAGIC) fail("shared memory", "of another version of godwit");
  uint64_t at = 2 * PAGE, n = rq->capacity;
  ops = map(at, pages(n * sizeof *ops), PROT_READ), at += pages(n * sizeof *ops);
  answers = map(at, pages(n * 8), PROT_READ | PROT_WRITE), at += pages(n * 8);
  batch_ns = map(at, pages(n * 8), PROT_READ | PROT_WRITE), at += pages(n * 8);
  op_ns = map(at, pages(n * 8), PROT_READ | PROT_WRITE);

  void *so = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!so) fail("dlopen", dlerror());
  uint32_t (*abi)(void) = (uint32_t(*)(void))symbol(so, "godwit_alloc_abi");
  lib_open = (void *(*)(uint64_t, uint32_t))symbol(so, "godwit_alloc_open");
  lib_close = (void (*)(void *))symbol(so, "godwit_alloc_close");
  lib_free = (void (*)(void *, uint64_t))symbol(so, "godwit_alloc_free");
  void *alloc = symbol(so, "godwit_alloc_alloc");
  switch (abi()) { /* which godwit_alloc_alloc the library has */
  case 1:
    lib_alloc = (uint64_t(*)(void *, uint64_t, uint64_t, uint64_t))alloc;
    break;
  case 2:
    lib_alloc2 = (uint64_t(*)(void *, uint64_t, uint64_t, uint64_t, uint64_t *))alloc;
    break;
  default:
    fail("godwit_alloc_abi", "made for another version of godwit_alloc.h");
  }
  say('R');

  char c;
  while (read(4, &c, 1) == 1) {
    int ok = 1;
    rp->done = rp->failures = 0;
    switch (c) {
    case 'P':
      if ((ok = start())) play();
      break;
    case 'T':
      ok = measure();
      break;
    case 'S':
      ok = start();
      break;
    case 's':
      rp->answer = apply(&rq->step, rq->align);
      rp->done = 1;
      break;
    }
    say(ok ? 'K' : 'N');
  }
  return 0;
}
