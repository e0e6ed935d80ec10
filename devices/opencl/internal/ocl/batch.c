//go:build cgo

// Batches: many copies, tied together, enqueued by one call.
#include "calls.h"
#include <stdlib.h>
#include <string.h>

// leg enqueues one leg behind events.
static cl_int leg(gw_leg *l, cl_uint nw, const cl_event *w)
{
	cl_command_queue q = (cl_command_queue)l->queue;
	cl_event e = NULL;
	cl_int err;
	if (l->src && l->dst)
		err = clEnqueueCopyBuffer(q, (cl_mem)l->src, (cl_mem)l->dst, l->src_off, l->dst_off, l->size, nw, nw ? w : NULL, &e);
	else if (l->src)
		err = clEnqueueReadBuffer(q, (cl_mem)l->src, CL_FALSE, l->src_off, l->size, (void *)l->host, nw, nw ? w : NULL, &e);
	else
		err = clEnqueueWriteBuffer(q, (cl_mem)l->dst, CL_FALSE, l->dst_off, l->size, (void *)l->host, nw, nw ? w : NULL, &e);
	l->event = err == CL_SUCCESS ? (gw_handle)e : 0;
	return err;
}

cl_int gw_batch(gw_leg *legs, int n, const int32_t *after, const gw_handle *waits, uint32_t nwaits, int flush)
{
	cl_event few[64], *w = few;
	cl_uint most = 0;
	for (int i = 0; i < n; i++) {
		cl_uint nw = legs[i].nafter + (legs[i].data == -1 ? nwaits : 1);
		most = nw > most ? nw : most;
	}
	if (most > sizeof few / sizeof *few)
		w = malloc(most * sizeof *w);
	cl_int err = w ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
	for (int i = 0; i < n && err == CL_SUCCESS; i++) {
		gw_leg *l = &legs[i];
		cl_uint nw = 0;
		if (l->data >= 0)
			w[nw++] = (cl_event)legs[l->data].event;
		else if (l->data == -1)
			for (; nw < nwaits; nw++)
				w[nw] = (cl_event)waits[nw];
		for (uint32_t k = 0; k < l->nafter; k++)
			w[nw++] = (cl_event)legs[after[l->after + k]].event;
		err = leg(l, nw, w);
		if (err != CL_SUCCESS)
			break;
		if (l->tag)
			l->no_callback = gw_listen((cl_event)l->event, (gw_tag *)l->tag);
		if (flush)
			clFlush((cl_command_queue)l->queue); // what fails here shows in the leg's end
	}
	if (w != few)
		free(w);
	return err;
}
