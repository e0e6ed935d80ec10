/* An OpenCL driver whose one device does nothing, at once: what a program pays on it
 * is what calls cost, Godwit's share of them foremost. Buffers are memory and
 * transfers move bytes, but a kernel runs nothing, and takes as long as it is told to.
 *
 *   gcc -O2 -shared -fPIC -o libinstant.so instant.c
 *
 * INSTANT_NAME       the platform's name ("Instant"); one with NVIDIA in it makes Godwit
 *                    treat it as NVIDIA's
 * INSTANT_KERNEL_US  how long each kernel keeps its queue busy (0)
 * INSTANT_FAIL       the nth kernel, from 1, and all after it fail (-5)
 *
 * What a command does is done when it is enqueued; when it ends is a time, so that
 * nothing here has threads but callbacks that are set before then. Commands of one
 * queue follow each other, and on whatever they wait for.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_icd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static cl_icd_dispatch table;
static const char *name = "Instant";
static int64_t kernel_ns;
static int fail_from, kernels_run; /* atomic */

struct object { cl_icd_dispatch *dispatch; int refs; };
static struct _cl_platform_id { struct object o; } platform;
static struct _cl_device_id { struct object o; } device;
struct _cl_context { struct object o; };
struct _cl_command_queue { struct object o; int64_t until; cl_command_queue_properties props; pthread_mutex_t mu; };
struct _cl_mem { struct object o; char *bytes; size_t size; cl_mem whole; void *own; };
struct _cl_program { struct object o; char *source; };
struct _cl_kernel { struct object o; char name[128]; cl_uint n; struct arg { char name[64], type[64]; int global, local, constant; } args[32]; cl_uint set; };
struct _cl_event { struct object o; int64_t start, end; cl_int failed; cl_command_queue q; };

static int64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void await(int64_t until)
{
	for (int64_t left; (left = until - clock_ns()) > 0;)
		if (left > 200000)
			nanosleep(&(struct timespec){0, left > 1000000000 ? 999999999 : left - 100000}, NULL);
}

static void *made(size_t size)
{
	struct object *o = calloc(1, size);
	o->dispatch = &table;
	o->refs = 1;
	return o;
}

static int let_go(void *v)
{
	struct object *o = v;
	return __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) == 0;
}

static cl_int answer(const void *v, size_t n, size_t room, void *to, size_t *need)
{
	if (need)
		*need = n;
	if (to && room < n)
		return CL_INVALID_VALUE;
	if (to)
		memcpy(to, v, n);
	return CL_SUCCESS;
}
#define TEXT(s) answer(s, strlen(s) + 1, room, to, need)
#define ANSWER(type, v) answer(&(type){v}, sizeof(type), room, to, need)
#define INFO size_t room, void *to, size_t *need

