package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"godwit/internal/figures"
)

// A machine's figures, and its file.

// Value is a figure of the file.
type Value struct {
	Name   string  `json:"figure" show:"figure"`
	Time   float64 `json:"ns" show:"time, or of a MiB|span|-"` // of a bandwidth, of a MiB; 0 is none
	Spread float64 `json:"spread_ns" show:"spread|span|-"`
	How    string  `json:"how" show:"how it is known"` // readOff, fitted, or why it is not said

	rate bool // in the file it is bytes a second
}

// How figures are known.
const (
	readOff = "read off"
	fitted  = "fitted"
	unsaid  = "left out: no shape tells it from others"
)

// structure says who carries copies: figures of carriers are of those. Which it is tells the fit: it
// is done with each, and the best counts.
type structure struct {
	name             string
	host, peer, ring string // carriers of copies up and down, over links, and by the host
}

// structures are those that there may be.
func (s *site) structures() []*structure {
	out := []*structure{{"the library carries all copies", library, library, library}}
	if len(s.pairs) > 0 {
		out = append(out, &structure{"the pilot carries copies between devices, the dispatcher those by the host's memory", library, "pilot", "dispatcher"})
	}
	if slices.ContainsFunc(s.groups, func(g group) bool { return g.Info.SharesHost }) { // whose copies are this process's
		out = append(out, &structure{"the dispatcher carries all copies", "dispatcher", "dispatcher", "dispatcher"})
	}
	return out
}

const library = "library"

// copied is the class of copies between two devices, and its carrier.
func (st *structure) copied(p *pair) (class, by string) {
	if p.Direct {
		return "peer", st.peer
	}
	return "ring", st.ring
}

// values are the figures of a file for what there is, in its order.
func (s *site) values(st *structure) (out []Value) {
	known := make(map[string]bool)
	add := func(rate bool, name string) {
		if !known[name] {
			known[name] = true
			out = append(out, Value{Name: name, rate: rate})
		}
	}
	time := func(names ...string) {
		for _, name := range names {
			add(false, name)
		}
	}
	time("host enqueue", "host poll", "host other", "host call", "host wake", "host first each")
	add(true, "host first bandwidth")
	add(true, "host bandwidth")
	add(true, "host pageable")
	carried := func(g, by string) {
		if by != library {
			time(g+" handover library-"+by+" delay", g+" handover "+by+"-library delay")
		}
	}
	for i := range s.groups {
		g := s.groups[i].Name
		time(g+" launch", g+" copy", g+" rows")
		add(true, g+" bandwidth")
		time(g+" classes launch enqueue", g+" classes inside enqueue", g+" classes up enqueue", g+" classes down enqueue")
		carried(g, st.host)
		s.link("host-"+g, time, add)
	}
	for i := range s.pairs {
		p := &s.pairs[i]
		g := s.groups[p.B].Name
		class, by := st.copied(p)
		time(g+" classes "+class+" enqueue", g+" handover library-library delay")
		carried(g, by) // what is no kernel, hop after hop, is not measured: there the latency alone would count, so it comes last
		if p.Direct {
			s.link(s.name(p), time, add)
		}
		if by != library {
			time(g + " classes " + class + " hold")
		}
	}
	for i := range s.groups { // last: where others tell as much, they count
		time(s.groups[i].Name + " classes launch submit")
	}
	return out
}

func (s *site) link(name string, time func(...string), add func(bool, string)) {
	time(name + " latency")
	add(true, name+" bandwidth")
	add(true, name+" both")
}

// text is a value as the file has it; "" where there is nothing to say.
func (v *Value) text() string {
	switch {
	case v.rate && v.Time <= 0:
		return ""
	case v.rate:
		return rateText(v.Time)
	case math.Round(v.Time) <= 0:
		return ""
	}
	return timeText(v.Time)
}

func timeText(ns float64) string { return fmt.Sprintf("%g us", math.Round(ns)/1000) }

func rateText(nsOfMiB float64) string {
	return fmt.Sprintf("%.6g GB/s", min((1<<20)/nsOfMiB, 140_000))
}

// file is a machine's file as it is written.
type file struct {
	*site
	st       *structure
	values   map[string]*Value
	tables   map[string][]table // by group
	comments bool
	strings.Builder
}

// table is what is known of a kernel.
type table struct {
	Kernel string
	Sizes  []uint64
	Times  []Figure
}

// write makes the file.
func (s *site) write(name, about string, head []string, st *structure, values []Value, tables map[string][]table, comments bool) string {
	f := &file{site: s, st: st, values: make(map[string]*Value), tables: tables, comments: comments}
	for i := range values {
		f.values[values[i].Name] = &values[i]
	}
	fmt.Fprintf(f, "name: %s\n", name)
	if about != "" {
		fmt.Fprintf(f, "about: %q\n", about)
	}
	for _, line := range head {
		fmt.Fprintf(f, "# %s\n", line)
	}
	f.WriteString("host:\n")
	if s.host.GlobalMemory > 0 {
		fmt.Fprintf(f, "  memory: %d B\n", s.host.GlobalMemory)
	}
	for _, key := range []string{"bandwidth", "enqueue", "poll", "other", "call", "wake", "pageable"} {
		f.key(key, "host "+key)
	}
	f.mapping("  first", "host first", "each", "bandwidth")
	if strings.HasSuffix(f.String(), "host:\n") {
		f.WriteString("  enqueue: 0 us\n")
	}
	f.WriteString("devices:\n")
	for i := range s.groups {
		f.group(&s.groups[i])
	}
	f.WriteString("links:\n")
	for i := range s.groups {
		f.link("host", s.groups[i].Name, "host-"+s.groups[i].Name)
	}
	for i := range s.pairs {
		if p := &s.pairs[i]; p.Direct {
			f.link(s.groups[p.A].Name, s.groups[p.B].Name, s.name(p))
		}
	}
	return f.String()
}

