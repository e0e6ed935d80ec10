package scenario

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/internal/network"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
	"godwit/study/machine"
	"godwit/study/profile"
)

// Runs on a machine, in virtual time: what the scenario calls its k-th device is the
// machine's, whatever driver it names, and the machine's links take the place of the
// scenario's.

// modelResult is what a run on a machine took, and where the time went. The times are
// the machine's.
type modelResult struct {
	Machine  string `json:"machine"`
	File     string `json:"file"`
	Makespan uint64 `json:"makespan_ns"` // until the host has seen every command end; what is read to verify comes after

	pathResult
	Devices  []useResult  `json:"device_use"`
	Engines  []useResult  `json:"engine_use"`
	Links    []linkUse    `json:"link_use"`          // of links, switches and memories that have carried anything
	Commands uint64       `json:"modelled_commands"` // that ended, copies and their legs among them
	Solver   solverResult `json:"solver"`
	// OneMemory are buffers of which bytes went from one host to another by the hosts' memory, which is one to the runtime: what
	// that way takes is missing.
	OneMemory []string `json:"one_host_memory,omitempty"`

	engines  []string
	channels []channel
	whole    uint64 // the world's time, over which use is counted
	least    uint64 // bytes over bandwidth, on the busiest channel, of the last time
}

// Reasons are the critical path's time by reason.
type Reasons struct {
	Compute uint64 `json:"compute_ns" show:"of it computing|span"`       // kernels and fills
	Copy    uint64 `json:"copy_ns" show:"copying|span"`                  // copies: the program's, and those of content that was not where it was needed
	Own     uint64 `json:"own_copy_ns"`                                  // of Copy, the program's own
	Memory  uint64 `json:"memory_ns" show:"since memory was short|span"` // copies because a memory was short: write-backs, and bytes that come again
	Host    uint64 `json:"host_ns" show:"by the host|span"`              // the host: its calls, callbacks, and until it goes on after a wait
}

// The reasons for time.
const (
	reasonCompute = "compute"
	reasonCopy    = "copy"
	reasonMemory  = "memory"
	reasonHost    = "host"
)

// pathPart is a stretch of the critical path.
type pathPart struct {
	From    uint64 `json:"from_ns"`
	To      uint64 `json:"to_ns"`
	Reason  string `json:"reason"`            // compute, copy, memory or host
	What    string `json:"what"`              // that ran
	Command int    `json:"command,omitempty"` // number of the command, or of that which the copy was for; 0 is the host
	After   string `json:"after"`             // what held it up until then
	Shared  uint64 `json:"shared_ns"`         // of it, what others on its links took
	// Own: a copy, a read, a write or a migration that the program asked for; others that move bytes the planner inserted.
	Own    bool     `json:"own,omitempty"`
	With   []string `json:"shared_with,omitempty"` // those of the others that shared a link with it longest
	Others int      `json:"shared_with_more,omitempty"`
}

// useResult is how busy a device or an engine was.
type useResult struct {
	Name  string  `json:"name"`
	Spans int     `json:"commands"` // that it has carried out, copies among them
	Busy  uint64  `json:"busy_ns"`  // with at least one
	Share float64 `json:"busy_share"`
}

// linkUse is how busy a link, a switch or a memory was.
type linkUse struct {
	Name  string  `json:"name"`
	Bytes uint64  `json:"bytes"`
	Busy  uint64  `json:"busy_ns"`
	Full  uint64  `json:"full_ns"` // with all that it carries given out
	Share float64 `json:"busy_share"`
	// Twice is the makespan of the run with this link twice as fast and all else, the ways of copies among it, as it is: of those that WhatIf asked.
	Twice uint64 `json:"makespan_if_twice_ns,omitempty"`

	channel int
}

// faster is a machine one of whose links carries twice as much.
type faster struct {
	*machine.Machine
	channel int
}

// Bandwidths implements virtual.Machine.
func (m faster) Bandwidths() []uint64 {
	out := m.Machine.Bandwidths()
	out[m.channel] *= 2
	return out
}

// WhatIf runs s again for each of so many links, switches and memories that were full longest, with that one twice as
// fast, and says in res, which came of s and opt on a machine, what the run took then. It fails as Run does.
func WhatIf(ctx context.Context, s *Scenario, opt RunOptions, res *Result, links int) error {
	opt = RunOptions{Machine: opt.Machine, Seed: opt.Seed, Stamps: opt.Stamps, Unverified: true}
	fullest := make([]*linkUse, 0, len(res.Model.Links))
	for i := range res.Model.Links {
		fullest = append(fullest, &res.Model.Links[i])
	}
	slices.SortStableFunc(fullest, func(a, b *linkUse) int { return cmp.Compare(b.Full, a.Full) })
	for _, l := range fullest[:min(links, len(fullest))] {
		if l.Full == 0 {
			break
		}
		opt.twice = l.channel + 1
		again, err := Run(ctx, s, opt)
		if err != nil {
			return fmt.Errorf("with %s twice as fast: %w", l.Name, err)
		}
		l.Twice = again.Model.Makespan
	}
	return nil
}

