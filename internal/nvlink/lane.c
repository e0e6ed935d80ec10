//go:build cgo

// Lanes: how copies are given to CUDA, in pieces, so that small copies get between the pieces
// of large ones: a copy engine takes up nothing else before it is through with what it has (4
// KiB behind 1 GiB take 2.7 ms, in a stream of their own too). Behind each piece is an event. A
// copy has ended when none of its pieces is under way and it has no more, or has failed.
//
// Failures. What CUDA refuses is not under way. Where the event of a piece cannot be recorded
// or asked, the piece is blind: it has ended when its whole stream is idle. A stream that
// cannot be asked either, several times in a row, is one of a dead context, in which nothing
// runs any more: the engine is lost, and every copy that is not under way fails.
#include "nv.h"

// FLY is CU in the pilot.
#define FLY(cuda, f, ...) __extension__({ \
	gw_cuda_stay(); \
	int result_ = (cuda)->f(__VA_ARGS__); \
	gw_cuda_leave(); \
	result_; \
})

// give gives CUDA the next piece of a copy.
static void give(gw_nv *e, lane *l, flight *f)
{
	size_t n = f->size - f->given < e->piece ? f->size - f->given : e->piece;
	int r = FLY(e->cuda, copy, f->dst->address + f->dst_off + f->given, f->src->address + f->src_off + f->given, n, l->stream);
	if (r != CU_OK) {
		f->cause = r;
		l->refused = 1;
		return;
	}
	piece *p = &l->ring[(l->first + l->n++) % DEPTH];
	p->of = f;
	p->size = n;
	r = FLY(e->cuda, event_record, p->event, l->stream);
	if ((p->blind = r != CU_OK)) {
		f->cause = r;
		l->blind++;
	}
	f->pieces++;
	f->given += n;
	l->bytes += n;
}

// next gives CUDA a piece of the first copy of a list, and returns whether it did anything.
static int next(gw_nv *e, lane *l, list *of, size_t most)
{
	flight *f = of->head;
	if (!f)
		return 0;
	if (!f->cause)
		f->cause = __atomic_load_n(&e->lost, __ATOMIC_RELAXED);
	if (!f->cause && (l->blind || l->n == DEPTH || (l->n > 0 && l->bytes >= most)))
		return 0;
	gw_nv_first(of);
	if (!f->cause)
		give(e, l, f);
	if (f->cause) { // not given now, or by an earlier piece
		if (!f->pieces)
			gw_nv_append(&l->failed, f);
	} else if (f->given < f->size) {
		gw_nv_append(of, f);
	}
	return 1;
}

// gw_nv_issue gives CUDA what is ready, as far as the lane has room: small and large copies in
// turn, the large ones in turn among themselves, and of them two pieces at a time, so that
// the copy engine always has one to go on with.
int gw_nv_issue(gw_nv *e, lane *l)
{
	int moved = 0;
	while (next(e, l, &l->small, SIZE_MAX) | next(e, l, &l->large, e->piece + 1))
		moved = 1;
	return moved;
}

static void drop(list *l, flight *f)
{
	flight *before = NULL;
	for (flight *r = l->head; r; before = r, r = r->next)
		if (r == f) {
			*(before ? &before->next : &l->head) = r->next;
			if (l->tail == r)
				l->tail = before;
			return;
		}
}

// landed takes the oldest piece off the lane.
static void landed(gw_nv *e, lane *l)
{
	piece *p = &l->ring[l->first];
	flight *f = p->of;
	l->first = (l->first + 1) % DEPTH;
	l->n--;
	l->bytes -= p->size;
	l->blind -= p->blind;
	if (--f->pieces == 0 && (f->cause || f->given == f->size)) {
		if (f->given < f->size)
			drop(&l->large, f); // what it has left is not given
		gw_nv_end(e, f);
	}
}

// idle asks whether the lane's stream has nothing left: 1 if so, 0 if not, or where it has
// not answered. Where it never will, the engine is lost, and nothing is under way either.
static int idle(gw_nv *e, lane *l)
{
	int r = FLY(e->cuda, stream_query, l->stream);
	if (r == CU_OK || r == CU_NOT_READY) {
		l->deaf = l->refused = 0;
		return r == CU_OK;
	}
	if (++l->deaf < DEAF)
		return 0;
	__atomic_store_n(&e->lost, r, __ATOMIC_SEQ_CST);
	for (l->refused = 0; l->n > 0; landed(e, l))
		l->ring[l->first].of->cause = r;
	return 1;
}

// gw_nv_look sees which pieces have ended.
int gw_nv_look(gw_nv *e, lane *l)
{
	int moved = 0;
	for (; l->n > 0; moved = 1) {
		piece *p = &l->ring[l->first];
		if (!p->blind) {
			int r = FLY(e->cuda, event_query, p->event);
			if (r == CU_NOT_READY)
				return moved;
			if (r == CU_OK) {
				landed(e, l);
				continue;
			}
			p->of->cause = r;
			p->blind = 1;
			l->blind++;
		}
		if (!idle(e, l))
			return moved;
		if (l->n > 0)
			landed(e, l);
	}
	if (l->refused)
		idle(e, l); // is it that copy, or every one?
	for (flight *f; !l->refused && (f = gw_nv_first(&l->failed)); moved = 1)
		gw_nv_end(e, f);
	return moved;
}

int gw_nv_busy(const lane *l) { return l->small.head || l->large.head || l->n > 0 || l->failed.head || l->refused; }

int gw_nv_lane(gw_nv *e, int from, int to, void *context)
{
	lane *l = &e->lanes[from * e->n + to];
	if (l->open)
		return CU_OK;
	gw_cuda *c = e->cuda;
	int r = CU(c, ctx_push, context);
	if (r != CU_OK)
		return r;
	if (!l->stream)
		r = CU(c, stream_create, &l->stream, CU_NON_BLOCKING);
	for (int i = 0; i < DEPTH && r == CU_OK; i++)
		if (!l->ring[i].event)
			r = CU(c, event_create, &l->ring[i].event, CU_NO_TIMING);
	void *popped;
	CU(c, ctx_pop, &popped);
	l->context = context;
	if (r == CU_OK)
		__atomic_store_n(&l->open, 1, __ATOMIC_RELEASE);
	return r;
}

