//go:build cgo

#define _GNU_SOURCE
#include "bridge.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

struct gw_sink {
	pthread_mutex_t mu;
	pthread_cond_t some;
	gw_done *done; // n, oldest first, room for cap
	int n, cap, closed;
	int prompt, hurried;    // who takes wants to be woken by what comes; has been told to hurry
	int idle;               // atomic: the taker sleeps until there are commands
	int64_t running;        // atomic: commands whose end is to come

	int watching;
	pthread_t watcher;
	pthread_cond_t work;
	gw_tag *head, *tail; // watched, oldest first
	int asleep;          // the watcher waits for work
	long nap_ns;         // until its next look, where somebody waits
};

static void *watch(void *sink);

gw_sink *gw_sink_new(int watching)
{
	gw_sink *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->cap = 1024;
	s->done = malloc(s->cap * sizeof *s->done);
	pthread_mutex_init(&s->mu, NULL);
	pthread_condattr_t clock;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&s->some, &clock);
	pthread_cond_init(&s->work, &clock);
	pthread_condattr_destroy(&clock);
	sigset_t all, blocked;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &blocked); // the watcher takes no signals of the program's
	int ok = s->done && (!watching || pthread_create(&s->watcher, NULL, watch, s) == 0);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	if (!ok) {
		gw_sink_free(s);
		return NULL;
	}
	s->watching = watching;
	return s;
}

// sink_put adds a command that has ended, and returns whether who takes is to be woken.
static int sink_put(gw_sink *s, uint64_t id, int32_t status)
{
	gw_command(-1);
	if (s->n == s->cap) {
		gw_done *more = realloc(s->done, 2 * s->cap * sizeof *more);
		if (!more)
			abort(); // a lost completion would hang its waiters for ever
		s->done = more;
		s->cap *= 2;
	}
	s->done[s->n++] = (gw_done){id, status, 0};
	__atomic_sub_fetch(&s->running, 1, __ATOMIC_SEQ_CST);
	return s->n == 1 && (s->prompt || s->watching); // a watcher comes in its own time
}

// later is some time from now.
static struct timespec later(int64_t ns)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += ns;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

// Looking costs a lock in the driver, so only so many events are looked at in a
// pass, oldest first, and those that have not ended go to the end of the list;
// and where nobody waits, only now and then.
#define LOOKS 64
#define NAP_NS 20000
#define LAZY_NS 1000000
#define LONG_NAP_NS 400000 // where nothing has ended for long
#define IDLE_NAPS 50 // before the watcher sleeps: waking it costs the submitter

// look takes up to LOOKS tags off the list, puts those that have ended into the
// sink, and the others back. It returns whether all had ended, so that there may be
// more. It is called with mu held, and releases it.
static int look(gw_sink *s)
{
	gw_tag *some[LOOKS];
	cl_int status[LOOKS];
	int n = 0, ended = 0, wake = 0;
	for (; s->head && n < LOOKS; n++) {
		some[n] = s->head;
		s->head = s->head->next;
	}
	if (!s->head)
		s->tail = NULL;
	pthread_mutex_unlock(&s->mu);
	for (int i = 0; i < n; i++)
		status[i] = gw_status((gw_handle)some[i]->watched);
	pthread_mutex_lock(&s->mu);
	for (int i = 0; i < n; i++) {
		if (status[i] <= CL_COMPLETE) {
			cl_int fault = gw_faulty(2);
			wake |= sink_put(s, some[i]->id, fault ? fault : status[i]);
			s->nap_ns = NAP_NS;
			ended++;
			continue;
		}
		some[i]->next = NULL;
		*(s->tail ? &s->tail->next : &s->head) = some[i];
		s->tail = some[i];
	}
	if (wake)
		pthread_cond_signal(&s->some);
	return ended == LOOKS;
}