// channel is one of a machine's, whether it carried anything or not.
type channel struct {
	name      string
	bandwidth uint64 // bytes a second
}

// solverResult is what the sharing of links has cost to work out.
type solverResult struct {
	Solves   uint64 `json:"solves"`
	Classes  uint64 `json:"classes"` // of transfers that are alike, whose rate was worked out, in all solves
	Channels uint64 `json:"channels"`
}

// wayOf is what of the machine a copy went by, by its point.
func (r *runner) wayOf(p mem.Point) (out []string) {
	if s := r.model.rec.Of(p); s != nil {
		for _, c := range s.Path {
			out = append(out, r.renamed(r.model.machine.Channels()[c].Name))
		}
	}
	return out
}

// modelled is the state of a run on a machine.
type modelled struct {
	machine *machine.Machine
	world   *virtual.World
	rec     *profile.Recorder
	renamed map[string]string // the machine's names of devices -> the scenario's
}

// openMachine makes a world of a machine, for a context with these options.
func (r *runner) openMachine(m *machine.Machine, opt *runtime.Options) error {
	s := r.s
	if n := m.Memories() - 1; n < len(s.Devices) {
		d := &s.Devices[n]
		return at(d.File, d.Line, "device %s: machine %s has %d devices, the scenario wants %d", d.Name, m.Name, n, len(s.Devices))
	}
	var names []string
	renamed := make(map[string]string)
	for i := range s.Devices {
		names = append(names, s.Devices[i].Name)
		renamed[m.Devices[i].Name] = names[i]
	}
	rec := profile.New()
	var on virtual.Machine = m
	if r.opt.twice > 0 {
		on = faster{m, r.opt.twice - 1}
	}
	w, err := virtual.New(on, virtual.Options{Exact: m.Exact(), Observer: stepped{rec, r.opt.Step}, Seed: r.opt.Seed, Stamps: r.stamps(), Fail: r.s.failing(), Names: names})
	if err != nil {
		return err
	}
	r.model = &modelled{m, w, rec, renamed}
	opt.Devices, opt.Host, opt.Executor, opt.Staging = w.Devices()[:len(s.Devices)], w.Host(), w, m.Staging()
	return nil
}

// stepped is a recorder that has a run go on by steps, where step is not nil.
type stepped struct {
	*profile.Recorder
	step func(now int64)
}

// Span implements virtual.Observer.
func (s stepped) Span(x *virtual.Span) {
	s.Recorder.Span(x)
	if s.step != nil {
		s.step(x.Ended)
	}
}

// clock says whose the times of a run are.
func (r *runner) clock() string {
	if r.model == nil {
		return "this computer"
	}
	return "machine " + r.model.machine.Name
}

// stop takes the time of a modelled run, before anything more is asked of it.
func (r *runner) stop(res *Result) {
	if r.model == nil {
		return
	}
	r.struck(res)
	m := r.model.machine
	res.Model = &modelResult{Machine: m.Name, File: m.Source, Makespan: r.model.world.Time(), Devices: []useResult{}, Engines: []useResult{}, Links: []linkUse{}}
	out := res.Model
	out.whole = out.Makespan
	out.Commands = r.model.world.Counts().Commands
	n := r.model.world.Network()
	work := n.Work()
	out.Solver = solverResult{work.Solves, work.Classes, work.Channels}
	share := func(busy uint64) float64 {
		if out.Makespan == 0 {
			return 0
		}
		return float64(busy) / float64(out.Makespan)
	}
	for i, b := range r.model.rec.MemoryUse(len(r.names)) {
		out.Devices = append(out.Devices, useResult{r.names[i], b.Spans, uint64(b.Busy), share(uint64(b.Busy))})
	}
	for i, b := range r.model.rec.EngineUse(len(m.EngineList())) {
		e := &m.EngineList()[i]
		out.engines = append(out.engines, e.Name)
		if e.Memory == 0 { // a host's threads
			out.Engines = append(out.Engines, useResult{e.Name, b.Spans, uint64(b.Busy), share(uint64(b.Busy))})
		} else if e.Memory < len(r.names) {
			out.engines[i] = r.names[e.Memory] + strings.TrimPrefix(e.Name, m.Info(e.Memory).Name)
			out.Engines = append(out.Engines, useResult{out.engines[i], b.Spans, uint64(b.Busy), share(uint64(b.Busy))})
		}
	}
	for i, c := range m.Channels() {
		out.channels = append(out.channels, channel{r.renamed(c.Name), c.Bandwidth})
		if u := n.Usage(network.Channel(i)); u.Bytes > 0 {
			if c.Bandwidth > 0 {
				out.least = max(out.least, uint64(float64(u.Bytes-r.carried[i])/float64(c.Bandwidth)*1e9))
			}
			out.Links = append(out.Links, linkUse{Name: r.renamed(c.Name), Bytes: u.Bytes, Busy: u.Busy, Full: u.Full, Share: share(u.Busy), channel: i})
		}
	}
}

// channelBytes are what each of a machine's channels has carried.
func (r *runner) channelBytes() (out []uint64) {
	if r.model == nil {
		return nil
	}
	n := r.model.world.Network()
	for i := range r.model.machine.Channels() {
		out = append(out, n.Usage(network.Channel(i)).Bytes)
	}
	return out
}

