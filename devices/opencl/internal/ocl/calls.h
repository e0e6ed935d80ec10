//go:build cgo

// What go-opencl lacks: sub-buffers, rectangles, event callbacks, staged copies
// between devices; and one call for a whole command, where go-opencl needs one
// for each argument and allocates for each event.
//
// No function here keeps a pointer to Go memory after it returns, but for host
// memory of non-blocking transfers, which the Go side pins until the command
// has ended. cl handles cross the border as integers.
#ifndef GODWIT_CALLS_H
#define GODWIT_CALLS_H

#include "loader.h"

typedef uintptr_t gw_handle;

// A sink collects ended commands from the callbacks of many queues, for one
// goroutine to take. Life: new, take until it returns -1 after close, free.
typedef struct gw_sink gw_sink;
typedef struct gw_done { uint64_t id; int32_t status; int32_t pad; } gw_done;
//
// A watching sink does without callbacks: a thread of its own looks at the events
// of running commands, every few tens of microseconds, and sleeps when there are
// none. That is for platforms whose callbacks are slow.
//
// A sink is lazy where nobody is waiting (prompt is 0): then callbacks wake nobody,
// and take, or the thread that watches, looks every millisecond while there are commands.
// To be woken costs more than most commands do. gw_sink_hurry ends such a take at
// once, perhaps with nothing.
GW_HIDDEN gw_sink *gw_sink_new(int watching);
GW_HIDDEN int gw_sink_take(gw_sink *s, gw_done *out, int max, int prompt); // prompt: blocks until there is one
GW_HIDDEN void gw_sink_hurry(gw_sink *s);
GW_HIDDEN int gw_sink_some(gw_sink *s, gw_done *out, int max); // take what there is
GW_HIDDEN void gw_sink_close(gw_sink *s);
GW_HIDDEN void gw_sink_free(gw_sink *s);

// A tag is what a callback gets: C memory, one for each command record.
typedef struct gw_tag {
	gw_sink *sink;
	uint64_t id;
	cl_event watched;            // while in the list; protected by the sink's mu
	struct gw_tag *next;
} gw_tag;
GW_HIDDEN gw_tag *gw_tag_new(gw_sink *s, uint64_t id);
GW_HIDDEN void gw_tag_free(gw_tag *t);
// gw_listen makes the end of the command of event e arrive in t's sink.
GW_HIDDEN cl_int gw_listen(cl_event e, gw_tag *t);

enum { GW_MARKER, GW_COPY, GW_READ, GW_WRITE, GW_FILL, GW_LAUNCH, GW_COPY_RECT, GW_READ_RECT, GW_WRITE_RECT, GW_SVM_COPY, GW_SVM_FILL };

// A command for one queue, free of pointers. Offsets and sizes in bytes. src and
// dst are addresses for GW_SVM_COPY and GW_SVM_FILL.
typedef struct gw_cmd {
	gw_handle queue, src, dst, kernel;
	gw_handle set;                   // GW_LAUNCH: a gw_args of the kernel; 0 sets all arguments
	gw_handle event;                 // out
	size_t src_off, dst_off, size;   // copies, fills
	size_t region[3], src_pitch[2], dst_pitch[2];
	size_t global[3], local[3], offset[3];
	uint32_t op, dims, nargs, nreached, nwaits, has_local, pattern_size;
	uint32_t by_rows;                // GW_COPY_RECT: as a copy for each row
	int32_t failed_arg;              // out: index, where setting an argument failed, else -1
	int32_t no_callback;             // out: the status of clSetEventCallback
	uint32_t no_event;               // GW_LAUNCH
	uint32_t failed;                 // out: how many of a run were enqueued before one was refused
	uint32_t cached;                 // of GW_LAUNCH: it has a gw_cache
	uint32_t pad;
} gw_cmd;

// Kinds of kernel arguments in the encoding below.
enum { GW_ARG_VALUE, GW_ARG_MEM, GW_ARG_LOCAL, GW_ARG_SVM, GW_ARG_CACHE };

// A gw_cache is an argument of kind GW_ARG_CACHE: an image, and the bytes of a buffer that it is a copy of.
typedef struct gw_cache {
	gw_handle image, buffer;
	size_t off, sides[3], pixel, row, slice;
	uint64_t back; // the launch may write it
} gw_cache;

// A gw_args is what the arguments of a kernel were set to last, so that only what has
// changed is set again: each call takes time. len 0: nothing is known.
// It is for one thread at a time.
typedef struct gw_args {
	size_t len, cap;
	uint8_t *bytes;    // encoded
	uint64_t releases; // gw_releases then: a released buffer's handle may be another's
} gw_args;
GW_HIDDEN gw_args *gw_args_new(void);
GW_HIDDEN void gw_args_free(gw_args *s);
// gw_set_args sets a launch's arguments, and moves args behind them. failed_arg is which one was refused.
GW_HIDDEN cl_int gw_set_args(const gw_cmd *c, const uint8_t **args, int32_t *failed_arg);

