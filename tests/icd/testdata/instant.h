/* What the files of the instant driver share: its objects, its clock, and answers to
 * queries. See instant.c.
 */
#ifndef INSTANT_H
#define INSTANT_H

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_icd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))

struct object { cl_icd_dispatch *dispatch; int refs; };
struct _cl_platform_id { struct object o; };
struct _cl_device_id { struct object o; };
struct _cl_context { struct object o; };
struct _cl_command_queue { struct object o; int64_t until; cl_command_queue_properties props; pthread_mutex_t mu; };
struct _cl_mem { struct object o; char *bytes; size_t size; cl_mem whole; void *own; };
struct _cl_program { struct object o; char *source; };
struct _cl_kernel { struct object o; char name[128]; cl_uint n; struct arg { char name[64], type[64]; int global, local, constant; } args[32]; cl_uint set; };
struct _cl_event { struct object o; int64_t start, end; cl_int failed; cl_command_queue q; };

extern HIDDEN cl_icd_dispatch table;
extern HIDDEN struct _cl_device_id device;

/* Each puts its functions into the table. */
HIDDEN void fill_commands(void);
HIDDEN void fill_programs(void);

static inline int64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static inline void await(int64_t until)
{
	for (int64_t left; (left = until - clock_ns()) > 0;)
		if (left > 200000)
			nanosleep(&(struct timespec){0, left > 1000000000 ? 999999999 : left - 100000}, NULL);
}

static inline void *made(size_t size)
{
	struct object *o = calloc(1, size);
	o->dispatch = &table;
	o->refs = 1;
	return o;
}

static inline int let_go(void *v)
{
	struct object *o = v;
	return __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) == 0;
}

static inline cl_int answer(const void *v, size_t n, size_t room, void *to, size_t *need)
{
	if (need)
		*need = n;
	if (to && room < n)
		return CL_INVALID_VALUE;
	if (to)
		memcpy(to, v, n);
	return CL_SUCCESS;
}
#define TEXT(s) answer(s, strlen(s) + 1, room, to, need)
#define ANSWER(type, v) answer(&(type){v}, sizeof(type), room, to, need)
#define INFO size_t room, void *to, size_t *need

#define COUNTED(what, type, free_it)                                                          \
	static cl_int CL_API_CALL retain_##what(type v) { __atomic_add_fetch(&v->o.refs, 1, __ATOMIC_RELAXED); return CL_SUCCESS; } \
	static cl_int CL_API_CALL release_##what(type v) { if (let_go(v)) { free_it; free(v); } return CL_SUCCESS; }

#endif
