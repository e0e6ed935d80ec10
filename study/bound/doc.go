// Package bound finds how few bytes a run could have moved, once all of it is
// known, on memories that hold less than it uses. It splits them in two.
//
// Compulsory bytes would move if memories had no limit: bytes that a command reads
// on a memory where their latest content has not been. A byte of one version
// arrives so on each memory that reads it, but the one where it was written.
//
// Capacity bytes are all others: a version that arrives on a memory for the second
// time, and one that arrives where nobody ever reads it, which is a write-back that
// served for nothing else. Their least sum is hard to find (with sizes that differ,
// or with write-backs, it is NP-hard), so this package finds a sum that no run can
// be below, as FOO does for caches (Berger, Beckmann, Harchol-Balter: Practical
// Bounds on Optimal Caching with Variable Object Sizes, arXiv 1711.03709): it
// relaxes the question until it is a flow, and proves the answer by prices.
//
// # What is charged
//
// A block is away in a gap, between two commands that need it, or it stays. What
// depends on it is bytes:
//   - a range that a command used on the memory, and that a later command reads
//     there, unchanged: if the block was away in between, it arrives again;
//   - a range that was written on the memory, of which no other memory reads this
//     version: if the block is away before the range is written anew or its buffer
//     is released, it has to be moved elsewhere first, and arrives where nobody
//     reads it. Content is never given up (invariant C10), also where nobody reads
//     it any more, since no runtime knows that.
//
// A version that another memory reads is charged no write-back at all: it could
// have been the copy that this memory needs anyway. So no arrival is charged twice,
// and none that is compulsory; and each memory's charges are its own, so that their
// sum over memories is a lower bound where the room is counted for each alone.
//
// # Why it is a lower bound
//
// While a command runs, the blocks that it needs are there; what else stays fits
// beside them. That is all that is kept of the runtime: fragmentation, blocks that
// are larger than their buffers, room for what is written back to a peer, and
// knowing the future are free. Letting a part of a block stay, with that part of
// its saving, can only lower the least sum, and makes it a linear program. Where
// bytes depend on several gaps of one block, a part of their charge is set to each:
// the block that is away in any of them costs all of it, so the parts together are
// never more than the charge. The rest is a minimum-cost flow: room flows from
// command to command, through blocks or past them.
//
// The flow is found by the network simplex method, and the parts are improved round
// by round, by where blocks are away. Neither has to be believed: the dual prices of
// the flow are summed up, in integers, into the bound that they prove, and any
// prices prove one. Belady's rule reaches it exactly for clean blocks of one size.
//
// Of a round that is repeated for ever (WithinRound) the memories are looked at together, too: prices.go says how.
//
// A long run is cut into windows, and while a memory has room for all buffers that there are, nothing is
// collected of it, since nothing has to leave. What reaches from one window into the next, or into a time when the
// memory is short, is charged nothing.
package bound
