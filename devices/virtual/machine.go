// Package virtual has devices in virtual time: a World of devices, host threads and a
// clock, under the same planner, mover and runtime as real devices.
package virtual

import (
	"godwit/devices"
	"godwit/mem"
)

// Machine says what there is and what it costs. It is asked by one goroutine at a time
// and does not change. Memories are numbered as a context numbers them: 0 is the
// host's, which staging and the program's own bytes count as, device i has memory i.
// Times are in nanoseconds, sizes in bytes, rates in bytes a second.
type Machine interface {
	// Memories is how many there are, the host's included.
	Memories() int
	// Info describes the device of a memory.
	Info(memory int) devices.Info
	// Bandwidths are those of the network's channels.
	Bandwidths() []uint64
	// Engines is how many commands each engine carries out at a time. What an engine
	// does is Work's to say.
	Engines() []int

	// Copy is what a copy from one memory to another costs, or inside one.
	Copy(from, to int, size uint64) Work
	// ByWindow is what a copy between devices costs where the larger of the two blocks, of
	// so many bytes, is more than links reach, so that it goes by windows; ok is false where
	// it does not.
	ByWindow(from, to int, block, size uint64) (work Work, ok bool)
	// Fill is what a fill in a memory costs.
	Fill(memory int, size uint64) Work
	// Launch is what a kernel costs on a device.
	Launch(memory int, k *Kernel) Work
	// RingUp is what the second half of a ring costs, from the host's memory to a memory: Copy(0, to), and before
	// it what lies between the hosts of both devices, where these are two.
	RingUp(from, to int, size uint64) Work
	// Call is what a call costs the host thread that makes it, of a host: they are numbered from 0.
	Call(host int, c devices.Call) uint64
	// HostCall is how long a host call takes beside what its code waits for.
	HostCall(host int) uint64
	// Wake is how long after the end of what a host thread waited for it goes on.
	Wake(host int) uint64
	// First is what the first use of so many bytes of a memory costs the host thread that gets a block there.
	First(host int, size uint64) uint64
	// Carriage is what carriers cost; nil is nothing.
	Carriage() *Carriage

	// Link is how good the ways from one memory to another are, as far as the planner
	// chooses between them. Direct is there where a device's queue reaches both.
	Link(from, to int) mem.Link
	// Chunk is how large the chunks of a ring are.
	Chunk(from, to int, size uint64) uint64
	// Staging is how many bytes of memory rings may use; 0 is the mover's own.
	Staging() uint64
}

// Work is what a command costs. It waits for a place on its engine, first come first
// served among those of queues of one priority, and holds it for Setup, and then until its bytes have gone over the network and
// Least has passed since Setup. Its point is reached Latency later; so what waits for an
// engine overlaps the latency of what was there before.
type Work struct {
	Engine  int32 // which; -1 is none
	Setup   uint64
	Bytes   uint64
	Path    []Channel // the machine's, not to be changed
	Limit   uint64    // bytes a second at most; 0 is no limit
	Least   uint64
	Latency uint64

	Row      uint64 // of a copy of rows: more Setup for each
	Grain    uint64 // of a copy of rows: each moves a multiple of so many bytes; 0 is none
	Pageable uint64 // of a copy from or to the program's own memory: Limit
	Programs uint64 // of such a copy, with OwnTimes: Least, in place of Setup and Latency, too
	OwnTimes bool
	// Of such a copy: the engine that does it in place of the device's, of which it takes so many places; -1 is none. Or the
	// library is given it only once the host has seen all end that it waits for.
	Lanes  int32
	Slots  int // 0 is one
	Awaits bool
	// Cores are the channel of the host's processor, of which it takes Width, each a billion a second, for Least: longer
	// where others have them.
	Cores []Channel
	Width uint64
}

// Kernel is a launch as far as it costs anything.
type Kernel struct {
	Name    string
	Bytes   uint64 // of all buffer arguments, as far as the launch declares ranges
	Largest uint64 // of these
	Items   uint64 // work-items
	Takes   uint64 // as the program says; 0 is not known
	// Operations are what the launch computes in all, as the program says; 0 is not known.
	Operations uint64
	// Roofline says that the program says what the launch computes, or how many bytes it moves, or both.
	Roofline bool
}

// Observer is told of what ended, in the order of the ends. It must not call the world
// or the context.
type Observer interface {
	// Span is told of a command, a copy or a ring. The span is valid during the call.
	Span(*Span)
	// Woke is told that a host thread goes on after a wait; p is what it waited for
	// (the zero Point is no point).
	Woke(thread int, slept, woke int64, p mem.Point)
}

// Span is what ran, with times in nanoseconds of the world.
type Span struct {
	Point    mem.Point
	Op       devices.Op
	Tag      uint64 // the command's, as devices.Command has it; 0 for copies of the mover's
	Ring     bool   // a ring that went as one flow; Op is OpCopy
	On       int    // the memory of the queue's device
	From, To int    // memories, of copies
	Bytes    uint64
	Engines  []int32   // that it held
	Path     []Channel // of a ring: of both halves

	// Ready is when its waits had been reached, Handed when they had been handed over and its
	// device had it, Started when it had its engine, Ended when its point was reached. Queued is
	// when it was submitted, where its queue keeps times (runtime.Options.Trace); else it is Ready.
	Queued, Ready, Handed, Started, Ended int64
	// Thread is the engine of the host's that handed it on, from HeldFrom to HeldTo.
	Thread           int32
	HeldFrom, HeldTo int64
	// Cause is the point that made it ready, of those that it waited for the one that was handed over
	// last; of several the last in order of the world's events. The zero Point: it was ready when it was submitted.
	Cause mem.Point
	// Behind is the point of what had its engine until Started; the zero Point: the
	// engine was free.
	Behind mem.Point
	Err    error
}
