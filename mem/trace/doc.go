// Package trace holds what happened, in forms that can be written, read back
// and replayed. Beside Go's runtime/trace it is imported as gwtrace.
//
// What runtime contexts do: a [CommandSink] is told of it, a [Recorder] keeps it, a
// [CommandWriter] writes down what commands access, and [OpenCommands] reads that back,
// for package study/replay.
//
// What memories give out: an [AllocWriter] records a running program in Godwit's CSV,
// `op,id,bytes,time_us`, which package study/alloc/formats reads, among other formats.
//
// The package decides nothing, and reads only what it has written.
package trace
