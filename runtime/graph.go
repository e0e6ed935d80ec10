package runtime

import (
	"cmp"
	"fmt"
	"slices"

	"godwit/mem"
	"godwit/migration"
)

// Graphs: a recording as it is replayed (docs/design/graphs.md). Assumptions: the same round is
// replayed many times; between two replays little happens to its buffers; its blocks fit
// at once. Where they do not hold, a replay enqueues the commands one by one (plain.go).

// Graph is a recording that can be replayed, any number of times and from many goroutines,
// also while earlier replays run. It keeps no buffers alive. One with transients is to be closed.
type Graph struct {
	c        *Context         // immutable
	rec      *Recording       // immutable: it is over
	round    *migration.Round // immutable; nil where plain says so
	spans    []migration.Span // immutable: what has to lie in one block each, by number of the root
	plain    string           // immutable: why commands are enqueued one by one; "" where they need not
	queues   []*Queue         // immutable: of the commands
	programs []*Program       // immutable: of their kernels
	onHost   []bool           // immutable: by number, the round uses the root on the host
	bound    *instance        // protected by c.mu, as all below
	now      migration.Replay // the replay under way
	at       []*root          // by number, as bound now
	rebound  bool             // since the commands were prepared, some slot
	blocks   []placed         // where the spans were when the commands were prepared
	prepared []prepared       // by command
	changed  []Value          // that prepared commands have otherwise than recorded
	unended  bool             // a replay that began as prepared goes on one by one: transients have content for it
	closed   bool
	user     []mem.Wait // what all its commands wait for
	figures  GraphFigures
}

// GraphFigures say what a graph does.
type GraphFigures struct {
	Commands int    // recorded
	Runs     int    // that queues are given the commands as, where nobody asks for the end of each
	Copies   int    // of what a round has written, in each replay
	Bytes    uint64 // that these move in a replay
	Entry    uint64 // bytes that the last replay moved before its first command, since they were not where it reads them
	// Transients are the bytes that transients take on all memories together, Live those that are in use at once at
	// most, summed over the memories, each in whole units of the devices' alignment: no placement takes less.
	Transients, Live uint64
	Replays          uint64
	Plain            uint64 // of these, those whose commands were enqueued one by one
	Why              string // the last one was; "" where none was
}

// Binding says what buffer a slot stands for in a replay.
type Binding struct{ Slot, Buffer *Buffer }

// NewValue changes a value of a recorded launch in a replay.
type NewValue struct {
	Value Value
	Arg   Arg // by value, of the same size
}

// NewMemory changes the program's memory that a recorded write or read uses in a replay.
type NewMemory struct {
	Memory HostMemory
	Bytes  []byte // of the same length
}

// Bindings are what a replay is given.
type Bindings struct {
	Slots  []Binding  // each slot of the recording, once
	Values []NewValue // others are as recorded
	// Memory is what recorded writes and reads use in place of the memory that they were recorded with; the last one
	// of a command counts. It is the runtime's until the command has ended, and kept until the next replay.
	Memory []NewMemory
	// Queues, where not empty, are taken in place of those on which the commands were recorded, in the order
	// in which the recording named these; each is of the same device.
	Queues []*Queue
	// Events, where not empty, has an entry for each recorded command, in the order of their
	// recording, and gets the event of that command in this replay.
	Events []Event
}

// ReplayError says that a replay ended early. Of its commands so many were accepted, as if enqueued, and of those
// behind them the ones that Beyond lists, which were in runs of other queues. The others have had no effect.
type ReplayError struct {
	Accepted int
	Beyond   []int
	Err      error
}

// replayError is that of command i; points has those of the commands that were accepted.
func replayError(i int, points []mem.Point, err error) *ReplayError {
	e := &ReplayError{Accepted: i, Err: err}
	for k := i; k < len(points); k++ {
		if !points[k].IsZero() {
			e.Beyond = append(e.Beyond, k)
		}
	}
	return e
}

