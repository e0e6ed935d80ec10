/* The queues, buffers, commands and events of the instant driver. What a command does
 * is done when it is enqueued; when it ends is a time. See instant.c.
 */
#include "instant.h"

static int64_t kernel_ns;
static int fail_from, kernels_run; /* atomic */

COUNTED(queue, cl_command_queue, )
COUNTED(event, cl_event, )

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

void fill_commands(void)
{
	if (getenv("INSTANT_KERNEL_US"))
		kernel_ns = (int64_t)(atof(getenv("INSTANT_KERNEL_US")) * 1000);
	if (getenv("INSTANT_FAIL"))
		fail_from = atoi(getenv("INSTANT_FAIL"));
	table.clCreateCommandQueue = queue; table.clCreateCommandQueueWithProperties = queue_with;
	table.clRetainCommandQueue = retain_queue; table.clReleaseCommandQueue = release_queue;
	table.clCreateBuffer = buffer; table.clCreateSubBuffer = sub_buffer;
	table.clRetainMemObject = retain_mem; table.clReleaseMemObject = release_mem;
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
