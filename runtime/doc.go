// Package runtime is the OpenCL object model over migrating buffers: Context,
// Buffer, Queue, Event, Program and Kernel.
//
// A file that needs Go's own package runtime too imports this one by another name; the
// project's own do so:
//
//	import rt "godwit/runtime"
//
// A command says which bytes of which buffers it reads and writes. At enqueue,
// under the context's one planner lock, package migration works out the fewest
// bytes that must move; the runtime gets the storage, hands the copies to
// hidden queues and the command to its own, and returns an event. An enqueue
// waits for no command, except for room (Options.WaitForMemory, and evictions whose
// space comes back only later); execution follows, as parallel as the
// points allow.
//
// # Order
//
// Commands that touch the same bytes take effect in the order in which they
// were enqueued, on whatever queues, without events: readers run at once, a
// writer waits for the readers and the writer before it. Wait lists, in-order
// queues and barriers add to that order. A command that waits for a user event
// therefore also holds back those enqueued later that need its bytes.
//
// # Failure
//
// An enqueue that fails has changed no content, and its error has an OpenCL status
// (mem.StatusOf). A command that fails once it was accepted has a negative
// execution status; what waits for it by a wait list, or reads what it was to
// write, fails too, with mem.ErrDependency and the first cause. The bytes it
// was to write are poisoned until something writes all of them: reading them is
// an error and never yields old content in silence.
//
// # Lifetime
//
// The caller owns what it gets: a Buffer and an Event are to be released, a
// Queue, a Program and a Context to be closed. All of them may be released
// while commands use them.
package runtime
