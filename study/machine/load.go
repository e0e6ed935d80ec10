package machine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/devices"
	"godwit/internal/expr"
	"godwit/internal/input"
	"godwit/internal/suggest"
	"godwit/internal/yaml"
)

// The bounds of a machine's file (docs/limits.md), which is somebody else's. The
// length and the depth of its text are internal/yaml's.
const (
	MaxDevices  = 16_384
	maxSwitches = 65_536
	maxLinks    = 200_000 // that groups of devices make of it
	maxHosts    = 4096
	maxKernels  = 1000 // of a device
	maxPoints   = 1000 // of a table
	maxName     = 64   // bytes
	maxErrors   = 20   // that are listed
)

// Options are what a machine gets from outside.
type Options struct {
	// Devices is how many devices there should be in all, where the file leaves that
	// open (count: any); such a group has at least one, and 0 makes it two.
	Devices int
	// Set are the values of parameters, by name, as expressions; those of type string as they are.
	Set map[string]string
}

// Load reads the machine in the named file. It fails with *yaml.Error values, joined, where
// rules or bounds are broken, and with other errors where the file cannot be read or ctx
// has ended.
func Load(ctx context.Context, file string, opt Options) (*Machine, error) {
	data, err := input.ReadAny(ctx, file, yaml.MaxBytes)
	if err != nil {
		return nil, err
	}
	return Parse(file, data, opt)
}

// Parse is Load for content that is at hand; file is for errors.
func Parse(file string, data []byte, opt Options) (*Machine, error) {
	l := &loader{
		File:    yaml.File{Name: file, Most: maxErrors},
		given:   opt,
		out:     &Machine{Source: file},
		names:   make(map[string]string),
		groups:  make(map[string][]string),
		joined:  make(map[[2]string]int),
		ofGroup: make(map[string]bool),
		scope:   &expr.Scope{Vars: make(map[string]expr.Value), Bad: make(map[string]bool), Rates: rates},
	}
	l.scope.Spend, l.Compute, l.Expand = l.spend, l.compute, l.scope.Expand
	l.read(data)
	if len(l.Errs) > 0 {
		return nil, errors.Join(l.Errs...)
	}
	return l.out, nil
}

// loader is the state of reading one machine.
type loader struct {
	yaml.File
	given   Options
	open    bool // there is a group of any count
	out     *Machine
	names   map[string]string   // name -> what has it
	groups  map[string][]string // name in the file -> devices or switches
	ofGroup map[string]bool     // names that a count has made
	order   []string            // names of devices and switches, as they are declared
	joined  map[[2]string]int   // ends -> line of the link
	scope   *expr.Scope
	steps   int
	proto   Host   // of hosts that say nothing else
	hosted  string // the host of devices that name none
	section string // that is read of groups, see sections
	grouped bool   // there are groups
}

// read reads the file. Where it is too much to read it ends early.
func (l *loader) read(data []byte) {
	defer func() {
		if p := recover(); p != nil && p != (tooMuch{}) {
			panic(p)
		}
	}()
	if body := l.Parse(data, "a machine has devices and links"); body != nil {
		l.machine(body)
	}
}

// wrong notes a broken rule.
func (l *loader) wrong(n ast.Node, format string, args ...any) { l.Wrong(n, false, format, args...) }

func (l *loader) machine(body ast.Node) {
	f := struct {
		Name   string         `yaml:"name"`
		About  ast.Node       `yaml:"about"` // in which braces are braces
		Params func(ast.Node) `yaml:"params"`
		Let    func(ast.Node) `yaml:"let"`
		Host   Host           `yaml:"host"`
		group
		rings
		Seed  uint64 `yaml:"seed"`
		Bytes bool   `yaml:"bytes"`
	}{Name: strings.TrimSuffix(filepath.Base(l.Name), filepath.Ext(l.Name)), Params: l.params, Let: l.let, Bytes: true}
	m := l.Decode(body, "machine", &f)
	if m == nil {
		return
	}
	l.checkSet(m)
	l.out.Name, l.out.About, l.out.Host, l.out.Rings, l.out.Seed, l.out.Stamps = f.Name, "", f.Host, f.rings, f.Seed, !f.Bytes
	if f.About != nil {
		l.out.About = strings.TrimSpace(yaml.Word(l, f.About, "machine: about"))
	}
	l.grouped = len(f.Groups) > 0
	l.proto = f.Host
	if !slices.ContainsFunc(ast.Filter(ast.MappingValueType, body), hasHosts) {
		l.names["host"], l.groups["host"] = "the host", []string{"host"}
	}
	for _, section := range sections {
		l.section = section
		l.walk(&f.group, 0)
	}
	if len(l.out.Devices) == 0 && len(l.Errs) == 0 {
		l.wrong(m.Node, "machine: devices: want at least one")
	}
	l.connected(m.Node)
}