// nap is between two looks: longer where nobody waits, until somebody does.
static void nap(gw_sink *s)
{
	if (s->prompt || s->closed) {
		struct timespec t = {0, s->nap_ns};
		s->nap_ns += s->nap_ns / 4; // what takes long may be noticed a little late
		if (s->nap_ns > LONG_NAP_NS)
			s->nap_ns = LONG_NAP_NS;
		pthread_mutex_unlock(&s->mu);
		nanosleep(&t, NULL);
		pthread_mutex_lock(&s->mu);
		return;
	}
	struct timespec until = later(LAZY_NS);
	while (!s->prompt && !s->closed && pthread_cond_timedwait(&s->work, &s->mu, &until) == 0)
		;
}

static void *watch(void *sink)
{
	gw_sink *s = sink;
	int idle = 0;
	gw_pass_gate();
	s->nap_ns = NAP_NS;
	prctl(PR_SET_TIMERSLACK, 1000); // naps as short as asked for
	pthread_mutex_lock(&s->mu);
	while (!s->closed || s->head) {
		if (s->head) {
			idle = 0;
			if (look(s))
				continue;
		} else if (++idle > IDLE_NAPS) {
			s->asleep = 1;
			pthread_cond_wait(&s->work, &s->mu);
			s->asleep = 0;
			idle = 0;
			continue;
		}
		nap(s);
	}
	pthread_mutex_unlock(&s->mu);
	return NULL;
}

// A lazy taker sleeps after so many looks at nothing.
#define LAZY_LOOKS 50

// doze waits a while, as long as nobody is in a hurry. It is called with mu held.
static void doze(gw_sink *s)
{
	struct timespec until = later(LAZY_NS);
	while (!s->closed && !s->hurried && pthread_cond_timedwait(&s->some, &s->mu, &until) == 0)
		;
}

// lazily waits until there are ended commands, or somebody is in a hurry. It is
// called with mu held.
static void lazily(gw_sink *s)
{
	int looks = 0;
	for (s->prompt = 0; !s->closed && !s->hurried; looks++) {
		doze(s);
		if (s->n > 0)
			return;
		if (__atomic_load_n(&s->running, __ATOMIC_SEQ_CST) > 0) {
			looks = 0;
		} else if (looks >= LAZY_LOOKS) {
			__atomic_store_n(&s->idle, 1, __ATOMIC_SEQ_CST);
			while (!s->closed && !s->hurried && s->n == 0 && __atomic_load_n(&s->running, __ATOMIC_SEQ_CST) == 0)
				pthread_cond_wait(&s->some, &s->mu);
			__atomic_store_n(&s->idle, 0, __ATOMIC_SEQ_CST);
			looks = 0;
		}
	}
}

// taken copies the oldest out. It is called with mu held.
static int taken(gw_sink *s, gw_done *out, int max)
{
	int n = s->n < max ? s->n : max;
	memcpy(out, s->done, n * sizeof *out);
	memmove(s->done, s->done + n, (s->n - n) * sizeof *out);
	s->n -= n;
	return n;
}

int gw_sink_some(gw_sink *s, gw_done *out, int max)
{
	pthread_mutex_lock(&s->mu);
	int n = taken(s, out, max);
	pthread_mutex_unlock(&s->mu);
	return n;
}

int gw_sink_take(gw_sink *s, gw_done *out, int max, int prompt)
{
	pthread_mutex_lock(&s->mu);
	if (prompt || s->watching) {
		s->prompt = prompt;
		if (prompt && s->watching)
			pthread_cond_signal(&s->work);
		while (s->n == 0 && !s->closed && !s->hurried)
			pthread_cond_wait(&s->some, &s->mu);
	} else {
		lazily(s);
	}
	s->hurried = 0;
	int n = s->n == 0 && s->closed ? -1 : taken(s, out, max);
	pthread_mutex_unlock(&s->mu);
	return n;
}

void gw_sink_hurry(gw_sink *s)
{
	pthread_mutex_lock(&s->mu);
	s->hurried = 1;
	pthread_cond_signal(&s->some);
	pthread_mutex_unlock(&s->mu);
}

void gw_sink_close(gw_sink *s)
{
	pthread_mutex_lock(&s->mu);
	s->closed = 1;
	pthread_cond_broadcast(&s->some);
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->mu);
	if (s->watching)
		pthread_join(s->watcher, NULL);
}

void gw_sink_free(gw_sink *s)
{
	free(s->done);
	free(s);
}

