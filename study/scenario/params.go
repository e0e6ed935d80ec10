package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/expr"
	"godwit/internal/suggest"
	"godwit/internal/yaml"
)

// Parameters are what a scenario is given from outside, beside its inputs. Each is
// declared with a type. What it is comes from Options.Set, or else from its default:
// nothing else sets it. Names under let are computed from parameters, and are not
// set from outside.

// inputDecl is a file that a scenario is given.
type inputDecl struct {
	Name, About string
	Default     string // relative to the scenario's file; "" is none
}

// Description is what a scenario says of itself and of what it is given.
type Description struct {
	Name, About string
	Inputs      []inputDecl
	Params      []expr.Param
}

// Describe reads what a scenario is given from outside, and leaves the rest of it
// alone. Parameters and inputs that are not given are no error.
func Describe(ctx context.Context, file string, data []byte, opt Options) (*Description, error) {
	l := newLoader(ctx, file, opt)
	l.describing = true
	func() {
		defer recoverBailout()
		l.readHead(data)
	}()
	if l.end != nil {
		return nil, l.end
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	return &Description{Name: l.out.Name, About: l.out.About, Inputs: l.out.Inputs, Params: l.out.Params}, nil
}

// readParameters reads the section params.
func (l *loader) readParameters(m *mapping) {
	if n := m.get("params"); n != nil {
		params := l.mapping(n, "params", "params")
		for _, kv := range params.Keys {
			l.readParameter(kv, params.get(yaml.Name(kv)))
		}
	}
}

// checkSet reports what is set and is no parameter.
func (l *loader) checkSet(m *mapping) {
	known := func(name string) bool {
		return slices.ContainsFunc(l.out.Params, func(p expr.Param) bool { return p.Name == name })
	}
	for _, name := range slices.Sorted(maps.Keys(l.given.Set)) {
		if !known(name) {
			if let, ok := l.plain(m.get("let")).(*ast.MappingNode); ok && l.mapping(let, "let", "let").Has(name) {
				l.errorf(let, "--set %s=...: it is computed, under let; what is to be set is declared under params", name)
				continue
			}
			l.errorf(m.get("params"), "--set %s=...: the scenario has no such parameter; it has %s", name, l.paramsBeside(name))
		}
	}
}

// paramsBeside lists the parameters, where none has the name.
func (l *loader) paramsBeside(name string) string {
	var out []string
	for _, p := range l.out.Params {
		out = append(out, p.Name)
	}
	return suggest.Among(name, out)
}

// declareValue makes sure that a name of params or let is new.
func (l *loader) declareValue(kv *ast.MappingValueNode, space string) {
	name := yaml.Name(kv)
	taken, dup := l.named["value "+name]
	switch {
	case !nameRule.MatchString(name):
		l.errorf(kv.Key, "%s %q: a name is letters, digits and _, and begins with no digit", space, name)
	case dup:
		l.errorf(kv.Key, "%s %q: the name is taken by the %s", space, name, taken)
	}
	l.named["value "+name] = space + " of " + l.where(kv.Key)
}

func (l *loader) readParameter(kv *ast.MappingValueNode, n ast.Node) {
	name, before := yaml.Name(kv), l.faults
	l.declareValue(kv, "param")
	s := l.mapping(n, fmt.Sprintf("param %q", name), "param")
	p := expr.Param{Name: name, File: l.file, Line: kv.Key.GetToken().Position.Line}
	defer func() {
		l.bounded(kv.Key, "params", len(l.out.Params)+1, maxParams)
		l.scope.Bad[name] = l.scope.Bad[name] || l.faults > before
		l.out.Params = append(l.out.Params, p)
	}()
	if l.faults > before {
		return
	}
	s.text("type")
	p.Type = expr.Type(s.oneOf("type", string(expr.IntegerType)))
	of := s.oneOf("of", string(expr.IntegerType))
	switch {
	case p.Type == expr.ListType:
		p.Of = expr.Type(of)
	case s.Has("of"):
		l.errorf(s.get("of"), "%s: of: it is for lists, not for type %s", s.What, p.Type)
	}
	if l.faults > before {
		return
	}
	var given *string
	if text, set := l.given.Set[name]; set {
		given = &text
	}
	r := expr.Reader{Source: l, Scope: l.scope, Describing: l.describing}
	r.Read(&s.Mapping, kv.Key, &p, given)
}