// hasHosts reports whether a node says what hosts there are.
func hasHosts(n ast.Node) bool {
	kv, ok := n.(*ast.MappingValueNode)
	return ok && yaml.Name(kv) == "hosts"
}

// named is what has a name, and stands for several where it has a count.
type named struct {
	Name  string   `yaml:"name" names:"true"`
	Count ast.Node `yaml:"count"`
}

// count is how many devices or switches a mapping stands for, where most are left: none
// where that is too many.
func (l *loader) count(m *yaml.Mapping, n ast.Node, most, open int) uint64 {
	isDevice := strings.HasPrefix(m.What, "device")
	if most < 1 {
		what, bound := "devices", MaxDevices
		switch {
		case strings.HasPrefix(m.What, "switch"):
			what, bound = "switches", maxSwitches
		case !isDevice:
			what, bound = "hosts", maxHosts
		}
		l.wrong(m.Node, "%s: more than %d %s", m.What, bound, what)
		return 0
	}
	if n == nil {
		return 1
	}
	if word, ok := n.(*ast.StringNode); !ok || word.Value != "any" || !isDevice {
		v, _ := l.Number(n, m.What+": count", reflect.StructTag(fmt.Sprintf(`from:"1" to:"%d"`, most)))
		return max(v, 1)
	}
	switch {
	case l.open:
		l.wrong(n, "%s: count any: another group has that", m.What)
	case l.grouped:
		l.wrong(n, "%s: count any: the file has groups: let a parameter say how many", m.What)
	}
	l.open = true
	if l.given.Devices == 0 {
		open = 2
	}
	return uint64(min(max(open, 1), most))
}

var nameRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// name returns the names that a mapping stands for: its own, or where there is a count name0,
// name1, ... Of count: any they are as many as open says.
func (l *loader) name(m *yaml.Mapping, d *named, most, open int) (names []string) {
	name, at := d.Name, m.At("name")
	switch {
	case name == "":
		l.wrong(m.Node, "%s: name is missing", m.What)
		return nil
	case len(name) > maxName || !nameRule.MatchString(name):
		l.wrong(at, "%s: a name is at most %d letters, digits and _, and begins with no digit", m.What, maxName)
		return nil
	}
	count := l.count(m, d.Count, most, open)
	if count == 0 {
		return nil
	}
	names = []string{name}
	if d.Count != nil {
		names = names[:0]
		for i := range count {
			names = append(names, name+strconv.FormatUint(i, 10))
		}
	}
	if !l.enter(m, at, name, names) {
		return nil
	}
	return names
}

// enter enters what has a name and the names of its members, if none is taken.
func (l *loader) enter(m *yaml.Mapping, at ast.Node, name string, names []string) bool {
	if _, dup := l.groups[name]; dup {
		l.wrong(at, "%s: the name is taken", m.What)
		return false
	}
	for _, one := range names {
		if what, dup := l.names[one]; dup {
			l.wrong(at, "%s: the name %s is taken by %s", m.What, one, what)
			return false
		}
		l.names[one] = m.What
	}
	l.groups[name], l.order = names, append(l.order, names...)
	for _, one := range names {
		if one != name {
			l.ofGroup[one] = true
			if _, dup := l.groups[one]; dup {
				l.wrong(at, "%s: the name %s is taken", m.What, one)
				return false
			}
			l.groups[one] = []string{one}
		}
	}
	return true
}

