package machine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/devices"
	"godwit/internal/input"
	"godwit/internal/network"
	"godwit/internal/suggest"
	"godwit/internal/yaml/fields"
	"godwit/internal/yaml/yamldoc"
)

// The bounds of a machine's file (docs/limits.md), which is somebody else's. The
// length and the depth of its text are internal/yaml/yamldoc's.
const (
	MaxDevices  = 1024
	maxSwitches = 4096
	maxLinks    = 20_000 // that groups of devices make of it
	maxKernels  = 1000   // of a device
	maxPoints   = 1000   // of a table
	maxSlots    = 1024   // of an engine
	maxName     = 64     // bytes
	maxTime     = 1e15   // nanoseconds: 11 days
	maxErrors   = 20     // that are listed
)

// Options are what a machine gets from outside.
type Options struct {
	// Devices is how many devices there should be in all, where the file leaves that
	// open (count: any); such a group has at least one, and 0 makes it two.
	Devices int
}

// Load reads the machine in the named file. It fails with *fields.Error values, joined, where
// rules or bounds are broken, and with other errors where the file cannot be read or ctx
// has ended.
func Load(ctx context.Context, file string, opt Options) (*Machine, error) {
	data, err := input.ReadAny(ctx, file, yamldoc.MaxBytes)
	if err != nil {
		return nil, err
	}
	return Parse(file, data, opt)
}

// Parse is Load for content that is at hand; file is for errors.
func Parse(file string, data []byte, opt Options) (*Machine, error) {
	l := &loader{
		reader:  reader{file: file},
		given:   opt,
		out:     &Machine{Source: file, Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))},
		names:   map[string]string{"host": "the host"},
		groups:  map[string][]string{"host": {"host"}},
		joined:  make(map[[2]string]int),
		ofGroup: make(map[string]bool),
	}
	body, err := yamldoc.ParseWithoutAliases(data)
	var bad *yamldoc.Error
	switch {
	case errors.As(err, &bad):
		l.wrong(bad.Line, "%s", bad.Text)
	case err != nil:
		l.wrong(0, "empty: a machine has devices and links")
	default:
		l.machine(body)
	}
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	l.out.build()
	return l.out, nil
}

// loader is the state of reading one machine.
type loader struct {
	reader
	given   Options
	open    bool // there is a group of any count
	out     *Machine
	names   map[string]string   // name -> what has it
	groups  map[string][]string // name in the file -> devices or switches
	ofGroup map[string]bool     // names that a count has made
	joined  map[[2]string]int   // ends -> line of the link
}

func (l *loader) machine(body ast.Node) {
	m := l.mapping(body, "machine", "name", "about", "host", "devices", "switches", "links", "chunk", "staging", "exact", "bytes")
	if m == nil {
		return
	}
	if name := m.text("name"); name != "" {
		l.out.Name = name
	}
	l.out.About = strings.TrimSpace(m.text("about"))
	if n := m.Get("host"); n != nil {
		l.host(n)
	}
	list := m.list("devices")
	for i, n := range list {
		l.device(n, len(list)-1-i)
	}
	if len(l.out.Devices) == 0 && len(l.errs) == 0 {
		l.wrong(m.line, "machine: devices: want at least one")
	}
	for _, n := range m.list("switches") {
		l.switches(n)
	}
	for _, n := range m.list("links") {
		l.link(n)
	}
	l.out.Rings.Chunk = m.number("chunk", bytes, 4096, 1<<40, 0)
	l.out.Rings.Staging = m.number("staging", bytes, 1<<20, 1<<40, 0)
	l.out.Rings.Exact = m.flag("exact", false)
	l.out.Stamps = !m.flag("bytes", true)
	l.connected(m.line)
}

// count is how many devices or switches a mapping stands for, where most are left: none
// where that is too many.
func (l *loader) count(m *fieldsOf, most, open int) uint64 {
	if most < 1 {
		what, bound := "devices", MaxDevices
		if strings.HasPrefix(m.What, "switch") {
			what, bound = "switches", maxSwitches
		}
		l.wrong(m.line, "%s: more than %d %s", m.What, bound, what)
		return 0
	}
	if n, ok := m.Get("count").(*ast.StringNode); !ok || n.Value != "any" || strings.HasPrefix(m.What, "switch") {
		return m.number("count", plain, 1, uint64(most), 1)
	}
	if l.open {
		l.wrong(m.lineOf("count"), "%s: count any: another group has that", m.What)
	}
	l.open = true
	if l.given.Devices == 0 {
		open = 2
	}
	return uint64(min(max(open, 1), most))
}

