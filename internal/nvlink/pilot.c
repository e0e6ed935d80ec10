//go:build cgo

// A copy waits until its gates are open. Then CUDA is given it in pieces, in the stream of its lane, as far as that has
// room: a copy that was given one goes behind all others, so that small copies get between the pieces of large ones. A copy engine
// takes up nothing else before it is through with what it has (4 KiB behind 1 GiB take 2.7 ms, in a stream of their own
// too). Behind each piece is an event. A copy has ended when its last piece has; its hook is told when
// nothing of it touches memory any more.
//
// The first call of CUDA's that fails retires the engine (lost): nothing is given to CUDA from then on, and all copies
// end with that error. Those of which pieces are under way do once the stream is idle, or has failed several
// times in a row: then its context is dead, in which nothing runs any more.
//
// The pilot spins while something is under way or waits, as long as something has just
// happened, since to be woken takes 7 to 40 us and a copy of 1 MiB takes 10; then it naps,
// the longer the more time has passed, and with nothing left it sleeps. mu is a leaf, and
// protects what others hand over; all else is the pilot's. Polls and hooks are called with
// no lock held.
#define _GNU_SOURCE
#include "pilot.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
	DEPTH = 16, // pieces under way in a lane
	DEAF = 3,   // errors by which a stream answers in a row before its context is dead
};

// flight is a copy that was accepted and has not ended.
typedef struct flight {
	struct flight *next;
	gw_leg leg;
	size_t given; // bytes that CUDA was given
	int pieces;   // under way
	gw_hook hook;
	uint64_t arg, id;
	int gate, ngates;
	gw_gate gates[];
} flight;

typedef struct list { flight *head, *tail; } list;

// piece is a part of a copy that CUDA has.
typedef struct piece {
	flight *of;
	size_t size;
	void *event;
} piece;

// lane is from one GPU to another.
typedef struct lane {
	void *stream;
	piece ring[DEPTH]; // under way: n of them from first on, oldest first
	int first, n;
	size_t bytes; // of them
	int deaf;     // times in a row that the stream could not be asked
} lane;

struct gw_nv {
	gw_cuda *cuda;
	int n;
	size_t piece;
	void (*begin)(void);
	int64_t spin, linger; // nanoseconds
	pthread_t thread;
	lane *lanes;  // from*n+to
	int lost;     // atomic
	list flights; // all that have left the inbox

	pthread_mutex_t mu;
	pthread_cond_t work;
	list inbox;          // atomic head; protected by mu
	int asleep, closing; // protected by mu
};

static void append(list *l, flight *f)
{
	f->next = NULL;
	if (l->tail)
		l->tail->next = f;
	else
		__atomic_store_n(&l->head, f, __ATOMIC_RELEASE); // of the inbox, looked at without mu
	l->tail = f;
}

static flight *first(list *l)
{
	flight *f = l->head;
	if (f && !(l->head = f->next))
		l->tail = NULL;
	return f;
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int gw_nv_lost(gw_nv *e) { return __atomic_load_n(&e->lost, __ATOMIC_RELAXED); }

static void end(flight *f, int status)
{
	f->hook(f->arg, f->id, status);
	free(f);
}

// opened looks at what a copy waits for: 1 when it may begin, negative where it never will.
static int opened(flight *f)
{
	int r = 1;
	while (f->gate < f->ngates && (r = f->gates[f->gate].poll(f->gates[f->gate].arg)) == 1)
		f->gate++;
	return r;
}

// FLY is CU in the pilot. What fails retires the engine.
#define FLY(e, f, ...) __extension__({ \
	gw_cuda_stay(); \
	int result_ = (e)->cuda->f(__VA_ARGS__); \
	gw_cuda_leave(); \
	if (result_ != CU_OK && result_ != CU_NOT_READY && !gw_nv_lost(e)) \
		__atomic_store_n(&(e)->lost, result_, __ATOMIC_SEQ_CST); \
	result_; \
})

