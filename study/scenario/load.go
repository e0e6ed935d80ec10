package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"godwit/devices"
	"godwit/eviction"
	"godwit/internal/expr"
	"godwit/internal/suggest"
	"godwit/internal/yaml"
	"godwit/mem"
)

// Options are what a scenario gets from outside.
type Options struct {
	Inputs map[string]string // input name -> file
	// Driver, where not empty, opens all devices instead of the drivers that
	// the scenario names. Where there are fewer real devices than wanted they are
	// opened more than once.
	Driver string
	// Policy, where not empty, is taken in place of the scenario's.
	Policy string
	// Graph, where it is off, has repeats that are graphs be as others: each round is enqueued. On, and empty, is
	// as the scenario says.
	Graph string
	// Set are the values of parameters, by name: as expressions, or of type string
	// as they are.
	Set map[string]string
	// Memory is how many bytes the scenario may name in all: buffers, content and
	// what its commands read. 0 is DefaultMemory.
	Memory uint64
	// Times is how often the commands are there, one time after the other, as in a repeat; the run
	// then says how long they take. 0 is once, and no such thing. Warm is how many of these do not count where times are taken. What is written one
	// time is the content of the next, and expectations, which are of one time, are not checked.
	Times, Warm int
	// Files are contents by path, which are taken instead of files: for scenarios
	// that are no files themselves.
	Files map[string][]byte

	// Limits are bounds by name that count in place of those of [Limits].
	Limits map[string]int
}

// Parse reads the scenario in data. file is for errors, and the place from which other files are found. It
// fails with Errors where rules or bounds of the language are broken, and with other errors where another file
// cannot be read or ctx has ended.
func Parse(ctx context.Context, file string, data []byte, opt Options) (*Scenario, error) {
	l := newLoader(ctx, file, opt)
	l.read(data)
	if l.end != nil {
		return nil, l.end
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	if opt.Driver != "" {
		l.out.redirect(opt.Driver)
	}
	return l.out, nil
}

func newLoader(ctx context.Context, file string, opt Options) *loader {
	if opt.Memory == 0 {
		opt.Memory = defaultMemory
	}
	limits := Limits()
	maps.Copy(limits, opt.Limits)
	l := &loader{
		source: source{file: file, work: work{ctx: ctx, most: limits["steps"]}},
		limits: limits,
		given:  opt,
		out:    &Scenario{File: file, Times: opt.Times, Warm: opt.Warm, Unrecorded: opt.Graph == "off", Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))},
		inputs: make(map[string]string),
		named:  make(map[string]string),
		ids:    make(map[string]waitable),
		lost:   make(map[string]bool),
		maps:   make(map[string]int),
	}
	l.scope = &expr.Scope{Vars: make(map[string]expr.Value), Bad: make(map[string]bool), Spend: l.spend}
	l.scope.Of = map[string]func(string) (uint64, error){"size": l.sizeOf, "start": l.startOf, "input": l.inputSize}
	l.files = make(map[string]*fileContent)
	return l
}

// read reads all sections. Where it ends early, errs or end say why.
func (l *loader) read(data []byte) {
	defer recoverBailout()
	m := l.readHead(data)
	if m == nil {
		return
	}
	l.eachDocument(m, l.readLet)
	l.eachDocument(m, l.readDevices)
	declared := m.Has("devices")
	for _, d := range l.included {
		declared = declared || d.top.Has("devices")
	}
	if !declared || len(l.out.Devices) == 0 && l.faults == 0 {
		l.errorf(m.Node, "scenario: devices are missing")
	}
	l.eachDocument(m, l.readLinks)
	for _, d := range l.included {
		back := l.in(d)
		d.top.check()
		back()
	}
	for _, section := range []func(*mapping){ // each uses what those before it declare
		l.readPolicy, l.readSVM, l.readBuffers,
		l.readViews, l.readQueues, l.readEvents, l.readKernels, l.readCommands, l.readFailures, l.readExpect,
	} {
		section(m)
	}
	m.check()
	l.checkInputs()
	switch l.given.Graph {
	default:
		l.errorf(nil, "--graph: %q: want on or off", l.given.Graph)
	case "on", "off":
		if len(l.out.Graphs) == 0 && l.faults == 0 {
			l.errorf(nil, "--graph %s: the scenario has no repeat with graph: true", l.given.Graph)
		}
	case "":
	}
	if all := devices.Drivers(); l.given.Driver != "" && !slices.Contains(all, l.given.Driver) {
		l.errorf(nil, "--driver: driver %q: there is none of this name; there are %s", l.given.Driver, suggest.Among(l.given.Driver, all))
	}
}

