package scenario

import (
	"fmt"
	"maps"
	"slices"

	"godwit/mem"
	"godwit/study/bound"
)

// What repeats that are graphs have cost, also where their rounds were enqueued, so that both
// can be compared.

// graphResult is a repeat that is a graph.
type graphResult struct {
	Line     int  `json:"line"`
	Commands int  `json:"commands"` // of a round
	Rounds   int  `json:"rounds"`
	Recorded bool `json:"recorded"` // else each round was enqueued

	Slots  int `json:"slots"`  // buffers that stand for others in some round
	Values int `json:"values"` // by value that are others in some round

	// Period is after how many rounds the same buffers are used again; 0 is not known. A steady round is the last but one, or the mean of the
	// last as many; their bound holds for rounds without end, and where blocks had to leave, for memories of this size.
	Period      int    `json:"period"`
	BytesFirst  uint64 `json:"bytes_first"`  // of the first round
	BytesSteady uint64 `json:"bytes_steady"` // of the last period
	BytesBound  uint64 `json:"bytes_bound"`  // of a period
	Steady      uint64 `json:"steady_ns"`    // by the run's clock, where it takes times: a round, mean over the second half of all but the last
	// CriticalPath and Busiest are the least that a steady round takes on a machine: by its longest chain, if links and engines carried
	// any number of copies at once; and by the link or engine that what it copies keeps busy for longest.
	CriticalPath uint64 `json:"critical_path_ns,omitempty"`
	Busiest      uint64 `json:"busiest_ns,omitempty"`

	Plain uint64 `json:"plain"`         // replays whose commands were enqueued one by one
	Why   string `json:"why,omitempty"` // the last one was

	// Transients are the bytes that transients take on all memories, Live those in use at once at most.
	Transients uint64 `json:"bytes_transients"`
	Live       uint64 `json:"bytes_transients_live"`

	Own uint64 `json:"own_ns"` // a command: of the calls that replayed rounds, the drivers' work in it; the median, where the commands ran several times
}

// describeGraphs says what the graphs have cost.
func (r *runner) describeGraphs(res *Result) {
	for k := range r.s.Graphs {
		d := &r.s.Graphs[k]
		out := graphResult{Line: d.Line, Commands: d.Size, Rounds: len(d.Rounds), Recorded: !r.s.Unrecorded, Slots: len(d.varying()), Values: r.s.varyingValues(d), Period: d.period()}
		if k < len(r.graphs) && r.graphs[k].graph != nil {
			r.graphs[k].describe(&out)
		}
		if complete := len(d.Rounds) > 0 && d.Rounds[len(d.Rounds)-1]+d.Size <= len(r.events); complete {
			r.steady(res, d, &out)
		}
		res.Graphs = append(res.Graphs, out)
	}
}

// describe takes over what the runtime knows.
func (g *graphRun) describe(out *graphResult) {
	f := g.graph.Figures()
	out.Plain, out.Why, out.Transients, out.Live = f.Plain, f.Why, f.Transients, f.Live
}

// own is what the calls that replayed the rounds of each graph took a command, in nanoseconds.
func (r *runner) own() (all []uint64) {
	for i := range r.graphs {
		g := &r.graphs[i]
		if took := slices.Sorted(slices.Values(g.took)); len(took) > 0 {
			all = append(all, uint64(took[len(took)/2])/uint64(g.decl.Size))
		} else {
			all = append(all, 0)
		}
	}
	return all
}

// steady counts what a steady round moves, and how long it takes.
func (r *runner) steady(res *Result, d *graphDecl, out *graphResult) {
	moved := func(start int) (bytes uint64) {
		for i := start; i < start+d.Size; i++ {
			bytes += res.Commands[i].BytesMoved
		}
		return bytes
	}
	n := len(d.Rounds)
	out.BytesFirst = moved(d.Rounds[0])
	var accesses [][]mem.Access
	period, end := min(max(d.period(), 1), n), n
	if n > period+1 { // what the last round copies for a next one is in vain, and counts nowhere
		end = n - 1
	}
	for _, start := range d.Rounds[end-period : end] {
		out.BytesSteady += moved(start)
		for i := start; i < start+d.Size; i++ {
			if rec := r.recorded(i); rec != nil {
				accesses = append(accesses, rec.Accesses)
			}
		}
	}
	out.BytesBound = r.roundBound(res, d, accesses)
	r.steadyTime(d, period, out)
}