// key writes a key, and in a comment how it is known.
func (f *file) key(key, name string) {
	v := f.values[name]
	if v == nil {
		return
	}
	if t := v.text(); t != "" {
		fmt.Fprintf(f, "  %s: %s%s\n", key, t, f.comment(v))
	} else if f.comments && v.How != readOff && v.How != fitted {
		fmt.Fprintf(f, "  # %s: %s\n", key, v.How)
	}
}

func (f *file) comment(v *Value) string {
	switch {
	case !f.comments:
		return ""
	case v.Spread > 0 && v.rate:
		return fmt.Sprintf(" # %s, +- %.1f %%", v.How, 100*v.Spread/v.Time)
	case v.Spread > 0:
		return fmt.Sprintf(" # %s, +- %s", v.How, figures.Text("span", v.Spread))
	}
	return " # " + v.How
}

func (f *file) group(g *group) {
	fmt.Fprintf(f, "- name: %s\n", g.Name)
	if f.comments {
		fmt.Fprintf(f, "  # %s\n", oneLine(g.Info.Name))
	}
	if len(g.Devs) > 1 {
		fmt.Fprintf(f, "  count: %d\n", len(g.Devs))
	}
	fmt.Fprintf(f, "  type: %s\n", g.Info.Type)
	if g.Info.GlobalMemory > 0 {
		fmt.Fprintf(f, "  memory: %d B\n", g.Info.GlobalMemory)
	}
	if g.Info.LocalMemory > 0 {
		fmt.Fprintf(f, "  local: %d B\n", g.Info.LocalMemory)
	}
	fmt.Fprintf(f, "  compute_units: %d\n", max(g.Info.ComputeUnits, 1))
	f.key("bandwidth", g.Name+" bandwidth")
	f.key("launch", g.Name+" launch")
	f.key("copy", g.Name+" copy")
	f.key("rows", g.Name+" rows")
	f.carriers(g)
	if len(f.tables[g.Name]) == 0 {
		return
	}
	f.WriteString("  kernels: # by the bytes of the largest buffer\n")
	for _, t := range f.tables[g.Name] {
		fmt.Fprintf(f, "  - name: %s\n    table:\n", t.Kernel)
		for i, n := range t.Sizes {
			fmt.Fprintf(f, "      %s: %s # +- %s\n", bytesText(n), timeText(max(t.Times[i].Value, 1)), figures.Text("span", t.Times[i].Spread))
		}
	}
}

// carriers writes who carries commands of a group's devices, and what that costs.
func (f *file) carriers(g *group) {
	f.WriteString("  classes:\n")
	f.mapping("    launch", g.Name+" classes launch", "enqueue", "submit")
	if f.comments {
		f.WriteString("    # fill: assumed to be as launch\n")
	}
	f.mapping("    fill", g.Name+" classes launch", "enqueue", "submit")
	f.mapping("    inside", g.Name+" classes inside", "enqueue")
	f.mapping("    up", g.Name+" classes up", "by "+f.st.host, "enqueue")
	f.mapping("    down", g.Name+" classes down", "by "+f.st.host, "enqueue")
	f.mapping("    peer", g.Name+" classes peer", "by "+f.st.peer, "enqueue", "hold")
	f.mapping("    ring", g.Name+" classes ring", "by "+f.st.ring, "enqueue", "hold")
	f.WriteString("  handover:\n    queue: {}\n")
	for _, from := range carriers {
		for _, to := range carriers {
			name := from + "-" + to
			f.mapping("    "+name, g.Name+" handover "+name, "delay")
		}
	}
}

var carriers = []string{library, "dispatcher", "pilot"}

// mapping writes a key whose value is a mapping of figures, if there are any; of "by X" that is X.
func (f *file) mapping(key, name string, keys ...string) {
	var said, notes []string
	for _, k := range keys {
		if by, ok := strings.CutPrefix(k, "by "); ok {
			said = append(said, "by: "+by)
			continue
		}
		v := f.values[name+" "+k]
		if v == nil {
			continue
		}
		if t := v.text(); t != "" {
			said = append(said, k+": "+t)
		}
		notes = append(notes, k+" "+cmp.Or(strings.TrimPrefix(f.comment(v), " # "), "fitted"))
	}
	if len(notes) == 0 {
		return
	}
	comment := ""
	if f.comments {
		comment = " # " + strings.Join(notes, "; ")
	}
	fmt.Fprintf(f, "%s: {%s}%s\n", key, strings.Join(said, ", "), comment)
}

// bytesText is exact where it has to be.
func bytesText(n uint64) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (f *file) link(a, b, name string) {
	at := func(key string) *Value { return f.values[name+" "+key] }
	var notes, keys []string
	for _, key := range []string{"latency", "bandwidth", "both"} {
		v := at(key)
		t := v.text()
		if key == "bandwidth" {
			t = cmp.Or(t, "140 TB/s")
		}
		if key == "both" && v.Time*2 <= at("bandwidth").Time {
			t = "" // no limit of its own
		}
		if t != "" {
			keys = append(keys, key+": "+t)
		}
		if f.comments {
			notes = append(notes, key+f.comment(v)[2:])
		}
	}
	fmt.Fprintf(f, "- {between: [%s, %s], %s}\n", a, b, strings.Join(keys, ", "))
	for _, n := range notes {
		fmt.Fprintf(f, "  # %s\n", n)
	}
}
