// The pilot: the thread that gives copies to CUDA and sees them end.
#ifndef GODWIT_PILOT_H
#define GODWIT_PILOT_H

#include "cuda.h"

// gw_gate is something that a copy waits for: poll returns 1 when it is open, 0 while it
// is not, and a negative status where it will never be.
typedef struct gw_gate {
	int (*poll)(uint64_t arg);
	uint64_t arg;
} gw_gate;

// gw_hook is told of the end of copies: 0, the CUresult by which the engine was lost, or the negative
// status of a gate.
typedef void (*gw_hook)(uint64_t arg, uint64_t id, int32_t status);

typedef struct gw_nv gw_nv;

// gw_leg is a copy between addresses, over a lane: from*n+to.
typedef struct gw_leg {
	uint64_t dst, src;
	size_t size;
	int lane;
} gw_leg;

// gw_nv_new makes an engine for n GPUs, with the pilot, which calls begin first. It
// returns NULL where there is no memory or thread.
GW_HIDDEN gw_nv *gw_nv_new(gw_cuda *cuda, int n, size_t piece, void (*begin)(void));
// gw_nv_lane gives the engine what it needs for copies over a lane: a stream of
// a context of one of the two GPUs, and events. It returns a CUresult. Calls come one at a time.
GW_HIDDEN int gw_nv_lane(gw_nv *e, int lane, void *context);
// gw_nv_start accepts a copy. It returns 0, or -1 where memory has run out.
GW_HIDDEN int gw_nv_start(gw_nv *e, gw_leg leg, const gw_gate *gates, int ngates, gw_hook hook, uint64_t arg, uint64_t id);
// gw_nv_lost is the CUresult by which the engine was lost, or 0.
GW_HIDDEN int gw_nv_lost(gw_nv *e);
// gw_nv_time gives CUDA all legs at once and waits for them: the time that takes, in
// nanoseconds, or a negative CUresult. Nothing else is under way.
GW_HIDDEN int64_t gw_nv_time(gw_nv *e, const gw_leg *legs, int n);
// gw_nv_close waits until all copies have ended, and ends the pilot and the engine. None may be
// started meanwhile.
GW_HIDDEN void gw_nv_close(gw_nv *e);

#endif
