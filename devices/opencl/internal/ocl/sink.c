//go:build cgo

// Sinks: how the ends of commands come from OpenCL to the goroutine that takes them,
// by its callbacks or by a thread that watches the events. See bridge.h.
#define _GNU_SOURCE
#include "calls.h"
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
	s->done[s->n] = (gw_done){id, status, 0};
	__atomic_store_n(&s->n, s->n + 1, __ATOMIC_RELAXED);
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
	gw_watches();
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
	if (__atomic_load_n(&s->n, __ATOMIC_RELAXED) == 0 || pthread_mutex_trylock(&s->mu) != 0)
		return 0; // who asks so asks again
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

// gw_sink_tell is for who is gone before the sink is freed.
void gw_sink_tell(gw_sink *s, uint64_t id, int32_t status)
{
	cl_int fault = gw_faulty(2);
	pthread_mutex_lock(&s->mu);
	int wake = sink_put(s, id, fault ? fault : status);
	pthread_mutex_unlock(&s->mu);
	if (wake) // after the unlock: it is a system call, and who polls should not wait for it
		pthread_cond_signal(&s->some);
}

void gw_hop_begins(gw_sink *s, int more)
{
	gw_command(more);
	__atomic_add_fetch(&s->running, more, __ATOMIC_SEQ_CST);
	if (!s->watching && __atomic_load_n(&s->idle, __ATOMIC_SEQ_CST))
		gw_sink_hurry(s);
}

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
