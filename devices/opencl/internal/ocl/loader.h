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
enum { GW_CONTEXT, GW_QUEUE, GW_MEM, GW_PROGRAM, GW_KERNEL, GW_EVENT, GW_KINDS };

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
// gw_releases changes with every release of a buffer.
GW_HIDDEN uint64_t gw_releases(void);
// gw_counts copies objects created and released so far, by kind.
GW_HIDDEN void gw_counts(int64_t created[GW_KINDS], int64_t released[GW_KINDS]);
// gw_fault makes the nth call from now that enqueues (op 0), creates a buffer
// (op 1) or ends a command (op 2) report the OpenCL status code; 0 disarms.
GW_HIDDEN void gw_fault(int op, int nth, cl_int code);
// gw_faulty counts a call of kind op and returns the status it must report.
GW_HIDDEN cl_int gw_faulty(int op);

// The gate before every call into OpenCL; see gate.c.
GW_HIDDEN int gw_enter(void);
GW_HIDDEN void gw_leave(const int *entered);
#define GW_GATE __attribute__((cleanup(gw_leave), unused)) int gate = gw_enter();

// gw_serial, with 1, lets one thread at a time into OpenCL, until it is called with
// -1 as often; see serial.c. The gate asks the other two.
GW_HIDDEN void gw_serial(int more);
GW_HIDDEN int gw_serial_enter(void); // whether gw_serial_leave is to be called
GW_HIDDEN void gw_serial_leave(void);

// gw_guard has handler called at exit, before OpenCL's own statics die.
GW_HIDDEN void gw_guard(void (*handler)(void));
// gw_guard_again registers the handler once more, and gw_newest has that done after
// all that libraries register; see newest.c.
GW_HIDDEN void gw_guard_again(void);
GW_HIDDEN void gw_newest(void);
// gw_close_gate lets nobody into OpenCL any more, for good, and waits for who is
// in there and for enqueued commands, at most so long in all. 0: they have ended.
GW_HIDDEN int gw_close_gate(int64_t nanoseconds);
// gw_pass_gate lets the calling thread through a gate that is being closed: it sees
// the commands end that are waited for.
GW_HIDDEN void gw_pass_gate(void);
// gw_command counts commands that OpenCL has: 1 is one more, -1 one less.
GW_HIDDEN void gw_command(int more);
// gw_launching comes before a launch, which may compile.
GW_HIDDEN void gw_launching(void);

// gw_signals_keep, before anything else, has the program's signal handlers kept.
// Then the other two go around what may compile. See signals.c.
GW_HIDDEN void gw_signals_keep(void);
GW_HIDDEN void gw_signals_note(void);
GW_HIDDEN void gw_signals_restore(void);

#endif
