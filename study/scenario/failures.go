package scenario

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"godwit/devices/virtual"
)

// Failures, of runs in virtual time: of a command, or of what is under way on a device at a
// time. Which commands fail of it is for the scenario to expect. A command that is enqueued
// when it is known that what it reads is lost is refused, which counts as its failure: in
// virtual time that is the same in each run.

// readFailures reads what is to fail.
func (l *loader) readFailures(m *mapping) {
	nodes := l.list(m.get("failures"))
	if len(l.errs) > 0 {
		return
	}
	for _, n := range nodes {
		s := l.mapping(n, "failure", "failure")
		f := failureDecl{Line: s.Node.GetToken().Position.Line, Command: -1}
		if id := s.text("command"); id != "" {
			f.Command = l.failer(s.get("command"), "failure: command", id)
		} else {
			f.Device = l.memoryAt(s, "device")
			f.At = l.duration(s, "at")
		}
		l.out.Failures = append(l.out.Failures, f)
	}
}

// failer is the command of an id, which must be one that may fail; -1 where it is none.
func (l *loader) failer(n ast.Node, what, id string) int {
	w, ok := l.ids[id]
	switch {
	case !ok || w.command < 0:
		l.errorf(n, "%s %q: no command has this id", what, id)
	case l.out.Commands[w.command].Graph > 0:
		l.errorf(n, "%s %q: it is in the graph of line %d, and a replay that reads what was lost is refused as a whole", what, id, l.out.Graphs[l.out.Commands[w.command].Graph-1].Line)
	case !l.mayFail(w.command):
		l.errorf(n, "%s %q: it is a %s, which must not fail in a scenario", what, id, l.out.Commands[w.command].Kind)
	default:
		return w.command
	}
	return -1
}

// mayFail reports whether a command is one that a scenario may expect to fail: whether
// the content of a map that fails is lost is not for the reference run to say.
func (l *loader) mayFail(command int) bool {
	c := &l.out.Commands[command]
	return c.queued() && !c.kind().traits().infallible
}

// checkFailures refuses failures where nothing could have them happen.
func (r *runner) checkFailures() error {
	if len(r.s.Failures) > 0 && r.opt.Machine == nil {
		return at(r.s.File, r.s.Failures[0].Line, "failures: they happen in virtual time: want --machine")
	}
	return nil
}

// failing are the failures at a time, as the world has them.
func (s *Scenario) failing() (out []virtual.Failure) {
	for _, f := range s.Failures {
		if f.Command < 0 { // the host's memory is 0
			m := 1 + slices.IndexFunc(s.Devices, func(d deviceDecl) bool { return d.Name == f.Device })
			out = append(out, virtual.Failure{Memory: m, At: uint64(f.At)})
		}
	}
	return out
}

// failureResult is what became of a failure of a device.
type failureResult struct {
	Line   int    `json:"line"`
	Device string `json:"device"`
	At     uint64 `json:"at_ns"`
	Came   bool   `json:"came"`   // before the run ended
	Struck int    `json:"struck"` // commands and copies that were under way there, and failed
}

// struck takes what became of the failures of devices, and has none happen to what is read
// to verify.
func (r *runner) struck(res *Result) {
	struck := r.model.world.Spare()
	for _, f := range r.s.Failures {
		if f.Command < 0 {
			res.Failures = append(res.Failures, failureResult{f.Line, f.Device, uint64(f.At), struck[0] >= 0, max(struck[0], 0)})
			struck = struck[1:]
		}
	}
}

// missed tells people of failures that have struck nothing.
func (p *printer) missed() {
	for _, f := range p.r.Failures {
		why := "nothing was under way there"
		switch {
		case f.Struck > 0:
			continue
		case !f.Came:
			why = "the run had ended by then"
		}
		fmt.Fprintf(p.w, "  no effect: the failure of %s at %s: %s (%s:%d)\n", f.Device, spanText(f.At), why, p.r.File, f.Line)
	}
}

// fail has command i, just enqueued, fail where it is to.
func (r *runner) fail(i int) error {
	if !slices.ContainsFunc(r.s.Failures, func(f failureDecl) bool { return f.Command == i }) {
		return nil
	}
	n, err := r.events[i].Command()
	if err == nil {
		r.model.world.Fail(n)
	}
	return err
}
