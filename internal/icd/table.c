//go:build cgo

// The dispatch table (entries.h), and what C answers without entering Go: reference counts,
// and queries that programs make often and that never change their answer.
#include "object.h"
#include "command_buffer.h"
#include "_cgo_export.h"
#include <string.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma GCC diagnostic ignored "-Wdiscarded-qualifiers"
#pragma GCC diagnostic ignored "-Wint-conversion" // Go gets handles, and addresses that it never follows, as integers

// KIND and INVALID are the kind of object that a handle of some type is to be, and the error if it is none.
#define KIND(o) _Generic((o), cl_platform_id: GW_PLATFORM, cl_device_id: GW_DEVICE, cl_context: GW_CONTEXT, cl_command_queue: GW_QUEUE, \
	cl_mem: GW_MEM, cl_program: GW_PROGRAM, cl_kernel: GW_KERNEL, cl_event: GW_EVENT, cl_sampler: GW_SAMPLER, gw_command_buffer: GW_COMMAND_BUFFER)
#define INVALID(o) _Generic((o), cl_platform_id: CL_INVALID_PLATFORM, cl_device_id: CL_INVALID_DEVICE, cl_context: CL_INVALID_CONTEXT, \
	cl_command_queue: CL_INVALID_COMMAND_QUEUE, cl_mem: CL_INVALID_MEM_OBJECT, cl_program: CL_INVALID_PROGRAM, \
	cl_kernel: CL_INVALID_KERNEL, cl_event: CL_INVALID_EVENT, cl_sampler: CL_INVALID_SAMPLER, gw_command_buffer: GW_INVALID_COMMAND_BUFFER)

// EACH is f(type, name) for each of a list of types, where names are a1 for the last, a2 for the one before it, ...
#define EACH(f, ...) EACH_N(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)(f, __VA_ARGS__)
#define EACH_N(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) EACH_##count
#define EACH_1(f, t) f(t, a1)
#define EACH_2(f, t, ...) f(t, a2), EACH_1(f, __VA_ARGS__)
#define EACH_3(f, t, ...) f(t, a3), EACH_2(f, __VA_ARGS__)
#define EACH_4(f, t, ...) f(t, a4), EACH_3(f, __VA_ARGS__)
#define EACH_5(f, t, ...) f(t, a5), EACH_4(f, __VA_ARGS__)
#define EACH_6(f, t, ...) f(t, a6), EACH_5(f, __VA_ARGS__)
#define EACH_7(f, t, ...) f(t, a7), EACH_6(f, __VA_ARGS__)
#define EACH_8(f, t, ...) f(t, a8), EACH_7(f, __VA_ARGS__)
#define EACH_9(f, t, ...) f(t, a9), EACH_8(f, __VA_ARGS__)
#define EACH_10(f, t, ...) f(t, a10), EACH_9(f, __VA_ARGS__)
#define EACH_11(f, t, ...) f(t, a11), EACH_10(f, __VA_ARGS__)
#define EACH_12(f, t, ...) f(t, a12), EACH_11(f, __VA_ARGS__)
#define EACH_13(f, t, ...) f(t, a13), EACH_12(f, __VA_ARGS__)
#define EACH_14(f, t, ...) f(t, a14), EACH_13(f, __VA_ARGS__)
#define EACH_15(f, t, ...) f(t, a15), EACH_14(f, __VA_ARGS__)
#define EACH_16(f, t, ...) f(t, a16), EACH_15(f, __VA_ARGS__)
#define PARAM(type, name) __typeof__(type) name
#define PASS(type, name) name

// give returns an object, or NULL, and its status.
static void *give(cl_int *errcode_ret, cl_int status, void *object)
{
	if (errcode_ret)
		*errcode_ret = status;
	return object;
}

static cl_int retain(void *handle, uint32_t kind, cl_int invalid)
{
	gw_object *o = handle;
	if (gw_over())
		return CL_OUT_OF_RESOURCES;
	if (!gw_is(handle, kind))
		return invalid;
	if (kind == GW_DEVICE && !o->info[0])
		return CL_SUCCESS; // devices of the platform live for ever; sub-devices are counted
	if (__builtin_expect(__atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED) > 0, 1))
		return CL_SUCCESS;
	__atomic_fetch_sub(&o->refs, 1, __ATOMIC_RELAXED); // its last release is going on
	return invalid;
}

