// Package page draws runs: what ran where and when, who held which bytes, how full memories
// and links were, and what each copy was for. A Builder is told what a trace tells
// (mem/trace), and makes a Run; that is written as one HTML file that loads nothing
// (Write), or as trace events for Perfetto (WriteTimeline).
//
// docs/design/page.md says what is drawn and how. Times are nanoseconds of the run's clock,
// sizes bytes. Nothing here is for several goroutines at once.
package page

import "godwit/mem"

// kind is what an event is.
type kind uint8

// The kinds of events.
const (
	commandKind  kind = iota // that the program enqueued
	copyKind                 // that a command needed
	backKind                 // a write-back, to make room
	exchangeKind             // a copy within a memory, into a wider block
	evictionKind             // a block that left; it takes no time
	Leg                      // a part of a ring, or what else ran for nobody known
	Mapped                   // what the host had mapped
)

// kinds are their names.
var kinds = [...]string{"command", "copy", "write-back", "exchange", "eviction", "leg", "mapped"}

// String is "command", "copy", …
func (k kind) String() string { return kinds[k] }

// Run is a run as it is drawn.
type Run struct {
	Name, Clock string
	Figures     []figure
	Notes       []string // what is missing
	Memories    []string // names; the host's first
	Buffers     []buffer
	Events      []Event
	Lanes       []lane
	Waits       []after
	Path        []Part
	Held        []held
	Uses        []use
	Sets        []mem.MemorySet // that Held names
	Begin, End  int64
	Fold        int64 // stretches of time that are one; 0: every event is there
	Folded      int   // events that there were
}

// figure is a total.
type figure struct{ Name, Value string }

// buffer is a root buffer; in pictures its bytes are at At.
type buffer struct {
	Name     string
	Size, At uint64
}

// Event is what ran.
type Event struct {
	Kind               kind
	Number             int // of the command, or of that which it was for; 0 is nobody's
	Queued, Start, End int64
	Buffer             int32 // index, or -1
	Range              mem.Range
	From, To           int32 // memories; -1 is none
	Bytes              uint64
	Name               string
	Failed             string
	Row                any // what --json has of it; nil is nothing
	Index              int // in the list that --json has of its kind; -1 where it is in none
	Count              int // more than 1: of a folded one, how many it stands for

	home int32 // its lane
}

// lane is a line of the picture.
type lane struct {
	Group    string // pathLanes, Host, …
	Name     string
	Memory   int    // whose, or -1
	Capacity uint64 // bytes a second of a link, bytes of a memory; 0 is unknown or without limit
	Items    []Item
	Levels   []level // of a memory
}

// The groups of lanes, in the order in which they are drawn.
const (
	pathLanes   = "Critical path"
	Host        = "Host"
	queueLanes  = "Queues"
	Copies      = "Copies"
	Engines     = "Engines"
	Links       = "Links"
	memoryLanes = "Memories"
)

// Item is an event's place in a lane: as many as it stands for, in Row of those below each other.
type Item struct {
	Event    int32
	From, To int64
	Busy     int64 // at most To - From; less of folded ones
	Bytes    uint64
	Row      int32
}

// level is how much a memory held from a time on.
type level struct {
	At    int64
	Bytes uint64
}

// after says that Event waited for For.
type after struct{ Event, For int32 }

// Part is a stretch of the critical path.
type Part struct {
	From, To int64
	Event    int32 // -1 is none that is drawn, or the host
	Reason   string
	What     string
	After    string
	Shared   uint64 // of it, what others on its links took
}

// held says who held the latest content of bytes for a time, and whose it was.
type held struct {
	From, To int64
	Buffer   int32
	Range    mem.Range
	Set      int32 // in Sets
	Writer   int32 // the event; -1 is the initial content, forgotten one that is not kept
}

// use is an access of a command's.
type use struct {
	Event, Buffer int32
	Range         mem.Range
	Memory        int32
	Mode          mem.Mode
}