// readHead reads what a scenario says of itself and what it is given from outside:
// inputs and parameters. It returns nil where there is no scenario.
func (l *loader) readHead(data []byte) *mapping {
	l.texts = len(data)
	root := l.parse(data, "a scenario has devices, buffers and commands")
	if root == nil {
		return nil
	}
	m := l.unchecked(root, "scenario", "scenario")
	if l.faults > 0 {
		return nil
	}
	if name := m.text("name"); name != "" {
		l.out.Name = name
	}
	l.out.About, l.out.Kind = m.text("about"), m.text("kind")
	l.readInputs(m)
	l.expand = l.scope.Expand
	l.readParameters(m)
	l.readIncludes(m)
	for _, d := range l.included {
		back := l.in(d)
		l.readParameters(d.top)
		back()
	}
	l.checkSet(m)
	return m
}

// recoverBailout ends the reading of a scenario where it was left.
func recoverBailout() {
	if p := recover(); p != nil && p != (bailout{}) {
		panic(p)
	}
}

// redirect makes all devices another driver's.
func (s *Scenario) redirect(driver string) {
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Driver, d.Params = driver, nil
		if driver == realDriver {
			d.Local, d.Count, d.Reuse = 0, len(s.Devices), true
		}
	}
}

// loader is the state of reading one scenario.
type loader struct {
	source
	out      *Scenario
	included []document
	texts    int                  // bytes of all documents
	linked   map[[2]string]string // where the way from one memory to another is declared
	scope    *expr.Scope
	inputs   map[string]string // declared input -> file
	given    Options
	limits   map[string]int      // by name
	named    map[string]string   // name -> what has it
	ids      map[string]waitable // what may be waited for, by command id or name of a user event
	lost     map[string]bool     // buffers that were declared, and whose declaration is at fault
	maps     map[string]int      // name -> index + 1 of the mapping that is there; -1 where its map was at fault
	track    tracker
	sized    []sized // what content_size says
	loop     loop
	graph    int // index + 1 of the graph whose rounds are read; 0 is none
	round    int // the command with which its round begins
	// describing is set where only the head is read: what is not given is no fault.
	describing bool
	homes      homes
	files      map[string]*fileContent // by path
	held       uint64                  // bytes, see hold
	items      uint64                  // work-items of launches
	own        map[string]*ownKernel   // by name

	buffers, views, queues index
}

// waitable is what a name in a wait list stands for.
type waitable struct {
	node    ast.Node // that gave the name
	command int      // index of the command that had it last, or -1
	event   int      // index of the user event, or -1
}

var nameRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// declare reads the name under key and makes sure that it is new.
func (l *loader) declare(m *mapping, what string) string {
	name := m.text("name")
	switch taken, dup := l.named[what+" "+name]; {
	case name == "":
	case !nameRule.MatchString(name):
		l.errorf(m.get("name"), "%s %q: a name is letters, digits and _, and begins with no digit", what, name)
	case dup:
		l.errorf(m.get("name"), "%s %q: the name is taken by the %s", what, name, taken)
	}
	return name
}

// take enters a name into a space of names.
func (l *loader) take(space, name string, n ast.Node) {
	if n != nil {
		l.named[space+" "+name] = space + " of " + l.where(n)
	}
}

// number computes the expression at n: a whole number.
func (l *loader) number(n ast.Node, what string) int64 {
	switch v := l.plain(n).(type) {
	case *ast.MappingNode, *ast.SequenceNode:
		l.misshapen(n, "%s: want a number, not %s", what, yaml.Kind(v))
		return 0
	}
	text := l.numberText(n, what)
	if text == "" {
		return 0
	}
	v, err := l.scope.Number(text)
	l.expressionFault(n, what, text, err)
	return v
}

// numberText is the text of an expression.
func (l *loader) numberText(n ast.Node, what string) string {
	if b, ok := l.plain(n).(*ast.BoolNode); ok {
		l.misshapen(n, "%s: want a number, not %s", what, b.GetToken().Value)
		return ""
	}
	return l.text(n, what)
}

// value computes the expression at n, or the list of expressions.
func (l *loader) value(n ast.Node, what string) expr.Value {
	if _, ok := l.plain(n).(*ast.SequenceNode); !ok {
		return l.computed(n, what)
	}
	out := expr.Value{Kind: expr.ListKind}
	for _, n := range l.list(n) {
		v := l.computed(n, what)
		if v.Kind == expr.ListKind {
			l.errorf(n, "%s: a list in a list", what)
		}
		out.List = append(out.List, v)
	}
	l.bounded(n, what+": elements", len(out.List), expr.MaxElements)
	return out
}

// computed is the value of the expression at n.
func (l *loader) computed(n ast.Node, what string) expr.Value {
	text := l.numberText(n, what)
	if text == "" {
		l.faults++
		return expr.Value{}
	}
	v, err := l.scope.Eval(text)
	l.expressionFault(n, what, text, err)
	return v
}