// release enters Go for what looks like the last one only. It succeeds in a process that ends,
// as a destructor that runs then wants it.
static cl_int release(void *handle, uint32_t kind, cl_int invalid)
{
	gw_object *o = handle;
	if (gw_over())
		return CL_SUCCESS;
	if (!gw_is(handle, kind))
		return invalid;
	if (kind == GW_DEVICE && !o->info[0])
		return CL_SUCCESS;
	int32_t n = __atomic_load_n(&o->refs, __ATOMIC_RELAXED);
	while (n > 1)
		if (__atomic_compare_exchange_n(&o->refs, &n, n - 1, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return CL_SUCCESS;
	GW_IN_GO;
	return gwLastRelease((GoUintptr)handle) ? CL_SUCCESS : invalid;
}

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

#define ANSWERS(v) answer(&(v), sizeof(v), room, out, size_ret)

// A memory object's info: size, flags, context, parent, origin.
static cl_int gwc_GetMemObjectInfo(cl_mem m, cl_mem_info what, size_t room, void *out, size_t *size_ret)
{
	const gw_object *o = (const gw_object *)m;
	if (gw_over())
		return CL_OUT_OF_RESOURCES;
	if (!gw_is(m, GW_MEM))
		return CL_INVALID_MEM_OBJECT;
	cl_uint refs = (cl_uint)__atomic_load_n(&o->refs, __ATOMIC_RELAXED);
	switch (what) {
	case CL_MEM_SIZE: return ANSWERS(o->info[0]);
	case CL_MEM_FLAGS: return ANSWERS(o->info[1]);
	case CL_MEM_CONTEXT: return ANSWERS(o->info[2]);
	case CL_MEM_ASSOCIATED_MEMOBJECT: return ANSWERS(o->info[3]);
	case CL_MEM_OFFSET: return ANSWERS(o->info[4]);
	case CL_MEM_REFERENCE_COUNT: return ANSWERS(refs);
	}
	GW_IN_GO;
	return gwGetMemObjectInfo((GoUintptr)m, what, room, out, size_ret);
}

// An event's info: context, queue, command.
static cl_int gwc_GetEventInfo(cl_event e, cl_event_info what, size_t room, void *out, size_t *size_ret)
{
	const gw_object *o = (const gw_object *)e;
	if (gw_over())
		return CL_OUT_OF_RESOURCES;
	if (!gw_is(e, GW_EVENT))
		return CL_INVALID_EVENT;
	cl_uint refs = (cl_uint)__atomic_load_n(&o->refs, __ATOMIC_RELAXED);
	cl_command_type command = (cl_command_type)o->info[2];
	switch (what) {
	case CL_EVENT_CONTEXT: return ANSWERS(o->info[0]);
	case CL_EVENT_COMMAND_QUEUE: return ANSWERS(o->info[1]);
	case CL_EVENT_COMMAND_TYPE: return ANSWERS(command);
	case CL_EVENT_REFERENCE_COUNT: return ANSWERS(refs);
	}
	GW_IN_GO;
	return gwGetEventInfo((GoUintptr)e, what, room, out, size_ret);
}

// UNLESS_OVER begins an entry that enters Go, and ends it where nothing may be called any more.
#define UNLESS_OVER(otherwise) if (gw_over()) otherwise; GW_IN_GO

static cl_int gwc_Flush(cl_command_queue q) { UNLESS_OVER(return gw_drained()); return gwFlush(q); }
static cl_int gwc_Finish(cl_command_queue q) { UNLESS_OVER(return gw_drained()); return gwFinish(q); }
static void *gwc_SVMAlloc(cl_context c, cl_svm_mem_flags flags, size_t n, cl_uint align) { UNLESS_OVER(return NULL); return gwSVMAlloc(c, flags, n, align); }
static void gwc_SVMFree(cl_context c, void *p) { UNLESS_OVER(return); gwSVMFree(c, p); }

// The hints to unload the compiler, which other contexts use, are not passed on.
static cl_int gwc_UnloadCompiler(void) { return gw_over() ? CL_OUT_OF_RESOURCES : CL_SUCCESS; }
static cl_int gwc_UnloadPlatformCompiler(cl_platform_id p) { return gw_over() ? CL_OUT_OF_RESOURCES : gw_is(p, GW_PLATFORM) ? CL_SUCCESS : CL_INVALID_PLATFORM; }

// The functions of the others.
#define GO(name, ...) \
	static cl_int gwc_##name(EACH(PARAM, __VA_ARGS__)) { UNLESS_OVER(return CL_OUT_OF_RESOURCES); return gw##name(EACH(PASS, __VA_ARGS__)); }
#define MAKES(object, name, ...) \
	static object gwc_##name(EACH(PARAM, __VA_ARGS__), cl_int *errcode_ret) \
	{ \
		UNLESS_OVER(return give(errcode_ret, CL_OUT_OF_RESOURCES, NULL)); \
		struct gw##name##_return made = gw##name(EACH(PASS, __VA_ARGS__)); \
		return give(errcode_ret, made.r1, (void *)made.r0); \
	}
#define COUNTED(name, type) \
	static cl_int gwc_Retain##name(type o) { return retain(o, KIND(o), INVALID(o)); } \
	static cl_int gwc_Release##name(type o) { return release(o, KIND(o), INVALID(o)); }
#define NOT_DONE(o) (gw_is(o, KIND(o)) ? CL_INVALID_OPERATION : INVALID(o))
#define REFUSED(name, type, ...) \
	static cl_int gwc_##name(type o, EACH(PARAM, __VA_ARGS__)) { return gw_over() ? CL_OUT_OF_RESOURCES : NOT_DONE(o); }
#define ABSENT(name, type, ...) \
	static cl_int gwc_##name(type o, EACH(PARAM, __VA_ARGS__)) { return NOT_DONE(o); }
#define ABSENT_MAKES(object, name, type, ...) \
	static object gwc_##name(type o, EACH(PARAM, __VA_ARGS__), cl_int *errcode_ret) { return give(errcode_ret, NOT_DONE(o), NULL); }
#define NEVER(name, status) static cl_int gwc_##name(void) { return status; }
#define IN_C(name)
#define COUNTED_EXT(name)
#include "entries.h"
#define RECORDS(name, ...) \
	GO(name, gw_command_buffer, cl_command_queue, const cl_properties *, __VA_ARGS__) \
	static cl_int gwc_##name##_0_9_0(gw_command_buffer b, cl_command_queue q, EACH(PARAM, __VA_ARGS__)) \
	{ \
		UNLESS_OVER(return CL_OUT_OF_RESOURCES); \
		return gw##name(b, q, NULL, EACH(PASS, __VA_ARGS__)); \
	}
#define BEFORE(name, ...) \
	static cl_int gwc_##name##_0_9_0(EACH(PARAM, __VA_ARGS__)) { UNLESS_OVER(return CL_OUT_OF_RESOURCES); return gwLinked##name(EACH(PASS, __VA_ARGS__)); }
#include "command_buffer_entries.h"
#undef RECORDS
#undef BEFORE
#undef GO
#undef MAKES
#undef COUNTED
#undef COUNTED_EXT
#undef REFUSED
#undef ABSENT
#undef ABSENT_MAKES
#undef NEVER
#undef IN_C

// The table.
#define IN_C(name) .cl##name = gwc_##name,
#define GO(name, ...) IN_C(name)
#define MAKES(object, name, ...) IN_C(name)
#define COUNTED(name, type) IN_C(Retain##name) IN_C(Release##name)
#define COUNTED_EXT(name) .clRetain##name##EXT = gwc_Retain##name, .clRelease##name##EXT = gwc_Release##name,
#define REFUSED(name, ...) IN_C(name)
#define ABSENT(name, ...) IN_C(name)
#define ABSENT_MAKES(object, name, ...) IN_C(name)
#define NEVER(name, status) .cl##name = (void *)gwc_##name,
const cl_icd_dispatch gw_dispatch = {
#include "entries.h"
};
#undef IN_C
#undef COUNTED_EXT
#undef ABSENT
#undef ABSENT_MAKES
#undef NEVER

// Its functions by name.
#define IN_C(name) {"cl" #name, (void *)gwc_##name},
#define COUNTED_EXT(name) {"clRetain" #name "EXT", (void *)gwc_Retain##name}, {"clRelease" #name "EXT", (void *)gwc_Release##name},
#define ABSENT(name, ...)
#define ABSENT_MAKES(object, name, ...)
#define NEVER(name, status)
const struct gw_entry gw_entries[] = {
#include "entries.h"
	{NULL, NULL},
};

#define RECORDS(name, ...) IN_C(name)
#define BEFORE(name, ...)
const struct gw_entry gw_command_buffers[] = {
#include "command_buffer_entries.h"
	{NULL, NULL},
};
#undef RECORDS
#undef BEFORE

#define RECORDS(name, ...) {"cl" #name, (void *)gwc_##name##_0_9_0},
#define BEFORE(name, ...) RECORDS(name)
const struct gw_entry gw_command_buffers_0_9_0[] = {
#include "command_buffer_entries.h"
	{NULL, NULL},
};