// roundBound is how many bytes a period of rounds has to move.
func (r *runner) roundBound(res *Result, d *graphDecl, accesses [][]mem.Access) uint64 {
	store := r.ctx.Topology().Store
	if len(res.Evictions) == 0 {
		return bound.Round(store, accesses)
	}
	ends := func(id mem.BufferID) bool {
		return !r.s.Unrecorded && slices.ContainsFunc(d.Transients, func(b int) bool { return r.ids[b] == id })
	}
	b := bound.WithinRound(store, r.capacities(), ends, accesses)
	return b.Compulsory + b.Capacity
}

// varying are the objects of the first round in whose place some round has another.
func (g *graphDecl) varying() map[handle]bool {
	out := make(map[handle]bool)
	for _, round := range g.slots {
		for o := range round {
			out[o] = true
		}
	}
	return out
}

// varyingValues counts the arguments by value that are others in some round.
func (s *Scenario) varyingValues(g *graphDecl) (n int) {
	for k := 0; k < g.Size && len(g.Rounds) > 0; k++ {
		for a := range s.Commands[g.Rounds[0]+k].Args {
			if s.valueVaries(g, k, a) {
				n++
			}
		}
	}
	return n
}

// maxPeriod is after how many rounds the same buffers have to be used again, if that is to be seen.
const maxPeriod = 8

// period is after how many rounds the same buffers are used again; 0 is not known.
func (g *graphDecl) period() int {
	for p := 1; p <= min(maxPeriod, len(g.slots)); p++ {
		same := true
		for k := p; k < len(g.slots) && same; k++ {
			same = maps.Equal(g.slots[k], g.slots[k-p])
		}
		if same {
			return p
		}
	}
	return 0
}

// graphs says what the graphs have cost. Of a run that was not finished that is not known.
func (p *printer) graphs() {
	if p.r.Error != "" {
		return
	}
	for i := range p.r.Graphs {
		g := &p.r.Graphs[i]
		how := "replayed"
		if !g.Recorded {
			how = "enqueued, not recorded"
		}
		fmt.Fprintf(p.w, "graph of line %d: %s, %s %s", g.Line, count(g.Commands, "command", "commands"), count(g.Rounds, "round", "rounds"), how)
		if g.Slots+g.Values > 0 {
			fmt.Fprintf(p.w, "; %s, %s change", count(g.Slots, "slot", "slots"), count(g.Values, "value", "values"))
		}
		fmt.Fprintf(p.w, "\n  %s\n", g.movedText())
		if g.Plain > 0 {
			fmt.Fprintf(p.w, "  %s took the plain route, the last since %s\n", count(int(g.Plain), "replay", "replays"), g.Why)
		}
		if g.Transients > 0 {
			fmt.Fprintf(p.w, "  transients take %s, of which %s are in use at once (%.3f times)\n", roughText(g.Transients), roughText(g.Live), float64(g.Transients)/float64(g.Live))
		}
		if g.Steady > 0 {
			fmt.Fprintf(p.w, "  a steady round takes %s%s\n", briefSpan(g.Steady), g.leastText())
		}
		if g.Own > 0 {
			fmt.Fprintf(p.w, "  a replay's call takes %s a command, the drivers' work in it\n", briefSpan(g.Own))
		}
	}
}

// movedText sets the bytes of steady rounds beside their bound.
func (g *graphResult) movedText() string {
	text := fmt.Sprintf("the first round moves %s", sizeText(g.BytesFirst))
	switch {
	case g.Period == 0:
		return text + ", the last " + sizeText(g.BytesSteady) + "; the same buffers are not used again, so there is no bound"
	case g.Period == 1:
		text += ", a steady one "
	default:
		text += fmt.Sprintf(", %d steady ones ", g.Period)
	}
	switch text += sizeText(g.BytesSteady); {
	case g.Rounds <= 2*g.Period:
		return text + " if they were more; the bound is " + sizeText(g.BytesBound)
	case g.BytesSteady == g.BytesBound:
		return text + ": the least possible"
	}
	return text + "; the bound is " + sizeText(g.BytesBound)
}

// leastText sets the time of a steady round beside the least.
func (g *graphResult) leastText() string {
	least := max(g.CriticalPath, g.Busiest)
	if least == 0 {
		return ""
	}
	return fmt.Sprintf(": %.2f of its critical path (%s) or busiest link (%s)", float64(g.Steady)/float64(least), briefSpan(g.CriticalPath), briefSpan(g.Busiest))
}
