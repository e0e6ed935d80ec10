package scenario

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"godwit/mem"
	"godwit/trace"
)

// Result is what a run showed. Its JSON form is one object.
type Result struct {
	Scenario string           `json:"scenario"`
	File     string           `json:"file"`
	About    string           `json:"about,omitempty"`
	Devices  []DeviceResult   `json:"devices"`
	Commands []CommandResult  `json:"commands"`
	Copies   []CopyResult     `json:"copies"`
	Segments []Segment        `json:"segments"` // of every buffer, after the last command
	Expect   []ExpectedResult `json:"expectations"`

	BytesMoved      uint64 `json:"bytes_moved"`       // arriving at destinations, each once
	BytesLowerBound uint64 `json:"bytes_lower_bound"` // by the oracle
	BytesRideAlong  uint64 `json:"bytes_ride_along"`  // copied though nobody needed them, not in BytesMoved
	BytesRead       uint64 `json:"bytes_read"`        // by read commands
	BytesCompared   uint64 `json:"bytes_compared"`    // read, and of buffers at the end, with the reference run
	BytesUndefined  uint64 `json:"bytes_undefined"`   // of those, never written by anybody, and so not compared

	Verified   bool     `json:"verified"` // every byte compared equals the reference run's
	Mismatches []string `json:"mismatches,omitempty"`
	Error      string   `json:"error"` // why the run was not finished, "" where it was

	s       *Scenario
	rec     *recorder
	records []*trace.CommandRecord // of Commands; nil where there is none
}

// DeviceResult is a device of the run.
type DeviceResult struct {
	Name    string `json:"name"`
	Driver  string `json:"driver"`
	Memory  int    `json:"memory"` // the number of its memory; the host's is 0
	Type    string `json:"type"`
	Bytes   uint64 `json:"bytes"`    // of memory; 0 is unlimited
	PeakUse uint64 `json:"peak_use"` // bytes in live blocks, at most
}

// CommandResult is a command of the run.
type CommandResult struct {
	Number     int    `json:"number"` // from 1
	ID         string `json:"id,omitempty"`
	Line       int    `json:"line"`
	Queue      string `json:"queue"`
	Device     string `json:"device"`
	Kind       string `json:"kind"`
	Text       string `json:"text"`
	BytesMoved uint64 `json:"bytes_moved"` // by the copies it needed
	Copies     []int  `json:"copies"`      // indexes into Result.Copies
}

// CopyResult is a copy that the planner inserted.
type CopyResult struct {
	Buffer  string `json:"buffer"`
	Offset  uint64 `json:"offset"`
	Bytes   uint64 `json:"bytes"`
	From    string `json:"from"`
	To      string `json:"to"`
	Route   string `json:"route"`  // peer or host
	Reason  string `json:"reason"` // which content was stale, who made it so, where it was fresh
	Choice  string `json:"choice"` // why from there
	Writers []int  `json:"written_by"`
	Command int    `json:"command"` // number of the command it was made for

	RideAlong uint64 `json:"ride_along,omitempty"` // of the bytes, how many nobody needed
}

// ExpectedResult is an expectation and what became of it.
type ExpectedResult struct {
	Line int    `json:"line"`
	Text string `json:"text"`
	Met  bool   `json:"met"`
	Got  string `json:"got,omitempty"` // where it was not met
}

// OK reports whether the run was finished, verified, and as expected.
func (r *Result) OK() bool {
	ok := r.Error == "" && r.Verified
	for _, e := range r.Expect {
		ok = ok && e.Met
	}
	return ok
}

func newResult(s *Scenario) *Result {
	return &Result{
		Scenario: s.Name, File: s.File, About: s.About, s: s,
		Devices: []DeviceResult{}, Commands: []CommandResult{}, Copies: []CopyResult{}, Segments: []Segment{}, Expect: []ExpectedResult{},
	}
}

// Failed is the result of a run that could not begin.
func Failed(file string, err error) *Result {
	res := newResult(&Scenario{File: file})
	res.Error = err.Error()
	return res
}

// explain turns the recorded commands into the result's tables.
func (r *runner) explain(res *Result) {
	s := r.s
	res.rec = r.rec
	x := newExplainer(r.names, func(i int) string {
		c := &s.Commands[i-1]
		return c.verb()
	})
	for i, b := range r.buffers {
		x.create(b.ID(), s.Buffers[i].Name, s.Buffers[i].Size, s.Buffers[i].Data != nil)
	}
	for i := range r.events {
		c := &s.Commands[i]
		out := CommandResult{
			Number: i + 1, ID: c.ID, Line: c.Line, Kind: string(c.Kind), Text: s.text(c),
			Queue: s.Queues[c.Queue].Name, Device: s.Queues[c.Queue].Device, Copies: []int{},
		}
		rec := r.recorded(i)
		res.records = append(res.records, rec)
		if rec != nil {
			for j := range rec.Steps {
				cp := x.copy(&rec.Steps[j], i+1)
				out.Copies = append(out.Copies, len(res.Copies))
				out.BytesMoved += cp.Bytes - cp.RideAlong
				res.BytesRideAlong += cp.RideAlong
				res.Copies = append(res.Copies, cp)
			}
			x.use(i+1, rec.Accesses)
		}
		res.BytesMoved += out.BytesMoved
		res.Commands = append(res.Commands, out)
	}
	for _, b := range r.buffers {
		res.Segments = append(res.Segments, x.segments(b.ID())...)
	}
	res.Mismatches = append(res.Mismatches, x.problems...)
	r.describeDevices(res)
}