// give gives CUDA the next piece of a copy, as far as the lane has room: two large pieces under way keep the copy
// engine busy. It returns whether it did.
static int give(gw_nv *e, flight *f)
{
	lane *l = &e->lanes[f->leg.lane];
	size_t left = f->leg.size - f->given, n = left < e->piece ? left : e->piece;
	if (n == 0 || l->n == DEPTH || (l->n > 0 && l->bytes >= 2 * e->piece))
		return 0;
	if (FLY(e, copy, f->leg.dst + f->given, f->leg.src + f->given, n, l->stream) != CU_OK)
		return 0;
	piece *p = &l->ring[(l->first + l->n++) % DEPTH];
	p->of = f;
	p->size = n;
	l->bytes += n;
	f->pieces++;
	f->given += n;
	FLY(e, event_record, p->event, l->stream);
	return 1;
}

// idle reports whether nothing in a lane's stream can touch memory any more.
static int idle(gw_nv *e, lane *l)
{
	int r = FLY(e, stream_query, l->stream);
	l->deaf = r == CU_OK || r == CU_NOT_READY ? 0 : l->deaf + 1;
	return r == CU_OK || l->deaf >= DEAF;
}

// land takes the oldest piece off a lane, if it has ended, and returns whether it did.
static int land(gw_nv *e, lane *l)
{
	piece *p = &l->ring[l->first];
	if (l->n == 0 || !(gw_nv_lost(e) ? idle(e, l) : FLY(e, event_query, p->event) == CU_OK))
		return 0;
	l->first = (l->first + 1) % DEPTH;
	l->n--;
	l->bytes -= p->size;
	p->of->pieces--;
	return 1;
}

// fly goes on with all copies, and returns whether there was anything to do.
static int fly(gw_nv *e)
{
	list still = {0}, given = {0};
	int moved = 0;
	for (lane *l = e->lanes; l < e->lanes + e->n * e->n; l++)
		while (land(e, l))
			moved = 1;
	for (flight *f; (f = first(&e->flights));) {
		int lost = gw_nv_lost(e), r = lost ? 0 : opened(f);
		if (r == 1 && give(e, f)) {
			append(&given, f);
			moved = 1;
		} else if (f->pieces > 0 || (!lost && r >= 0 && f->given < f->leg.size)) {
			append(&still, f);
		} else {
			end(f, lost ? lost : r < 0 ? r : CU_OK);
			moved = 1;
		}
	}
	for (flight *f; (f = first(&given));)
		append(&still, f);
	e->flights = still;
	return moved;
}

// admit takes what others have started.
static void admit(gw_nv *e)
{
	if (!__atomic_load_n(&e->inbox.head, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&e->mu);
	list in = e->inbox;
	e->inbox = (list){0};
	pthread_mutex_unlock(&e->mu);
	for (flight *f; (f = first(&in));)
		append(&e->flights, f);
}

// rest is between two looks at which nothing had happened for so long.
static void rest(gw_nv *e, int64_t idle)
{
	if (idle < e->spin) {
		for (int i = 0; i < 16; i++) {
#if defined __x86_64__ || defined __i386__
			__builtin_ia32_pause();
#endif
		}
		return;
	}
	int64_t ns = idle / 64 < 50000 ? idle / 64 : 50000;
	nanosleep(&(struct timespec){0, ns}, NULL);
}

// sleep_until_work waits for copies; 0 where none will come.
static int sleep_until_work(gw_nv *e)
{
	pthread_mutex_lock(&e->mu);
	while (!e->inbox.head && !e->closing) {
		e->asleep = 1;
		pthread_cond_wait(&e->work, &e->mu);
		e->asleep = 0;
	}
	int more = e->inbox.head != NULL;
	pthread_mutex_unlock(&e->mu);
	return more;
}

static void *pilot(void *engine)
{
	gw_nv *e = engine;
	if (e->begin)
		e->begin();
	prctl(PR_SET_NAME, "godwit-nvlink");
	prctl(PR_SET_TIMERSLACK, 1000); // naps as short as asked for
	int64_t last = 0;
	for (;;) {
		admit(e);
		int moved = fly(e), busy = e->flights.head != NULL;
		int64_t t = now();
		if (moved || !last)
			last = t;
		if (moved)
			continue;
		if (busy || t - last < e->linger)
			rest(e, t - last);
		else if (!sleep_until_work(e))
			return NULL;
	}
}

gw_nv *gw_nv_new(gw_cuda *cuda, int n, size_t piece, void (*begin)(void))
{
	gw_nv *e = calloc(1, sizeof *e);
	lane *lanes = calloc((size_t)n * n, sizeof *lanes);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int64_t spin = cpus >= 8 ? 2000000 : cpus >= 4 ? 200000 : 5000; // few processors have better things to do; a nap of some microseconds takes 50
	int64_t linger = cpus >= 4 ? 5000000 : 0;                       // to be woken after a sleep costs 70 us and more
	int err = !e || !lanes;
	if (!err) {
		*e = (gw_nv){.cuda = cuda, .n = n, .piece = piece, .begin = begin, .spin = spin, .linger = linger, .lanes = lanes};
		pthread_mutex_init(&e->mu, NULL);
		pthread_cond_init(&e->work, NULL);
		sigset_t all, blocked;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &blocked); // the pilot takes no signals of the program's
		err = pthread_create(&e->thread, NULL, pilot, e);
		pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	}
	if (!err)
		return e;
	free(lanes);
	free(e);
	return NULL;
}