static cl_int CL_API_CALL platforms(cl_uint n, cl_platform_id *list, cl_uint *num)
{
	if (num)
		*num = 1;
	if (list && n)
		*list = &platform;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id p, cl_platform_info what, INFO)
{
	(void)p;
	switch (what) {
	case CL_PLATFORM_NAME: case CL_PLATFORM_VENDOR: return TEXT(name);
	case CL_PLATFORM_VERSION: return TEXT("OpenCL 3.0 instant");
	case CL_PLATFORM_PROFILE: return TEXT("FULL_PROFILE");
	case CL_PLATFORM_EXTENSIONS: return TEXT("cl_khr_icd");
	case CL_PLATFORM_ICD_SUFFIX_KHR: return TEXT("INSTANT");
	}
	return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL devices(cl_platform_id p, cl_device_type t, cl_uint n, cl_device_id *list, cl_uint *num)
{
	(void)p;
	if (!(t & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)))
		return CL_DEVICE_NOT_FOUND;
	if (num)
		*num = 1;
	if (list && n)
		*list = &device;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id d, cl_device_info what, INFO)
{
	(void)d;
	switch (what) {
	case CL_DEVICE_NAME: case CL_DEVICE_VENDOR: return TEXT(name);
	case CL_DEVICE_VERSION: return TEXT("OpenCL 3.0 instant");
	case CL_DEVICE_OPENCL_C_VERSION: return TEXT("OpenCL C 1.2 ");
	case CL_DRIVER_VERSION: return TEXT("1");
	case CL_DEVICE_PROFILE: return TEXT("FULL_PROFILE");
	case CL_DEVICE_EXTENSIONS: return TEXT("cl_khr_byte_addressable_store");
	case CL_DEVICE_TYPE: return ANSWER(cl_device_type, CL_DEVICE_TYPE_GPU);
	case CL_DEVICE_PLATFORM: return ANSWER(cl_platform_id, &platform);
	case CL_DEVICE_GLOBAL_MEM_SIZE: return ANSWER(cl_ulong, 4ull << 30);
	case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return ANSWER(cl_ulong, 1ull << 30);
	case CL_DEVICE_LOCAL_MEM_SIZE: return ANSWER(cl_ulong, 48 << 10);
	case CL_DEVICE_MEM_BASE_ADDR_ALIGN: return ANSWER(cl_uint, 4096);
	case CL_DEVICE_MAX_WORK_GROUP_SIZE: return ANSWER(size_t, 1024);
	case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS: return ANSWER(cl_uint, 3);
	case CL_DEVICE_MAX_WORK_ITEM_SIZES: return answer((size_t[]){1024, 1024, 64}, 3 * sizeof(size_t), room, to, need);
	case CL_DEVICE_MAX_COMPUTE_UNITS: return ANSWER(cl_uint, 1);
	case CL_DEVICE_ADDRESS_BITS: return ANSWER(cl_uint, 64);
	case CL_DEVICE_AVAILABLE: case CL_DEVICE_COMPILER_AVAILABLE: case CL_DEVICE_LINKER_AVAILABLE: case CL_DEVICE_ENDIAN_LITTLE: return ANSWER(cl_bool, CL_TRUE);
	case CL_DEVICE_QUEUE_ON_HOST_PROPERTIES: return ANSWER(cl_command_queue_properties, CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
	case CL_DEVICE_MAX_PARAMETER_SIZE: return ANSWER(size_t, 4096);
	case CL_DEVICE_EXECUTION_CAPABILITIES: return ANSWER(cl_device_exec_capabilities, CL_EXEC_KERNEL);
	}
	return answer(&(cl_ulong){0}, 4, room, to, need);
}

static cl_context CL_API_CALL context(const cl_context_properties *props, cl_uint n, const cl_device_id *list, void (CL_CALLBACK *f)(const char *, const void *, size_t, void *), void *user, cl_int *err)
{
	(void)props; (void)n; (void)list; (void)f; (void)user;
	if (err)
		*err = CL_SUCCESS;
	return made(sizeof(struct _cl_context));
}

static cl_command_queue CL_API_CALL queue(cl_context c, cl_device_id d, cl_command_queue_properties props, cl_int *err)
{
	(void)c; (void)d;
	cl_command_queue q = made(sizeof *q);
	q->props = props;
	pthread_mutex_init(&q->mu, NULL);
	if (err)
		*err = CL_SUCCESS;
	return q;
}

static cl_command_queue CL_API_CALL queue_with(cl_context c, cl_device_id d, const cl_queue_properties *p, cl_int *err)
{
	return queue(c, d, p && p[0] == CL_QUEUE_PROPERTIES ? p[1] : 0, err);
}

#define COUNTED(what, type, free_it)                                                          \
	static cl_int CL_API_CALL retain_##what(type v) { __atomic_add_fetch(&v->o.refs, 1, __ATOMIC_RELAXED); return CL_SUCCESS; } \
	static cl_int CL_API_CALL release_##what(type v) { if (let_go(v)) { free_it; free(v); } return CL_SUCCESS; }
COUNTED(context, cl_context, )
COUNTED(queue, cl_command_queue, )
COUNTED(program, cl_program, free(v->source))
COUNTED(kernel, cl_kernel, )
COUNTED(event, cl_event, )
static cl_int CL_API_CALL release_mem(cl_mem v);
static cl_int CL_API_CALL retain_mem(cl_mem v) { __atomic_add_fetch(&v->o.refs, 1, __ATOMIC_RELAXED); return CL_SUCCESS; }
static cl_int CL_API_CALL release_mem(cl_mem v)
{
	if (!let_go(v))
		return CL_SUCCESS;
	if (v->whole)
		release_mem(v->whole);
	free(v->own);
	free(v);
	return CL_SUCCESS;
}

static cl_mem CL_API_CALL buffer(cl_context c, cl_mem_flags flags, size_t size, void *host, cl_int *err)
{
	(void)c;
	cl_mem m = made(sizeof *m);
	m->size = size;
	m->bytes = flags & CL_MEM_USE_HOST_PTR ? host : (m->own = calloc(1, size));
	if (flags & CL_MEM_COPY_HOST_PTR)
		memcpy(m->bytes, host, size);
	if (err)
		*err = CL_SUCCESS;
	return m;
}

static cl_mem CL_API_CALL sub_buffer(cl_mem whole, cl_mem_flags flags, cl_buffer_create_type t, const void *info, cl_int *err)
{
	(void)flags; (void)t;
	const cl_buffer_region *r = info;
	cl_mem m = made(sizeof *m);
	m->size = r->size;
	m->bytes = whole->bytes + r->origin;
	m->whole = whole;
	retain_mem(whole);
	if (err)
		*err = CL_SUCCESS;
	return m;
}

/* ran is a command that takes ns, behind its queue's others and its wait list. */
static cl_int ran(cl_command_queue q, int64_t ns, cl_int failed, cl_uint n, const cl_event *wait, cl_event *out)
{
	int64_t start = clock_ns();
	for (cl_uint i = 0; i < n; i++) {
		if (wait[i]->end > start)
			start = wait[i]->end;
		if (wait[i]->failed)
			failed = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
	}
	pthread_mutex_lock(&q->mu);
	if (q->until > start)
		start = q->until;
	q->until = start + ns;
	pthread_mutex_unlock(&q->mu);
	if (out) {
		cl_event e = made(sizeof *e);
		e->q = q;
		e->start = start;
		e->end = start + ns;
		e->failed = failed;
		*out = e;
	}
	return CL_SUCCESS;
}

#define WAITS cl_uint n, const cl_event *wait, cl_event *out

static cl_int CL_API_CALL read_buffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t off, size_t size, void *p, WAITS)
{
	if (blocking)
		await(q->until);
	memcpy(p, m->bytes + off, size);
	return ran(q, 0, 0, n, wait, out);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t off, size_t size, const void *p, WAITS)
{
	if (blocking)
		await(q->until);
	memcpy(m->bytes + off, p, size);
	return ran(q, 0, 0, n, wait, out);
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue q, cl_mem from, cl_mem to, size_t src, size_t dst, size_t size, WAITS)
{
	memmove(to->bytes + dst, from->bytes + src, size);
	return ran(q, 0, 0, n, wait, out);
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue q, cl_mem m, const void *pattern, size_t k, size_t off, size_t size, WAITS)
{
	for (size_t i = 0; i < size; i += k)
		memcpy(m->bytes + off + i, pattern, k);
	return ran(q, 0, 0, n, wait, out);
}

