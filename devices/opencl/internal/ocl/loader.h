//go:build cgo

// The part of OpenCL that this package and go-opencl call, reached through a
// loader that is opened on first use, and what is counted on the way.
#ifndef GODWIT_LOADER_H
#define GODWIT_LOADER_H

#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#include <CL/cl.h>
#include <stdint.h>

// Everything here is hidden: an exported clCreateBuffer in the program would
// take the place of the loader's own inside the vendors' libraries.
#define GW_HIDDEN __attribute__((visibility("hidden")))

// Kinds of cl objects that are counted.
enum { GW_CONTEXT, GW_QUEUE, GW_MEM, GW_PROGRAM, GW_KERNEL, GW_EVENT, GW_SAMPLER, GW_KINDS };

// gw_load opens the loader; NULL on success, else what is missing (static).
GW_HIDDEN const char *gw_load(void);
// gw_use_driver makes gw_load open this driver in place of the loader; 0 where
// another was named before. To be called before anything else here.
GW_HIDDEN int gw_use_driver(const char *library);
// gw_use_loader makes gw_load open this loader. To be called before anything else here.
GW_HIDDEN void gw_use_loader(const char *library);
// gw_has_svm reports whether the loader has the functions of shared virtual
// memory that are used here. Without them they must not be called.
GW_HIDDEN int gw_has_svm(void);
// gw_apart, with 1, has calls that make, release and enqueue exclude each other from now on, until it is
// called with -1 as often. Whoever blocks in an enqueue keeps all others out then: gw_is_apart tells.
GW_HIDDEN void gw_apart(int more);
GW_HIDDEN int gw_is_apart(void);
// gw_releases changes with every release of a buffer.
GW_HIDDEN uint64_t gw_releases(void);
// gw_counts copies objects created and released so far, by kind.
GW_HIDDEN void gw_counts(int64_t created[GW_KINDS], int64_t released[GW_KINDS]);
// gw_fault makes the nth call from now that enqueues (op 0), creates a buffer
// (op 1), ends a command (op 2), waits for events (op 3), asks for a callback (op 4), sets an argument (op 5) or enqueues the
// marker behind a run that is refused in its middle (op 6) report the OpenCL status code; 0 disarms.
GW_HIDDEN void gw_fault(int op, int nth, cl_int code);
// gw_faulty counts a call of kind op and returns the status it must report.
GW_HIDDEN cl_int gw_faulty(int op);

// A guard is called around every call into OpenCL: it is a library's that lives in a
// program which knows nothing of OpenCL underneath, and may end at any time.
typedef struct gw_guard {
	int (*enter)(void);       // before a call; what it returns is given to leave
	void (*leave)(int entered);
	void (*compiles)(int more); // 1 before what compiles, -1 after it, 0 before a launch, which may
	void (*commands)(int more); // 1: OpenCL has one more command, -1: one has ended
	void (*watches)(void);      // the calling thread sees commands end
} gw_guard;
// gw_set_guard comes before anything else here. Without enter there is no guard.
GW_HIDDEN void gw_set_guard(void *enter, void *leave, void *compiles, void *commands, void *watches);
GW_HIDDEN void gw_compiles(int more);
GW_HIDDEN void gw_command(int more);
GW_HIDDEN void gw_watches(void);

// The way in and out of every call, by the guard and by gw_serial: with 1 that lets one
// thread at a time into OpenCL, until it is called with -1 as often.
GW_HIDDEN void gw_serial(int more);
GW_HIDDEN int gw_enter(void);
GW_HIDDEN void gw_leave(const int *entered);
#define GW_GATE __attribute__((cleanup(gw_leave), unused)) int gate = gw_enter();

#endif
