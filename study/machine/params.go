package machine

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/expr"
	"godwit/internal/suggest"
	"godwit/internal/yaml"
)

// A machine's file has expressions as scenarios have them (package expr): a number that is none with a unit is
// one, and so is what stands in {braces} in a word. What they may name are params, which are set from outside, values
// under let, and the indexes of groups.

// paramTypes are those of params.
var paramTypes = append(slices.Clone(expr.ElementTypes), string(expr.BandwidthType), string(expr.RateType), string(expr.ListType))

// paramKeys are what a parameter has.
var paramKeys = []string{"type", "of", "default", "min", "max", "values", "about"}

// rates reads numbers with units per second.
func rates(text string) (uint64, bool) {
	if v, ok := yaml.Quantity("bandwidth", text); ok {
		return v, true
	}
	return yaml.Quantity("rate", text)
}

// compute is the value of an expression where a number of a unit is wanted, in that unit's smallest part.
func (l *loader) compute(text, unit string) (*big.Int, error) {
	v, err := l.scope.Eval(text)
	if err != nil {
		return nil, err
	}
	switch unit {
	case "time":
		v, err = v.As(expr.DurationType)
	case "thousandths":
		var f expr.Value
		f, err = v.As(expr.RealType)
		v = expr.Integer(int64(math.Round(f.Float * 1000)))
	default:
		v, err = v.As(expr.IntegerType)
	}
	return big.NewInt(v.Int), err
}

// params reads the parameters.
func (l *loader) params(n ast.Node) {
	for _, kv := range yaml.MappingOf(l, n, "params").Keys {
		l.param(kv)
	}
}

func (l *loader) param(kv *ast.MappingValueNode) {
	name, before := yaml.Name(kv), l.Faults()
	l.declare(kv, "param")
	m := yaml.MappingOf(l, kv.Value, fmt.Sprintf("param %q", yaml.Short(name)))
	m.OnlyKnown(l, paramKeys)
	p := expr.Param{Name: name, Type: l.paramType(&m, "type"), File: l.Name, Line: yaml.Line(kv.Key)}
	switch {
	case p.Type == expr.ListType:
		p.Of = l.paramType(&m, "of")
	case m.Has("of"):
		l.wrong(m.At("of"), "%s: of: it is for lists, not for type %s", m.What, p.Type)
	}
	if l.Faults() == before {
		var given *string
		if text, set := l.given.Set[name]; set {
			given = &text
		}
		r := expr.Reader{Source: l, Scope: l.scope}
		r.Read(&m, kv.Key, &p, given)
	}
	l.scope.Bad[name] = l.Faults() > before
	l.out.Params = append(l.out.Params, p)
}

// paramType is the type under a key of a parameter; of a list's elements an integer where it is not said.
func (l *loader) paramType(m *yaml.Mapping, key string) expr.Type {
	if !m.Has(key) {
		if key == "type" {
			l.wrong(m.Node, "%s: type is missing: one of %s", m.What, strings.Join(paramTypes, ", "))
		}
		return expr.IntegerType
	}
	word := yaml.Word(l, m.Get(key), m.What+": "+key)
	if !slices.Contains(paramTypes, word) || key == "of" && word == string(expr.ListType) {
		l.wrong(m.At(key), "%s: %s %q: %s", m.What, key, yaml.Short(word), yaml.WantOneOf(word, paramTypes))
	}
	return expr.Type(word)
}

// declare makes sure that the name of a value is new.
func (l *loader) declare(kv *ast.MappingValueNode, what string) {
	name := yaml.Name(kv)
	_, dup := l.scope.Vars[name]
	switch {
	case !nameRule.MatchString(name):
		l.wrong(kv.Key, "%s %q: a name is letters, digits and _, and begins with no digit", what, yaml.Short(name))
	case dup || l.scope.Bad[name]:
		l.wrong(kv.Key, "%s %q: the name is taken", what, name)
	}
}

