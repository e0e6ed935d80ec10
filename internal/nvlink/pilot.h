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

// gw_hook is told of the end of copies.
typedef void (*gw_hook)(uint64_t arg, uint64_t id, int32_t status);

// gw_window is memory of one GPU as CUDA has it.
typedef struct gw_window {
	uint64_t handle, address;
	size_t size;
	int mapped;     // atomic: 1 once copies can use it, a negative CUresult where they never can
	int64_t copies; // atomic: accepted and not ended
} gw_window;

typedef struct gw_nv gw_nv;

// gw_nv_new makes an engine for n GPUs, with the pilot, which calls begin first. It
// returns NULL where there is no memory or thread.
GW_HIDDEN gw_nv *gw_nv_new(gw_cuda *cuda, int n, size_t piece, void (*begin)(void));
// gw_nv_lane gives the engine what it needs for copies from a GPU to another: a stream of
// a context of one of the two, and events. It returns a CUresult. Calls come one at a time.
GW_HIDDEN int gw_nv_lane(gw_nv *e, int from, int to, void *context);
// gw_nv_start accepts a copy. It returns 0, or -1 where memory has run out.
GW_HIDDEN int gw_nv_start(gw_nv *e, int from, int to, gw_window *dst, gw_window *src, size_t dst_off, size_t src_off,
	size_t size, const gw_gate *gates, int ngates, gw_hook hook, uint64_t arg, uint64_t id);
// gw_nv_lost is the CUresult by which the engine was lost, or 0.
GW_HIDDEN int gw_nv_lost(gw_nv *e);
// gw_nv_flying is how many copies are accepted and not ended.
GW_HIDDEN int64_t gw_nv_flying(gw_nv *e);
// gw_nv_join waits until all copies have ended, and ends the pilot. None may be started
// meanwhile.
GW_HIDDEN void gw_nv_join(gw_nv *e);
// gw_nv_free destroys streams and events. The engine has been joined.
GW_HIDDEN void gw_nv_free(gw_nv *e);

// gw_leg is a copy of gw_nv_time; after is the index of an earlier one, or -1.
typedef struct gw_leg {
	uint64_t dst, src;
	size_t size;
	int32_t from, to, after, pad;
} gw_leg;
// gw_nv_time gives CUDA all legs at once and waits for them: the time that takes, in
// nanoseconds, or a negative CUresult.
GW_HIDDEN int64_t gw_nv_time(gw_nv *e, const gw_leg *legs, int n);

#endif