// expressionFault reports why an expression could not be computed.
func (l *loader) expressionFault(n ast.Node, what, text string, err error) {
	expr.Fault(l, n, what, text, err)
}

// real computes the real number at n.
func (l *loader) real(n ast.Node, what string) float64 {
	v := l.computed(n, what)
	f, ok := v.Number()
	if !ok {
		l.errorf(n, "%s: %v: want a number, not %v", what, v, v.Kind)
	}
	return f
}

// duration is a time under key, at least 0; missing is 0.
func (l *loader) duration(m *mapping, key string) time.Duration {
	text := m.text(key)
	if text == "" {
		return 0
	}
	d, err := l.scope.Duration(text)
	switch {
	case errors.Is(err, expr.ErrReported):
		l.faults++
	case err != nil || d < 0:
		l.errorf(m.get(key), "%s: %s %q: want a time such as 5us", m.What, key, text)
	}
	return max(d, 0)
}

// natural is a number under key that must be at least least; missing is def.
func (l *loader) natural(m *mapping, key string, least, def uint64) uint64 {
	n := m.get(key)
	if n == nil {
		return def
	}
	before, what := l.faults, m.What+": "+key
	if m.What == key {
		what = key
	}
	l.scope.Exact = slices.Contains([]string{"size", "offset", "to-offset", "memory"}, key)
	v := l.number(n, what)
	l.scope.Exact = false
	if l.faults > before {
		return def
	}
	if v < 0 || uint64(v) < least {
		l.errorf(n, "%s is %d: want at least %d", what, v, least)
		return def
	}
	return uint64(v)
}

// readPolicy reads which blocks go first where a memory is short, and which buffers have
// blocks that hold them whole.
func (l *loader) readPolicy(m *mapping) {
	l.out.WholeBelow = l.natural(m, "whole-below", 1, 0)
	l.out.Policy = m.text("policy")
	check := func(policy string, report func(format string, args ...any)) {
		if policy != "" && !slices.Contains(eviction.Policies(), policy) {
			report("policy %q: want one of %s", policy, suggest.Among(policy, eviction.Policies()))
		}
	}
	check(l.out.Policy, func(format string, args ...any) { l.errorf(m.get("policy"), format, args...) })
	if l.given.Policy != "" {
		check(l.given.Policy, func(format string, args ...any) { l.errorf(nil, "--policy: "+format, args...) })
		l.out.Policy = l.given.Policy
	}
}

func (l *loader) readInputs(m *mapping) {
	n := m.get("inputs")
	if n == nil {
		return
	}
	in := l.mapping(n, "inputs", "inputs")
	for _, kv := range in.Keys {
		name := yaml.Name(kv)
		spec := l.mapping(in.get(name), fmt.Sprintf("input %q", name), "input")
		l.inputs[name] = ""
		if path := spec.text("default"); path != "" {
			l.inputs[name] = filepath.Join(filepath.Dir(l.file), path)
		}
		l.out.Inputs = append(l.out.Inputs, inputDecl{Name: name, About: spec.text("about"), Default: spec.text("default")})
		if path, ok := l.given.Inputs[name]; ok {
			l.inputs[name] = path
		}
		if l.inputs[name] == "" && !l.describing {
			l.errorf(kv.Key, "input %q: no file was given; add --input %s=FILE", name, name)
		}
	}
}

// checkInputs reports files given for inputs that nobody declared.
func (l *loader) checkInputs() {
	for name := range l.given.Inputs {
		if _, ok := l.inputs[name]; !ok {
			l.errorf(nil, "--input %s=...: the scenario declares no such input; it has %s", name, l.inputsBeside(name))
		}
	}
}