// gw_cached enqueues a launch whose arguments, as gw_submit has them, are set, behind copies into its caches and before those back. Where one is refused
// behind the launch, *begun is set, and *e is of the last that was not.
GW_HIDDEN cl_int gw_cached(const gw_cmd *c, const uint8_t *args, cl_uint nw, const cl_event *w, cl_event *e, uint32_t *begun);
// gw_submit enqueues a run, c and the n commands behind it, which are launches where there are some: the first behind the
// events in waits, and the last with an event, for which tag's callback is registered. What it says, it says in c.
// No tag: nobody is told, and gw_end is to be called. Where a command behind the first is refused, the event is that of a marker behind
// those that were not, or 0 where that was refused, too: then they have ended.
// args holds, command by command, for each argument, 4 bytes of kind, 4 bytes of size, and for
// values and handles their bytes, padded to 8; GW_ARG_SVM has an address. Behind
// them are nreached more of that kind, which the kernel reaches by pointers in
// memory. Of a fill it is the pattern. host is the host end of transfers.
GW_HIDDEN cl_int gw_submit(gw_cmd *c, const gw_cmd *then, uint32_t n, const uint8_t *args, const gw_handle *waits, char *host, gw_handle tag);

// gw_transfer carries out a GW_READ or GW_WRITE behind the events in waits, and returns how it
// ended. Where OpenCL has taken it, c->event is its event. It is enqueued and then waited
// for: buffers are neither made nor released during an enqueue (loader.c, shape), and no enqueue starts
// while one is to be. landing is the address of page-locked memory to go through; 0 is none. alone says that it
// is behind nothing that has not ended: then it is one blocking call, but a long one where calls are kept apart.
GW_HIDDEN cl_int gw_transfer(gw_cmd *c, const gw_handle *waits, char *host, uintptr_t landing, int alone);

// gw_rect enqueues a rectangle, row by row where OpenCL does not take it whole: then
// the last row waits for the others, so that its event is the end of them all.
GW_HIDDEN cl_int gw_rect(const gw_cmd *c, char *host, cl_uint nw, const cl_event *w, cl_event *e);

// gw_status is an event's execution status: CL_COMPLETE, a negative error, or
// positive while it has not ended.
GW_HIDDEN cl_int gw_status(gw_handle event);
// gw_wait waits for the command of event, and returns how it ended.
GW_HIDDEN cl_int gw_wait(gw_handle event);
// gw_end waits for the command of event, which has no tag, and returns how it ended.
GW_HIDDEN cl_int gw_end(gw_handle event);
GW_HIDDEN void gw_release_events(const gw_handle *events, int n);
GW_HIDDEN cl_int gw_finish(gw_handle queue);
GW_HIDDEN void gw_times(gw_handle event, uint64_t t[4]);

// gw_direct_buffer makes a buffer and the memory of this process's that it is in, which
// goes with it when nothing uses it any more; 0 where there is no room.
GW_HIDDEN gw_handle gw_direct_buffer(gw_handle context, size_t size, void **memory);
// gw_memory_is_direct finds out whether commands of the queue use such memory where it
// is, and see at once what others write to it.
GW_HIDDEN int gw_memory_is_direct(gw_handle context, gw_handle queue);

// A leg is one copy of a batch: between two buffers, or where src or dst is 0 between a
// buffer and page-locked bytes of the host.
typedef struct gw_leg {
	gw_handle queue, src, dst;
	uintptr_t host;
	size_t src_off, dst_off, size;
	gw_handle tag;          // a gw_tag, which is told of its end; or 0
	gw_handle event;        // out; 0 where it was not enqueued
	int32_t data;           // the earlier leg that it waits for; -1: the batch's waits
	uint32_t after, nafter; // and more earlier legs: a part of the batch's list
	int32_t no_callback;    // out: as gw_cmd's
} gw_leg;
// gw_batch enqueues legs until one is refused, and returns with what status.
GW_HIDDEN cl_int gw_batch(gw_leg *legs, int n, const int32_t *after, const gw_handle *waits, uint32_t nwaits, int flush);

// gw_import makes a buffer of size bytes of the memory that fd stands for, on one device of
// the context.
GW_HIDDEN gw_handle gw_import(gw_handle context, gw_handle device, int fd, size_t size, cl_int *err);
// gw_poll_event asks whether an event has ended: 1, 0, or how it failed.
GW_HIDDEN int gw_poll_event(uint64_t event);
// The status of a hop, a copy between windows, that has failed by itself.
#define GW_HOP_FAILED (-1000000)
// gw_hop_begins says that hops are to come (or, with -1, that one will not), and
// gw_hop_ended puts the end of one, whose tag it is given, into the tag's sink.
GW_HIDDEN void gw_hop_begins(gw_sink *s, int more);
GW_HIDDEN void gw_hop_ended(uint64_t tag, uint64_t id, int32_t status);
// gw_sink_tell adds a command that has ended.
GW_HIDDEN void gw_sink_tell(gw_sink *s, uint64_t id, int32_t status);

#endif