gw_tag *gw_tag_new(gw_sink *s, uint64_t id)
{
	gw_tag *t = malloc(sizeof *t);
	if (t)
		*t = (gw_tag){.sink = s, .id = id};
	return t;
}

void gw_tag_free(gw_tag *t) { free(t); }

static void CL_CALLBACK ended(cl_event e, cl_int status, void *tag)
{
	(void)e;
	gw_tag *t = tag;
	cl_int fault = gw_faulty(2);
	pthread_mutex_lock(&t->sink->mu);
	if (sink_put(t->sink, t->id, fault ? fault : status))
		pthread_cond_signal(&t->sink->some);
	pthread_mutex_unlock(&t->sink->mu);
}

cl_int gw_listen(cl_event e, gw_tag *t)
{
	gw_sink *s = t->sink;
	gw_command(1);
	__atomic_add_fetch(&s->running, 1, __ATOMIC_SEQ_CST);
	if (!s->watching) {
		cl_int err = clSetEventCallback(e, CL_COMPLETE, ended, t);
		if (err != CL_SUCCESS) {
			gw_command(-1);
			__atomic_sub_fetch(&s->running, 1, __ATOMIC_SEQ_CST);
		}
		if (__atomic_load_n(&s->idle, __ATOMIC_SEQ_CST))
			gw_sink_hurry(s);
		return err;
	}
	pthread_mutex_lock(&s->mu);
	s->nap_ns = NAP_NS;
	t->watched = e; // the record keeps it until the sink has told
	t->next = NULL;
	*(s->tail ? &s->tail->next : &s->head) = t;
	s->tail = t;
	if (s->asleep)
		pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->mu);
	return CL_SUCCESS;
}

// rect_slices enqueues slices [first, first+n) of a rectangle.
static cl_int rect_slices(gw_cmd *c, char *host, size_t first, size_t n, cl_uint nw, const cl_event *w, cl_event *e)
{
	cl_command_queue q = (cl_command_queue)c->queue;
	size_t region[3] = {c->region[0], c->region[1], n}, zero[3] = {0, 0, 0};
	size_t src = c->src_off + first * c->src_pitch[1], dst = c->dst_off + first * c->dst_pitch[1];
	size_t so[3] = {src, 0, 0}, dof[3] = {dst, 0, 0};
	size_t sp = n > 1 ? c->src_pitch[1] : 0, dp = n > 1 ? c->dst_pitch[1] : 0; // 0: OpenCL works it out
	if (c->op == GW_COPY_RECT)
		return clEnqueueCopyBufferRect(q, (cl_mem)c->src, (cl_mem)c->dst, so, dof, region, c->src_pitch[0], sp, c->dst_pitch[0], dp, nw, w, e);
	if (c->op == GW_READ_RECT)
		return clEnqueueReadBufferRect(q, (cl_mem)c->src, CL_FALSE, so, zero, region, c->src_pitch[0], sp, c->dst_pitch[0], dp, host + first * c->dst_pitch[1], nw, w, e);
	return clEnqueueWriteBufferRect(q, (cl_mem)c->dst, CL_FALSE, dof, zero, region, c->dst_pitch[0], dp, c->src_pitch[0], sp, host + first * c->src_pitch[1], nw, w, e);
}

// rect_piece enqueues slice k, or where the rectangle goes by rows row k.
static cl_int rect_piece(gw_cmd *c, char *host, size_t k, cl_uint nw, const cl_event *w, cl_event *e)
{
	if (!c->by_rows)
		return rect_slices(c, host, k, 1, nw, w, e);
	size_t y = k % c->region[1], z = k / c->region[1];
	return clEnqueueCopyBuffer((cl_command_queue)c->queue, (cl_mem)c->src, (cl_mem)c->dst, c->src_off + z * c->src_pitch[1] + y * c->src_pitch[0],
	                           c->dst_off + z * c->dst_pitch[1] + y * c->dst_pitch[0], c->region[0], nw, w, e);
}