// device reads a device, or a group of them; more declarations follow.
func (l *loader) device(n ast.Node, more int) {
	d := struct {
		named
		Device
		Copies  ast.Node   `yaml:"copies"`
		Kernels []ast.Node `yaml:"kernels"`
		Up      ast.Node   `yaml:"pageable_up"`
		Down    ast.Node   `yaml:"pageable_down"`
	}{Device: Device{Type: devices.GPU, Local: 48 << 10, ComputeUnits: 1, AtOnce: 1, In: 1, Out: 1}}
	m := l.Decode(n, "device", &d)
	if m == nil {
		return
	}
	names := l.name(m, &d.named, MaxDevices-len(l.out.Devices), l.given.Devices-len(l.out.Devices)-more)
	if d.Copies != nil {
		l.copies(d.Copies, m.What+": copies", &d.Device)
	}
	for _, n := range d.Kernels {
		l.kernel(n, m.What, &d.Device)
	}
	if d.Up != nil {
		d.PageableUp = l.table(d.Up, m.What+": pageable_up")
	}
	if d.Down != nil {
		d.PageableDown = l.table(d.Down, m.What+": pageable_down")
	}
	l.threadless(m, &d.Device)
	l.byKernels(m, &d.Device)
	l.ofHost(m, &d.Device)
	for _, name := range names {
		d.Device.Name = name
		l.out.Devices = append(l.out.Devices, d.Device)
	}
}

// copies reads how many copies are done at once: a number for all, or {in: N, out: N}.
func (l *loader) copies(n ast.Node, what string, d *Device) {
	if _, scalar := n.(ast.ScalarNode); scalar {
		v, _ := l.Number(n, what, `from:"1" to:"1024"`)
		d.In, d.Out = int(v), 0
		return
	}
	c := struct {
		In  int `yaml:"in" from:"1" to:"1024"`
		Out int `yaml:"out" from:"1" to:"1024"`
	}{1, 1}
	l.Decode(n, what, &c)
	d.In, d.Out = c.In, c.Out
}

func (l *loader) kernel(n ast.Node, what string, d *Device) {
	k := struct {
		kernel
		Power  string   `yaml:"power" oneof:"1 0 0.5 1.5 2"`
		Table  ast.Node `yaml:"table"`
		Tables ast.Node `yaml:"tables"`
	}{kernel: kernel{Ops: 1000, Halves: 2}}
	m := l.Decode(n, what+": kernel", &k)
	if m == nil {
		return
	}
	switch {
	case k.Name == "":
		l.wrong(m.Node, "%s: name is missing", m.What)
	case len(k.Name) > maxName:
		l.wrong(m.Node, "%s: a name has at most %d bytes", m.What, maxName)
	case d.kernel(k.Name) != nil:
		l.wrong(m.At("name"), "%s: kernel %s is there twice", what, k.Name)
	case len(d.Kernels) == maxKernels:
		l.wrong(m.Node, "%s: more than %d kernels", what, maxKernels)
		return
	}
	if halves, ok := map[string]uint8{"0": 0, "0.5": 1, "1.5": 3, "2": 4}[k.Power]; ok {
		k.Halves = halves
	}
	if k.Table != nil {
		k.kernel.Table = l.table(k.Table, m.What+": table")
	}
	if k.Tables != nil {
		l.tables(k.Tables, m.What+": tables", &k.kernel)
	}
	said := 0
	for _, key := range []string{"time", "operations", "table", "tables"} {
		if m.Has(key) {
			said++
		}
	}
	if said != 1 {
		l.wrong(m.Node, "%s: want one of time, operations, table and tables, not %d of them", m.What, said)
	}
	d.Kernels = append(d.Kernels, k.kernel)
}

// tables reads tables by work-items: {1024: {64 KiB: 8 us}, 65536: {64 KiB: 2 us}}.
func (l *loader) tables(n ast.Node, what string, k *kernel) {
	t := yaml.MappingOf(l, n, what)
	if len(t.Keys) == 0 || len(t.Keys) > maxPoints {
		l.wrong(t.Node, "%s: %d lines: want 1 to %d", what, len(t.Keys), maxPoints)
	}
	for _, kv := range t.Keys {
		items, _ := l.Number(kv.Key, what, `from:"1" to:"4294967296"`)
		if m := len(k.Tables); m > 0 && items <= k.Tables[m-1].Items {
			l.wrong(kv.Key, "%s: work-items have to ascend", what)
		}
		k.Tables = append(k.Tables, itemsTable{items, l.table(kv.Value, what)})
	}
}

