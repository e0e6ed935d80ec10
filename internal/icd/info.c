//go:build cgo

// Queries that programs make often and that never change their answer, and
// reference counts: answered without entering Go. What is not here is Go's.
#include "object.h"
#include "_cgo_export.h"
#include <string.h>

static cl_int answer(const void *value, size_t size, size_t room, void *out, size_t *size_ret)
{
	if (out) {
		if (room < size)
			return CL_INVALID_VALUE;
		memcpy(out, value, size);
	}
	if (size_ret)
		*size_ret = size;
	return CL_SUCCESS;
}

#define ANSWER(v) answer(&(v), sizeof(v), room, out, size_ret)

// A buffer's info: size, flags, context, parent, origin.
GW_HIDDEN cl_int gwn_clGetMemObjectInfo(cl_mem m, cl_mem_info what, size_t room, void *out, size_t *size_ret);
GW_HIDDEN cl_int gwn_clGetMemObjectInfo(cl_mem m, cl_mem_info what, size_t room, void *out, size_t *size_ret)
{
	const gw_object *o = (const gw_object *)m;
	if (!gw_is(m, GW_MEM))
		return CL_INVALID_MEM_OBJECT;
	cl_mem_object_type type = CL_MEM_OBJECT_BUFFER;
	cl_uint refs = (cl_uint)__atomic_load_n(&o->refs, __ATOMIC_RELAXED);
	switch (what) {
	case CL_MEM_TYPE: return ANSWER(type);
	case CL_MEM_SIZE: return ANSWER(o->info[0]);
	case CL_MEM_FLAGS: return ANSWER(o->info[1]);
	case CL_MEM_CONTEXT: return ANSWER(o->info[2]);
	case CL_MEM_ASSOCIATED_MEMOBJECT: return ANSWER(o->info[3]);
	case CL_MEM_OFFSET: return ANSWER(o->info[4]);
	case CL_MEM_REFERENCE_COUNT: return ANSWER(refs);
	}
	GW_IN_GO;
	return gwGetMemObjectInfo((GoUintptr)m, what, room, out, size_ret);
}

// An event's info: context, queue, command.
GW_HIDDEN cl_int gwn_clGetEventInfo(cl_event e, cl_event_info what, size_t room, void *out, size_t *size_ret);
GW_HIDDEN cl_int gwn_clGetEventInfo(cl_event e, cl_event_info what, size_t room, void *out, size_t *size_ret)
{
	const gw_object *o = (const gw_object *)e;
	if (!gw_is(e, GW_EVENT))
		return CL_INVALID_EVENT;
	cl_uint refs = (cl_uint)__atomic_load_n(&o->refs, __ATOMIC_RELAXED);
	cl_command_type command = (cl_command_type)o->info[2];
	switch (what) {
	case CL_EVENT_CONTEXT: return ANSWER(o->info[0]);
	case CL_EVENT_COMMAND_QUEUE: return ANSWER(o->info[1]);
	case CL_EVENT_COMMAND_TYPE: return ANSWER(command);
	case CL_EVENT_REFERENCE_COUNT: return ANSWER(refs);
	}
	GW_IN_GO;
	return gwGetEventInfo((GoUintptr)e, what, room, out, size_ret);
}

cl_int gw_mem_info(uintptr_t m, uint32_t what, size_t room, void *out, size_t *size_ret)
{
	return gwn_clGetMemObjectInfo((cl_mem)m, what, room, out, size_ret);
}

cl_int gw_event_info(uintptr_t e, uint32_t what, size_t room, void *out, size_t *size_ret)
{
	return gwn_clGetEventInfo((cl_event)e, what, room, out, size_ret);
}
