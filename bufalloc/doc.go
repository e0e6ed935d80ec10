// Package bufalloc gives chunks out of an address range. It works on integers
// and never touches the bytes, so that it serves device memory, address
// spaces, files and shared memory alike.
//
// # Assumptions
//
// Taken from PoCL's bufalloc, which is where the idea comes from: buffers are
// large, and those of one kernel come and go together. From the first it
// follows that the bytes lost between chunks matter more than the bookkeeping
// for them; from the second that [Region.AllocAll] should place the buffers of
// one command side by side, so that their frees give one large hole back.
//
// # Data structures
//
//   - A [Region] is a sequence of nodes that tile [base, base+size): every byte
//     belongs to exactly one node. A node is a chunk (live) or a hole (free).
//   - A node is 32 bytes in one slice and links to others by index: there is no
//     pointer in it for the collector to follow, and no allocation per operation.
//   - A [Strategy] keeps the holes in an order of its own and says which one, and
//     which part of it, a request gets. [Fit] is the default.
//   - A [Chunk] is an index and a generation, so that a chunk freed twice, kept
//     too long or handed to another region is told from a live one.
//
// # The path of Alloc and its mirror, Free
//
// Alloc checks the request, asks the strategy for a hole, takes the hole out of
// the strategy's order, cuts off what is in front of and behind the chunk, gives
// these back as holes, and marks the node live. Free checks the chunk, merges
// the node with a hole before it and one behind it, and hands the result to the
// strategy. Both are O(1) under Fit, but for the last resort of an Alloc that
// would fail otherwise (see Stats.Scans).
//
// # Concurrency
//
// A Region belongs to one goroutine at a time.
package bufalloc