// table reads times by size: {64 KiB: 8 us, 1 MiB: 20 us}.
func (l *loader) table(n ast.Node, what string) (out []tablePoint) {
	t := yaml.MappingOf(l, n, what)
	if len(t.Keys) == 0 || len(t.Keys) > maxPoints {
		l.wrong(t.Node, "%s: %d lines: want 1 to %d", what, len(t.Keys), maxPoints)
		return nil
	}
	for _, kv := range t.Keys {
		var p tablePoint
		p.Bytes, _ = l.Number(kv.Key, what, `unit:"bytes"`)
		p.Time, _ = l.Number(kv.Value, what, `unit:"time"`)
		if len(out) > 0 && p.Bytes <= out[len(out)-1].Bytes {
			l.wrong(kv.Key, "%s: sizes have to ascend", what)
		}
		out = append(out, p)
	}
	return out
}

func (l *loader) switches(n ast.Node) {
	s := struct {
		named
		switchNode
	}{switchNode: switchNode{Peers: true}}
	m := l.Decode(n, "switch", &s)
	if m == nil {
		return
	}
	for _, name := range l.name(m, &s.named, maxSwitches-len(l.out.Switches), 0) {
		s.switchNode.Name = name
		l.out.Switches = append(l.out.Switches, s.switchNode)
	}
}

// link reads {between: [A, B]}, {from: A, to: B} or {ring: A}; a group stands for each
// of its members.
func (l *loader) link(n ast.Node) {
	x := struct {
		Between []ast.Node `yaml:"between"`
		From    ast.Node   `yaml:"from"`
		To      ast.Node   `yaml:"to"`
		Ring    ast.Node   `yaml:"ring"`
		Link
	}{}
	m := l.Decode(n, "link", &x)
	if m == nil {
		return
	}
	proto := x.Link
	switch {
	case m.Has("ring") && !m.Has("between") && !m.Has("from") && !m.Has("to"):
		l.ring(x.Ring, proto)
	case m.Has("between") && !m.Has("from") && !m.Has("to") && !m.Has("ring"):
		if len(x.Between) != 2 {
			l.wrong(m.At("between"), "link: between: want two ends, not %d", len(x.Between))
			return
		}
		l.each(m.Node, l.group(x.Between[0], "link: between"), l.group(x.Between[1], "link: between"), proto)
	case m.Has("from") && m.Has("to") && !m.Has("ring") && !m.Has("between"):
		proto.OneWay = true
		if m.Has("both") {
			l.wrong(m.At("both"), "link: both: it goes one way only")
		}
		l.each(m.Node, l.group(x.From, "link: from"), l.group(x.To, "link: to"), proto)
	default:
		l.wrong(m.Node, "link: want between: [A, B], from: A and to: B, or ring: A")
	}
}

// ring joins each of a group to the next, and the last to the first.
func (l *loader) ring(n ast.Node, proto Link) {
	names := l.group(n, "link: ring")
	if len(names) == 1 && l.ofGroup[names[0]] {
		return
	}
	if len(names) == 1 {
		l.wrong(n, "link: ring: want a group of at least two, not %s alone", names[0])
		return
	}
	for i, name := range names {
		if len(names) == 2 && i == 1 {
			break
		}
		proto.From, proto.To = name, names[(i+1)%len(names)]
		l.join(n, proto)
	}
}

// each joins every one of a to every one of b; within one group each pair once.
func (l *loader) each(n ast.Node, a, b []string, proto Link) {
	same := slices.Equal(a, b)
	if same && len(a) == 1 && !l.ofGroup[a[0]] { // a group of one has no pairs
		l.wrong(n, "link: %s is linked to itself", a[0])
		return
	}
	for i, from := range a {
		for j, to := range b {
			if same && (j == i || j < i && !proto.OneWay) {
				continue
			}
			proto.From, proto.To = from, to
			if !l.join(n, proto) {
				return
			}
		}
	}
}

