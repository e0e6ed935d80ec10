// A fake of CUDA's driver library, for tests: memory is files in memory, a stream is a
// thread that copies. It fails on request, is as slow as asked for, and notes what a
// program may not do: unmap what is being copied, end a stream that has work, call from a
// thread that is the program's.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_CONTEXT = 201, NOT_READY = 600, LOST = 719 };
enum { GPUS = 16, HANDLES = 4096, GRANULE = 64 << 10, NATIVE_ATOMICS = 3 };

typedef struct { int type, id; } location;
typedef struct { int type, handle_types; location at; } prop;
typedef struct { location at; int flags; } access_desc;

typedef struct memory { int fd, device, live; size_t size; int64_t until; } memory; // ended: its bytes come back at until
typedef struct mapping { uint64_t at; size_t size; struct mapping *next; } mapping;
typedef struct op {
	int kind; // 0 copy, 1 record
	char *to, *from;
	size_t size;
	struct event *event;
	uint64_t seq;
	struct op *next;
} op;
typedef struct context { int device, live; } context;
typedef struct stream {
	context *of;
	pthread_t thread;
	op *head, *tail, *running;
	int closing;
	struct stream *next;
} stream;
typedef struct event { context *of; uint64_t recorded, reached; } event;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; // protects all of this
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static memory memories[HANDLES];
static mapping *mappings;
static stream *streams;
static int initialized, gone, dead[GPUS];
static int64_t live[5]; // memories, mappings, contexts, streams, events
static int64_t calls, fail_at, fails;
static int fail_code;
static int64_t ns_per_mib, capacity = INT64_MAX, late, used[GPUS], peak;
static char violations[4096];
static __thread void *current[16];
static __thread int depth, forbidden;

static void violate(const char *what)
{
	size_t n = strlen(violations);
	snprintf(violations + n, sizeof violations - n, "%s\n", what);
}

static int gpus(void)
{
	const char *n = getenv("GODWIT_FAKE_GPUS");
	int k = n ? atoi(n) : 2;
	return k < 0 ? 0 : k > GPUS ? GPUS : k;
}

// begin locks, and returns the error that the call is to return at once, or 0.
static int begin(const char *name)
{
	pthread_mutex_lock(&mu);
	calls++;
	if (gone) {
		fprintf(stderr, "%s after the library's end\n", name);
		abort();
	}
	if (forbidden) {
		char text[128];
		snprintf(text, sizeof text, "%s on a thread that is the program's", name);
		violate(text);
	}
	if (fail_at > 0 && calls >= fail_at && calls < fail_at + fails) {
		if (fails > 2 && fail_code == LOST) // what goes on failing has lost its contexts
			memset(dead, 1, sizeof dead);
		return fail_code;
	}
	return initialized || strcmp(name, "cuInit") == 0 ? OK : NOT_INITIALIZED;
}

static int end(int r)
{
	pthread_mutex_unlock(&mu);
	return r;
}

#define BEGIN(name) \
	int r = begin(name); \
	if (r) \
		return end(r);

// ends is what the library does when the process exits: nothing of it works any more.
static void ends(void)
{
	pthread_mutex_lock(&mu);
	gone = 1;
	pthread_mutex_unlock(&mu);
	nanosleep(&(struct timespec){0, 2000000}, NULL); // time for who does not know it
}

int cuInit(unsigned flags)
{
	(void)flags;
	BEGIN("cuInit")
	if (gpus() == 0)
		return end(NO_DEVICE);
	if (!initialized)
		atexit(ends);
	initialized = 1;
	return end(OK);
}

int cuGetErrorName(int r, const char **name)
{
	*name = r == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : r == LOST ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_OF_THE_FAKE";
	return OK;
}

int cuDeviceGetCount(int *n)
{
	BEGIN("cuDeviceGetCount")
	*n = gpus();
	return end(OK);
}

int cuDeviceGet(int *d, int i)
{
	BEGIN("cuDeviceGet")
	*d = i;
	return end(i < gpus() ? OK : NO_DEVICE);
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int d)
{
	BEGIN("cuDeviceGetUuid")
	memset(uuid, d + 1, 16);
	return end(OK);
}