// inputSize is the number of bytes in an input's file.
func (l *loader) inputSize(name string) (uint64, error) {
	path, ok := l.inputs[name]
	if !ok {
		return 0, fmt.Errorf("no input is named %q; declared under inputs: %s", name, l.inputsBeside(name))
	}
	if path == "" {
		return 0, expr.ErrReported // where it is declared
	}
	l.spend(64)
	if content, ok := l.given.Files[path]; ok {
		return uint64(len(content)), nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return uint64(info.Size()), nil
}

// inputsBeside lists the inputs, where none has the name.
func (l *loader) inputsBeside(name string) string {
	return suggest.Among(name, slices.Sorted(maps.Keys(l.inputs)))
}

func (l *loader) readDevices(m *mapping) {
	for _, n := range l.list(m.get("devices")) {
		d := l.mapping(n, "device", "device")
		name := l.declare(d, "device")
		dev := deviceDecl{Driver: d.text("driver"), File: l.file, Line: n.GetToken().Position.Line}
		if all := devices.Drivers(); dev.Driver != "" && !slices.Contains(all, dev.Driver) {
			l.errorf(d.get("driver"), "device %q: driver %q: there is none of this name; there are %s", name, dev.Driver, suggest.Among(dev.Driver, all))
		}
		if name == "host" {
			l.errorf(n, "device \"host\": that is the name of the host's memory")
		}
		dev.Memory = l.natural(d, "memory", 1, 0)
		dev.Local = l.natural(d, "local", 1, 0)
		count := l.natural(d, "count", 1, 1)
		dev.Params = l.readParams(d)
		dev.Resources = l.readLayers(d)
		if most := l.limits["devices"]; count > uint64(max(most-len(l.out.Devices), 0)) {
			l.stop(n, "device %q: count is %d: want at most %d devices in all (--limit devices=N)", name, count, most)
		}
		dev.Count = int(count)
		for i := range count {
			dev.Name = name
			if d.Has("count") {
				dev.Name += strconv.FormatUint(i, 10)
				l.newName(d, "device", dev.Name)
			}
			l.take("device", dev.Name, n)
			l.out.Devices = append(l.out.Devices, dev)
		}
	}
}

// readParams collects what goes to the driver as it is.
func (l *loader) readParams(d *mapping) map[string]string {
	out := make(map[string]string)
	for _, key := range []string{"platform", "device", "type"} {
		if v := d.text(key); v != "" {
			out[key] = v
		}
	}
	if n := d.get("params"); n != nil {
		p := l.mapping(n, d.What+": params", "driver params")
		for _, kv := range p.Keys {
			out[yaml.Name(kv)] = p.text(yaml.Name(kv))
		}
	}
	return out
}

func (l *loader) readLinks(m *mapping) {
	if l.linked == nil {
		l.linked = make(map[[2]string]string)
	}
	for _, n := range l.list(m.get("links")) {
		s := l.mapping(n, "link", "link")
		path := mem.Path{There: true}
		path.Latency = l.duration(s, "latency")
		if bn := s.get("bandwidth"); bn != nil {
			text := strings.TrimSuffix(s.text("bandwidth"), "/s")
			v, err := l.scope.Number(text)
			if err != nil || v <= 0 {
				l.errorf(bn, "link: bandwidth %q: want bytes a second such as 32 GB/s", text)
			}
			path.Bandwidth = uint64(max(v, 0))
		}
		link := mem.Link{Ring: path}
		if s.oneOf("way", "direct") == "direct" {
			link = mem.Link{Direct: path}
		}
		l.limited(n, "links", len(l.out.Links)+1, "objects")
		line := n.GetToken().Position.Line
		before := len(l.out.Links)
		if bn := s.get("between"); bn != nil {
			ends := l.list(bn)
			if len(ends) != 2 {
				l.errorf(bn, "link: between: want two devices, not %d", len(ends))
				continue
			}
			a, b := l.memory(ends[0], "link: between"), l.memory(ends[1], "link: between")
			l.out.Links = append(l.out.Links, linkDecl{a, b, link, line}, linkDecl{b, a, link, line})
		} else {
			from, to := l.memoryAt(s, "from"), l.memoryAt(s, "to")
			l.out.Links = append(l.out.Links, linkDecl{from, to, link, line})
		}
		if last := l.out.Links[len(l.out.Links)-1]; last.From == last.To && last.From != "" {
			l.errorf(n, "link: %s is linked to itself", last.From)
		}
		for _, one := range l.out.Links[before:] {
			ends := [2]string{one.From, one.To}
			if at, dup := l.linked[ends]; dup && one.From != one.To {
				l.errorf(n, "link: from %s to %s was declared in %s: each is given once, with one way (default: direct)", one.From, one.To, at)
				break
			}
			l.linked[ends] = l.where(n)
		}
	}
}

// namedAs lists the names of a space, sorted: "device " is one.
func (l *loader) namedAs(space string) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(l.named)) {
		if name, ok := strings.CutPrefix(key, space); ok {
			names = append(names, name)
		}
	}
	return names
}

// memoryAt is memory for a key that must be there.
func (l *loader) memoryAt(m *mapping, key string) string {
	if !m.Has(key) {
		return ""
	}
	return l.memory(m.get(key), m.What+": "+key)
}

// memory reads the name of a device or "host".
func (l *loader) memory(n ast.Node, what string) string {
	name := l.text(n, what)
	if _, ok := l.named["device "+name]; !ok && name != "host" && name != "" {
		l.errorf(n, "%s: no device is named %q%s", what, name, suggest.For(name, append(l.namedAs("device "), "host")))
	}
	return name
}
