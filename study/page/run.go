// Package page draws runs: what ran where and when, who held which bytes, how full memories
// and links were, and what each copy was for. A Builder is told what a trace tells
// (mem/trace), and makes a Run; that is written as one HTML file that loads nothing
// (Write), or as trace events for Perfetto (WriteTimeline).
//
// docs/design/page.md says what is drawn and how. Times are nanoseconds of the run's clock,
// sizes bytes. Nothing here is for several goroutines at once.
package page

import "godwit/mem"

// Kind is what an event is.
type Kind uint8

// The kinds of events.
const (
	Command  Kind = iota // that the program enqueued
	Copy                 // that a command needed
	Back                 // a write-back, to make room
	Exchange             // a copy within a memory, into a wider block
	Eviction             // a block that left; it takes no time
	Leg                  // a part of a ring, or what else ran for nobody known
	Mapped               // what the host had mapped
	Wait                 // the host waited
)

// kinds are their names.
var kinds = [...]string{"command", "copy", "write-back", "exchange", "eviction", "leg", "mapped", "wait"}

// String is "command", "copy", …
func (k Kind) String() string { return kinds[k] }

// Run is a run as it is drawn.
type Run struct {
	Name, Clock string
	Figures     []Figure
	Notes       []string // what is missing
	Memories    []string // names; the host's first
	Buffers     []Buffer
	Events      []Event
	Lanes       []Lane
	Waits       []After
	Path        []Part
	Held        []Held
	Uses        []Use
	Sets        []mem.MemorySet // that Held names
	Begin, End  int64
	Fold        int64 // stretches of time that are one; 0: every event is there
	Folded      int   // events that there were
}

// Figure is a total.
type Figure struct{ Name, Value string }

// Buffer is a root buffer; in pictures its bytes are at At.
type Buffer struct {
	Name     string
	Size, At uint64
}

// Event is what ran.
type Event struct {
	Kind               Kind
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

// Lane is a line of the picture.
type Lane struct {
	Group    string // Path, Host, Queues, Copies, Engines, Links, Memories
	Name     string
	Memory   int    // whose, or -1
	Capacity uint64 // bytes a second of a link, bytes of a memory; 0 is unknown or without limit
	Items    []Item
	Levels   []Level // of a memory
}

// The groups of lanes, in the order in which they are drawn.
const (
	Path     = "Critical path"
	Host     = "Host"
	Queues   = "Queues"
	Copies   = "Copies"
	Engines  = "Engines"
	Links    = "Links"
	Memories = "Memories"
)

// Item is an event's place in a lane: as many as it stands for, in Row of those below each other.
type Item struct {
	Event    int32
	From, To int64
	Busy     int64 // at most To - From; less of folded ones
	Bytes    uint64
	Row      int32
}

// Level is how much a memory held from a time on.
type Level struct {
	At    int64
	Bytes uint64
}

// After says that Event waited for For.
type After struct{ Event, For int32 }

// Part is a stretch of the critical path.
type Part struct {
	From, To int64
	Event    int32 // -1 is none that is drawn, or the host
	Reason   string
	What     string
	After    string
	Shared   uint64 // of it, what others on its links took
}

// Held says who held the latest content of bytes for a time, and whose it was.
type Held struct {
	From, To int64
	Buffer   int32
	Range    mem.Range
	Set      int32 // in Sets
	Writer   int32 // the event; -1 is the initial content
}

// Use is an access of a command's.
type Use struct {
	Event, Buffer int32
	Range         mem.Range
	Memory        int32
	Mode          mem.Mode
}