func (l *loader) host(n ast.Node) {
	m := l.mapping(n, "host", "memory", "bandwidth", "enqueue", "poll", "other", "call")
	if m == nil {
		return
	}
	h := &l.out.Host
	h.Memory = m.number("memory", bytes, 1, 1<<60, 0)
	h.Bandwidth = m.number("bandwidth", bandwidth, 1, network.MaxBandwidth, 0)
	h.Enqueue = m.number("enqueue", times, 0, maxTime, 0)
	h.Poll = m.number("poll", times, 0, maxTime, 0)
	h.Other = m.number("other", times, 0, maxTime, 0)
	h.Call = m.number("call", times, 0, maxTime, 0)
}

var nameRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// name reads the name of a mapping, and returns those that it stands for where there
// is a count: name0, name1, ... Of count: any they are as many as open says.
func (l *loader) name(m *fieldsOf, most, open int) (names []string) {
	name, line := m.text("name"), m.lineOf("name")
	switch {
	case name == "":
		l.wrong(m.line, "%s: name is missing", m.What)
		return nil
	case len(name) > maxName || !nameRule.MatchString(name):
		l.wrong(line, "%s %q: a name is at most %d letters, digits and _, and begins with no digit", m.What, fields.Short(name), maxName)
		return nil
	}
	m.What = fmt.Sprintf("%s %q", m.What, name)
	count := l.count(m, most, open)
	if count == 0 {
		return nil
	}
	names = []string{name}
	if m.Has("count") {
		names = names[:0]
		for i := range count {
			names = append(names, name+strconv.FormatUint(i, 10))
		}
	}
	if _, dup := l.groups[name]; dup {
		l.wrong(line, "%s: the name is taken", m.What)
		return nil
	}
	for _, one := range names {
		if what, dup := l.names[one]; dup {
			l.wrong(line, "%s: the name %s is taken by %s", m.What, one, what)
			return nil
		}
		l.names[one] = m.What
	}
	l.groups[name] = names
	for _, one := range names {
		if one != name {
			l.ofGroup[one] = true
			if _, dup := l.groups[one]; dup {
				l.wrong(line, "%s: the name %s is taken", m.What, one)
				return nil
			}
			l.groups[one] = []string{one}
		}
	}
	return names
}

// device reads a device, or a group of them; more declarations follow.
func (l *loader) device(n ast.Node, more int) {
	m := l.mapping(n, "device", "name", "count", "type", "memory", "local", "compute_units", "bandwidth", "rate", "launch", "copy", "kernels_at_once", "copies", "windows", "kernels")
	if m == nil {
		return
	}
	names := l.name(m, MaxDevices-len(l.out.Devices), l.given.Devices-len(l.out.Devices)-more)
	d := Device{
		Type:         devices.Type(m.oneOf("type", string(devices.GPU), string(devices.CPU), string(devices.Accelerator), string(devices.Custom))),
		Memory:       m.number("memory", bytes, 1, 1<<60, 0),
		Local:        m.number("local", bytes, 1, 1<<40, 48<<10),
		ComputeUnits: int(m.number("compute_units", plain, 1, 1<<20, 1)),
		Bandwidth:    m.number("bandwidth", bandwidth, 1, network.MaxBandwidth, 0),
		Rate:         m.number("rate", operationRate, 1, 1<<62, 0),
		Launch:       m.number("launch", times, 0, maxTime, 0),
		Copy:         m.number("copy", times, 0, maxTime, 0),
		AtOnce:       int(m.number("kernels_at_once", plain, 1, maxSlots, 1)),
		In:           1, Out: 1,
	}
	if n := m.Get("copies"); n != nil {
		l.copies(n, m.What, &d)
	}
	if n := m.Get("windows"); n != nil {
		l.windows(n, m.What, &d.Windows)
	}
	for _, n := range m.list("kernels") {
		l.kernel(n, m.What, &d)
	}
	for _, name := range names {
		d.Name = name
		l.out.Devices = append(l.out.Devices, d)
	}
}

// copies reads how many copies are done at once: a number for all, or {in: N, out: N}.
func (l *loader) copies(n ast.Node, what string, d *Device) {
	if _, scalar := n.(ast.ScalarNode); scalar {
		d.In, d.Out = int(l.scalar(n, what+": copies", plain, 1, maxSlots)), 0
		return
	}
	if m := l.mapping(n, what+": copies", "in", "out"); m != nil {
		d.In = int(m.number("in", plain, 1, maxSlots, 1))
		d.Out = int(m.number("out", plain, 1, maxSlots, 1))
	}
}

