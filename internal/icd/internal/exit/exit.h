//go:build cgo

#ifndef GODWIT_EXIT_H
#define GODWIT_EXIT_H

#include <stdint.h>

#define GW_HIDDEN __attribute__((visibility("hidden")))

// The guard of calls into OpenCL (gw_guard in devices/opencl/internal/ocl/loader.h).
GW_HIDDEN int gw_exit_enter(void);
GW_HIDDEN void gw_exit_leave(int entered);
GW_HIDDEN void gw_exit_compiles(int more);
GW_HIDDEN void gw_exit_commands(int more);
GW_HIDDEN void gw_exit_watches(void);

// gw_exit_guard has handler called at exit, before OpenCL's own statics die.
// lead has that looked to where libraries register handlers (newest.c), else handler is
// registered again when something may have been compiled.
GW_HIDDEN void gw_exit_guard(void (*handler)(void), int lead);
// gw_exit_close lets nobody into OpenCL any more, for good, and waits for who is
// in there and for enqueued commands, at most so long in all. 0: they have ended.
GW_HIDDEN int gw_exit_close(int64_t nanoseconds);
// gw_exit_keep_signals, before anything else, has the program's signal handlers kept.
GW_HIDDEN void gw_exit_keep_signals(void);

// Within this package: the compiler has come, perhaps.
GW_HIDDEN void gw_exit_compiled(void);
// gw_guard_again registers the handler once more, and gw_newest has that done after
// all that libraries register, and reports whether some were loaded since it was last called; see newest.c.
GW_HIDDEN void gw_guard_again(void);
GW_HIDDEN int gw_newest(void);
// These two go around what may compile. See signals.c.
GW_HIDDEN void gw_signals_note(void);
GW_HIDDEN void gw_signals_restore(void);

#endif
