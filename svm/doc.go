// Package svm is shared virtual memory: an arena of addresses that mean the same
// to the host and to every device, the registry of what is allocated there, and
// the rights of the host to touch it.
//
// # Assumptions
//
//   - A coarse-grained pointer is address space, not memory: the host may touch
//     it only while mapped, and what it finds there was brought by the map. So
//     the host's bytes need not be valid at any other time, and a touch outside
//     a map is a mistake worth catching.
//   - Rights come in pages. An allocation therefore has its pages to itself;
//     shared virtual memory is for data structures, not for single words.
//   - Address space is plenty and memory is not. So freed addresses rest for a
//     while before they are given out again (a touch can then be told from one of
//     a newer allocation), but their memory goes back to the system at once.
//
// # What follows
//
// The arena is one memory file, mapped twice. The user's view has no access
// rights but where a map, or fine grain, gives them. The drivers' view is always
// readable and writable, and is reached only through [Arena.Bytes], which checks
// that the block is live. Where the blocks lie is decided by bufalloc.
//
// # States
//
// A block: live -> freed (its pointer is stale, its rights are gone, commands
// enqueued before may still use the drivers' view) -> resting ([Arena.Recycle]:
// its memory is given back) -> reusable, oldest first, when resting addresses
// are more than a quarter of the arena or an allocation finds no room.
//
// A map: wanted ([Arena.Map]) -> granted ([Map.Grant], by the command that brought the
// content) -> gone ([Map.Drop], by that of the unmap). A wanted map may be dropped: it is
// then never granted. Which maps may exist at once is not decided here but where commands are
// ordered (package runtime).
//
// All methods are safe for use from many goroutines. Lock order: Arena.mu is a
// leaf.
package svm
