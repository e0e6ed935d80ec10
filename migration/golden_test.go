package migration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"godwit/mem"
	"godwit/migration"
)

// story is what a script of testdata acts on. The commands are:
//
//	topology          one line: the devices; further lines: link A B latency=D bandwidth=N, peer A B, share A B
//	create B size=N [on=(memories)]
//	run Q             lines "read|write|read-write B [s,e) on M": plan, submit and commit on queue Q
//	plan              the same lines: plan only
//	refused           the same lines: the steps are accepted, the command is not
//	end P..., fail P...   points end, as in q0#1; steps are points of the queue "copy"
//	room M N          the memory has N bytes; without it, all there are
//	evict [policy=P] [keep=(B...)] [hang=(P...)]   lines as for run, of a command: what leaves for it is
//	                  written back and taken out; "evict plan" only says so
//	segments B, hazards B M, points B M, release B, unstored B M, retire, stats
type story struct {
	topo    *mem.Topology
	p       *migration.Planner
	buffers map[string]mem.BufferID
	queues  map[string]*mem.Timeline
	sizes   map[mem.BufferID]uint64
	rooms   map[mem.MemoryID]uint64
	plan    migration.Plan // that evict makes room for
	keep    []mem.BufferID
	hang    []mem.Point
}

func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := &story{buffers: map[string]mem.BufferID{}, queues: map[string]*mem.Timeline{},
			sizes: map[mem.BufferID]uint64{}, rooms: map[mem.MemoryID]uint64{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.act(t, d)
			if s.p != nil {
				if err := s.p.Check(); err != nil {
					t.Fatalf("%s: %v", d.Pos, err)
				}
			}
			return out
		})
	})
}

func (s *story) act(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "topology":
		return s.topology(t, d)
	case "create":
		return s.create(t, d)
	case "run", "plan", "refused":
		return s.run(t, d)
	case "room":
		var n uint64
		_, err := fmt.Sscan(d.CmdArgs[1].Key, &n)
		s.rooms[s.memory(t, d, d.CmdArgs[0].Key)] = n
		return result(err)
	case "evict":
		return s.evict(t, d)
	case "end", "fail":
		for _, a := range d.CmdArgs {
			p := s.point(t, d, a.Key)
			if d.Cmd == "end" {
				p.Line.End(p, nil)
				continue
			}
			err := fmt.Errorf("%v went wrong", p)
			p.Line.End(p, err)
			s.p.Fail(p, err)
		}
		return ""
	case "segments":
		return s.segments(d)
	case "hazards":
		return s.hazards(t, d)
	case "points":
		var b strings.Builder
		for _, p := range s.p.Points(nil, s.buffers[d.CmdArgs[0].Key], s.memory(t, d, d.CmdArgs[1].Key), everything) {
			fmt.Fprintln(&b, p)
		}
		return b.String()
	case "release":
		return result(s.p.Release(s.buffers[d.CmdArgs[0].Key]))
	case "unstored":
		return result(s.p.Unstored(migration.Want{Buffer: s.buffers[d.CmdArgs[0].Key], Memory: s.memory(t, d, d.CmdArgs[1].Key)}))
	case "retire":
		s.p.Retire()
		return ""
	case "stats":
		st := s.p.Stats()
		return fmt.Sprintf("%d commands, %d steps, %d bytes moved, %d rode along\n", st.Commands, st.Copies, st.BytesMoved, st.RideAlong)
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

func result(err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	return ""
}

func (s *story) topology(t *testing.T, d *datadriven.TestData) string {
	lines := strings.Split(d.Input, "\n")
	s.topo = mem.NewTopology(strings.Fields(lines[0])...)
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		a, b := s.memory(t, d, f[1]), s.memory(t, d, f[2])
		l, path, share := s.topo.Link(a, b), mem.Path{There: true}, false
		switch f[0] {
		case "peer":
			l = mem.DirectLink(0, 0)
		case "share":
			share = true
		}
		for _, opt := range f[3:] {
			k, v, _ := strings.Cut(opt, "=")
			var err error
			if k == "latency" {
				path.Latency, err = time.ParseDuration(v)
			} else {
				_, err = fmt.Sscan(v, &path.Bandwidth)
			}
			if err != nil {
				d.Fatalf(t, "%s: %v", opt, err)
			}
		}
		if l.Direct.There {
			l.Direct = path
		} else {
			l.Ring = path
		}
		err := s.topo.SetLink(a, b, l)
		if share {
			err = s.topo.Share(a, b)
		}
		if err != nil {
			return result(err)
		}
	}
	s.p = migration.New(s.topo, migration.Options{})
	return ""
}

func (s *story) create(t *testing.T, d *datadriven.TestData) string {
	var size uint64
	d.ScanArgs(t, "size", &size)
	var on mem.MemorySet
	for _, a := range d.CmdArgs[1:] {
		if a.Key == "on" {
			for _, v := range a.Vals {
				on = on.With(s.memory(t, d, v))
			}
		}
	}
	id, err := s.p.Create(size, on)
	s.buffers[d.CmdArgs[0].Key] = id
	s.sizes[id] = size
	return result(err)
}

