package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/suggest"
	"godwit/internal/yaml"
)

// Parameters are what a scenario is given from outside, beside its inputs. Each is
// declared with a type. What it is comes from Options.Set, or else from its default:
// nothing else sets it. Names under let are computed from parameters, and are not
// set from outside.

// paramType says what a parameter may be.
type paramType string

// The types of parameters.
const (
	integerType  paramType = "integer"
	realType     paramType = "real"
	durationType paramType = "duration"
	sizeType     paramType = "size" // bytes; in expressions an integer
	stringType   paramType = "string"
	List         paramType = "list"
)

// elementTypes are those of elements of a list.
var elementTypes = []string{string(integerType), string(realType), string(durationType), string(sizeType), string(stringType)}

// Param is a parameter that a scenario declares.
type Param struct {
	Name  string
	Type  paramType
	Of    paramType // of a List: its elements'
	About string
	// Default is what it is where it is not set, as written; Required are those
	// that have none.
	Default  string
	Required bool
	// Min and Max bound it, or each element of a list; as written, "" where there is
	// no bound. Values are what it may be, where not all within these.
	Min, Max string
	Values   []string
	// Value is what it is, in the one way to write that: a size in bytes. Describe
	// leaves it empty where the parameter is not set.
	Value string
	File  string // that declares it
	Line  int
}

// inputDecl is a file that a scenario is given.
type inputDecl struct {
	Name, About string
	Default     string // relative to the scenario's file; "" is none
}