// join adds a link, and says whether more can come.
func (l *loader) join(n ast.Node, x Link) bool {
	if x.From == x.To {
		l.wrong(n, "link: %s is linked to itself", x.From)
		return false
	}
	if len(l.out.Links) == maxLinks {
		l.wrong(n, "link: more than %d links: let devices meet at a switch", maxLinks)
		return false
	}
	ends := [][2]string{{x.From, x.To}}
	if !x.OneWay {
		ends = append(ends, [2]string{x.To, x.From})
	}
	for _, e := range ends {
		if at, dup := l.joined[e]; dup {
			l.wrong(n, "link: from %s to %s there is one in line %d", e[0], e[1], at)
			return false
		}
		l.joined[e] = yaml.Line(n)
	}
	l.out.Links = append(l.out.Links, x)
	return true
}

// group is what a name in a link stands for.
func (l *loader) group(n ast.Node, what string) []string {
	name := l.Text(n, what)
	if g, ok := l.groups[name]; ok || name == "" {
		return g
	}
	if strings.Contains(name, "*") {
		return l.matching(n, name, what)
	}
	var known []string
	for name := range l.groups {
		known = append(known, name)
	}
	slices.Sort(known)
	l.wrong(n, "%s: no device, group or switch is named %q%s", what, yaml.Short(name), suggest.For(name, known))
	return nil
}

// matching are all whose names match a pattern, in which * stands for any letters, in the order of their declarations.
func (l *loader) matching(n ast.Node, pattern, what string) (out []string) {
	l.spend(len(l.order) / 8)
	for _, name := range l.order {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		l.wrong(n, "%s: no device or switch has a name such as %q", what, yaml.Short(pattern))
	}
	return out
}

// connected builds the machine and checks that each device and the host reach each other: what
// nobody reaches cannot be used.
func (l *loader) connected(n ast.Node) {
	if len(l.Errs) > 0 {
		return
	}
	l.out.build()
	forth := l.out.edges
	back := make([][]edge, len(forth))
	for from := range forth {
		for _, e := range forth[from] {
			back[e.to] = append(back[e.to], edge{to: from})
		}
	}
	for h := range l.out.boxes {
		if !l.reaches(n, h, forth, "device %q: no link or switch leads there from the host", "host %q: no link or switch leads there from host %q") ||
			!l.reaches(n, h, back, "device %q: no link or switch leads from there to the host", "host %q: no link or switch leads from there to host %q") {
			return
		}
	}
}

// reaches checks that from a host links and switches lead to its devices, and from the first to all hosts.
func (l *loader) reaches(n ast.Node, h int, edges [][]edge, rule, hostRule string) bool {
	m, start := l.out, l.out.hostNode(h)
	seen, todo := make([]bool, len(edges)), []int{start}
	seen[start] = true
	for ; len(todo) > 0; todo = todo[1:] {
		if at := todo[0]; at == start || m.passes(at, true) { // no path leads through a device
			for _, e := range edges[at] {
				if !seen[e.to] {
					seen[e.to], todo = true, append(todo, e.to)
				}
			}
		}
	}
	for i := range m.Devices {
		if d := &m.Devices[i]; d.host == h && !seen[i+1] {
			l.wrong(n, rule, d.Name)
			return false
		}
	}
	for o := range m.boxes {
		if h == 0 && !seen[m.hostNode(o)] {
			l.wrong(n, hostRule, m.boxes[o].Name, m.boxes[h].Name)
			return false
		}
	}
	return true
}

// host reads a host, or a group of them. Devices of the group that it is in, which name none, are of the last.
func (l *loader) host(n ast.Node) {
	h := struct {
		named
		Host
	}{Host: l.proto}
	m := l.Decode(n, "host", &h)
	if m == nil {
		return
	}
	for _, name := range l.name(m, &h.named, maxHosts-len(l.out.Hosts), 0) {
		l.out.Hosts = append(l.out.Hosts, boxed{name, h.Host})
		l.hosted = name
	}
}

// ofHost finds the host of a device.
func (l *loader) ofHost(m *yaml.Mapping, d *Device) {
	if d.HostName == "" {
		d.HostName = l.hosted
		return
	}
	if i := slices.IndexFunc(l.out.Hosts, func(b boxed) bool { return b.Name == d.HostName }); i < 0 {
		var have []string
		for _, b := range l.out.Hosts {
			have = append(have, b.Name)
		}
		l.wrong(m.At("host"), "%s: host %q: there is none of this name above; there are %s", m.What, yaml.Short(d.HostName), suggest.Among(d.HostName, have))
	}
}