// run plans the command and, unless told otherwise, commits it.
func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	var plan migration.Plan
	if err := s.p.Plan(&plan, s.accesses(t, d)); err != nil {
		return result(err)
	}
	out := s.print(&plan)
	if d.Cmd == "plan" {
		return out
	}
	for _, w := range plan.Storage {
		if err := s.p.Stored(w, mem.Plain); err != nil {
			return result(err)
		}
	}
	for i := range plan.Steps {
		at := s.queue("copy").Next()
		s.p.CommitStep(&plan, i, at)
		out += fmt.Sprintf("step %d is %v\n", i, at)
	}
	if d.Cmd == "refused" {
		return out + "the command is refused\n"
	}
	at := s.queue(d.CmdArgs[0].Key).Next()
	if v := s.p.Commit(&plan, at); v > 0 {
		return out + fmt.Sprintf("%v writes version %d\n", at, v)
	}
	return out + fmt.Sprintf("%v\n", at)
}

func (s *story) print(plan *migration.Plan) string {
	var b strings.Builder
	for _, w := range plan.Storage {
		fmt.Fprintf(&b, "wants %s on %s\n", s.name(w.Buffer), s.topo.Name(w.Memory))
	}
	for i := range plan.Steps {
		st := &plan.Steps[i]
		fmt.Fprintf(&b, "step %d: %s %v %s -> %s\n", i, s.name(st.Buffer), st.Range, s.topo.Name(st.From), s.topo.Name(st.To))
		fmt.Fprintf(&b, "  why: %s\n", s.p.Explain(st))
		if st.After >= 0 {
			fmt.Fprintf(&b, "  waits: data step %d\n", st.After)
		}
		if st.Export >= 0 {
			fmt.Fprintf(&b, "  shares the export of step %d\n", st.Export)
		}
		printWaits(&b, "  waits:", st.Waits)
	}
	for _, i := range plan.StepWaits {
		fmt.Fprintf(&b, "waits: data step %d\n", i)
	}
	printWaits(&b, "waits:", plan.Waits)
	return b.String()
}

func printWaits(b *strings.Builder, head string, waits []mem.Wait) {
	for _, w := range waits {
		fmt.Fprintf(b, "%s %v %v\n", head, w.Kind, w.Point)
	}
}

func (s *story) accesses(t *testing.T, d *datadriven.TestData) (out []mem.Access) {
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		if len(f) != 5 || f[3] != "on" {
			d.Fatalf(t, "%q: want MODE BUFFER [s,e) on MEMORY", line)
		}
		a := mem.Access{Buffer: s.buffers[f[1]], Memory: s.memory(t, d, f[4])}
		switch f[0] {
		case "write":
			a.Mode = mem.Write
		case "read-write":
			a.Mode = mem.ReadWrite
		}
		if _, err := fmt.Sscanf(f[2], "[%d,%d)", &a.Range.Start, &a.Range.End); err != nil {
			d.Fatalf(t, "%q: %v", f[2], err)
		}
		out = append(out, a)
	}
	return out
}

func (s *story) segments(d *datadriven.TestData) string {
	rows, err := s.p.Segments(s.buffers[d.CmdArgs[0].Key])
	if err != nil {
		return result(err)
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-12v version %d  %s", r.Range, r.Version, s.names(r.Valid))
		if !r.Pending.Empty() {
			fmt.Fprintf(&b, "  pending on %s", s.names(r.Pending))
		}
		if r.Poison != nil {
			fmt.Fprintf(&b, "  poisoned: %v", r.Poison.Cause)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

func (s *story) hazards(t *testing.T, d *datadriven.TestData) string {
	rows, err := s.p.Hazards(s.buffers[d.CmdArgs[0].Key], s.memory(t, d, d.CmdArgs[1].Key))
	if err != nil {
		return result(err)
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-12v writer %v  readers %v\n", r.Range, r.Writer, r.Readers)
	}
	return b.String()
}

func (s *story) names(set mem.MemorySet) string {
	var out []string
	for m := range set.All() {
		out = append(out, s.topo.Name(m))
	}
	if out == nil {
		return "nowhere"
	}
	return strings.Join(out, "+")
}

func (s *story) name(id mem.BufferID) string {
	for n, b := range s.buffers {
		if b == id {
			return n
		}
	}
	return "?"
}

func (s *story) memory(t *testing.T, d *datadriven.TestData, name string) mem.MemoryID {
	for m := range mem.MemoryID(s.topo.Len()) {
		if s.topo.Name(m) == name {
			return m
		}
	}
	d.Fatalf(t, "no memory %q", name)
	return 0
}

// queue returns the timeline of that name: "copy" and those that end in * are
// out of order.
func (s *story) queue(name string) *mem.Timeline {
	if s.queues[name] == nil {
		s.queues[name] = mem.NewTimeline(name, name != "copy" && !strings.HasSuffix(name, "*"), nil)
	}
	return s.queues[name]
}

func (s *story) point(t *testing.T, d *datadriven.TestData, text string) mem.Point {
	name, seq, ok := strings.Cut(text, "#")
	p := mem.Point{Line: s.queue(name)}
	if _, err := fmt.Sscan(seq, &p.Seq); !ok || err != nil {
		d.Fatalf(t, "%q is not a point", text)
	}
	return p
}
