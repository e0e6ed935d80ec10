//go:build cgo

// Copies between two devices of one context, staged through pinned memory.
//
// A copy is cut into chunks. Each is read out of the source into the ring by a
// queue of the source's device, and written from there into the destination by
// a queue of the destination's; the write waits for the read's event, so the
// legs of neighbouring chunks overlap and no host thread takes part.
//
// All chunks of a copy are of one size. With links of equal speed b, n bytes in
// chunks of c take (n + c)/b and some microseconds for each chunk: small chunks
// at the start or end would gain nothing, since a leg that lags by the largest
// chunk never catches up. More queues in each direction gain nothing either:
// their transfers share the link, so that the first chunk is done later.
//
// The ring's bytes are given out in order, round and round. A read that
// overwrites bytes given out before waits for their writes, by way of the newest
// of them, since queues are in order. Every event of earlier copies ends without
// help from outside (a gated copy never comes here before its waits are reached,
// or has a ring of its own), so nothing can stand still.
//
// Not safe for concurrent use: the Go side holds the line's lock.
#include "calls.h"
#include <stdlib.h>
#include <string.h>

#define MAX_SEGMENTS 1024
#define MAX_WAITS 32 // a read carries; where the copy has more, a marker stands for them

// Reads enqueued ahead of their writes: the second read starts at once behind
// the first, and the host enqueues writes while it runs.
#define AHEAD 2
// Chunks that fit the ring at least: those ahead, one being written, one free.
#define LAP (2 + AHEAD)

// A segment is bytes given out, and the event of the write that empties them.
typedef struct segment { size_t start, end; cl_event written; } segment;

struct gw_ring {
	char *host;
	size_t bytes, head;
	cl_command_queue read, write;
	int flush;
	cl_event fence;            // the newest write whose segment was given out again
	segment seg[MAX_SEGMENTS]; // n from first on, oldest first, modulo MAX_SEGMENTS
	int first, n;
};

gw_ring *gw_ring_new(gw_handle host, size_t bytes, gw_handle read, gw_handle write, int flush)
{
	gw_ring *r = calloc(1, sizeof *r);
	if (r) {
		r->host = (char *)host;
		r->bytes = bytes;
		r->read = (cl_command_queue)read;
		r->write = (cl_command_queue)write;
		r->flush = flush;
	}
	return r;
}

// hold keeps e in *slot, in place of what was there.
static void hold(cl_event *slot, cl_event e)
{
	if (e)
		clRetainEvent(e);
	if (*slot)
		clReleaseEvent(*slot);
	*slot = e;
}

// pop forgets the oldest segment; its write becomes the fence. (There is none
// where the copy was refused before it.)
static void pop(gw_ring *r)
{
	segment *s = &r->seg[r->first];
	if (s->written)
		hold(&r->fence, s->written);
	hold(&s->written, NULL);
	r->first = (r->first + 1) % MAX_SEGMENTS;
	r->n--;
}

static void empty(gw_ring *r)
{
	while (r->n)
		pop(r);
	hold(&r->fence, NULL);
}

void gw_ring_free(gw_ring *r)
{
	empty(r);
	free(r);
}

// take gives out c bytes. The fence, where it is not reached yet, covers every
// write whose bytes were ever given out again, those of a skipped rest of the
// ring too.
static size_t take(gw_ring *r, size_t c)
{
	size_t at = r->head + c <= r->bytes ? r->head : 0;
	while (r->n) {
		segment *s = &r->seg[r->first];
		int skipped = at < r->head && s->start >= r->head;
		if (!skipped && !(s->start < at + c && at < s->end) && r->n < MAX_SEGMENTS)
			break;
		pop(r);
	}
	if (r->fence && gw_status((gw_handle)r->fence) <= CL_COMPLETE)
		hold(&r->fence, NULL); // a wait that is over would still cost the device
	r->head = at + c;
	return at;
}

