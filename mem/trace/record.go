package trace

import (
	"context"
	"slices"

	"godwit/mem"
)

// CommandSink is told what a runtime context does. Records and the slices in
// them are the caller's again on return: a sink copies what it keeps. Command
// and Buffer are called in enqueue order under the context's planner lock,
// Completed from whatever goroutine ends a point, which may be one that holds
// that lock: a sink must be quick, must not block and must not call a context. What it
// calls all the same fails with mem.ErrInvalidOperation, or returns nothing where it has
// no error to return. The order is what the lock is held for: a record says what the planner knew, and readers of a trace make
// that again command by command. A sink that writes somewhere, or calls code of others, is put behind an Async, which only copies the record under the lock.
type CommandSink interface {
	// Ends says which ends are told. It does not change.
	Ends() Ends
	// Buffer tells that a root buffer was created or released.
	Buffer(*BufferRecord)
	// Command tells that a command was accepted, or refused after planning.
	Command(*CommandRecord)
	// Completed tells that a command or a step has ended, after the Command it
	// belongs to, where Ends asks for it.
	Completed(*CompletionRecord)
}

// Ends says of which commands and steps a sink is told the ends. To be told of one costs a
// launch more than to run it, on most libraries; a sink that only counts asks for few.
type Ends uint8

// LateEnds are those of steps of which only the end says how much they moved. AllEnds are
// those of everything, with times: the context's queues keep some.
const (
	NoEnds Ends = iota
	LateEnds
	AllEnds
)

// BufferRecord is the creation or the release of a root buffer.
type BufferRecord struct {
	Buffer   mem.BufferID
	Name     string      // the user's, may be empty
	Size     uint64      // bytes
	Version  mem.Version // of the content it was created with, fresh on the host; 0 where there is none
	Whole    bool        // devices store all of it, though others of its size are stored in parts
	Released bool
	Tenant   *CommandTenant // nil where it is nobody's; do not change it
}

// CommandRecord is one command, as planned and submitted. Times are in
// nanoseconds since the context was made, and 0 where the sink is not told of all ends.
type CommandRecord struct {
	ID        uint64           // from 1, in enqueue order
	Queue     string           // name of the user's queue
	Memory    mem.MemoryID     // of the queue's device
	Op        string           // "write", "read", "copy", "fill", "launch", "migrate", "marker", "barrier", "host-call"
	Kernel    string           // for launches
	Label     string           // the program's
	Context   context.Context  // of the call that enqueued it, for its values alone; nil of a graph's commands
	Accesses  []mem.Access     // root ranges, as given to the planner
	Clock     uint64           // how many commands were accepted that access something, this one included
	Evictions []EvictionRecord // carried out before Blocks and Steps, also where the command was refused then
	Stored    []StoredRecord   // of what Accesses say, where more has to be stored than they say
	Blocks    []BlockRecord
	Regrows   []StepRecord // copies within a memory, into some of Blocks from those whose place these took; before Steps, and also where the command was refused then
	Steps     []StepRecord
	Waits     []mem.Wait  // of the command: hazards, steps, the user's wait list
	Point     mem.Point   // zero where the command was refused
	Version   mem.Version // of what it writes; 0 where it writes nothing
	Enqueued  int64       // when the call came
	Done      int64       // when it was submitted
	Err       error       // why it was refused
	Again     bool        // beside Err: it is not refused yet, but waits for the room of what was evicted for it, and is told again
}

// Clone is a copy of c that may be kept: a sink's caller uses the slices again.
func (c *CommandRecord) Clone() CommandRecord {
	k := *c
	k.Accesses = slices.Clone(c.Accesses)
	k.Blocks = slices.Clone(c.Blocks)
	k.Stored = slices.Clone(c.Stored)
	k.Waits = slices.Clone(c.Waits)
	k.Steps = cloneSteps(c.Steps)
	k.Regrows = cloneSteps(c.Regrows)
	k.Evictions = slices.Clone(c.Evictions)
	for i := range k.Evictions {
		k.Evictions[i].Blocks = slices.Clone(k.Evictions[i].Blocks)
		k.Evictions[i].Backs = cloneSteps(k.Evictions[i].Backs)
	}
	return k
}

