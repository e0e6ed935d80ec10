package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/suggest"
	"godwit/internal/yaml"
)

// Type says what a parameter may be.
type Type string

// The types of parameters.
const (
	IntegerType   Type = "integer"
	RealType      Type = "real"
	DurationType  Type = "duration"
	SizeType      Type = "size"      // bytes; in expressions an integer
	BandwidthType Type = "bandwidth" // bytes a second; in expressions an integer. Of machines
	RateType      Type = "rate"      // operations a second; likewise
	StringType    Type = "string"
	ListType      Type = "list"
)

// ElementTypes are those of elements of a list that a scenario may have.
var ElementTypes = []string{string(IntegerType), string(RealType), string(DurationType), string(SizeType), string(StringType)}

// Param is a parameter that a document declares.
type Param struct {
	Name  string
	Type  Type
	Of    Type // of a ListType: its elements'
	About string
	// Default is what it is where it is not set, as written; Required are those
	// that have none.
	Default  string
	Required bool
	// Min and Max bound it, or each element of a list; as written, "" where there is
	// no bound. Values are what it may be, where not all within these.
	Min, Max string
	Values   []string
	// Value is what it is, in the one way to write that: a size in bytes. It is empty
	// where the parameter is not set.
	Value string
	File  string // that declares it
	Line  int
}

// Source is the document that declares parameters.
type Source interface {
	// Plain is what a node stands for, as package yaml asks.
	Plain(n ast.Node) ast.Node
	// Wrong notes a rule that is broken at n, as package yaml asks.
	Wrong(n ast.Node, form bool, format string, args ...any)
	// Reported notes that something is not known because of a fault that was reported where it is.
	Reported()
	// Faults counts both.
	Faults() int
	// Text is a scalar, with the {expressions} in it computed.
	Text(n ast.Node, what string) string
}

// Reader reads declarations of parameters, for a scope.
type Reader struct {
	Source
	Scope *Scope
	// Describing is set where it is no fault that a parameter which has no default is not set.
	Describing bool
}

// limits are what a parameter's value is held against.
type limits struct {
	min, max *Value
	values   []Value
}

// Read reads the rest of p, whose name and types are known, and enters its value into the scope. m declares it,
// at says where, and given is what it is set to, or nil.
func (r *Reader) Read(m *yaml.Mapping, at ast.Node, p *Param, given *string) {
	before := r.Faults()
	if n := m.Get("about"); n != nil {
		p.About = r.Text(n, m.What+": about")
	}
	bounds := r.limits(m, p)
	def := m.Get("default")
	if r.Faults() > before {
		return
	}
	var v Value
	switch {
	case given != nil:
		v = r.set(at, m.What, p, *given)
	case def == nil && r.Describing:
		p.Required = true
		r.Scope.Bad[p.Name] = true
		return
	case def == nil:
		r.Wrong(at, false, "%s: it has no default; add --set %s=%s", m.What, p.Name, strings.ToUpper(string(p.Type)))
		return
	}
	if def != nil { // it is held against the rules, whether it is taken or not
		d := r.typed(def, m.What+": default", p.Type, p.Of)
		if r.Faults() == before {
			p.Default = r.shown(def)
			r.check(def, m.What+": default", p, bounds, d)
		}
		if given == nil {
			v = d
		}
	}
	p.Required = def == nil
	if given != nil && r.Faults() == before {
		r.check(at, m.What+": --set "+p.Name+"="+*given, p, bounds, v)
	}
	if r.Faults() == before {
		p.Value = v.String()
		r.Scope.Vars[p.Name] = v
	}
}

// set is what a parameter is set to.
func (r *Reader) set(n ast.Node, what string, p *Param, text string) Value {
	if bad := strings.IndexFunc(text, yaml.Unprintable); bad >= 0 {
		r.Wrong(n, false, "%s: --set %s: %.40q: it goes to terminals: want no control characters", what, p.Name, text)
		return Value{}
	}
	v, err := r.Scope.parseAs(text, p.Type, p.Of)
	if err != nil {
		r.Wrong(n, false, "%s: --set %s=%s: %v", what, p.Name, text, err)
	}
	return v
}

// typed computes the value of a type at n.
func (r *Reader) typed(n ast.Node, what string, t, of Type) Value {
	list, isList := r.Plain(n).(*ast.SequenceNode)
	if t == ListType && isList {
		out := Value{Kind: ListKind}
		if len(list.Values) > MaxElements {
			r.Wrong(n, false, "%s: elements: more than %d", what, MaxElements)
			return out
		}
		r.Scope.cost(len(list.Values))
		for _, n := range list.Values {
			out.List = append(out.List, r.typed(n, what, of, ""))
		}
		return out
	}
	text := r.Text(n, what)
	if text == "" && t != StringType {
		r.Reported()
		return Value{}
	}
	v, err := r.Scope.parseAs(text, t, of)
	Fault(r, n, what, text, err)
	return v
}