// rect enqueues a rectangle, in pieces where OpenCL does not take it whole: then
// the last piece waits for the others, so that its event is the end of them all.
static cl_int rect(gw_cmd *c, char *host, cl_uint nw, const cl_event *w, cl_event *e)
{
	size_t n = c->region[2], k = 0;
	int whole = n == 1 || (c->src_pitch[1] % c->src_pitch[0] == 0 && c->dst_pitch[1] % c->dst_pitch[0] == 0
	                       && c->src_pitch[1] >= c->region[1] * c->src_pitch[0] && c->dst_pitch[1] >= c->region[1] * c->dst_pitch[0]);
	if (whole && !c->by_rows) {
		cl_int err = rect_slices(c, host, 0, n, nw, w, e);
		if (err != CL_MEM_COPY_OVERLAP || c->op != GW_COPY_RECT)
			return err;
		c->by_rows = 1; // PoCL 3.1 sees overlaps where no row meets another; who called has looked
	}
	if (c->by_rows)
		n *= c->region[1];
	cl_event *done = calloc(n + nw, sizeof *done);
	cl_int err = done ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
	for (; k + 1 < n && err == CL_SUCCESS; k += err == CL_SUCCESS)
		err = rect_piece(c, host, k, nw, w, &done[k]);
	if (err == CL_SUCCESS) {
		for (cl_uint i = 0; i < nw; i++)
			done[k + i] = w[i];
		err = rect_piece(c, host, k, (cl_uint)(k + nw), k + nw ? done : NULL, e);
	}
	if (err != CL_SUCCESS)
		clFinish((cl_command_queue)c->queue); // what was accepted must not outlive the refusal
	for (size_t i = 0; done && i < k; i++)
		clReleaseEvent(done[i]);
	free(done);
	return err;
}

cl_int gw_submit(gw_cmd *c, const void *args, gw_args *set, const gw_handle *waits, void *host, gw_tag *tag)
{
	cl_command_queue q = (cl_command_queue)c->queue;
	cl_mem src = (cl_mem)c->src, dst = (cl_mem)c->dst;
	const cl_event *w = c->nwaits ? (const cl_event *)waits : NULL;
	cl_uint nw = c->nwaits;
	cl_event e = NULL;
	cl_int err = CL_INVALID_OPERATION;
	c->failed_arg = -1;
	c->event = 0;
	switch (c->op) {
	case GW_MARKER:
		err = nw ? clEnqueueMarkerWithWaitList(q, nw, w, &e) : clEnqueueMarkerWithWaitList(q, 0, NULL, &e);
		break;
	case GW_COPY:
		err = clEnqueueCopyBuffer(q, src, dst, c->src_off, c->dst_off, c->size, nw, w, &e);
		break;
	case GW_READ:
		err = clEnqueueReadBuffer(q, src, CL_FALSE, c->src_off, c->size, host, nw, w, &e);
		break;
	case GW_WRITE:
		err = clEnqueueWriteBuffer(q, dst, CL_FALSE, c->dst_off, c->size, host, nw, w, &e);
		break;
	case GW_FILL:
		err = clEnqueueFillBuffer(q, dst, args, c->pattern_size, c->dst_off, c->size, nw, w, &e);
		break;
	case GW_LAUNCH:
		gw_launching();
		err = gw_set_args(c, args, set);
		if (err == CL_SUCCESS)
			err = clEnqueueNDRangeKernel(q, (cl_kernel)c->kernel, c->dims, c->offset, c->global, c->has_local ? c->local : NULL, nw, w, c->quiet ? NULL : &e);
		break;
	case GW_SVM_COPY:
		err = clEnqueueSVMMemcpy(q, CL_FALSE, (char *)c->dst + c->dst_off, (char *)c->src + c->src_off, c->size, nw, w, &e);
		break;
	case GW_SVM_FILL:
		err = clEnqueueSVMMemFill(q, (void *)c->dst, args, c->pattern_size, c->size, nw, w, &e);
		break;
	case GW_COPY_RECT:
	case GW_READ_RECT:
	case GW_WRITE_RECT:
		err = rect(c, host, nw, w, &e);
		break;
	}
	if (err != CL_SUCCESS)
		return err;
	c->event = (gw_handle)e;
	c->no_callback = tag && e ? gw_listen(e, tag) : CL_SUCCESS;
	return CL_SUCCESS;
}