int gw_nv_lane(gw_nv *e, int index, void *context)
{
	lane *l = &e->lanes[index];
	int r = CU(e->cuda, ctx_push, context);
	if (r != CU_OK)
		return r;
	if (!l->stream)
		r = CU(e->cuda, stream_create, &l->stream, CU_NON_BLOCKING);
	for (int i = 0; i < DEPTH && r == CU_OK; i++)
		if (!l->ring[i].event)
			r = CU(e->cuda, event_create, &l->ring[i].event, CU_NO_TIMING);
	void *popped;
	CU(e->cuda, ctx_pop, &popped);
	return r;
}

int gw_nv_start(gw_nv *e, gw_leg leg, const gw_gate *gates, int ngates, gw_hook hook, uint64_t arg, uint64_t id)
{
	flight *f = malloc(sizeof *f + ngates * sizeof *gates);
	if (!f)
		return -1;
	*f = (flight){.leg = leg, .hook = hook, .arg = arg, .id = id, .ngates = ngates};
	if (ngates > 0)
		memcpy(f->gates, gates, ngates * sizeof *gates);
	pthread_mutex_lock(&e->mu);
	append(&e->inbox, f);
	if (e->asleep)
		pthread_cond_signal(&e->work);
	pthread_mutex_unlock(&e->mu);
	return 0;
}

int64_t gw_nv_time(gw_nv *e, const gw_leg *legs, int n)
{
	int r = CU_OK, given = 0;
	int64_t from = now();
	for (; given < n && r == CU_OK; given++)
		r = CU(e->cuda, copy, legs[given].dst, legs[given].src, legs[given].size, e->lanes[legs[given].lane].stream);
	for (int i = 0; i < given; i++) // also where one failed: nothing is to be under way
		for (int deaf = 0, q; deaf < DEAF && (q = CU(e->cuda, stream_query, e->lanes[legs[i].lane].stream)) != CU_OK;)
			if (q != CU_NOT_READY)
				r = q, deaf++;
	return r == CU_OK ? now() - from : -r;
}

void gw_nv_close(gw_nv *e)
{
	pthread_mutex_lock(&e->mu);
	e->closing = 1;
	pthread_cond_signal(&e->work);
	pthread_mutex_unlock(&e->mu);
	pthread_join(e->thread, NULL);
	for (lane *l = e->lanes; l < e->lanes + e->n * e->n; l++) {
		for (int k = 0; k < DEPTH; k++)
			if (l->ring[k].event)
				CU(e->cuda, event_destroy, l->ring[k].event);
		if (l->stream)
			CU(e->cuda, stream_destroy, l->stream);
	}
	free(e->lanes);
	free(e);
}
