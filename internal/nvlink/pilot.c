//go:build cgo

// Copies, from their acceptance to the lane of their two GPUs, and their end.
//
// A copy waits until its gates are open and its windows mapped; then it is ready, and the lane
// gives it to CUDA (lane.c). Its hook is told when nothing of it touches memory any more.
//
// The pilot spins while something is under way or waits, as long as something has just
// happened, since to be woken takes 7 to 40 us and a copy of 1 MiB takes 10; then it naps,
// the longer the more time has passed, and with nothing left it sleeps. mu is a leaf, and
// protects what others hand over; all else is the pilot's. Polls and hooks are called with
// no lock held.
#define _GNU_SOURCE
#include "nv.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

void gw_nv_append(list *l, flight *f)
{
	f->next = NULL;
	if (l->tail)
		l->tail->next = f;
	else
		__atomic_store_n(&l->head, f, __ATOMIC_RELEASE); // of the inbox, looked at without mu
	l->tail = f;
}

flight *gw_nv_first(list *l)
{
	flight *f = l->head;
	if (f && !(l->head = f->next))
		l->tail = NULL;
	return f;
}

int64_t gw_nv_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void gw_nv_end(gw_nv *e, flight *f)
{
	gw_hook hook = f->hook;
	uint64_t arg = f->arg, id = f->id;
	int cause = f->cause; // f is another copy's from the unlock on
	__atomic_sub_fetch(&f->dst->copies, 1, __ATOMIC_RELEASE);
	__atomic_sub_fetch(&f->src->copies, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&e->mu);
	f->next = e->spare;
	e->spare = f;
	pthread_mutex_unlock(&e->mu);
	hook(arg, id, cause);
	__atomic_sub_fetch(&e->flying, 1, __ATOMIC_RELEASE);
}

// opened looks at what a copy waits for: 1 when it may begin, or has failed.
static int opened(gw_nv *e, flight *f)
{
	if (!f->cause && (f->cause = __atomic_load_n(&e->lost, __ATOMIC_RELAXED)))
		return 1;
	for (; f->gate < f->ngates; f->gate++) {
		int r = f->gates[f->gate].poll(f->gates[f->gate].arg);
		if (r == 0)
			return 0;
		if (r < 0) {
			f->cause = r;
			return 1;
		}
	}
	int d = __atomic_load_n(&f->dst->mapped, __ATOMIC_ACQUIRE), s = __atomic_load_n(&f->src->mapped, __ATOMIC_ACQUIRE);
	if (d < 0 || s < 0)
		f->cause = d < 0 ? -d : -s;
	return f->cause || (d && s);
}

// admit moves copies that may begin to their lanes, in the order in which they came.
static int admit(gw_nv *e)
{
	list still = {0};
	int moved = 0;
	if (__atomic_load_n(&e->inbox.head, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&e->mu);
		list in = e->inbox;
		e->inbox = (list){0};
		pthread_mutex_unlock(&e->mu);
		for (flight *f; (f = gw_nv_first(&in)); moved = 1)
			gw_nv_append(&e->waiting, f);
	}
	for (flight *f; (f = gw_nv_first(&e->waiting));) {
		if (!opened(e, f)) {
			gw_nv_append(&still, f);
			continue;
		}
		moved = 1;
		if (f->cause)
			gw_nv_end(e, f);
		else
			gw_nv_append(f->size <= e->piece / SMALL ? &f->lane->small : &f->lane->large, f);
	}
	e->waiting = still;
	return moved;
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
		int moved = admit(e), busy = e->waiting.head != NULL;
		for (int i = 0; i < e->n * e->n; i++) {
			lane *l = &e->lanes[i];
			if (!gw_nv_busy(l))
				continue;
			moved |= gw_nv_issue(e, l) | gw_nv_look(e, l);
			busy |= gw_nv_busy(l);
		}
		int64_t t = gw_nv_now();
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
	if (!e || !lanes) {
		free(e);
		free(lanes);
		return NULL;
	}
	e->cuda = cuda;
	e->n = n;
	e->piece = piece;
	e->begin = begin;
	e->lanes = lanes;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	e->spin = cpus >= 8 ? 2000000 : cpus >= 4 ? 200000 : 5000; // few processors have better things to do; a nap of some microseconds takes 50
	e->linger = cpus >= 4 ? 5000000 : 0; // to be woken after a sleep costs 70 us and more
	pthread_mutex_init(&e->mu, NULL);
	pthread_cond_init(&e->work, NULL);
	sigset_t all, blocked;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &blocked); // the pilot takes no signals of the program's
	int err = pthread_create(&e->thread, NULL, pilot, e);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	if (err) {
		free(lanes);
		free(e);
		return NULL;
	}
	return e;
}

int gw_nv_start(gw_nv *e, int from, int to, gw_window *dst, gw_window *src, size_t dst_off, size_t src_off,
	size_t size, const gw_gate *gates, int ngates, gw_hook hook, uint64_t arg, uint64_t id)
{
	pthread_mutex_lock(&e->mu);
	flight *f = e->spare;
	if (f)
		e->spare = f->next;
	pthread_mutex_unlock(&e->mu);
	if (!f && !(f = calloc(1, sizeof *f)))
		return -1;
	gw_gate *list = f->gates;
	int room = f->room;
	if (ngates > room) {
		list = realloc(list, ngates * sizeof *list);
		if (list)
			room = ngates;
		else
			ngates = -1;
	}
	*f = (flight){.dst = dst, .src = src, .dst_off = dst_off, .src_off = src_off, .size = size, .lane = &e->lanes[from * e->n + to],
		.ngates = ngates, .room = room, .gates = list ? list : f->gates, .hook = hook, .arg = arg, .id = id};
	if (ngates > 0)
		memcpy(f->gates, gates, ngates * sizeof *gates);
	pthread_mutex_lock(&e->mu);
	if (ngates < 0) {
		f->next = e->spare;
		e->spare = f;
	} else {
		__atomic_add_fetch(&dst->copies, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&src->copies, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&e->flying, 1, __ATOMIC_RELAXED);
		gw_nv_append(&e->inbox, f);
		if (e->asleep)
			pthread_cond_signal(&e->work);
	}
	pthread_mutex_unlock(&e->mu);
	return ngates < 0 ? -1 : 0;
}

int gw_nv_lost(gw_nv *e) { return __atomic_load_n(&e->lost, __ATOMIC_RELAXED); }

int64_t gw_nv_flying(gw_nv *e) { return __atomic_load_n(&e->flying, __ATOMIC_ACQUIRE); }

void gw_nv_join(gw_nv *e)
{
	pthread_mutex_lock(&e->mu);
	e->closing = 1;
	pthread_cond_signal(&e->work);
	pthread_mutex_unlock(&e->mu);
	pthread_join(e->thread, NULL);
}

void gw_nv_free(gw_nv *e)
{
	for (int i = 0; i < e->n * e->n; i++) {
		lane *l = &e->lanes[i];
		for (int k = 0; k < DEPTH; k++)
			if (l->ring[k].event)
				CU(e->cuda, event_destroy, l->ring[k].event);
		if (l->stream)
			CU(e->cuda, stream_destroy, l->stream);
	}
	for (flight *f; (f = e->spare);) {
		e->spare = f->next;
		free(f->gates);
		free(f);
	}
	free(e->lanes);
	free(e);
}