// let computes named values, each of which may use those before it.
func (l *loader) let(n ast.Node) {
	for _, kv := range yaml.MappingOf(l, n, "let").Keys {
		name, before := yaml.Name(kv), l.Faults()
		l.declare(kv, "let")
		what, v := "let "+yaml.Short(name), expr.Value{}
		if text := l.Text(kv.Value, what); l.Faults() == before {
			var err error
			v, err = l.scope.Eval(text)
			expr.Fault(l, kv.Value, what, text, err)
		}
		l.scope.Vars[name], l.scope.Bad[name] = v, l.Faults() > before
	}
}

// checkSet reports what is set and is no parameter.
func (l *loader) checkSet(m *yaml.Mapping) {
	var have []string
	for _, p := range l.out.Params {
		have = append(have, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(l.given.Set)) {
		if !slices.Contains(have, name) {
			l.wrong(m.At("params"), "--set machine.%s=...: the machine has no such parameter; it has %s", name, suggest.Among(name, have))
		}
	}
}

// sections are what groups have, in the order in which they are read, each of all groups: what is named stands in one
// before.
var sections = []string{"devices", "switches", "topology", "links"}

// group is what a machine has, and a group of it.
type group struct {
	Hosts    []ast.Node `yaml:"hosts"`
	Devices  []ast.Node `yaml:"devices"`
	Switches []ast.Node `yaml:"switches"`
	Topology []ast.Node `yaml:"topology"`
	Links    []ast.Node `yaml:"links"`
	Groups   []ast.Node `yaml:"groups"`
}

// The bounds of repeats.
const (
	maxRepeats = 8         // within each other
	maxSteps   = 5_000_000 // of reading: entries of all rounds, pieces of expressions
)

// tooMuch ends the reading.
type tooMuch struct{}

// spend counts steps, and ends the reading where they are too many.
func (l *loader) spend(steps int) {
	if l.steps += steps; l.steps > maxSteps || len(l.Errs) >= l.Most {
		if l.steps > maxSteps {
			l.wrong(nil, "machine: too much to read: groups make it more than %d steps", maxSteps)
		}
		panic(tooMuch{})
	}
}

// walk reads a section of a group and of those in it.
func (l *loader) walk(g *group, depth int) {
	switch l.section {
	case "devices":
		for _, n := range g.Hosts {
			l.spend(1)
			l.host(n)
		}
		for i, n := range g.Devices {
			l.spend(1)
			l.device(n, len(g.Devices)-1-i)
		}
	case "switches":
		for _, n := range g.Switches {
			l.spend(1)
			l.switches(n)
		}
	case "topology":
		for _, n := range g.Topology {
			l.spend(1)
			l.topology(n)
		}
	case "links":
		for _, n := range g.Links {
			l.spend(1)
			l.link(n)
		}
	}
	for _, n := range g.Groups {
		l.rounds(n, depth+1)
	}
}

// rounds reads a section of {repeat: N, as: NAME, ...}, with the name's value 0, 1, 2, …
func (l *loader) rounds(n ast.Node, depth int) {
	before := l.Faults()
	g := struct {
		Repeat uint64 `yaml:"repeat" need:"true" to:"1000000"`
		As     string `yaml:"as"`
		group
	}{}
	m := l.Decode(n, "group", &g)
	if m == nil {
		return
	}
	_, shadows := l.scope.Vars[g.As]
	switch {
	case depth > maxRepeats:
		l.wrong(m.Node, "group: nested more than %d deep", maxRepeats)
	case g.As != "" && !nameRule.MatchString(g.As):
		l.wrong(m.At("as"), "group: as %q: a name is letters, digits and _, and begins with no digit", yaml.Short(g.As))
	case shadows:
		l.wrong(m.At("as"), "group: as %q: the name is taken", g.As)
	}
	if l.Faults() > before {
		return
	}
	around := l.hosted
	for i := range g.Repeat {
		l.spend(1)
		l.hosted = around
		if g.As != "" {
			l.scope.Vars[g.As] = expr.Integer(int64(i))
		}
		l.walk(&g.group, depth)
	}
	delete(l.scope.Vars, g.As)
	l.hosted = around
}
