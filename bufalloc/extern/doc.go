// Package extern runs allocators that are not written in Go, each in a process of
// its own, as subjects of bufalloc/replay: a crash, a hang or nonsense there is a
// *replay.Fault here and nothing worse.
//
//   - lib:PATH is a shared library with the functions of godwit_alloc.h. A small
//     host program loads it. The stream, the answers and the times lie in memory
//     that both processes share, and the host replays the whole stream for each
//     command, so that nothing is paid by the operation; the host takes the times.
//   - exec:COMMAND is a program of any language that reads lines and writes lines
//     (see [Protocol]). It takes no times, since the pipe costs more than it does.
//
// # The processes
//
// A subject has as many children as are in use at a time and keeps them for the
// next session. A child is in a process group of its own, is killed with it, and
// dies with this process. A command that shows no progress for
// Options.Patience is a hang, and the child is killed.
//
// # The host program
//
// It is built by make as bin/godwit-allochost and is looked for beside the
// running program, so that builds without cgo, and machines without a compiler,
// have it. Elsewhere, as under go test, the source that is embedded here is
// compiled with $CC or cc into the user's cache directory.
package extern