// Description is what a scenario says of itself and of what it is given.
type Description struct {
	Name, About string
	Inputs      []inputDecl
	Params      []Param
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
		return slices.ContainsFunc(l.out.Params, func(p Param) bool { return p.Name == name })
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

// limits are what a parameter's value is held against.
type limits struct {
	min, max *value
	values   []value
}

func (l *loader) readParameter(kv *ast.MappingValueNode, n ast.Node) {
	name, before := yaml.Name(kv), l.faults
	l.declareValue(kv, "param")
	s := l.mapping(n, fmt.Sprintf("param %q", name), "param")
	p := Param{Name: name, File: l.file, Line: kv.Key.GetToken().Position.Line}
	defer func() {
		l.bounded(kv.Key, "params", len(l.out.Params)+1, maxParams)
		l.scope.bad[name] = l.scope.bad[name] || l.faults > before
		l.out.Params = append(l.out.Params, p)
	}()
	if l.faults > before {
		return
	}
	s.text("type")
	p.Type = paramType(s.oneOf("type", string(integerType)))
	of := s.oneOf("of", string(integerType))
	switch {
	case p.Type == List:
		p.Of = paramType(of)
	case s.Has("of"):
		l.errorf(s.get("of"), "%s: of: it is for lists, not for type %s", s.What, p.Type)
	}
	p.About = s.text("about")
	bounds := l.readLimits(s, &p)
	def := s.get("default")
	if l.faults > before {
		return
	}
	given, set := l.given.Set[name]
	var v value
	switch {
	case set:
		v = l.setValue(kv.Key, s.What, &p, given)
	case def == nil && l.describing:
		p.Required = true
		l.scope.bad[name] = true
		return
	case def == nil:
		l.errorf(kv.Key, "%s: it has no default; add --set %s=%s", s.What, name, strings.ToUpper(string(p.Type)))
		return
	}
	if def != nil { // it is held against the rules, whether it is taken or not
		d := l.typedValue(def, s.What+": default", p.Type, p.Of)
		if l.faults == before {
			p.Default = l.shown(def)
			l.check(def, s.What+": default", &p, bounds, d)
		}
		if !set {
			v = d
		}
	}
	p.Required = def == nil
	if set && l.faults == before {
		l.check(kv.Key, s.What+": --set "+name+"="+given, &p, bounds, v)
	}
	if l.faults == before {
		p.Value = v.String()
		l.scope.vars[name] = v
	}
}

// setValue is what a parameter is set to.
func (l *loader) setValue(n ast.Node, what string, p *Param, text string) value {
	if bad := strings.IndexFunc(text, yaml.Unprintable); bad >= 0 {
		l.errorf(n, "%s: --set %s: %.40q: it goes to terminals: want no control characters", what, p.Name, text)
		return value{}
	}
	v, err := l.scope.parseAs(text, p.Type, p.Of)
	if err != nil {
		l.errorf(n, "%s: --set %s=%s: %v", what, p.Name, text, err)
	}
	return v
}

// typedValue computes the value of a type at n.
func (l *loader) typedValue(n ast.Node, what string, t, of paramType) value {
	list, isList := l.plain(n).(*ast.SequenceNode)
	if t == List && isList {
		out := value{kind: listValue}
		l.bounded(n, what+": elements", len(list.Values), maxElements)
		for _, n := range l.list(list) {
			out.list = append(out.list, l.typedValue(n, what, of, ""))
		}
		return out
	}
	text := l.text(n, what)
	if text == "" && t != stringType {
		l.faults++
		return value{}
	}
	v, err := l.scope.parseAs(text, t, of)
	l.expressionFault(n, what, text, err)
	return v
}

// shown is a default as it is written, for people.
func (l *loader) shown(n ast.Node) string {
	if list, ok := l.plain(n).(*ast.SequenceNode); ok {
		var out []string
		for _, n := range list.Values {
			out = append(out, l.written(n, "default"))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	return l.written(n, "default")
}

// parseAs computes text as a value of a type.
func (sc *scope) parseAs(text string, t, of paramType) (value, error) {
	switch t {
	case stringType:
		return textOf(text), nil
	case durationType:
		d, err := sc.duration(text)
		return durationOf(d), err
	}
	v, err := sc.eval(text)
	if err != nil {
		return value{}, err
	}
	if t != List {
		return v.as(t)
	}
	if v.kind != listValue {
		return value{}, fmt.Errorf("want a list such as [%s], not %v", text, v.kind)
	}
	v.list = slices.Clone(v.list) // it may be another parameter's
	for i, e := range v.list {
		if v.list[i], err = e.as(of); err != nil {
			return value{}, err
		}
	}
	return v, nil
}

// as is v as a value of a type that is no list.
func (v value) as(t paramType) (value, error) {
	switch t {
	case integerType, sizeType:
		i, err := v.whole()
		if err == nil && t == sizeType && i < 0 {
			err = fmt.Errorf("%d: a size is at least 0", i)
		}
		return integerOf(i), err
	case realType:
		if f, ok := v.number(); ok {
			return realOf(f), nil
		}
	case durationType:
		if v.kind == durationValue {
			return v, nil
		}
	case stringType:
		if v.kind == textValue {
			return v, nil
		}
	}
	return value{}, fmt.Errorf("want a %s, not %v", t, v.kind)
}

// readLimits reads min, max and values.
func (l *loader) readLimits(s *mapping, p *Param) (out limits) {
	of, before := p.Type, l.faults
	if of == List {
		of = p.Of
	}
	for _, bound := range []struct {
		key  string
		text *string
		v    **value
	}{{"min", &p.Min, &out.min}, {"max", &p.Max, &out.max}} {
		n := s.get(bound.key)
		if n == nil {
			continue
		}
		if of == stringType {
			l.errorf(n, "%s: %s: strings have no order; give values", s.What, bound.key)
			return limits{}
		}
		v := l.typedValue(n, s.What+": "+bound.key, of, "")
		if l.faults > before {
			return limits{}
		}
		*bound.text, *bound.v = l.shown(n), &v
	}
	values := l.list(s.get("values"))
	if s.Has("values") && len(values) == 0 {
		l.errorf(s.get("values"), "%s: values: want at least one, or no values", s.What)
	}
	for _, n := range values {
		out.values = append(out.values, l.typedValue(n, s.What+": values", of, ""))
		if l.faults > before {
			return limits{}
		}
		p.Values = append(p.Values, l.shown(n))
	}
	return out
}

// check holds a value against what the parameter may be.
func (l *loader) check(n ast.Node, what string, p *Param, bounds limits, v value) {
	if v.kind == listValue {
		for _, e := range v.list {
			l.check(n, what, p, bounds, e)
		}
		return
	}
	order := func(b value) int {
		l.spend(1)
		c, err := compare(v, b)
		if err != nil {
			c = 1 // nothing that is of the parameter's type comes here
		}
		return c
	}
	switch {
	case bounds.min != nil && order(*bounds.min) < 0:
		l.errorf(n, "%s: %v is below the least, %s", what, v, p.Min)
	case bounds.max != nil && order(*bounds.max) > 0:
		l.errorf(n, "%s: %v is above the most, %s", what, v, p.Max)
	case bounds.values != nil && !slices.ContainsFunc(bounds.values, func(b value) bool { return order(b) == 0 }):
		l.errorf(n, "%s: %v: want one of %s%s", what, v, strings.Join(p.Values, ", "), suggest.For(v.String(), p.Values))
	}
}