// Fault reports why the expression at n could not be computed. What comes of a
// fault that was reported where it is, such as the size of a buffer without one, is
// not reported again.
func Fault(s Source, n ast.Node, what, text string, err error) {
	switch {
	case errors.Is(err, ErrReported):
		s.Reported()
	case err != nil:
		s.Wrong(n, false, "%s %q: %v", what, text, err)
	}
}

// shown is a default as it is written, for people.
func (r *Reader) shown(n ast.Node) string {
	if list, ok := r.Plain(n).(*ast.SequenceNode); ok {
		var out []string
		for _, n := range list.Values {
			out = append(out, yaml.Word(r, n, "default"))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	return yaml.Word(r, n, "default")
}

// parseAs computes text as a value of a type.
func (sc *Scope) parseAs(text string, t, of Type) (Value, error) {
	switch t {
	case StringType:
		return Text(text), nil
	case DurationType:
		d, err := sc.Duration(text)
		return duration(d), err
	}
	v, err := sc.Eval(text)
	if err != nil {
		return Value{}, err
	}
	if t != ListType {
		return v.As(t)
	}
	if v.Kind != ListKind {
		return Value{}, fmt.Errorf("want a list such as [%s], not %v", text, v.Kind)
	}
	v.List = slices.Clone(v.List) // it may be another parameter's
	for i, e := range v.List {
		if v.List[i], err = e.As(of); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}

// As is v as a value of a type that is no list.
func (v Value) As(t Type) (Value, error) {
	switch t {
	case IntegerType, SizeType, BandwidthType, RateType:
		i, err := v.Whole()
		if err == nil && t != IntegerType && i < 0 {
			err = fmt.Errorf("%d: a %s is at least 0", i, t)
		}
		return Integer(i), err
	case RealType:
		if f, ok := v.Number(); ok {
			return Real(f), nil
		}
	case DurationType:
		if v.Kind == DurationKind {
			return v, nil
		}
	case StringType:
		if v.Kind == textKind {
			return v, nil
		}
	}
	return Value{}, fmt.Errorf("want a %s, not %v", t, v.Kind)
}

// limits reads min, max and values.
func (r *Reader) limits(m *yaml.Mapping, p *Param) (out limits) {
	of, before := p.Type, r.Faults()
	if of == ListType {
		of = p.Of
	}
	for _, bound := range []struct {
		key  string
		text *string
		v    **Value
	}{{"min", &p.Min, &out.min}, {"max", &p.Max, &out.max}} {
		n := m.Get(bound.key)
		if n == nil {
			continue
		}
		if of == StringType {
			r.Wrong(n, false, "%s: %s: strings have no order; give values", m.What, bound.key)
			return limits{}
		}
		v := r.typed(n, m.What+": "+bound.key, of, "")
		if r.Faults() > before {
			return limits{}
		}
		*bound.text, *bound.v = r.shown(n), &v
	}
	values := yaml.List(r, m.Get("values"))
	if m.Has("values") && len(values) == 0 {
		r.Wrong(m.Get("values"), false, "%s: values: want at least one, or no values", m.What)
	}
	for _, n := range values {
		out.values = append(out.values, r.typed(n, m.What+": values", of, ""))
		if r.Faults() > before {
			return limits{}
		}
		p.Values = append(p.Values, r.shown(n))
	}
	return out
}

// check holds a value against what the parameter may be.
func (r *Reader) check(n ast.Node, what string, p *Param, bounds limits, v Value) {
	if v.Kind == ListKind {
		for _, e := range v.List {
			r.check(n, what, p, bounds, e)
		}
		return
	}
	order := func(b Value) int {
		r.Scope.cost(1)
		c, err := compare(v, b)
		if err != nil {
			c = 1 // nothing that is of the parameter's type comes here
		}
		return c
	}
	switch {
	case bounds.min != nil && order(*bounds.min) < 0:
		r.Wrong(n, false, "%s: %v is below the least, %s", what, v, p.Min)
	case bounds.max != nil && order(*bounds.max) > 0:
		r.Wrong(n, false, "%s: %v is above the most, %s", what, v, p.Max)
	case bounds.values != nil && !slices.ContainsFunc(bounds.values, func(b Value) bool { return order(b) == 0 }):
		r.Wrong(n, false, "%s: %v: want one of %s%s", what, v, strings.Join(p.Values, ", "), suggest.For(v.String(), p.Values))
	}
}