int cuDeviceGetAttribute(int *v, int attribute, int d)
{
	(void)attribute, (void)d;
	BEGIN("cuDeviceGetAttribute")
	*v = !getenv("GODWIT_FAKE_NO_EXPORT");
	return end(OK);
}

int cuDeviceGetP2PAttribute(int *v, int attribute, int from, int to)
{
	BEGIN("cuDeviceGetP2PAttribute")
	*v = from != to && !getenv("GODWIT_FAKE_NO_PEER") && !(attribute == NATIVE_ATOMICS && getenv("GODWIT_FAKE_NO_ATOMICS"));
	return end(OK);
}

int cuMemGetAllocationGranularity(size_t *n, const prop *p, int option)
{
	(void)p, (void)option;
	BEGIN("cuMemGetAllocationGranularity")
	*n = GRANULE;
	return end(OK);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int cuMemCreate(uint64_t *h, size_t size, const prop *p, unsigned long long flags)
{
	(void)flags;
	BEGIN("cuMemCreate")
	if (size == 0 || size % GRANULE || p->at.id >= gpus())
		return end(INVALID);
	if (dead[p->at.id])
		return end(LOST);
	for (int i = 1; i < HANDLES; i++)
		if (memories[i].until && memories[i].until <= now()) {
			used[memories[i].device] -= memories[i].size;
			memories[i].until = 0;
		}
	if (used[p->at.id] + (int64_t)size > capacity)
		return end(NO_MEMORY);
	for (int i = 1; i < HANDLES; i++)
		if (!memories[i].live && !memories[i].until) {
			int fd = memfd_create("window", MFD_CLOEXEC);
			if (fd < 0 || ftruncate(fd, size)) {
				if (fd >= 0)
					close(fd);
				return end(NO_MEMORY);
			}
			memories[i] = (memory){fd, p->at.id, 1, size, 0};
			if ((used[p->at.id] += size) > peak)
				peak = used[p->at.id];
			live[0]++;
			*h = i;
			return end(OK);
		}
	return end(NO_MEMORY);
}

int cuMemExportToShareableHandle(void *fd, uint64_t h, int type, unsigned long long flags)
{
	(void)type, (void)flags;
	BEGIN("cuMemExportToShareableHandle")
	if (h >= HANDLES || !memories[h].live)
		return end(INVALID);
	*(int *)fd = fcntl(memories[h].fd, F_DUPFD_CLOEXEC, 0);
	return end(*(int *)fd < 0 ? INVALID : OK);
}

int cuMemRelease(uint64_t h)
{
	BEGIN("cuMemRelease")
	if (h >= HANDLES || !memories[h].live)
		return end(INVALID);
	close(memories[h].fd);
	memories[h].live = 0;
	memories[h].until = now() + late;
	live[0]--;
	return end(OK);
}

int cuMemAddressReserve(uint64_t *at, size_t size, size_t align, uint64_t near, unsigned long long flags)
{
	(void)align, (void)near, (void)flags;
	BEGIN("cuMemAddressReserve")
	void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	*at = (uint64_t)(uintptr_t)p;
	return end(p == MAP_FAILED ? NO_MEMORY : OK);
}

int cuMemAddressFree(uint64_t at, size_t size)
{
	BEGIN("cuMemAddressFree")
	for (mapping *m = mappings; m; m = m->next)
		if (m->at == at)
			violate("an address freed while memory is mapped there");
	munmap((void *)(uintptr_t)at, size);
	return end(OK);
}

int cuMemMap(uint64_t at, size_t size, size_t offset, uint64_t h, unsigned long long flags)
{
	(void)flags;
	BEGIN("cuMemMap")
	if (h >= HANDLES || !memories[h].live ||
	    mmap((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memories[h].fd, offset) == MAP_FAILED)
		return end(INVALID);
	mapping *m = malloc(sizeof *m);
	*m = (mapping){at, size, mappings};
	mappings = m;
	live[1]++;
	return end(OK);
}

static int within(char *p, uint64_t at, size_t size) { return p && (uint64_t)(uintptr_t)p >= at && (uint64_t)(uintptr_t)p < at + size; }

static int is_dead(context *c) { return dead[c->device]; }

int cuMemUnmap(uint64_t at, size_t size)
{
	BEGIN("cuMemUnmap")
	for (stream *s = streams; s; s = s->next) {
		if (is_dead(s->of))
			continue; // what it has is never run
		if (s->running && (within(s->running->to, at, size) || within(s->running->from, at, size)))
			violate("memory unmapped under a copy");
		for (op *o = s->head; o; o = o->next)
			if (within(o->to, at, size) || within(o->from, at, size))
				violate("memory unmapped before a copy");
	}
	for (mapping **m = &mappings; *m; m = &(*m)->next)
		if ((*m)->at == at) {
			mapping *gone = *m;
			*m = gone->next;
			free(gone);
			live[1]--;
			mmap((void *)(uintptr_t)at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
			return end(OK);
		}
	return end(INVALID);
}

int cuMemSetAccess(uint64_t at, size_t size, const access_desc *a, size_t n)
{
	(void)at, (void)size, (void)a;
	BEGIN("cuMemSetAccess")
	return end(n > 0 ? OK : INVALID);
}

int cuCtxCreate_v2(void **c, unsigned flags, int device)
{
	(void)flags;
	BEGIN("cuCtxCreate")
	if (device >= gpus())
		return end(NO_DEVICE);
	if (dead[device])
		return end(LOST);
	context *x = calloc(1, sizeof *x);
	x->device = device;
	x->live = 1;
	live[2]++;
	*c = current[depth++ % 16] = x;
	return end(OK);
}

int cuCtxDestroy_v2(void *c)
{
	BEGIN("cuCtxDestroy")
	for (stream *s = streams; s; s = s->next)
		if (s->of == c && (s->head || s->running) && !dead[s->of->device])
			violate("a context ended under a copy");
	((context *)c)->live = 0; // not freed: who still names it is found out
	live[2]--;
	return end(OK);
}

int cuCtxPushCurrent_v2(void *c)
{
	BEGIN("cuCtxPushCurrent")
	current[depth++ % 16] = c;
	return end(OK);
}

int cuCtxPopCurrent_v2(void **c)
{
	pthread_mutex_lock(&mu); // popping never fails: what it would leave is seen by fake_depth
	*c = depth > 0 ? current[--depth % 16] : NULL;
	return end(OK);
}

static void copy_bytes(op *o, context *c)
{
	for (size_t at = 0; at < o->size;) {
		size_t n = o->size - at < GRANULE ? o->size - at : GRANULE;
		if (is_dead(c))
			return;
		memcpy(o->to + at, o->from + at, n); // mu is held: a lost context touches nothing
		at += n;
		int64_t ns = ns_per_mib * (int64_t)n / (1 << 20) + (at >= o->size ? ns_per_mib / 16 : 0);
		if (ns > 0) {
			pthread_mutex_unlock(&mu);
			nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
			pthread_mutex_lock(&mu);
		}
	}
}

static void *work(void *arg)
{
	stream *s = arg;
	pthread_mutex_lock(&mu);
	for (;;) {
		while (!s->head && !s->closing)
			pthread_cond_wait(&changed, &mu);
		if (!s->head)
			break;
		op *o = s->running = s->head;
		if (!(s->head = o->next))
			s->tail = NULL;
		if (o->kind == 0)
			copy_bytes(o, s->of);
		if (o->kind == 1)
			o->event->reached = o->seq;
		s->running = NULL;
		free(o);
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&mu);
	return NULL;
}

int cuStreamCreate(void **out, unsigned flags)
{
	(void)flags;
	BEGIN("cuStreamCreate")
	context *c = depth > 0 ? current[(depth - 1) % 16] : NULL;
	if (!c || !c->live)
		return end(INVALID_CONTEXT);
	stream *s = calloc(1, sizeof *s);
	s->of = c;
	s->next = streams;
	streams = s;
	live[3]++;
	pthread_create(&s->thread, NULL, work, s);
	*out = s;
	return end(OK);
}

int cuStreamDestroy_v2(void *stream_)
{
	stream *s = stream_;
	BEGIN("cuStreamDestroy")
	if ((s->head || s->running) && !is_dead(s->of))
		violate("a stream ended that has work");
	for (stream **p = &streams; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next;
			break;
		}
	live[3]--;
	s->closing = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mu);
	pthread_join(s->thread, NULL);
	free(s);
	return OK;
}

static void put(stream *s, op o)
{
	op *x = malloc(sizeof *x);
	*x = o;
	x->next = NULL;
	if (s->tail)
		s->tail->next = x;
	else
		s->head = x;
	s->tail = x;
	pthread_cond_broadcast(&changed);
}

int cuStreamQuery(void *stream_)
{
	stream *s = stream_;
	BEGIN("cuStreamQuery")
	return end(is_dead(s->of) ? LOST : s->head || s->running ? NOT_READY : OK);
}

int cuEventCreate(void **e, unsigned flags)
{
	(void)flags;
	BEGIN("cuEventCreate")
	context *c = depth > 0 ? current[(depth - 1) % 16] : NULL;
	if (!c || !c->live)
		return end(INVALID_CONTEXT);
	event *x = calloc(1, sizeof *x);
	x->of = c;
	*e = x;
	live[4]++;
	return end(OK);
}

int cuEventDestroy_v2(void *e)
{
	BEGIN("cuEventDestroy")
	live[4]--;
	if (((event *)e)->recorded == ((event *)e)->reached)
		free(e);
	return end(OK);
}

int cuEventRecord(void *event_, void *stream_)
{
	event *e = event_;
	stream *s = stream_;
	BEGIN("cuEventRecord")
	if (e->of != s->of)
		violate("an event recorded in a stream of another context");
	put(s, (op){.kind = 1, .event = e, .seq = ++e->recorded});
	return end(is_dead(s->of) ? LOST : OK);
}

int cuEventQuery(void *event_)
{
	event *e = event_;
	BEGIN("cuEventQuery")
	return end(is_dead(e->of) ? LOST : e->reached == e->recorded ? OK : NOT_READY);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream_)
{
	stream *s = stream_;
	BEGIN("cuMemcpyDtoDAsync")
	if (is_dead(s->of))
		return end(LOST);
	int found = 0;
	for (mapping *m = mappings; m; m = m->next)
		found += (to >= m->at && to + size <= m->at + m->size) + (from >= m->at && from + size <= m->at + m->size);
	if (found != 2) {
		violate("a copy of memory that is not mapped");
		return end(INVALID);
	}
	put(s, (op){.to = (char *)(uintptr_t)to, .from = (char *)(uintptr_t)from, .size = size});
	return end(OK);
}

// What tests say.

void fake_fail(int64_t nth, int64_t times, int code)
{
	pthread_mutex_lock(&mu);
	calls = 0;
	fail_at = nth;
	fails = times;
	fail_code = code;
	pthread_mutex_unlock(&mu);
}

int64_t fake_calls(void)
{
	pthread_mutex_lock(&mu);
	int64_t n = calls;
	pthread_mutex_unlock(&mu);
	return n;
}

void fake_slow(int64_t ns)
{
	pthread_mutex_lock(&mu);
	ns_per_mib = ns;
	pthread_mutex_unlock(&mu);
}

void fake_capacity(int64_t bytes)
{
	pthread_mutex_lock(&mu);
	capacity = bytes;
	peak = 0;
	pthread_mutex_unlock(&mu);
}

void fake_late(int64_t ns)
{
	pthread_mutex_lock(&mu);
	late = ns;
	pthread_mutex_unlock(&mu);
}

int64_t fake_peak(void)
{
	pthread_mutex_lock(&mu);
	int64_t n = peak;
	pthread_mutex_unlock(&mu);
	return n;
}

void fake_lose(int gpu, int lost)
{
	pthread_mutex_lock(&mu);
	dead[gpu] = lost;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mu);
}

void fake_live(int64_t out[5])
{
	pthread_mutex_lock(&mu);
	memcpy(out, live, sizeof live);
	pthread_mutex_unlock(&mu);
}

void fake_violations(char *out, size_t n)
{
	pthread_mutex_lock(&mu);
	snprintf(out, n, "%s", violations);
	violations[0] = 0;
	pthread_mutex_unlock(&mu);
}

void fake_forbid(int on) { forbidden = on; }

int fake_depth(void) { return depth; }