func (r *runner) describeDevices(res *Result) {
	for i, name := range r.names[1:] {
		d := r.devs[name]
		stats := r.ctx.Resource(mem.MemoryID(i + 1)).Stats()
		res.Devices = append(res.Devices, DeviceResult{
			Name: name, Driver: r.s.Devices[i].Driver, Memory: i + 1,
			Type: string(d.Info().Type), Bytes: d.Info().GlobalMemory, PeakUse: stats.PeakLive,
		})
	}
}

// verify compares with the reference run and checks the expectations.
func (r *runner) verify(ctx context.Context, res *Result, final [][]byte) error {
	ref, err := runReference(ctx, r.s, len(r.s.Commands), r.progress)
	if err != nil {
		return err
	}
	res.BytesLowerBound, err = r.lowerBound()
	if err != nil {
		return err
	}
	for i, data := range r.reads {
		if data != nil {
			res.BytesRead += uint64(len(data))
			c := &r.s.Commands[i]
			res.compare(fmt.Sprintf("#%d %s", i+1, r.s.text(c)), data, ref.reads[i])
		}
	}
	for i, data := range final {
		res.compare("buffer "+r.s.Buffers[i].Name+" at the end", data, ref.final[i])
	}
	res.Verified = len(res.Mismatches) == 0
	for i := range r.s.Expect {
		e := &r.s.Expect[i]
		got := r.check(e, res, final, ref)
		res.Expect = append(res.Expect, ExpectedResult{Line: e.Line, Text: e.Text, Met: got == "", Got: got})
	}
	return nil
}

// compare compares bytes with what they should be.
func (r *Result) compare(what string, got []byte, want known) {
	r.BytesCompared += uint64(len(got))
	for _, u := range want.undefined {
		r.BytesCompared -= u.Size()
		r.BytesUndefined += u.Size()
	}
	diff := differences(got, want.data, want.undefined)
	if len(diff) == 0 {
		return
	}
	var n uint64
	for _, d := range diff {
		n += d.Size()
	}
	at := diff[0].Start
	r.Mismatches = append(r.Mismatches, fmt.Sprintf("%s: %s of the bytes differ from the reference run, the first at %d: 0x%02x and not 0x%02x", what, sizeText(n), at, got[at], want.data[at]))
}

// check returns what was found where an expectation is not met, else "".
func (r *runner) check(e *Expectation, res *Result, final [][]byte, ref *reference) string {
	switch {
	case e.Moved != nil && res.BytesMoved != *e.Moved:
		return fmt.Sprintf("%d bytes moved", res.BytesMoved)
	case e.Minimal && res.BytesMoved != res.BytesLowerBound:
		return fmt.Sprintf("%d bytes moved, the lower bound is %d", res.BytesMoved, res.BytesLowerBound)
	case e.Copies != nil && uint64(len(res.Copies)) != *e.Copies:
		return fmt.Sprintf("%d copies", len(res.Copies))
	case len(e.Only) > 0:
		return r.checkOnly(e, res)
	case e.Place == nil:
		return ""
	}
	p := *e.Place
	got := final[p.Buffer][p.Range.Start:p.Range.End]
	switch {
	case e.SHA256 != "":
		if sum := sha256.Sum256(got); hex.EncodeToString(sum[:]) != e.SHA256 {
			return "SHA-256 " + hex.EncodeToString(sum[:])
		}
		return ""
	case e.Reference:
		return r.checkReference(p, got, ref.final[p.Buffer])
	}
	return differText(got, differences(got, e.Data.Bytes(uint64(len(got))), nil))
}

// checkReference compares a part of a buffer with the reference run.
func (r *runner) checkReference(p Place, got []byte, want known) string {
	var skip []mem.Range
	for _, u := range want.undefined {
		if in := u.Intersect(p.Range); !in.Empty() {
			skip = append(skip, mem.Range{Start: in.Start - p.Range.Start, End: in.End - p.Range.Start})
		}
	}
	return differText(got, differences(got, want.data[p.Range.Start:p.Range.End], skip))
}

func differText(got []byte, diff []mem.Range) string {
	if len(diff) == 0 {
		return ""
	}
	at := diff[0].Start
	return fmt.Sprintf("differs in %s, the first at %d: 0x%02x", count(len(diff), "place", "places"), at, got[at])
}

// checkOnly wants every copy inside one of the places.
func (r *runner) checkOnly(e *Expectation, res *Result) string {
	for _, c := range res.Copies {
		moved := mem.Range{Start: c.Offset, End: c.Offset + c.Bytes}
		inside := false
		for _, p := range e.Only {
			inside = inside || (r.s.Buffers[p.Buffer].Name == c.Buffer && p.Range.Contains(moved))
		}
		if !inside {
			return fmt.Sprintf("%s%v moved for #%d", c.Buffer, moved, c.Command)
		}
	}
	return ""
}
