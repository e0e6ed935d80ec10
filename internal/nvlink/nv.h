// What an engine is, for the files of the pilot.
#ifndef GODWIT_NV_H
#define GODWIT_NV_H

#include "pilot.h"
#include <pthread.h>

// flight is a copy that was accepted and has not ended.
typedef struct flight {
	struct flight *next;
	gw_window *dst, *src;
	size_t dst_off, src_off, size, given; // given: bytes that CUDA was given
	struct lane *lane;
	int pieces; // under way
	int cause;  // why it failed: a CUresult, or a gate's negative status
	int gate, ngates, room;
	gw_gate *gates;
	gw_hook hook;
	uint64_t arg, id;
} flight;

typedef struct list { flight *head, *tail; } list;

enum {
	DEPTH = 32, // pieces under way in a lane
	SMALL = 16, // copies of so small a part of a piece are given before large ones
	DEAF = 3,   // errors by which a stream answers in a row before its context is dead
};

// piece is a part of a copy that CUDA has.
typedef struct piece {
	flight *of;
	size_t size;
	void *event;
	int blind;
} piece;

// lane is from one GPU to another.
typedef struct lane {
	void *stream; // set before the lane is open
	int open;     // atomic
	void *context;
	list small, large; // ready
	list failed;       // not given; they end once it is known whether the context lives
	piece ring[DEPTH]; // n of them from first on, oldest first
	int first, n, blind;
	size_t bytes; // under way
	int refused;  // a copy, since the stream was last asked
	int deaf;     // times in a row that the stream could not be asked
} lane;

struct gw_nv {
	gw_cuda *cuda;
	int n;
	size_t piece;
	void (*begin)(void);
	int64_t spin, linger; // nanoseconds
	pthread_t thread;
	lane *lanes;    // from*n+to
	int lost;       // atomic
	int64_t flying; // atomic
	list waiting;   // for gates and windows

	pthread_mutex_t mu;
	pthread_cond_t work;
	list inbox;    // atomic head; protected by mu
	flight *spare; // protected by mu
	int asleep, closing; // protected by mu
};

GW_HIDDEN void gw_nv_append(list *l, flight *f);
GW_HIDDEN flight *gw_nv_first(list *l);
GW_HIDDEN int64_t gw_nv_now(void);
// gw_nv_end ends a copy of which nothing is under way.
GW_HIDDEN void gw_nv_end(gw_nv *e, flight *f);

// gw_nv_issue gives CUDA what is ready in a lane, as far as there is room, and gw_nv_look sees what
// has ended. They return whether anything happened.
GW_HIDDEN int gw_nv_issue(gw_nv *e, lane *l);
GW_HIDDEN int gw_nv_look(gw_nv *e, lane *l);
// gw_nv_busy reports whether there is anything for the two to do.
GW_HIDDEN int gw_nv_busy(const lane *l);

#endif