func (l *loader) windows(n ast.Node, what string, w *windows) {
	m := l.mapping(n, what+": windows", "from", "latency", "bandwidth")
	if m == nil {
		return
	}
	for _, key := range []string{"from", "bandwidth"} {
		if !m.Has(key) {
			l.wrong(m.line, "%s: %s is missing", m.What, key)
		}
	}
	w.From = m.number("from", bytes, 1, 1<<60, 1)
	w.Latency = m.number("latency", times, 0, maxTime, 0)
	w.Bandwidth = m.number("bandwidth", bandwidth, 1, network.MaxBandwidth, 1)
}

func (l *loader) kernel(n ast.Node, what string, d *Device) {
	m := l.mapping(n, what+": kernel", "name", "time", "operations", "power", "table")
	if m == nil {
		return
	}
	k := kernel{Name: m.text("name"), Time: m.number("time", times, 1, maxTime, 0), Halves: 2}
	switch {
	case k.Name == "":
		l.wrong(m.line, "%s: name is missing", m.What)
	case len(k.Name) > maxName:
		l.wrong(m.line, "%s: name %q: want at most %d bytes", m.What, fields.Short(k.Name), maxName)
	case d.kernel(k.Name) != nil:
		l.wrong(m.lineOf("name"), "%s: %s is there twice", m.What, k.Name)
	case len(d.Kernels) == maxKernels:
		l.wrong(m.line, "%s: more than %d kernels", what, maxKernels)
		return
	}
	k.Ops = m.number("operations", thousandths, 0, 1<<50, 1000)
	switch power := m.oneOf("power", "1", "0", "0.5", "1.5", "2"); power {
	case "0", "2":
		k.Halves = 4 * (power[0] - '0') / 2
	case "0.5":
		k.Halves = 1
	case "1.5":
		k.Halves = 3
	}
	k.Table = l.table(m)
	said := 0
	for _, key := range []string{"time", "operations", "table"} {
		if m.Has(key) {
			said++
		}
	}
	if said != 1 {
		l.wrong(m.line, "%s %s: want one of time, operations and table, not %d of them", m.What, fields.Short(k.Name), said)
	}
	d.Kernels = append(d.Kernels, k)
}

// table reads times by size: {64 KiB: 8 us, 1 MiB: 20 us}.
func (l *loader) table(m *fieldsOf) (out []tablePoint) {
	n := m.Get("table")
	if n == nil {
		return nil
	}
	t := l.mapping(n, m.What+": table")
	if t == nil {
		return nil
	}
	if len(t.Keys) == 0 || len(t.Keys) > maxPoints {
		l.wrong(t.line, "%s: %d lines: want 1 to %d", t.What, len(t.Keys), maxPoints)
		return nil
	}
	for _, kv := range t.Keys {
		p := tablePoint{l.scalar(kv.Key, t.What, bytes, 1, 1<<60), l.scalar(kv.Value, t.What, times, 0, maxTime)}
		if len(out) > 0 && p.Bytes <= out[len(out)-1].Bytes {
			l.wrong(fields.Line(kv.Key), "%s: sizes have to ascend", t.What)
		}
		out = append(out, p)
	}
	return out
}

func (l *loader) switches(n ast.Node) {
	m := l.mapping(n, "switch", "name", "count", "bandwidth", "peers")
	if m == nil {
		return
	}
	names := l.name(m, maxSwitches-len(l.out.Switches), 0)
	s := switchNode{Bandwidth: m.number("bandwidth", bandwidth, 1, network.MaxBandwidth, 0), Peers: m.flag("peers", true)}
	for _, name := range names {
		s.Name = name
		l.out.Switches = append(l.out.Switches, s)
	}
}

// link reads {between: [A, B]}, {from: A, to: B} or {ring: A}; a group stands for each
// of its members.
func (l *loader) link(n ast.Node) {
	m := l.mapping(n, "link", "between", "from", "to", "ring", "latency", "bandwidth", "both")
	if m == nil {
		return
	}
	proto := Link{
		Latency:   m.number("latency", times, 0, maxTime, 0),
		Bandwidth: m.number("bandwidth", bandwidth, 1, network.MaxBandwidth, 0),
		Both:      m.number("both", bandwidth, 1, network.MaxBandwidth, 0),
	}
	if proto.Bandwidth == 0 && !m.Has("bandwidth") {
		l.wrong(m.line, "link: bandwidth is missing")
	}
	switch {
	case m.Has("ring") && !m.Has("between") && !m.Has("from") && !m.Has("to"):
		l.ring(m, proto)
	case m.Has("between") && !m.Has("from") && !m.Has("to") && !m.Has("ring"):
		ends := m.list("between")
		if len(ends) != 2 {
			l.wrong(m.lineOf("between"), "link: between: want two ends, not %d", len(ends))
			return
		}
		l.each(m.line, l.group(ends[0], "link: between"), l.group(ends[1], "link: between"), proto)
	case m.Has("from") && m.Has("to") && !m.Has("ring") && !m.Has("between"):
		proto.OneWay = true
		if m.Has("both") {
			l.wrong(m.lineOf("both"), "link: both: it goes one way only")
		}
		l.each(m.line, l.group(m.Get("from"), "link: from"), l.group(m.Get("to"), "link: to"), proto)
	default:
		l.wrong(m.line, "link: want between: [A, B], from: A and to: B, or ring: A")
	}
}

