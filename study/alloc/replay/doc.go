// Package replay runs allocation traces and the generated workloads W1 and W2
// through the strategies of bufalloc and measures what each costs: the
// smallest region it never fails in, fragmentation over time, time per
// operation and its worst operation.
//
// A [Stream] is what is replayed: operations on numbered slots, made from a
// trace ([FromTrace]) or by a generator ([W1], [W2]). [MinRegion] searches the
// smallest region, [Run] replays through one region and measures, [Record]
// keeps every chunk's place for a picture, and [Measure] does all of it for one
// stream and strategy. Everything but times is the same on every machine.
package replay
