// Package extern runs allocators that are not written in Go, each in a process of
// its own, as subjects of study/alloc/replay: a crash, a hang or nonsense there is a
// *replay.Fault here and nothing worse.
//
//   - lib:PATH is a shared library with the functions of godwit_alloc.h. A small
//     host program loads it. The stream, the answers and the times lie in memory
//     that both processes share, and the host replays the whole stream for each
//     command, so that nothing is paid by the operation; the host takes the times.
//   - exec:COMMAND is a program of any language that reads lines and writes lines. It
//     takes no times, since the pipe costs more than it does.
//
// # Lines
//
//	open SIZE CHUNKS      begin with an empty allocator of [0, SIZE); no answer
//	a ID SIZE ALIGN HINT  allocate; the answer is an address, or - for no room
//	f ID                  free; no answer; ignore one whose allocation got a -
//
// Numbers are decimal. ID is below CHUNKS and used again once freed. HINT is as in
// godwit_alloc.h; 0 says nothing. Answers must be flushed when no line is waiting:
// the other side sends up to 256 lines before it reads. A program that writes the line
// "batches" before all else, and flushes it, gets up to 1,024 lines at a time and behind them
// an empty line, which asks for the answers to them: it need not flush any earlier. Behind a stream that ends with a
// free comes one more request, whose answer counts for nothing: a free has none to wait for.
//
// # The processes
//
// A subject has as many children as are in use at a time and keeps them for the
// next session. They are children of package process: in groups of their own, killed
// whole, gone when this process is or when the context of Open ends, at once and
// whatever they do; that is no fault of theirs. A command that shows no progress
// for Options.Patience is a hang, and the child is killed. An answer is a line of
// at most 16 KiB; of what a child says on standard error the last 300 bytes are
// kept. A child's memory and processor time are not bounded: the library or
// command is the user's own, and runs with the user's rights.
//
// # The host program
//
// It is built by make as bin/godwit-allochost and is looked for beside the
// running program, so that builds without cgo, and machines without a compiler,
// have it. Elsewhere, as under go test, the source that is embedded here is
// compiled with $CC or cc into the user's cache directory.
package extern