// A copy under way: chunk i is bytes [i*chunk, ...) of it.
typedef struct copy {
	gw_ring *r;
	gw_cmd *c;
	size_t chunk, chunks;
	const cl_event *gates; // what the first read waits for; the queue is in order behind it
	cl_uint ngates;
	struct { cl_event read; int segment; } open[AHEAD]; // chunk i in i % AHEAD: read and not yet written
} copy;

static size_t length(const copy *x, size_t i)
{
	size_t left = x->c->size - i * x->chunk;
	return left < x->chunk ? left : x->chunk;
}

// read_leg enqueues the read of chunk i.
static cl_int read_leg(copy *x, size_t i)
{
	gw_ring *r = x->r;
	cl_event w[MAX_WAITS + 1];
	cl_uint nw = 0;
	size_t n = length(x, i), at = take(r, n);
	for (; i == 0 && nw < x->ngates; nw++)
		w[nw] = x->gates[nw];
	if (r->fence)
		w[nw++] = r->fence;
	cl_int err = clEnqueueReadBuffer(r->read, (cl_mem)x->c->src, CL_FALSE, x->c->src_off + i * x->chunk, n, r->host + at, nw, nw ? w : NULL, &x->open[i % AHEAD].read);
	if (err != CL_SUCCESS)
		return err;
	int s = (r->first + r->n++) % MAX_SEGMENTS;
	r->seg[s] = (segment){at, at + n, NULL};
	x->open[i % AHEAD].segment = s;
	return r->flush ? clFlush(r->read) : CL_SUCCESS;
}

// write_leg enqueues the write of chunk i.
static cl_int write_leg(copy *x, size_t i)
{
	gw_ring *r = x->r;
	segment *s = &r->seg[x->open[i % AHEAD].segment];
	cl_int err = clEnqueueWriteBuffer(r->write, (cl_mem)x->c->dst, CL_FALSE, x->c->dst_off + i * x->chunk, length(x, i), r->host + s->start, 1, &x->open[i % AHEAD].read, &s->written);
	hold(&x->open[i % AHEAD].read, NULL);
	if (err != CL_SUCCESS)
		return err;
	if (i + 1 == x->chunks) {
		clRetainEvent(s->written);
		x->c->event = (gw_handle)s->written;
	}
	return r->flush ? clFlush(r->write) : CL_SUCCESS;
}

// refuse undoes a copy that could not be enqueued whole: what was accepted must
// not outlive the refusal, so it waits for it.
static void refuse(copy *x)
{
	clFinish(x->r->read);
	clFinish(x->r->write);
	for (int i = 0; i < AHEAD; i++)
		hold(&x->open[i].read, NULL);
	if (x->c->event)
		clReleaseEvent((cl_event)x->c->event);
	x->c->event = 0;
	empty(x->r);
}

cl_int gw_ring_copy(gw_ring *r, gw_cmd *c, size_t chunk, const gw_handle *waits, gw_tag *tag)
{
	size_t most = chunk < r->bytes / LAP ? chunk : r->bytes / LAP;
	size_t chunks = (c->size + most - 1) / most;
	size_t even = ((c->size + chunks - 1) / chunks + 4095) & ~(size_t)4095;
	copy x = {.r = r, .c = c, .chunk = even < most ? even : most, .gates = (const cl_event *)waits, .ngates = c->nwaits};
	cl_event start = NULL;
	cl_int err = CL_SUCCESS;
	x.chunks = (c->size + x.chunk - 1) / x.chunk;
	c->event = 0;
	c->failed_arg = -1;
	if (x.ngates > MAX_WAITS) {
		err = clEnqueueMarkerWithWaitList(r->read, x.ngates, x.gates, &start);
		x.gates = &start;
		x.ngates = 1;
	}
	for (size_t i = 0, reads = 0; i < x.chunks && err == CL_SUCCESS; i++) {
		while (err == CL_SUCCESS && reads < x.chunks && reads < i + AHEAD)
			err = read_leg(&x, reads++);
		if (err == CL_SUCCESS)
			err = write_leg(&x, i);
	}
	hold(&start, NULL);
	if (err == CL_SUCCESS)
		c->no_callback = gw_listen((cl_event)c->event, tag);
	else
		refuse(&x);
	return err;
}