static void rect(char *to, const size_t *t, size_t trow, size_t tslice, const char *from, const size_t *f, size_t frow, size_t fslice, const size_t *r)
{
	trow = trow ? trow : r[0];
	frow = frow ? frow : r[0];
	tslice = tslice ? tslice : r[1] * trow;
	fslice = fslice ? fslice : r[1] * frow;
	for (size_t z = 0; z < r[2]; z++)
		for (size_t y = 0; y < r[1]; y++)
			memmove(to + t[0] + (t[1] + y) * trow + (t[2] + z) * tslice, from + f[0] + (f[1] + y) * frow + (f[2] + z) * fslice, r[0]);
}

static cl_int CL_API_CALL read_rect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *bo, const size_t *ho, const size_t *r, size_t brow, size_t bslice, size_t hrow, size_t hslice, void *p, WAITS)
{
	(void)blocking;
	rect(p, ho, hrow, hslice, m->bytes, bo, brow, bslice, r);
	return ran(q, 0, 0, n, wait, out);
}

static cl_int CL_API_CALL write_rect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *bo, const size_t *ho, const size_t *r, size_t brow, size_t bslice, size_t hrow, size_t hslice, const void *p, WAITS)
{
	(void)blocking;
	rect(m->bytes, bo, brow, bslice, p, ho, hrow, hslice, r);
	return ran(q, 0, 0, n, wait, out);
}