// ring joins each of a group to the next, and the last to the first.
func (l *loader) ring(m *fieldsOf, proto Link) {
	names := l.group(m.Get("ring"), "link: ring")
	if len(names) == 1 && l.ofGroup[names[0]] {
		return
	}
	if len(names) == 1 {
		l.wrong(m.lineOf("ring"), "link: ring: want a group of at least two, not %s alone", names[0])
		return
	}
	for i, name := range names {
		if len(names) == 2 && i == 1 {
			break
		}
		proto.From, proto.To = name, names[(i+1)%len(names)]
		l.join(m.line, proto)
	}
}

// each joins every one of a to every one of b; within one group each pair once.
func (l *loader) each(line int, a, b []string, proto Link) {
	same := slices.Equal(a, b)
	if same && len(a) == 1 && !l.ofGroup[a[0]] { // a group of one has no pairs
		l.wrong(line, "link: %s is linked to itself", a[0])
		return
	}
	for i, from := range a {
		for j, to := range b {
			if same && (j == i || j < i && !proto.OneWay) {
				continue
			}
			proto.From, proto.To = from, to
			if !l.join(line, proto) {
				return
			}
		}
	}
}

// join adds a link, and says whether more can come.
func (l *loader) join(line int, x Link) bool {
	if x.From == x.To {
		l.wrong(line, "link: %s is linked to itself", x.From)
		return false
	}
	if len(l.out.Links) == maxLinks {
		l.wrong(line, "link: more than %d links: let devices meet at a switch", maxLinks)
		return false
	}
	ends := [][2]string{{x.From, x.To}}
	if !x.OneWay {
		ends = append(ends, [2]string{x.To, x.From})
	}
	for _, e := range ends {
		if at, dup := l.joined[e]; dup {
			l.wrong(line, "link: from %s to %s there is one in line %d", e[0], e[1], at)
			return false
		}
		l.joined[e] = line
	}
	l.out.Links = append(l.out.Links, x)
	return true
}

// group is what a name in a link stands for.
func (l *loader) group(n ast.Node, what string) []string {
	name := fields.Word(l, n, what)
	if g, ok := l.groups[name]; ok || name == "" {
		return g
	}
	var known []string
	for name := range l.groups {
		known = append(known, name)
	}
	slices.Sort(known)
	l.wrong(fields.Line(n), "%s: no device, group or switch is named %q%s", what, fields.Short(name), suggest.For(name, known))
	return nil
}

// connected checks that each device and the host reach each other: what nobody reaches
// cannot be used.
func (l *loader) connected(line int) {
	if len(l.errs) > 0 {
		return
	}
	forth, back := map[string][]string{}, map[string][]string{}
	for _, x := range l.out.Links {
		forth[x.From], back[x.To] = append(forth[x.From], x.To), append(back[x.To], x.From)
		if !x.OneWay {
			forth[x.To], back[x.From] = append(forth[x.To], x.From), append(back[x.From], x.To)
		}
	}
	isDevice := make(map[string]bool)
	for i := range l.out.Devices {
		isDevice[l.out.Devices[i].Name] = true
	}
	for _, dir := range []struct {
		edges map[string][]string
		rule  string
	}{{forth, "device %q: no link or switch leads there from the host"}, {back, "device %q: no link or switch leads from there to the host"}} {
		seen, todo := map[string]bool{"host": true}, []string{"host"}
		for len(todo) > 0 {
			at := todo[0]
			todo = todo[1:]
			if isDevice[at] {
				continue
			}
			for _, next := range dir.edges[at] {
				if !seen[next] {
					seen[next] = true
					todo = append(todo, next)
				}
			}
		}
		for i := range l.out.Devices {
			if name := l.out.Devices[i].Name; !seen[name] {
				l.wrong(line, dir.rule, name)
				return
			}
		}
	}
}
