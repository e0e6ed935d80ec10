//go:build cgo

// Copies between two devices of one context, staged through pinned memory.
//
// A copy is cut into chunks. Chunk i is read out of the source by a read queue
// (of the source's device) into the ring, and written from there into the
// destination by a write queue (of the destination's device); the write waits
// for the read's event, so the legs of neighbouring chunks overlap and no host
// thread takes part. With several queues in each direction, chunks go round
// them, which hides the time between one command's end and the next one's start.
//
// The first chunks are small, so that the second leg starts early, and so are
// the last, so that little is left to do when the first leg is over.
//
// The ring's bytes are given out in order, round and round. A read that would
// overwrite bytes whose write has not been seen to end waits for that write's
// event. All queues are in order and every event of earlier copies ends without
// help from outside (gated copies never come here before their waits are
// reached, or have a ring of their own), so nothing can stand still.
//
// Not safe for concurrent use: the Go side holds the ring's lock.
#include "bridge.h"
#include <stdlib.h>
#include <string.h>

cl_int gw_listen(cl_event e, gw_tag *t);

#define MAX_QUEUES 4
#define MAX_SEGMENTS 4096

typedef struct segment { size_t start, end; int queue; cl_event written; } segment;

struct gw_ring {
	char *host;
	size_t bytes, head;
	cl_command_queue read[MAX_QUEUES], write[MAX_QUEUES];
	int queues;
	cl_event fence[MAX_QUEUES]; // on each write queue, the newest write whose segment was given out again
	segment seg[MAX_SEGMENTS];  // n from first on, oldest first, modulo MAX_SEGMENTS
	int first, n;
};

gw_ring *gw_ring_new(gw_handle host, size_t bytes, const gw_handle *rq, const gw_handle *wq, int queues)
{
	gw_ring *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->host = (char *)host;
	r->bytes = bytes;
	r->queues = queues < MAX_QUEUES ? queues : MAX_QUEUES;
	for (int i = 0; i < r->queues; i++) {
		r->read[i] = (cl_command_queue)rq[i];
		r->write[i] = (cl_command_queue)wq[i];
	}
	return r;
}

static void set_fence(gw_ring *r, int q, cl_event e)
{
	if (r->fence[q])
		clReleaseEvent(r->fence[q]);
	r->fence[q] = e;
}

// pop forgets the oldest segment; its write, being newer than all that were
// forgotten before it, becomes its queue's fence.
static void pop(gw_ring *r)
{
	segment *s = &r->seg[r->first];
	set_fence(r, s->queue, s->written);
	r->first = (r->first + 1) % MAX_SEGMENTS;
	r->n--;
}

void gw_ring_free(gw_ring *r)
{
	while (r->n)
		pop(r);
	for (int i = 0; i < r->queues; i++)
		set_fence(r, i, NULL);
	free(r);
}

// take gives out c bytes, and appends to w the fences that have not ended. They
// cover every write whose bytes were ever given out again, so also those of a
// skipped rest of the ring; w needs room for MAX_QUEUES.
static size_t take(gw_ring *r, size_t c, cl_event *w, cl_uint *nw)
{
	size_t at = r->head + c <= r->bytes ? r->head : 0;
	while (r->n) {
		segment *s = &r->seg[r->first];
		int skipped = at < r->head && s->start >= r->head;
		if (!skipped && !(s->start < at + c && at < s->end) && r->n < MAX_SEGMENTS)
			break;
		pop(r);
	}
	for (int i = 0; i < r->queues; i++) {
		if (r->fence[i] && gw_status((gw_handle)r->fence[i]) <= CL_COMPLETE)
			set_fence(r, i, NULL); // a wait that is over still costs the device
		if (r->fence[i])
			w[(*nw)++] = r->fence[i];
	}
	r->head = at + c;
	return at;
}