static cl_int CL_API_CALL copy_rect(cl_command_queue q, cl_mem from, cl_mem to, const size_t *fo, const size_t *o, const size_t *r, size_t frow, size_t fslice, size_t trow, size_t tslice, WAITS)
{
	rect(to->bytes, o, trow, tslice, from->bytes, fo, frow, fslice, r);
	return ran(q, 0, 0, n, wait, out);
}

static void *CL_API_CALL map_buffer(cl_command_queue q, cl_mem m, cl_bool blocking, cl_map_flags flags, size_t off, size_t size, WAITS, cl_int *err)
{
	(void)flags; (void)size;
	if (blocking)
		await(q->until);
	if (err)
		*err = CL_SUCCESS;
	ran(q, 0, 0, n, wait, out);
	return m->bytes + off;
}

static cl_int CL_API_CALL unmap(cl_command_queue q, cl_mem m, void *p, WAITS)
{
	(void)m; (void)p;
	return ran(q, 0, 0, n, wait, out);
}

static cl_int CL_API_CALL marker(cl_command_queue q, WAITS) { return ran(q, 0, 0, n, wait, out); }

static cl_int CL_API_CALL launch(cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *offset, const size_t *global, const size_t *local, WAITS)
{
	(void)dims; (void)offset; (void)global; (void)local;
	if (k->set != (k->n == 32 ? ~0u : (1u << k->n) - 1))
		return CL_INVALID_KERNEL_ARGS;
	int nth = __atomic_add_fetch(&kernels_run, 1, __ATOMIC_RELAXED);
	return ran(q, kernel_ns, fail_from && nth >= fail_from ? CL_OUT_OF_RESOURCES : 0, n, wait, out);
}

static cl_int CL_API_CALL flush(cl_command_queue q) { (void)q; return CL_SUCCESS; }
static cl_int CL_API_CALL finish(cl_command_queue q)
{
	pthread_mutex_lock(&q->mu);
	int64_t until = q->until;
	pthread_mutex_unlock(&q->mu);
	if (until)
		await(until);
	return fail_from && __atomic_load_n(&kernels_run, __ATOMIC_RELAXED) >= fail_from ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

static cl_int status(cl_event e)
{
	int64_t t = clock_ns();
	return t >= e->end ? (e->failed ? e->failed : CL_COMPLETE) : t >= e->start ? CL_RUNNING : CL_SUBMITTED;
}

static cl_int CL_API_CALL wait_for(cl_uint n, const cl_event *list)
{
	cl_int st = CL_SUCCESS;
	for (cl_uint i = 0; i < n; i++) {
		await(list[i]->end);
		if (list[i]->failed)
			st = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
	}
	return st;
}

static cl_int CL_API_CALL event_info(cl_event e, cl_event_info what, INFO)
{
	switch (what) {
	case CL_EVENT_COMMAND_EXECUTION_STATUS: return ANSWER(cl_int, status(e));
	case CL_EVENT_REFERENCE_COUNT: return ANSWER(cl_uint, (cl_uint)e->o.refs);
	case CL_EVENT_COMMAND_QUEUE: return ANSWER(cl_command_queue, e->q);
	}
	return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL event_times(cl_event e, cl_profiling_info what, INFO)
{
	return ANSWER(cl_ulong, (cl_ulong)(what == CL_PROFILING_COMMAND_END ? e->end : e->start));
}

struct call { struct call *next; cl_event e; void (CL_CALLBACK *f)(cl_event, cl_int, void *); void *user; };
static struct call *calls;
static pthread_mutex_t calls_mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t calls_some = PTHREAD_COND_INITIALIZER;

static void *caller(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&calls_mu);
		while (!calls)
			pthread_cond_wait(&calls_some, &calls_mu);
		struct call *all = calls, *c;
		calls = NULL;
		pthread_mutex_unlock(&calls_mu);
		while ((c = all)) {
			all = c->next;
			await(c->e->end);
			c->f(c->e, c->e->failed, c->user);
			release_event(c->e);
			free(c);
		}
	}
	return unused;
}