// renamed is the name of a link, with the scenario's names of devices.
func (r *runner) renamed(name string) string {
	words := strings.Fields(name)
	for i := range words {
		words[i] = cmp.Or(r.model.renamed[words[i]], words[i])
	}
	return strings.Join(words, " ")
}

// meaning is what a point stands for.
type meaning struct {
	command int // number
	what    string
	reason  string
	planned bool // a copy that the planner inserted
}

// stood is what a point stood for: a command, or a copy for it.
type stood struct {
	command int32 // number; 0 is nothing
	copy    int32 // number among the result's, from 1; 0 is the command itself
	memory  bool  // since a memory was short
}

// meaning puts it in words.
func (r *Result) meaning(x stood) meaning {
	if x.copy == 0 {
		c := &r.Commands[x.command-1]
		return meaning{c.Number, fmt.Sprintf("#%d %s", c.Number, c.Text), r.s.Commands[x.command-1].kind().traits().reason, false}
	}
	cp := &r.Copies[x.copy-1]
	m := meaning{cp.Command, fmt.Sprintf("inserted copy of %s, %s → %s, for #%d", copyText(cp), cp.From, cp.To, cp.Command), reasonCopy, true}
	if x.memory {
		m.reason = reasonMemory
	}
	return m
}

// meanings are what all points of the run's commands and copies stood for.
func (r *runner) meanings(res *Result) (out profile.Points[stood]) {
	copied := func(s *trace.StepRecord, n int, back bool) {
		if !s.Point.IsZero() {
			cp := &res.Copies[n]
			out.Put(s.Point, stood{int32(cp.Command), int32(n + 1), back || cp.Again})
		}
	}
	for i, rec := range res.records {
		if rec == nil {
			continue
		}
		c := &res.Commands[i]
		for j, n := range c.Evictions {
			for k := range rec.Evictions[j].Backs {
				copied(&rec.Evictions[j].Backs[k], res.Evictions[n].Copies[k], true)
			}
		}
		at := 0
		for j := range rec.Steps {
			if at < len(c.Copies) && res.Copies[c.Copies[at]].step.Point == rec.Steps[j].Point {
				copied(&rec.Steps[j], c.Copies[at], false)
				at++
			}
		}
		if !rec.Point.IsZero() {
			out.Put(rec.Point, stood{command: int32(c.Number)})
		}
	}
	return out
}

// criticalPath reads the critical path of a period off the spans, with names.
func (r *runner) criticalPath(res *Result, rec *profile.Recorder, of period) (out pathResult) {
	out.Path, out.known, out.of = []pathPart{}, r.meanings(res), res
	out.parts = r.path(rec, &out, of)
	out.spans, out.memories = rec.Spans(), r.names
	var bandwidths []uint64
	if r.model != nil {
		bandwidths = r.model.machine.Bandwidths()
	}
	before, beside := "", rec.Beside(out.parts)
	for i, p := range out.parts {
		part := pathPart{From: uint64(p.From), To: uint64(p.To), Reason: reasonHost, What: "the host", After: p.After.String()}
		if s := p.Span; s != nil {
			m := out.meaning(s)
			part.What, part.Reason, part.Command = m.what, m.reason, m.command
			if alone, ok := profile.Alone(s, bandwidths); ok && len(s.Path) > 0 { // of a machine
				part.Shared = uint64(max(p.To-p.From-alone-r.beside(s), 0))
			}
			part.Own = part.Reason == reasonCopy && !m.planned
			if part.Shared > 0 {
				for _, other := range beside[i].Longest {
					part.With = append(part.With, out.meaning(other).what)
				}
				part.Others = beside[i].All - len(part.With)
			}
		}
		if p.After != profile.Enqueued && p.After != profile.Start && before != "" {
			part.After = before
			if p.After == profile.Engine {
				part.After = "its engine, which had " + before
			}
		}
		before = part.What
		length := part.To - part.From
		switch part.Reason {
		case reasonCompute:
			out.Reasons.Compute += length
		case reasonCopy:
			out.Reasons.Copy += length
			if part.Own {
				out.Reasons.Own += length
			}
		case reasonMemory:
			out.Reasons.Memory += length
		default:
			out.Reasons.Host += length
		}
		out.Path = append(out.Path, part)
	}
	return out
}

// beside is what a copy takes beside its bytes, in nanoseconds.
func (r *runner) beside(s *profile.Span) int64 {
	if s.Op == devices.OpLaunch || s.Op == devices.OpFill {
		return s.Ended - s.Started // a launch may take longer than its bytes by itself
	}
	m := r.model.machine
	if !s.Ring {
		w := m.Copy(s.From, s.To, 0)
		return int64(w.Setup + w.Latency)
	}
	out, in := m.Copy(s.From, 0, 0), m.Copy(0, s.To, 0)
	return int64(out.Setup + out.Latency + in.Setup + in.Latency)
}

// driver names the driver of device i.
func (r *runner) driver(i int) string {
	if r.model != nil {
		return "model"
	}
	return r.s.Devices[i].Driver
}
