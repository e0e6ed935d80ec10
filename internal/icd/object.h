//go:build cgo

// The objects that programs hold, as C sees them. See object.go.
#ifndef GODWIT_ICD_OBJECT_H
#define GODWIT_ICD_OBJECT_H

#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <signal.h>
#include <stdint.h>

#define GW_HIDDEN __attribute__((visibility("hidden")))

// Kinds of objects. A free slot has none.
enum { GW_NONE, GW_PLATFORM, GW_DEVICE, GW_CONTEXT, GW_QUEUE, GW_MEM, GW_PROGRAM, GW_KERNEL, GW_EVENT, GW_SAMPLER, GW_COMMAND_BUFFER, GW_COMMAND, GW_KINDS };

// gw_object is a slot of the arena: what a handle points to.
typedef struct gw_object {
	const cl_icd_dispatch *dispatch; // first, for the loader
	uint32_t kind;                   // atomic
	int32_t refs;                    // atomic; the program's and other objects'
	uint32_t next;                   // of the free list: index + 1; Go's
	uint32_t pad;
	uint64_t info[5]; // what C answers by itself, by kind; immutable once kind is set
} gw_object;

// The arena: GW_SLOTS slots of address space, memory as they are used.
#define GW_SLOTS ((uint32_t)1 << 24)
GW_HIDDEN extern char *gw_arena;

// gw_arena_open takes the address space; 0 where there is none.
GW_HIDDEN int gw_arena_open(void);

// gw_is says whether a handle is a live object of a kind. It reads nothing but
// the arena, whatever the handle.
static inline int gw_is(const void *handle, uint32_t kind)
{
	uintptr_t off = (uintptr_t)handle - (uintptr_t)gw_arena;
	return gw_arena && off < (uintptr_t)GW_SLOTS * sizeof(gw_object) && off % sizeof(gw_object) == 0
	       && __atomic_load_n(&((gw_object *)handle)->kind, __ATOMIC_ACQUIRE) == kind;
}

// gw_over says that the process is exiting or a fork's child: nothing may be
// called any more, neither Go nor the backing library.
enum { GW_RUNNING, GW_EXITING, GW_FORKED };
GW_HIDDEN extern int gw_ended;
static inline int gw_over(void) { return __builtin_expect(__atomic_load_n(&gw_ended, __ATOMIC_RELAXED), 0); }
// gw_drained is what clFlush and clFinish answer then. A process that exits has waited for
// its commands; in a fork's child nothing runs them.
static inline cl_int gw_drained(void)
{
	return __atomic_load_n(&gw_ended, __ATOMIC_RELAXED) == GW_EXITING ? CL_SUCCESS : CL_OUT_OF_RESOURCES;
}

// GW_IN_GO stands before a call into Go: to the end of the block the thread has a signal
// stack that Go can rely on. See sigstack.c.
#define GW_IN_GO __attribute__((cleanup(gw_leave_go))) stack_t programs_stack = gw_enter_go()
GW_HIDDEN stack_t gw_enter_go(void);
GW_HIDDEN void gw_leave_go(const stack_t *programs);

// gw_share_signals lets a program's handlers live beside the Go runtime's.
GW_HIDDEN void gw_share_signals(void);
// gw_block_signals blocks most signals of this thread and of those that it starts.
GW_HIDDEN void gw_block_signals(sigset_t *before);

// gw_at_exit ends everything; for atexit.
GW_HIDDEN void gw_at_exit(void);

// Two entries of public.c.
GW_HIDDEN void *gwc_GetExtensionFunctionAddress(const char *name);
GW_HIDDEN void *gwc_GetExtensionFunctionAddressForPlatform(cl_platform_id p, const char *name);

// The dispatch table, and its functions by name.
struct gw_entry { const char *name; void *function; };
GW_HIDDEN extern const cl_icd_dispatch gw_dispatch;
GW_HIDDEN extern const struct gw_entry gw_entries[];
// Those of cl_khr_command_buffer, which the table has no place for: as they are, and as version 0.9.0 had them.
GW_HIDDEN extern const struct gw_entry gw_command_buffers[], gw_command_buffers_0_9_0[];
// gw_command_buffer_functions are those that programs are given; NULL where there are none. Set once, when the platform is made.
GW_HIDDEN extern const struct gw_entry *gw_command_buffer_functions;

#endif
