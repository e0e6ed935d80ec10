package migration

import (
	"godwit/mem"
)

// Plan is what has to happen before a command may run. It is data: the planner
// fills it, the runtime carries it out. One Plan can be filled again and again
// and then allocates nothing; the slices are valid until it is filled again.
type Plan struct {
	// Accesses are the command's, with memories that share a store named by it
	// and overlapping ranges made disjoint: where one reads and another writes
	// the same bytes, they are read-write.
	Accesses []mem.Access
	// Storage must exist, and Stored be told, before a step or the command runs.
	Storage []Want
	// Steps are the copies, in the order in which to submit and commit them.
	Steps []Step
	// StepWaits are the indices of the steps that the command waits for as Data.
	StepWaits []int
	// Waits are the command's further waits.
	Waits []mem.Wait

	counted    []counted // the counts that steps read
	countSteps []int     // the steps that bring them

	arena  []mem.Wait // the steps' waits, one after the other
	groups []group
	bounds []bound
	spans  []Span // what it was planned with
	edits  uint64 // the planner's when planned
	lacks  bool   // a block is missing
	loaded int    // how many steps Planner.loads has, while it is planned
}

// Step is one copy of a range of a buffer between its blocks on two memories.
// A ring is one step: the mover does its legs through staging memory, and the
// host's own copy does not become valid by it.
type Step struct {
	Buffer   mem.BufferID
	Range    mem.Range
	From, To mem.MemoryID
	Way      mem.Way // how; whoever carries the step out does it so
	// Waits are points that must be reached before the copy starts. It lies in
	// the plan.
	Waits []mem.Wait
	// After is the step of the same plan whose destination this one reads, to
	// be waited for as Data; -1 where there is none.
	After int
	// Export is the earlier step of the same plan that takes the same bytes from
	// the same memory the same way, which is not direct, so that one transfer serves
	// both; -1 where there is none. From's later writers wait for both.
	Export int
	// RideAlong is how many bytes of Range nobody needed (the link's
	// alignment).
	RideAlong uint64
	Reason    Reason
	// Late is not nil where the bytes that move are known only when the step
	// runs: no more than Range, and perhaps none.
	Late *Late

	from, to int32  // Waits in the arena, while it grows
	loaded   uint64 // bytes of it that Planner.loads has, while it is planned
	legs     int8   // how many transfers it takes, by what was known when it was planned
	cut      bool   // Range ends with a block
	kept     bool   // of a Regrow: an unmap that may be taken back counts on the bytes
	drops    bool   // see Drops
}

// Bytes is how many bytes the step moves because they are needed: where it has a
// Late, at most.
func (s *Step) Bytes() uint64 { return s.Range.Size() - s.RideAlong }

// Reason says why a step is what it is: To lacked the versions Oldest to Newest
// of its range, which the memories of Fresh held; From was chosen among them by
// Choice. Commit returned these versions to whoever wrote them.
type Reason struct {
	Oldest, Newest mem.Version
	Fresh          mem.MemorySet
	Choice         Choice
}

// Choice is what made the planner prefer a source to the other memories that
// held the bytes. In this order it looks.
type Choice uint8

// OnlyCopy: there was no other. byWay: its way is cheaper. byTime: its link is
// expected to take less time. byNeighbour: the copy of the bytes before
// comes from there. byLoad: its link has less to carry. byNumber: nothing else
// told them apart. byExport: another step of the plan brings the bytes to
// staging anyway. byRelay: it is the destination of an earlier step, and nearer.
// forWriteBack: it gives its block up. forExchange: its block there is exchanged for a larger one.
const (
	OnlyCopy Choice = iota
	byWay
	byTime
	byNeighbour
	byLoad
	byNumber
	byExport
	byRelay
	forWriteBack
	forExchange
)

// String is a phrase that follows "from m, ".
func (c Choice) String() string {
	return [...]string{
		"the only copy", "the cheapest way", "the fastest link", "like the bytes before", "the least loaded link", "the first of equals",
		"exported once for several", "relayed from an earlier step", "written back before its block goes", "moved into its new block", "unknown",
	}[min(c, forExchange+1)]
}

// group is a run of accesses of one buffer on one memory in ascending order,
// whose steps are therefore in ascending order too.
type group struct {
	buffer mem.BufferID
	memory mem.MemoryID
	end    uint64 // of the last access
	step   int    // the first step
}

func (d *Plan) reset() {
	d.Accesses, d.Storage, d.Steps = d.Accesses[:0], d.Storage[:0], d.Steps[:0]
	d.StepWaits, d.Waits, d.lacks, d.loaded = d.StepWaits[:0], d.Waits[:0], false, 0
	d.arena, d.groups, d.bounds = d.arena[:0], d.groups[:0], d.bounds[:0]
	if len(d.counted) > 0 {
		d.counted, d.countSteps = d.counted[:0], d.countSteps[:0]
	}
}

// finish makes the slices that could not be made while their array grew.
func (d *Plan) finish() {
	for i := range d.Steps {
		s := &d.Steps[i]
		s.Waits = d.arena[s.from:s.to:s.to]
		if s.Late != nil {
			d.finishLate(s)
		}
		d.StepWaits = append(d.StepWaits, i)
	}
}

// open starts a new group where access a does not continue the last.
func (d *Plan) open(a *mem.Access) {
	if n := len(d.groups); n > 0 {
		g := &d.groups[n-1]
		if g.buffer == a.Buffer && g.memory == a.Memory && g.end <= a.Range.Start {
			g.end = a.Range.End
			return
		}
	}
	d.groups = append(d.groups, group{a.Buffer, a.Memory, a.Range.End, len(d.Steps)})
}

// covering returns a step of one of the first n groups that brings all of r of the
// buffer to another memory than m, for which ok holds; or -1.
func (d *Plan) covering(n int, id mem.BufferID, r mem.Range, m mem.MemoryID, ok func(*Step) bool) int {
	for gi := range n {
		g := &d.groups[gi]
		if g.buffer != id || g.memory == m {
			continue
		}
		lo, hi := g.step, d.groups[gi+1].step
		for lo < hi { // the last step that starts at or below r.Start
			if mid := (lo + hi) / 2; d.Steps[mid].Range.Start <= r.Start {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		if lo--; lo >= g.step && d.Steps[lo].Range.Contains(r) && ok(&d.Steps[lo]) {
			return lo
		}
	}
	return -1
}
