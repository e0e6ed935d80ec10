package calibrate

import (
	"cmp"
	"fmt"
	"math"
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

// values are the figures of a file for what there is, in its order.
func (s *site) values() (out []Value) {
	time := func(name string) { out = append(out, Value{Name: name}) }
	rate := func(name string) { out = append(out, Value{Name: name, rate: true}) }
	time("host enqueue")
	time("host poll")
	time("host other")
	time("host call")
	rate("host bandwidth")
	for i := range s.groups {
		name := s.groups[i].name
		time(name + " launch")
		time(name + " copy")
		rate(name + " bandwidth")
		time("host-" + name + " latency")
		rate("host-" + name + " bandwidth")
		rate("host-" + name + " both")
	}
	for i := range s.pairs {
		if p := &s.pairs[i]; p.direct {
			time(s.name(p) + " latency")
			rate(s.name(p) + " bandwidth")
			rate(s.name(p) + " both")
		}
	}
	return out
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
func (s *site) write(name, about string, head []string, values []Value, tables map[string][]table, comments bool) string {
	f := &file{site: s, values: make(map[string]*Value), tables: tables, comments: comments}
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
	for _, key := range []string{"bandwidth", "enqueue", "poll", "other", "call"} {
		f.key(key, "host "+key)
	}
	if strings.HasSuffix(f.String(), "host:\n") {
		f.WriteString("  enqueue: 0 us\n")
	}
	f.WriteString("devices:\n")
	for i := range s.groups {
		f.group(&s.groups[i])
	}
	f.WriteString("links:\n")
	for i := range s.groups {
		f.link("host", s.groups[i].name, "host-"+s.groups[i].name)
	}
	for i := range s.pairs {
		if p := &s.pairs[i]; p.direct {
			f.link(s.groups[p.a].name, s.groups[p.b].name, s.name(p))
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
	fmt.Fprintf(f, "- name: %s\n", g.name)
	if f.comments {
		fmt.Fprintf(f, "  # %s\n", oneLine(g.info.Name))
	}
	if len(g.devs) > 1 {
		fmt.Fprintf(f, "  count: %d\n", len(g.devs))
	}
	fmt.Fprintf(f, "  type: %s\n", g.info.Type)
	if g.info.GlobalMemory > 0 {
		fmt.Fprintf(f, "  memory: %d B\n", g.info.GlobalMemory)
	}
	if g.info.LocalMemory > 0 {
		fmt.Fprintf(f, "  local: %d B\n", g.info.LocalMemory)
	}
	fmt.Fprintf(f, "  compute_units: %d\n", max(g.info.ComputeUnits, 1))
	f.key("bandwidth", g.name+" bandwidth")
	f.key("launch", g.name+" launch")
	f.key("copy", g.name+" copy")
	if len(f.tables[g.name]) == 0 {
		return
	}
	f.WriteString("  kernels: # by the bytes of the largest buffer\n")
	for _, t := range f.tables[g.name] {
		fmt.Fprintf(f, "  - name: %s\n    table:\n", t.Kernel)
		for i, n := range t.Sizes {
			fmt.Fprintf(f, "      %s: %s # +- %s\n", bytesText(n), timeText(max(t.Times[i].Value, 1)), figures.Text("span", t.Times[i].Spread))
		}
	}
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
