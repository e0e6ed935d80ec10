package scenario

import (
	"fmt"

	"godwit/internal/expr"
	"godwit/mem"
	"godwit/mem/trace"
)

// Result is what a run showed. Its JSON form is one object.
type Result struct {
	Scenario  string           `json:"scenario"`
	File      string           `json:"file"`
	About     string           `json:"about,omitempty"`
	Params    []paramResult    `json:"params,omitempty"`
	Devices   []deviceResult   `json:"devices"`
	Commands  []commandResult  `json:"commands"`
	Copies    []copyResult     `json:"copies"`
	Evictions []evictionResult `json:"evictions"`
	Segments  []segment        `json:"segments"` // of every buffer, after the last command
	Expect    []expectedResult `json:"expectations"`
	Failures  []failureResult  `json:"failures,omitempty"` // of devices at a time
	Memories  []memoryResult   `json:"memories,omitempty"` // where statistics are kept

	// Journeys are of the bytes that RunOptions.Explain names.
	Journeys []*journey `json:"journeys,omitempty"`

	BytesMoved      uint64 `json:"bytes_moved"`       // arriving at destinations, each once
	BytesRegrown    uint64 `json:"bytes_regrown"`     // copied within devices, into blocks that took others' place; not in BytesMoved
	BytesLowerBound uint64 `json:"bytes_lower_bound"` // BytesCompulsory and BytesCapacityBound
	BytesCompulsory uint64 `json:"bytes_compulsory"`  // had to move, as if no memory had a limit
	BytesCapacity   uint64 `json:"bytes_capacity"`    // moved besides, since memories are short; write-backs among them
	// BytesCapacityBound is the least that BytesCapacity could have been, or less.
	BytesCapacityBound uint64 `json:"bytes_capacity_bound"`

	BytesRideAlong uint64 `json:"bytes_ride_along"` // copied though nobody needed them, not in BytesMoved
	// BytesHost is what reads and writes carried between the host's memory and that of the devices which served
	// them; not in BytesMoved. BytesHostBound had to cross for them, whoever serves them.
	BytesHost      uint64 `json:"bytes_host"`
	BytesHostBound uint64 `json:"bytes_host_bound"`
	BytesRead      uint64 `json:"bytes_read"`      // by read commands
	BytesCompared  uint64 `json:"bytes_compared"`  // read, and of buffers at the end, with the reference run
	BytesUndefined uint64 `json:"bytes_undefined"` // of those, never written by anybody, and so not compared

	Verified    bool     `json:"verified"`         // every byte compared equals the reference run's
	Stamps      bool     `json:"stamps,omitempty"` // who wrote each byte was compared in place of it: the devices keep no bytes
	Mismatches  []string `json:"mismatches,omitempty"`
	NotCompared string   `json:"not_compared,omitempty"` // why no content could be compared
	Error       string   `json:"error"`                  // why the run was not finished, "" where it was

	Interrupted *interruption `json:"interrupted,omitempty"` // where the run was: nothing but bytes_moved is told of it then

	Clock string       `json:"clock"`           // whose the times are: "this computer", or "machine" and its name
	Model *modelResult `json:"model,omitempty"` // of a run on a machine

	Graphs []graphResult `json:"graphs,omitempty"` // repeats that are graphs

	Measured  *measuredResult `json:"measured,omitempty"`  // of a run on devices of this computer
	Makespans *Makespans      `json:"makespans,omitempty"` // where the commands ran several times

	s       *Scenario
	rec     *recorder
	records []*record      // of Commands; nil where there is none
	ids     []mem.BufferID // of the scenario's buffers; 0 where it was never made
	store   func(mem.MemoryID) mem.MemoryID
	took    *Makespans
	own     []uint64 // by graph
	slept   []hostWait
	began   int64 // by the run's clock: when the commands did, the last time
}

// paramResult is a parameter of the scenario and what it was.
type paramResult struct {
	Name  string    `json:"name"`
	Type  expr.Type `json:"type"`
	Value string    `json:"value"` // as an expression: sizes are in bytes
}