// chunk is the size of the next chunk with `left` bytes to go: it doubles from
// first to max, and halves towards the end.
static size_t chunk(size_t previous, size_t left, gw_shape s)
{
	size_t c = previous ? previous * 2 : s.first;
	if (c > s.max)
		c = s.max;
	while (c > s.first && c + c / 2 > left)
		c /= 2;
	c &= ~(size_t)4095;
	if (c == 0 || c >= left || left - c < s.first / 2)
		c = left;
	return c;
}

// waits a chunk's read may carry: the copy's own, where they are few, and the fences
#define MAX_WAITS 32

// hold keeps e in *slot, in place of what was there.
static void hold(cl_event *slot, cl_event e)
{
	if (e)
		clRetainEvent(e);
	if (*slot)
		clReleaseEvent(*slot);
	*slot = e;
}

// stage enqueues both legs of one chunk. last[k] is the copy's newest write on
// queue k.
static cl_int stage(gw_ring *r, gw_cmd *c, size_t done, size_t n, int q, int nq, const cl_event *gates, cl_uint ngates, cl_event *last)
{
	cl_event w[MAX_WAITS + MAX_QUEUES], read = NULL, written = NULL;
	cl_uint nw = 0;
	size_t at = take(r, n, w, &nw);
	for (cl_uint k = 0; k < ngates; k++)
		w[nw++] = gates[k];
	cl_int err = clEnqueueReadBuffer(r->read[q], (cl_mem)c->src, CL_FALSE, c->src_off + done, n, r->host + at, nw, nw ? w : NULL, &read);
	if (err != CL_SUCCESS)
		return err;
	nw = 0;
	w[nw++] = read;
	for (int k = 0; done + n == c->size && k < nq; k++) // the last write ends last
		if (k != q && last[k])
			w[nw++] = last[k];
	clFlush(r->read[q]); // an event is waited for across queues only after a flush
	err = clEnqueueWriteBuffer(r->write[q], (cl_mem)c->dst, CL_FALSE, c->dst_off + done, n, r->host + at, nw, w, &written);
	clReleaseEvent(read);
	if (err != CL_SUCCESS)
		return err;
	clFlush(r->write[q]);
	hold(&last[q], written);
	r->seg[(r->first + r->n++) % MAX_SEGMENTS] = (segment){at, at + n, q, written};
	return CL_SUCCESS;
}

cl_int gw_ring_copy(gw_ring *r, gw_cmd *c, gw_shape shape, const gw_handle *waits, gw_tag *tag)
{
	int nq = shape.queues < 1 ? 1 : shape.queues < r->queues ? shape.queues : r->queues;
	cl_event last[MAX_QUEUES] = {0}, start = NULL;
	const cl_event *gates = (const cl_event *)waits;
	cl_uint ngates = c->nwaits;
	cl_int err = CL_SUCCESS;
	size_t done = 0, n = 0;
	int q = 0;
	if (shape.max > r->bytes / 2)
		shape.max = r->bytes / 2;
	if (shape.first > shape.max)
		shape.first = shape.max;
	c->event = 0;
	c->failed_arg = -1;
	if (ngates > MAX_WAITS) { // one event stands for them all
		err = clEnqueueMarkerWithWaitList(r->read[0], ngates, gates, &start);
		gates = &start;
		ngates = 1;
	}
	for (int i = 0; done < c->size && err == CL_SUCCESS; i++, done += n) {
		q = i % nq;
		n = chunk(n, c->size - done, shape);
		if (n > shape.max)
			n = shape.max;
		err = stage(r, c, done, n, q, nq, gates, i < nq ? ngates : 0, last);
	}
	if (start)
		clReleaseEvent(start);
	if (err == CL_SUCCESS) {
		clRetainEvent(last[q]);
		c->event = (gw_handle)last[q];
		c->no_callback = gw_listen(last[q], tag);
	}
	for (int i = 0; i < nq; i++)
		hold(&last[i], NULL);
	for (int i = 0; i < r->queues && err != CL_SUCCESS; i++) { // what was accepted must not outlive the refusal
		clFinish(r->read[i]);
		clFinish(r->write[i]);
	}
	return err;
}
