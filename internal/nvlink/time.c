//go:build cgo

// What the GPUs can do without us.
#include "nv.h"
#include <stdlib.h>

// timed gives CUDA all legs, each with an event behind it, and waits until all have ended. It
// counts those that it gave.
static int64_t timed(gw_nv *e, const gw_leg *legs, void **events, int n, int *given)
{
	int64_t from = gw_nv_now();
	for (*given = 0; *given < n; ++*given) {
		const gw_leg *g = &legs[*given];
		void *stream = e->lanes[g->from * e->n + g->to].stream;
		int r = g->after < 0 ? CU_OK : CU(e->cuda, stream_wait, stream, events[g->after], 0);
		if (r == CU_OK)
			r = CU(e->cuda, copy, g->dst, g->src, g->size, stream);
		if (r == CU_OK)
			r = CU(e->cuda, event_record, events[*given], stream);
		if (r != CU_OK)
			return -r;
	}
	for (int i = n - 1; i >= 0; i--)
		for (int r; (r = CU(e->cuda, event_query, events[i])) != CU_OK;)
			if (r != CU_NOT_READY)
				return -r;
	return gw_nv_now() - from;
}

int64_t gw_nv_time(gw_nv *e, const gw_leg *legs, int n)
{
	void **events = calloc(n, sizeof *events), *popped;
	int64_t t = events ? 0 : -CU_OUT_OF_MEMORY;
	for (int i = 0; i < n && t == 0; i++) {
		lane *l = &e->lanes[legs[i].from * e->n + legs[i].to];
		int r = CU(e->cuda, ctx_push, l->context);
		if (r == CU_OK) {
			r = CU(e->cuda, event_create, &events[i], CU_NO_TIMING);
			CU(e->cuda, ctx_pop, &popped);
		}
		t = -r;
	}
	int given = 0;
	if (t == 0)
		t = timed(e, legs, events, n, &given);
	for (int i = 0; t < 0 && i < n && i <= given; i++) { // nothing is to be under way
		void *stream = e->lanes[legs[i].from * e->n + legs[i].to].stream;
		for (int deaf = 0, r; deaf < DEAF && (r = CU(e->cuda, stream_query, stream)) != CU_OK;)
			deaf = r == CU_NOT_READY ? 0 : deaf + 1;
	}
	for (int i = 0; events && i < n; i++)
		if (events[i])
			CU(e->cuda, event_destroy, events[i]);
	free(events);
	return t;
}

