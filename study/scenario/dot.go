package scenario

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/emicklei/dot"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// A graph of a run: commands are boxes, one cluster for each memory, copies are
// ellipses, and an arrow says that the bytes which its end read are there since its
// start. What only has to wait, by a wait list, is dashed. It is made of what commands
// accessed and of the copies, not of the points that the runtime waited for: those
// depend on what had ended by then.

// WriteDOT writes the run as a graph for GraphViz. It fails where the run did not start,
// and with w's errors.
func (r *Result) WriteDOT(w io.Writer) error {
	if r.rec == nil {
		return fmt.Errorf("graph of %s: the run did not start: %s", r.Scenario, r.Error)
	}
	g := &flow{r: r, g: dot.NewGraph(dot.Directed), made: make(map[block]*rangemap.Map[maker]), size: make(map[mem.BufferID]uint64)}
	g.begin()
	for i := range r.Commands {
		g.command(i)
	}
	_, err := io.WriteString(w, g.g.String()) // what writes it looks at no error
	return err
}

// maker is the node that put bytes where they are, from 1; 0 is none.
type maker int

// flow is a graph that is being made.
type flow struct {
	r        *Result
	g        *dot.Graph
	nodes    []dot.Node
	clusters []*dot.Graph // by memory
	commands []maker      // by command
	size     map[mem.BufferID]uint64
	made     map[block]*rangemap.Map[maker]
}

// begin makes the clusters, and what held content before the first command.
func (f *flow) begin() {
	f.g.Attr("rankdir", "LR")
	f.g.NodeInitializer(func(n dot.Node) { n.Attr("fontname", "sans-serif").Attr("fontsize", "10") })
	for i := range len(f.r.Devices) + 1 {
		name := "host"
		if i > 0 {
			name = f.r.Devices[i-1].Name
		}
		f.clusters = append(f.clusters, f.g.Subgraph(name, dot.ClusterOption{}))
	}
	for i := range f.r.s.Buffers {
		b := &f.r.s.Buffers[i]
		id := f.r.ids[i]
		if f.size[id] = b.Size; b.Data == nil || id == 0 {
			continue
		}
		f.put(id, mem.Host, mem.Range{End: b.Size}, f.node(mem.Host, "cylinder", "", fmt.Sprintf("%s of %s\nas it began", sizeText(b.Size), b.Name), ""))
	}
}

// node adds a node in a memory's cluster.
func (f *flow) node(m mem.MemoryID, shape, fill, label, tip string) maker {
	n := f.clusters[m].Node(fmt.Sprintf("n%06d", len(f.nodes)+1)).Attr("shape", shape).Label(label)
	if fill != "" {
		n.Attr("style", "filled").Attr("fillcolor", fill)
	}
	if tip != "" {
		n.Attr("tooltip", tip)
	}
	f.nodes = append(f.nodes, n)
	return maker(len(f.nodes))
}

// at is who made what a memory has of a buffer.
func (f *flow) at(id mem.BufferID, m mem.MemoryID) *rangemap.Map[maker] {
	b := block{id, f.r.store(m)}
	if f.made[b] == nil {
		of := rangemap.Make(f.size[id], maker(0))
		f.made[b] = &of
	}
	return f.made[b]
}

func (f *flow) put(id mem.BufferID, m mem.MemoryID, r mem.Range, by maker) { f.at(id, m).Set(r, by) }

// reads adds an arrow from each that made some of the bytes to who reads them.
func (f *flow) reads(by maker, bytes map[maker]uint64) {
	for _, from := range slices.Sorted(maps.Keys(bytes)) { // so that the same run gives the same text
		if from != 0 {
			f.g.Edge(f.nodes[from-1], f.nodes[by-1]).Label(sizeText(bytes[from]))
		}
	}
}

// from adds up who made the bytes of a range.
func (f *flow) from(id mem.BufferID, m mem.MemoryID, r mem.Range, bytes map[maker]uint64) {
	for part, by := range f.at(id, m).In(r) {
		bytes[*by] += part.Size()
	}
}

// command adds a command, the copies that it needed, and those that made room for it.
func (f *flow) command(i int) {
	c, rec := &f.r.Commands[i], f.r.records[i]
	for k, n := range c.Evictions {
		for _, cp := range f.r.Evictions[n].Copies {
			f.copied(&f.r.Copies[cp], "lightsalmon")
		}
		v := &rec.Evictions[k]
		f.put(v.Buffer, v.Memory, v.Range, 0)
	}
	for _, cp := range c.Copies {
		f.copied(&f.r.Copies[cp], "lightyellow")
	}
	m := mem.Host
	if rec != nil {
		m = rec.Memory
	}
	label := fmt.Sprintf("#%d %s", c.Number, c.Text)
	if c.Queue != "" && c.Queue != c.Device {
		label += "\nqueue " + c.Queue
	}
	fill := ""
	if c.Failed != "" {
		fill = "mistyrose"
	}
	by := f.node(m, "box", fill, label, c.Failed)
	f.commands = append(f.commands, by)
	if rec != nil {
		bytes := make(map[maker]uint64)
		for _, a := range rec.Accesses {
			if a.Mode.Reads() {
				f.from(a.Buffer, a.Memory, a.Range, bytes)
			}
		}
		f.reads(by, bytes)
		for _, a := range rec.Accesses {
			if a.Mode.Writes() {
				f.put(a.Buffer, a.Memory, a.Range, by)
			}
		}
	}
	s := &f.r.s.Commands[i]
	after := s.After
	for _, e := range s.Events {
		after = append(after[:len(after):len(after)], f.r.s.Events[e].Set)
	}
	for _, a := range after {
		if a >= 0 && a < len(f.commands) {
			f.g.Edge(f.nodes[f.commands[a]-1], f.nodes[by-1]).Attr("style", "dashed")
		}
	}
}

// copied adds a copy.
func (f *flow) copied(c *copyResult, fill string) {
	s := c.step
	bytes := make(map[maker]uint64)
	f.from(s.Buffer, s.From, s.Range, bytes)
	by := f.node(s.To, "ellipse", fill, fmt.Sprintf("%s\n%s → %s, %s", copyText(c), c.From, c.To, wayText(c)), whyText(c))
	f.reads(by, bytes)
	f.put(s.Buffer, s.To, s.Range, by)
}