static void start_caller(void)
{
	pthread_t t;
	pthread_create(&t, NULL, caller, NULL);
	pthread_detach(t);
}

static cl_int CL_API_CALL callback(cl_event e, cl_int when, void (CL_CALLBACK *f)(cl_event, cl_int, void *), void *user)
{
	if (when != CL_COMPLETE || clock_ns() >= e->end) {
		f(e, when == CL_COMPLETE ? status(e) : when, user);
		return CL_SUCCESS;
	}
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, start_caller);
	struct call *c = malloc(sizeof *c), **at = &calls;
	*c = (struct call){NULL, e, f, user};
	retain_event(e);
	pthread_mutex_lock(&calls_mu);
	while (*at)
		at = &(*at)->next;
	*at = c;
	pthread_cond_signal(&calls_some);
	pthread_mutex_unlock(&calls_mu);
	return CL_SUCCESS;
}

static cl_event CL_API_CALL user_event(cl_context c, cl_int *err)
{
	(void)c;
	cl_event e = made(sizeof *e);
	e->start = e->end = INT64_MAX;
	if (err)
		*err = CL_SUCCESS;
	return e;
}

/* Nothing may have been enqueued behind it: that it ends now is not passed on. */
static cl_int CL_API_CALL set_user_event(cl_event e, cl_int st)
{
	e->failed = st < 0 ? st : 0;
	e->start = e->end = clock_ns();
	return CL_SUCCESS;
}

static cl_program CL_API_CALL program(cl_context c, cl_uint n, const char **texts, const size_t *lengths, cl_int *err)
{
	(void)c;
	cl_program p = made(sizeof *p);
	size_t len = 0;
	p->source = calloc(1, 1);
	for (cl_uint i = 0; i < n; i++) {
		size_t k = lengths && lengths[i] ? lengths[i] : strlen(texts[i]);
		p->source = realloc(p->source, len + k + 1);
		memcpy(p->source + len, texts[i], k);
		p->source[len += k] = 0;
	}
	if (err)
		*err = CL_SUCCESS;
	return p;
}

static cl_program CL_API_CALL program_binary(cl_context c, cl_uint n, const cl_device_id *d, const size_t *lengths, const unsigned char **b, cl_int *each, cl_int *err)
{
	(void)d;
	if (each)
		*each = CL_SUCCESS;
	return program(c, n, (const char **)b, lengths, err);
}

static cl_int CL_API_CALL build(cl_program p, cl_uint n, const cl_device_id *d, const char *options, void (CL_CALLBACK *f)(cl_program, void *), void *user)
{
	(void)n; (void)d; (void)options;
	if (f)
		f(p, user);
	return CL_SUCCESS;
}

/* next_kernel finds the kernel after at: its name, and where its arguments start. */
static const char *next_kernel(const char *at, char found[128])
{
	while ((at = strstr(at, "kernel void "))) {
		at += strlen("kernel void ");
		size_t k = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
		if (k && k < 128 && at[k] == '(') {
			memcpy(found, at, k);
			found[k] = 0;
			return at + k + 1;
		}
	}
	return NULL;
}