cl_int gw_end(gw_handle event)
{
	gw_command(1);
	cl_int st = gw_wait(event), fault = gw_faulty(2);
	gw_command(-1);
	return fault ? fault : st;
}

cl_int gw_status(gw_handle event)
{
	cl_int st = CL_QUEUED;
	cl_int err = clGetEventInfo((cl_event)event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof st, &st, NULL);
	return err == CL_SUCCESS ? st : err;
}

cl_int gw_wait(gw_handle event)
{
	cl_event e = (cl_event)event;
	clWaitForEvents(1, &e);
	return gw_status(event);
}

void gw_release_events(const gw_handle *events, int n)
{
	for (int i = 0; i < n; i++)
		clReleaseEvent((cl_event)events[i]);
}

cl_int gw_flush(gw_handle queue) { return clFlush((cl_command_queue)queue); }
cl_int gw_finish(gw_handle queue)
{
	cl_int st = clFinish((cl_command_queue)queue), fault = gw_faulty(2);
	return fault ? fault : st;
}

void gw_times(gw_handle event, uint64_t t[4])
{
	static const cl_profiling_info what[4] = {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT, CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
	for (int i = 0; i < 4; i++) {
		cl_ulong v = 0;
		clGetEventProfilingInfo((cl_event)event, what[i], sizeof v, &v, NULL);
		t[i] = v;
	}
}

gw_handle gw_sub_buffer(gw_handle mem, size_t off, size_t size, cl_int *err)
{
	cl_buffer_region r = {off, size};
	return (gw_handle)clCreateSubBuffer((cl_mem)mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &r, err);
}

void gw_release_mems(const gw_handle *mems, int n)
{
	for (int i = 0; i < n; i++)
		clReleaseMemObject((cl_mem)mems[i]);
}

cl_int gw_touch(gw_handle queue, gw_handle mem, size_t off)
{
	static const uint32_t word = 0;
	cl_int err = clEnqueueFillBuffer((cl_command_queue)queue, (cl_mem)mem, &word, sizeof word, off, sizeof word, 0, NULL, NULL);
	return err == CL_SUCCESS ? clFlush((cl_command_queue)queue) : err;
}

cl_int gw_device_info(gw_handle dev, uint32_t what, void *out, size_t n, size_t *len)
{
	return clGetDeviceInfo((cl_device_id)dev, what, n, out, len);
}

cl_int gw_kernel_arg(gw_handle kernel, uint32_t i, uint32_t *address, uint64_t *qualifier, char *name, size_t name_max, char *type, size_t type_max)
{
	cl_kernel k = (cl_kernel)kernel;
	cl_kernel_arg_address_qualifier a = 0;
	cl_kernel_arg_type_qualifier q = 0;
	cl_int err = clGetKernelArgInfo(k, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof a, &a, NULL);
	if (err == CL_SUCCESS)
		err = clGetKernelArgInfo(k, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof q, &q, NULL);
	*address = a;
	*qualifier = q;
	if (err != CL_SUCCESS)
		return err;
	if (clGetKernelArgInfo(k, i, CL_KERNEL_ARG_NAME, name_max, name, NULL) != CL_SUCCESS)
		name[0] = 0;
	if (clGetKernelArgInfo(k, i, CL_KERNEL_ARG_TYPE_NAME, type_max, type, NULL) != CL_SUCCESS)
		type[0] = 0;
	return CL_SUCCESS;
}

cl_int gw_kernel_names(gw_handle program, char *out, size_t n, size_t *len)
{
	return clGetProgramInfo((cl_program)program, CL_PROGRAM_KERNEL_NAMES, n, out, len);
}

cl_int gw_build_log(gw_handle program, gw_handle dev, char *out, size_t n, size_t *len, int32_t *status)
{
	cl_build_status st = CL_BUILD_NONE;
	clGetProgramBuildInfo((cl_program)program, (cl_device_id)dev, CL_PROGRAM_BUILD_STATUS, sizeof st, &st, NULL);
	*status = st;
	return clGetProgramBuildInfo((cl_program)program, (cl_device_id)dev, CL_PROGRAM_BUILD_LOG, n, out, len);
}
