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

// value is a figure of the file. Its name is where it stands there: of the host, a group of devices, or a link.
type value struct {
	Name   string  `json:"figure" show:"figure"`
	Time   float64 `json:"ns" show:"time, or of a MiB|span|-"` // of a bandwidth, of a MiB; 0 is none
	Spread float64 `json:"spread_ns" show:"spread|span|-"`
	How    string  `json:"how" show:"how it is known"` // readOff, fitted, or why it is not said

	rate bool // in the file it is bytes a second
	line bool // of a table, from which none that was measured may be missing
}

// How figures are known.
const (
	readOff  = "read off"
	fitted   = "fitted"
	together = "fitted together with others, from which no shape tells it"
	unsaid   = "left out: no shape tells it from others"
)

// structure says who carries copies between devices; others the library does. Figures of carriers are of those. Which it
// is tells the fit: it is done with each, and the best counts.
type structure struct {
	name       string
	peer, ring string // carriers of copies over links, and by the host
}

// structures are those that there may be.
func (s *site) structures() []*structure {
	out := []*structure{{"the library carries all copies", library, library}}
	if len(s.pairs) > 0 {
		out = append(out, &structure{"the pilot carries copies between devices, the dispatcher those by the host's memory", "pilot", "dispatcher"})
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

// values are the figures of a file for what there is. What ends with bandwidth or both is a rate.
func (s *site) values(st *structure) (out []value) {
	add := func(of string, keys ...string) {
		for _, key := range keys {
			name := of + " " + key
			if !slices.ContainsFunc(out, func(v value) bool { return v.Name == name }) {
				out = append(out, value{Name: name, line: strings.HasPrefix(key, "pageable_"), rate: strings.HasSuffix(key, "bandwidth") || key == "both" || name == "host copy"})
			}
		}
	}
	add("host", "copy", "enqueue", "poll", "other", "call", "wake", "first each", "first bandwidth")
	for i := range s.groups {
		g := s.groups[i].Name
		add(g, "bandwidth", "launch", "rows")
		for _, size := range pageableSizes {
			add(g, pageableAt("up", size), pageableAt("down", size))
		}
		add(g+" classes", "launch enqueue", "fill enqueue", "fill setup", "inside enqueue", "inside setup", "up enqueue", "up setup", "down enqueue", "down setup")
		add("host-"+g, "latency", "bandwidth", "both")
		add(g+" handover", "queues delay")
		if s.awaits(i) {
			add(g+" handover", "library-dispatcher delay", "dispatcher-library hold")
		}
	}
	for i := range s.pairs {
		p := &s.pairs[i]
		g := s.groups[p.B].Name
		class, by := st.copied(p)
		add(g+" classes "+class, "enqueue")
		add(g+" handover", "library-library delay")
		if p.Direct {
			add(g+" classes peer", "setup")
			add(s.name(p), "latency", "bandwidth", "both")
		}
		if by != library {
			add(g+" classes "+class, "hold")
			add(g+" handover", "library-"+by+" delay", by+"-library delay", "dispatcher-library hold")
			add("host", "crowded")
		}
	}
	for i := range s.groups {
		add(s.groups[i].Name+" classes launch", "submit")
	}
	return out
}

// pageableAt names the time of copies of a size from the program's own memory, or to it.
func pageableAt(way string, size uint64) string {
	return "pageable_" + way + " " + strings.ReplaceAll(bytesText(size), " ", "")
}

// text is a value as the file has it; "" where there is nothing to say.
func (v *value) text() string {
	switch {
	case v.rate && v.Time <= 0:
		return ""
	case v.rate:
		return fmt.Sprintf("%.6g GB/s", min((1<<20)/v.Time, 140_000))
	case math.Round(v.Time) <= 0:
		return ""
	}
	return timeText(v.Time)
}

func timeText(ns float64) string { return fmt.Sprintf("%g us", math.Round(ns)/1000) }

// comment says how a value is known.
func (v *value) comment() string {
	switch {
	case v.Spread > 0 && (v.rate || v.How != readOff):
		return fmt.Sprintf("%s, +- %.1f %%", v.How, 100*v.Spread/v.Time)
	case v.Spread > 0:
		return fmt.Sprintf("%s, +- %s", v.How, figures.Text("span", v.Spread))
	}
	return v.How
}

// node is a key of a YAML file: with a value, with keys below it, or with items. Without a key it is a comment.
type node struct {
	key, value, comment string
	below               []*node
	item                bool // of a list; its keys are below
}

// at is the node below that keys lead to, which it makes.
func (n *node) at(keys ...string) *node {
	for _, key := range keys {
		i := slices.IndexFunc(n.below, func(b *node) bool { return b.key == key })
		if i < 0 {
			i = len(n.below)
			n.below = append(n.below, &node{key: key})
		}
		n = n.below[i]
	}
	return n
}

// say adds a key with a value.
func (n *node) say(key, format string, args ...any) *node {
	out := n.at(key)
	out.value = fmt.Sprintf(format, args...)
	return n
}

// bytes is say of a size, where there is one.
func (n *node) bytes(key string, size uint64) *node {
	if size > 0 {
		n.say(key, "%d B", size)
	}
	return n
}

// add adds an item to a list.
func (n *node) add() *node {
	n.below = append(n.below, &node{item: true})
	return n.below[len(n.below)-1]
}

// empty reports whether there is nothing to say below.
func (n *node) empty() bool {
	return n.value == "" && !slices.ContainsFunc(n.below, func(b *node) bool { return !b.empty() })
}

// write writes what is below.
func (n *node) write(w *strings.Builder, indent string) {
	for i, b := range n.below {
		lead := indent
		if n.item && i == 0 {
			lead = indent[2:] + "- "
		}
		comment := ""
		if b.comment != "" {
			comment = " # " + b.comment
		}
		switch {
		case b.item:
			b.write(w, indent+"  ")
		case b.key == "":
			fmt.Fprintf(w, "%s# %s\n", indent, b.comment)
		case b.value != "":
			fmt.Fprintf(w, "%s%s: %s%s\n", lead, b.key, b.value, comment)
		case !b.empty():
			fmt.Fprintf(w, "%s%s:%s\n", lead, b.key, comment)
			b.write(w, indent+"  ")
		}
	}
}

// table is what is known of a kernel: of launches of so many work-items, by the size of their largest buffer.
type table struct {
	Kernel string   `json:"kernel"`
	Items  uint64   `json:"work_items"` // at most: a launch has no more than there are elements; 0 is as many
	Sizes  []uint64 `json:"sizes"`
	Times  []figure `json:"times"`
}

// write makes the file.
func (s *site) write(name, about string, head []string, st *structure, values []value, tables map[string][]table) string {
	var root node
	root.say("name", "%q", name)
	if about != "" {
		root.say("about", "%q", about)
	}
	for _, line := range head {
		root.below = append(root.below, &node{comment: line})
	}
	host, devs, links := root.at("host"), root.at("devices"), root.at("links")
	host.bytes("memory", s.host.GlobalMemory)
	if from, lanes := s.stages(); from > 0 {
		host.say("staged", "{from: %d B, lanes: %d, each: 1 MiB}", from, lanes).at("staged").comment = "as the runtime has it"
	}
	nodes := map[string]*node{"host": host}
	for i := range s.groups {
		g := &s.groups[i]
		d := devs.add()
		nodes[g.Name] = d
		d.say("name", "%s", g.Name).say("type", "%s", g.Info.Type)
		d.at("name").comment = oneLine(g.Info.Name)
		if len(g.Devs) > 1 {
			d.say("count", "%d", len(g.Devs))
		}
		d.bytes("memory", g.Info.GlobalMemory).bytes("local", g.Info.LocalMemory).say("compute_units", "%d", max(g.Info.ComputeUnits, 1))
		if s.awaits(i) {
			d.say("pageable_awaits_host", "[up]")
		}
		nodes["host-"+g.Name] = links.add().say("between", "[host, %s]", g.Name)
	}
	for i := range s.pairs {
		p := &s.pairs[i]
		class, by := st.copied(p)
		nodes[s.groups[p.B].Name].at("classes", class).say("by", "%s", by)
		if p.Direct {
			nodes[s.name(p)] = links.add().say("between", "[%s, %s]", s.groups[p.A].Name, s.groups[p.B].Name)
		}
	}
	said := make(map[string]*value)
	for i := range values {
		v := &values[i]
		said[v.Name] = v
		at, rest, _ := strings.Cut(v.Name, " ")
		n := nodes[at].at(strings.Fields(rest)...)
		if n.value = v.text(); n.value != "" {
			n.comment = v.comment()
		}
	}
	for name, n := range nodes {
		if v := said[name+" both"]; v != nil {
			if one := said[name+" bandwidth"]; v.Time*2 <= one.Time {
				n.at("both").value = "" // no limit of its own
			}
			n.at("bandwidth").value = cmp.Or(n.at("bandwidth").value, "140 TB/s")
		}
	}
	for i := range s.pairs {
		g := s.groups[s.pairs[i].B].Name
		_, by := st.copied(&s.pairs[i])
		if held := said[g+" handover dispatcher-library hold"]; by != library && by != "dispatcher" && held.text() != "" { // it is the same call
			nodes[g].at("handover", by+"-library", "hold").value = held.text()
		}
	}
	for i := range s.pairs { // what was measured into one group counts for the other, too
		if p := &s.pairs[i]; p.A != p.B {
			class, _ := st.copied(p)
			from, to := nodes[s.groups[p.B].Name], nodes[s.groups[p.A].Name]
			to.at("classes", class).below = from.at("classes", class).below
			to.at("handover").below = from.at("handover").below
		}
	}
	for i := range s.groups {
		writeTables(nodes[s.groups[i].Name], tables[s.groups[i].Name])
	}
	var out strings.Builder
	root.write(&out, "")
	return out.String()
}

// writeTables writes what is known of a group's kernels.
func writeTables(d *node, tables []table) {
	list := d.at("kernels")
	list.comment = "by work-items and the bytes of the largest buffer"
	of := make(map[string]*node)
	for _, t := range tables {
		if of[t.Kernel] == nil {
			of[t.Kernel] = list.add().say("name", "%s", t.Kernel)
		}
		by := of[t.Kernel].at("tables", fmt.Sprint(cmp.Or(t.Items, 1<<32)))
		for _, all := range tables { // of fewer elements than that there are no more work-items
			if t.Items > 0 && all.Kernel == t.Kernel && all.Items == 0 {
				all.write(by, 4*t.Items)
			}
		}
		t.write(by, math.MaxUint64)
	}
}

// write writes a table, up to a size.
func (t *table) write(n *node, most uint64) {
	for i, size := range t.Sizes {
		if size <= most {
			n.say(bytesText(size), "%s", timeText(max(t.Times[i].Value, 1)))
			n.at(bytesText(size)).comment = "+- " + figures.Text("span", t.Times[i].Spread)
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