static cl_kernel CL_API_CALL kernel(cl_program p, const char *wanted, cl_int *err)
{
	cl_kernel k = made(sizeof *k);
	const char *at = p->source;
	while ((at = next_kernel(at, k->name)) && strcmp(k->name, wanted) != 0)
		;
	if (err)
		*err = at ? CL_SUCCESS : CL_INVALID_KERNEL_NAME;
	if (!at) {
		free(k);
		return NULL;
	}
	char list[2048];
	size_t n = strcspn(at, ")");
	snprintf(list, sizeof list, "%.*s", (int)n, at);
	char *rest = list;
	for (char *one; (one = strsep(&rest, ",")) && k->n < 32;) {
		struct arg *a = &k->args[k->n++];
		for (char *word; (word = strsep(&one, " \n\t"));) {
			if (strcmp(word, "global") == 0) a->global = 1;
			else if (strcmp(word, "local") == 0) a->local = 1;
			else if (strcmp(word, "const") == 0) a->constant = 1;
			else if (*word && !a->type[0]) snprintf(a->type, sizeof a->type, "%s%s", word, a->global || a->local ? "*" : "");
			else if (*word) snprintf(a->name, sizeof a->name, "%s", word + strspn(word, "*"));
		}
	}
	return k;
}

static cl_int CL_API_CALL program_info(cl_program p, cl_program_info what, INFO)
{
	char names[2048] = "", one[128];
	size_t n = 0;
	for (const char *at = p->source; (at = next_kernel(at, one)); n++)
		snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", n ? ";" : "", one);
	switch (what) {
	case CL_PROGRAM_KERNEL_NAMES: return TEXT(names);
	case CL_PROGRAM_NUM_KERNELS: return ANSWER(size_t, n);
	case CL_PROGRAM_NUM_DEVICES: return ANSWER(cl_uint, 1);
	case CL_PROGRAM_DEVICES: return ANSWER(cl_device_id, &device);
	case CL_PROGRAM_BINARY_SIZES: return ANSWER(size_t, strlen(p->source) + 1);
	case CL_PROGRAM_BINARIES: memcpy(*(char **)to, p->source, strlen(p->source) + 1); return CL_SUCCESS;
	case CL_PROGRAM_SOURCE: return TEXT(p->source);
	}
	return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL build_info(cl_program p, cl_device_id d, cl_program_build_info what, INFO)
{
	(void)p; (void)d;
	switch (what) {
	case CL_PROGRAM_BUILD_STATUS: return ANSWER(cl_build_status, CL_BUILD_SUCCESS);
	case CL_PROGRAM_BINARY_TYPE: return ANSWER(cl_program_binary_type, CL_PROGRAM_BINARY_TYPE_EXECUTABLE);
	}
	return TEXT("");
}

static cl_int CL_API_CALL kernel_info(cl_kernel k, cl_kernel_info what, INFO)
{
	switch (what) {
	case CL_KERNEL_FUNCTION_NAME: return TEXT(k->name);
	case CL_KERNEL_NUM_ARGS: return ANSWER(cl_uint, k->n);
	}
	return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL arg_info(cl_kernel k, cl_uint i, cl_kernel_arg_info what, INFO)
{
	struct arg *a = &k->args[i];
	switch (what) {
	case CL_KERNEL_ARG_ADDRESS_QUALIFIER: return ANSWER(cl_kernel_arg_address_qualifier, a->global ? CL_KERNEL_ARG_ADDRESS_GLOBAL : a->local ? CL_KERNEL_ARG_ADDRESS_LOCAL : CL_KERNEL_ARG_ADDRESS_PRIVATE);
	case CL_KERNEL_ARG_ACCESS_QUALIFIER: return ANSWER(cl_kernel_arg_access_qualifier, CL_KERNEL_ARG_ACCESS_NONE);
	case CL_KERNEL_ARG_TYPE_QUALIFIER: return ANSWER(cl_kernel_arg_type_qualifier, a->constant ? CL_KERNEL_ARG_TYPE_CONST : 0);
	case CL_KERNEL_ARG_TYPE_NAME: return TEXT(a->type);
	case CL_KERNEL_ARG_NAME: return TEXT(a->name);
	}
	return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL group_info(cl_kernel k, cl_device_id d, cl_kernel_work_group_info what, INFO)
{
	(void)k; (void)d;
	switch (what) {
	case CL_KERNEL_COMPILE_WORK_GROUP_SIZE: return answer((size_t[3]){0, 0, 0}, 3 * sizeof(size_t), room, to, need);
	case CL_KERNEL_WORK_GROUP_SIZE: return ANSWER(size_t, 1024);
	case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: return ANSWER(size_t, 32);
	}
	return ANSWER(cl_ulong, 0);
}

static cl_int CL_API_CALL set_arg(cl_kernel k, cl_uint i, size_t size, const void *v)
{
	(void)size; (void)v;
	if (i >= k->n)
		return CL_INVALID_ARG_INDEX;
	k->set |= 1u << i;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL unsupported(void) { return CL_INVALID_OPERATION; }

__attribute__((constructor)) static void fill_table(void)
{
	void **entry = (void **)&table;
	for (size_t i = 0; i < sizeof table / sizeof *entry; i++)
		entry[i] = (void *)unsupported;
	if (getenv("INSTANT_NAME"))
		name = getenv("INSTANT_NAME");
	if (getenv("INSTANT_KERNEL_US"))
		kernel_ns = (int64_t)(atof(getenv("INSTANT_KERNEL_US")) * 1000);
	if (getenv("INSTANT_FAIL"))
		fail_from = atoi(getenv("INSTANT_FAIL"));
	platform.o = (struct object){&table, 1};
	device.o = (struct object){&table, 1};
	table.clGetPlatformIDs = platforms; table.clGetPlatformInfo = platform_info;
	table.clGetDeviceIDs = devices; table.clGetDeviceInfo = device_info;
	table.clCreateContext = context; table.clRetainContext = retain_context; table.clReleaseContext = release_context;
	table.clCreateCommandQueue = queue; table.clCreateCommandQueueWithProperties = queue_with;
	table.clRetainCommandQueue = retain_queue; table.clReleaseCommandQueue = release_queue;
	table.clCreateBuffer = buffer; table.clCreateSubBuffer = sub_buffer;
	table.clRetainMemObject = retain_mem; table.clReleaseMemObject = release_mem;
	table.clCreateProgramWithSource = program; table.clCreateProgramWithBinary = program_binary; table.clBuildProgram = build;
	table.clRetainProgram = retain_program; table.clReleaseProgram = release_program;
	table.clGetProgramInfo = program_info; table.clGetProgramBuildInfo = build_info;
	table.clCreateKernel = kernel; table.clRetainKernel = retain_kernel; table.clReleaseKernel = release_kernel;
	table.clSetKernelArg = set_arg; table.clGetKernelInfo = kernel_info;
	table.clGetKernelArgInfo = arg_info; table.clGetKernelWorkGroupInfo = group_info;
	table.clWaitForEvents = wait_for; table.clGetEventInfo = event_info;
	table.clCreateUserEvent = user_event; table.clSetUserEventStatus = set_user_event;
	table.clRetainEvent = retain_event; table.clReleaseEvent = release_event;
	table.clSetEventCallback = callback; table.clGetEventProfilingInfo = event_times;
	table.clFlush = flush; table.clFinish = finish;
	table.clEnqueueReadBuffer = read_buffer; table.clEnqueueReadBufferRect = read_rect;
	table.clEnqueueWriteBuffer = write_buffer; table.clEnqueueWriteBufferRect = write_rect;
	table.clEnqueueCopyBuffer = copy_buffer; table.clEnqueueCopyBufferRect = copy_rect;
	table.clEnqueueFillBuffer = fill_buffer; table.clEnqueueMapBuffer = map_buffer; table.clEnqueueUnmapMemObject = unmap;
	table.clEnqueueNDRangeKernel = launch;
	table.clEnqueueMarkerWithWaitList = marker; table.clEnqueueBarrierWithWaitList = marker;
}

__attribute__((visibility("default"))) void *CL_API_CALL clGetExtensionFunctionAddress(const char *f)
{
	return strcmp(f, "clIcdGetPlatformIDsKHR") == 0 ? (void *)platforms : strcmp(f, "clGetPlatformInfo") == 0 ? (void *)platform_info : NULL;
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id p, cl_platform_info what, INFO)
{
	return platform_info(p, what, room, to, need);
}