func (e *ReplayError) Error() string {
	return fmt.Sprintf("replay: command %d: %v", e.Accepted, e.Err)
}

// Unwrap implements the errors package's interface.
func (e *ReplayError) Unwrap() error { return e.Err }

// newGraph plans a recording. c.mu is held.
func newGraph(rec *Recording) (*Graph, error) {
	g := &Graph{c: rec.c, rec: rec, plain: rec.plain}
	g.figures.Commands = len(rec.commands)
	for i := range rec.commands {
		k := &rec.commands[i]
		if !slices.Contains(g.queues, k.req.q) {
			g.queues = append(g.queues, k.req.q)
		}
		if k.launch != nil && !slices.Contains(g.programs, k.launch.Kernel.prog) {
			g.programs = append(g.programs, k.launch.Kernel.prog)
		}
	}
	if g.plain == "" {
		if err := g.plan(); err != nil {
			return nil, err
		}
	}
	g.bound = newInstance(rec.commands)
	return g, nil
}

// all are the numbers of all commands.
func (g *Graph) all() (list []int) {
	for i := range g.rec.commands {
		list = append(list, i)
	}
	return list
}

// plan plans the round. c.mu is held.
func (g *Graph) plan() (err error) {
	rec := g.rec
	var inOrder []bool
	for _, q := range g.queues {
		inOrder = append(inOrder, q.inOrder)
	}
	var commands []migration.RoundCommand
	for i := range rec.commands {
		k := &rec.commands[i]
		commands = append(commands, migration.RoundCommand{
			Queue: slices.Index(g.queues, k.req.q), Accesses: k.accs, Undefined: k.begins, After: k.after, Joins: k.joins(),
		})
		g.spans = append(g.spans, k.spans...)
		for _, a := range k.accs {
			g.spans = append(g.spans, migration.Span{Buffer: a.Buffer, Memory: g.c.topo.Store(a.Memory), Range: a.Range})
		}
	}
	if g.round, err = migration.PlanRound(g.c.topo, rec.buffers(), inOrder, commands); err != nil {
		return err
	}
	g.spans = outermost(append(g.spans, g.round.Spans...))
	g.onHost = make([]bool, len(rec.roots))
	for _, n := range g.spans {
		g.onHost[n.Buffer] = g.onHost[n.Buffer] || n.Memory == mem.Host
	}
	g.now = migration.NewReplay(g.round, len(rec.roots))
	g.at, g.blocks, g.prepared = make([]*root, len(rec.roots)), make([]placed, len(g.spans)), newPrepared(g.round)
	g.figures.Runs, g.figures.Copies, g.figures.Bytes = g.round.Runs, g.round.Copies, g.round.Bytes
	g.figures.Transients, g.figures.Live = rec.memory()
	return nil
}

// outermost are those of some spans that lie in no other, by buffer, memory and offset.
func outermost(spans []migration.Span) (out []migration.Span) {
	slices.SortFunc(spans, func(a, b migration.Span) int {
		return cmp.Or(cmp.Compare(a.Buffer, b.Buffer), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.Range.Start, b.Range.Start), cmp.Compare(b.Range.End, a.Range.End))
	})
	for _, n := range spans {
		if k := len(out) - 1; k < 0 || out[k].Buffer != n.Buffer || out[k].Memory != n.Memory || !out[k].Range.Contains(n.Range) {
			out = append(out, n)
		}
	}
	return out
}

// made fails for a graph that no recording has made.
func (g *Graph) made() error {
	if g == nil || g.c == nil {
		return fmt.Errorf("nil graph: %w", mem.ErrInvalidValue)
	}
	return nil
}

// Figures say what the graph does.
func (g *Graph) Figures() GraphFigures {
	if g.made() != nil || g.c.enter() != nil {
		return GraphFigures{}
	}
	defer g.c.unlock()
	return g.figures
}