// deviceResult is a device of the run.
type deviceResult struct {
	Name    string `json:"name"`
	Driver  string `json:"driver"`
	Memory  int    `json:"memory"` // the number of its memory; the host's is 0
	Type    string `json:"type"`
	Bytes   uint64 `json:"bytes"`    // of memory; 0 is unlimited
	PeakUse uint64 `json:"peak_use"` // bytes in live blocks, at most
	// PeakWhole is what PeakUse would be at least, were every buffer stored whole.
	PeakWhole uint64 `json:"peak_whole"`
}

// commandResult is a command of the run.
type commandResult struct {
	Number     int    `json:"number"` // from 1
	ID         string `json:"id,omitempty"`
	Line       int    `json:"line"`
	Queue      string `json:"queue"`
	Device     string `json:"device"`
	Kind       string `json:"kind"`
	Text       string `json:"text"`
	BytesMoved uint64 `json:"bytes_moved"`         // by the copies it needed, and by write-backs to make room for it
	Copies     []int  `json:"copies"`              // indexes into Result.Copies
	Evictions  []int  `json:"evictions,omitempty"` // indexes into Result.Evictions

	Failed    string        `json:"failed,omitempty"`    // why it failed
	Callbacks []string      `json:"callbacks,omitempty"` // in the order in which they came
	Times     *commandTimes `json:"times,omitempty"`     // where asked for, and kept
}

// copyResult is a copy that the planner inserted.
type copyResult struct {
	Buffer  string `json:"buffer"`
	Offset  uint64 `json:"offset"`
	Bytes   uint64 `json:"bytes"`
	From    string `json:"from"`
	To      string `json:"to"`
	Way     string `json:"way"`    // direct or ring
	Reason  string `json:"reason"` // which content was stale, who made it so, where it was fresh
	Choice  string `json:"choice"` // why from there
	Writers []int  `json:"written_by"`
	Command int    `json:"command"` // number of the command it was made for

	Again     bool   `json:"again,omitempty"`      // the destination held it until that block had to go
	RideAlong uint64 `json:"ride_along,omitempty"` // of the bytes, how many nobody needed
	Planned   uint64 `json:"planned,omitempty"`    // bytes, where how many of them move was known only when it ran

	step *trace.StepRecord
}

// expectedResult is an expectation and what became of it.
type expectedResult struct {
	Line int    `json:"line"`
	Text string `json:"text"`
	Met  bool   `json:"met"`
	Got  string `json:"got,omitempty"` // where it was not met
}

// OK reports whether the run was finished, verified, and as expected.
func (r *Result) OK() bool {
	ok := r.Error == "" && (r.Verified || (r.NotCompared != "" && len(r.Mismatches) == 0))
	for _, e := range r.Expect {
		ok = ok && e.Met
	}
	return ok
}

func newResult(s *Scenario) *Result {
	return &Result{
		Scenario: s.Name, File: s.File, About: s.About, Params: s.paramResults(), s: s,
		Devices: []deviceResult{}, Commands: []commandResult{}, Copies: []copyResult{}, Evictions: []evictionResult{}, Segments: []segment{}, Expect: []expectedResult{},
	}
}

// Failed is the result of a run that could not begin.
func Failed(file string, err error) *Result {
	res := newResult(&Scenario{File: file})
	res.Error = err.Error()
	return res
}

func (s *Scenario) paramResults() (out []paramResult) {
	for _, p := range s.Params {
		out = append(out, paramResult{p.Name, p.Type, p.Value})
	}
	return out
}