func cloneSteps(steps []StepRecord) []StepRecord {
	out := slices.Clone(steps)
	for i := range out {
		out[i].Waits = slices.Clone(out[i].Waits)
	}
	return out
}

// StoredRecord is what of a buffer a command wants stored, in one block, on a memory.
type StoredRecord struct {
	Buffer mem.BufferID
	Memory mem.MemoryID
	Range  mem.Range // of the root buffer
}

// BlockRecord is storage that a command was the first to want.
type BlockRecord struct {
	Buffer mem.BufferID
	Memory mem.MemoryID
	Bytes  uint64
	Range  mem.Range // of the root buffer that it holds; all of it where that is stored whole
}

// EvictionRecord is a block that went to make room for a command, and why it: of
// those that could go its Score was low; or one that was to go, and stayed (Stayed). Bytes.
type EvictionRecord struct {
	Buffer  mem.BufferID
	Memory  mem.MemoryID
	Range   mem.Range    // of the root buffer that the block held
	Fresh   uint64       // bytes that were valid in it
	Dropped uint64       // of Fresh, those that were elsewhere, too
	To      mem.MemoryID // where the rest was written back; the host where there was none
	Used    uint64       // the CommandRecord.Clock of the last command that used it; 0 is none
	Policy  string       // or "drop", where the program asked for it; or ByRegrow
	Score   float64
	Why     string // what Score comes of, in the policy's words; "" where the program or a regrow has it go
	// Next is the buffer whose block would have gone next, with its score and reason; 0 is none near.
	Next      mem.BufferID
	NextScore float64
	NextWhy   string
	Blocks    []BlockRecord // storage that there was none of for Backs
	// Backs are the copies that wrote it back. The CompletionRecord of back k, counted
	// through all evictions of the command, has the Step -2-k.
	Backs []StepRecord
}

// Stayed reports whether the block did not go, since a write-back was refused, of its own
// content or of another's. Backs are those that were accepted before; Range, Fresh and
// Dropped are of no bytes.
func (v *EvictionRecord) Stayed() bool { return v.Range.Empty() }

// ByRegrow is the Policy of bytes that left since the block that took their block's place
// does not hold them.
const ByRegrow = "regrow"

// StepRecord is a copy inserted before a command, and why: To lacked the
// versions Oldest to Newest of the range, which the memories of Fresh held, and
// From was chosen among those by Choice. The command that wrote a version is the
// one whose CommandRecord.Version it is.
type StepRecord struct {
	Buffer         mem.BufferID
	Range          mem.Range // bytes of the root buffer
	From, To       mem.MemoryID
	Way            mem.Way
	RideAlong      uint64 // bytes of the range that nobody needed
	Oldest, Newest mem.Version
	Fresh          mem.MemorySet
	Choice         string // a phrase that follows "from m, "
	Why            string // all of that in a sentence
	Waits          []mem.Wait
	Point          mem.Point // zero where the step was never submitted

	// Late says that how many bytes move is known only when the step has ended:
	// see CompletionRecord.Moved. Where Count is not 0, they are those below the
	// number in that size buffer's bytes of CountVersion.
	Late         bool
	Count        mem.BufferID
	CountVersion mem.Version
}

// CompletionRecord is the end of a command or step. Times are in nanoseconds
// since the context was made; Started is 0 where the queue keeps no times.
type CompletionRecord struct {
	Command uint64 // CommandRecord.ID
	Step    int    // index in CommandRecord.Steps, -1 for the command itself; -2-n for the n-th of all Backs of its evictions
	Point   mem.Point
	Err     error
	Moved   mem.Range // bytes of the root buffer that a step has moved, with those that rode along
	Count   uint64    // that a late step has read; of meaning where StepRecord.Count is not 0
	Started int64
	Ended   int64
}