// explain turns the recorded commands into the result's tables.
func (r *runner) explain(res *Result) {
	s := r.s
	res.rec, res.ids, res.store = r.rec, r.ids, r.ctx.Topology().Store
	r.x = &explainer{
		memories: r.names, commands: func(i int) string { return s.Commands[i-1].verb() }, names: make(map[mem.BufferID]string),
		gone:   make(map[block]int),
		ledger: r.newLedger(), store: r.ctx.Topology().Store, ended: r.rec.ended,
	}
	if r.model != nil {
		r.x.path = r.wayOf
	}
	if n := len(r.clocked); n > 0 && s.Times > 0 {
		r.x.began = r.clocked[n-1].from
	}
	for i := range s.Buffers {
		r.x.names[r.ids[i]] = s.Buffers[i].Name
	}
	for k := range r.graphs {
		for _, a := range r.graphs[k].arenas {
			r.x.names[a.arena] = fmt.Sprintf("transients of line %d", r.graphs[k].decl.Line)
		}
	}
	r.watch(res)
	res.records, res.Commands = make([]*record, len(r.events)), make([]commandResult, len(r.events))
	for _, i := range r.order() {
		r.explainCommand(res, i)
	}
	for i, id := range r.ids {
		if id != 0 && len(r.reachable(i)) > 0 {
			res.Segments = append(res.Segments, r.x.segmentsOf(id, mem.Range{End: s.Buffers[i].Size})...)
		}
	}
	res.Mismatches = append(res.Mismatches, r.x.problems...)
	r.describeGraphs(res)
	r.describeDevices(res)
	r.countMemories(res)
}

// explainCommand adds command i, and the copies that it needed.
func (r *runner) explainCommand(res *Result, i int) {
	s := r.s
	c := &s.Commands[i]
	out := commandResult{Number: i + 1, ID: c.ID, Line: c.Line, Kind: string(c.Kind), Text: s.text(c), Copies: []int{}}
	if c.queued() {
		out.Queue, out.Device = s.Queues[c.Queue].Name, s.Queues[c.Queue].Device
	}
	r.forget(r.x.ledger, s.roundOf(i, false))
	rec := r.recorded(i)
	res.records[i] = rec
	if r.failed[i] != nil {
		out.Failed = r.failed[i].Error()
	}
	if rec != nil {
		r.evictions(res, &out, rec)
		for j := range rec.Steps {
			cp := r.x.copy(&rec.Steps[j], i+1, r.rec.failed(rec.Steps[j].Point))
			if rec.Steps[j].Late && cp.Bytes == 0 {
				continue // whether it was planned at all is a matter of when an earlier one ended
			}
			out.Copies = append(out.Copies, len(res.Copies))
			out.BytesMoved += cp.Bytes - cp.RideAlong
			res.BytesRideAlong += cp.RideAlong
			res.Copies = append(res.Copies, cp)
		}
		r.x.ledger.Wrote(i+1, rec.Accesses, r.failed[i] != nil)
		r.mapped(r.x.ledger, i)
		r.x.noteCommand(&out, rec.Accesses, rec.Point)
		if c.Kind == opHostWrite && c.Mapping < 0 { // fine-grained memory, which the runtime knows nothing of
			access := []mem.Access{{Buffer: r.ids[c.Place.Buffer], Range: c.Place.Range, Mode: mem.Write, Memory: mem.Host}}
			r.x.ledger.Wrote(i+1, access, false)
			r.x.noteCommand(&out, access, mem.Point{})
		}
	}
	if g := s.roundOf(i, true); g != nil && !s.Unrecorded {
		r.forget(r.x.ledger, g)
		for _, b := range g.Transients {
			r.x.note(r.ids[b], mem.Range{End: s.Buffers[b].Size}, journeyStep{Command: i + 1, What: "end", Text: "the round ends", Why: "it is a transient of the graph"})
		}
	}
	res.BytesMoved += out.BytesMoved
	res.Commands[i] = out
}

func (r *runner) describeDevices(res *Result) {
	res.BytesRegrown = r.ctx.Stats().BytesRegrown
	for i, name := range r.names[1:] {
		d := r.devs[name]
		stats := r.ctx.Resource(mem.MemoryID(i + 1)).Stats()
		res.Devices = append(res.Devices, deviceResult{
			Name: name, Driver: r.driver(i), Memory: i + 1,
			Type: string(d.Info().Type), Bytes: r.capacity(i), PeakUse: stats.PeakLive,
			PeakWhole: r.ctx.Footprint(mem.MemoryID(i + 1)).WholePeak,
		})
	}
}
