package expr

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"godwit/internal/suggest"
)

// functions are those of expressions that take values; size, start, input and if,
// which do not, are in call. least and most are how many they take.
var functions = map[string]struct {
	least, most int
	compute     func(args []Value) (Value, error)
}{
	"min":   {1, MaxElements, func(args []Value) (Value, error) { return extreme("min", args, -1) }},
	"max":   {1, MaxElements, func(args []Value) (Value, error) { return extreme("max", args, 1) }},
	"ceil":  {1, 2, ceiling},
	"floor": {1, 1, func(args []Value) (Value, error) { return toInteger(args[0], math.Floor) }},
	"round": {1, 1, func(args []Value) (Value, error) { return toInteger(args[0], math.Round) }},
	"log2": {1, 1, func(args []Value) (Value, error) {
		return ofReals("log2", func(x, _ float64) float64 { return math.Log2(x) }, args)
	}},
	"sqrt": {1, 1, func(args []Value) (Value, error) {
		return ofReals("sqrt", func(x, _ float64) float64 { return math.Sqrt(x) }, args)
	}},
	"pow": {2, 2, power},
	"len": {1, 1, length},
	"sum": {1, 1, total},
}

// Functions are the names of all of them that there are here, sorted.
func (sc *Scope) Functions() []string {
	return slices.Sorted(slices.Values(append(slices.AppendSeq(slices.Collect(maps.Keys(functions)), maps.Keys(sc.Of)), "if")))
}

// call computes a function whose opening parenthesis has been read.
func (p *exprParser) call(name string) Value {
	if p.scope.Of[name] != nil {
		return p.ofName(name)
	}
	if name == "if" {
		return p.choose()
	}
	f, ok := functions[name]
	if !ok {
		return p.fail("no function is named %q; there are %s", name, suggest.Among(name, p.scope.Functions()))
	}
	round := name == "floor" || name == "ceil" || name == "round"
	if round {
		p.rounds++
	}
	args := p.elements(')')
	if round {
		p.rounds--
	}
	if n := len(args); p.err == nil && (n < f.least || n > f.most) {
		want := fmt.Sprint(f.least)
		if f.most == MaxElements {
			want = "1 or more"
		} else if f.most > f.least {
			want = fmt.Sprintf("%d or %d", f.least, f.most)
		}
		given := humanize.Comma(int64(n)) + " arguments"
		if n == 1 {
			given = "1 argument"
		}
		return p.fail("%s: %s, it takes %s", name, given, want)
	}
	if p.err != nil || p.skip > 0 {
		return Value{}
	}
	for _, a := range args {
		p.scope.cost(len(a.List))
	}
	v, err := f.compute(args)
	return p.result(v, err)
}

// choose computes if(condition, a, b): only what is chosen.
func (p *exprParser) choose() Value {
	c := p.comparison()
	is, err := c.Whole()
	p.result(c, err)
	out := Value{}
	for _, wanted := range []bool{is != 0, is == 0} {
		p.expect(',')
		if !wanted {
			p.skip++
		}
		v := p.comparison()
		if !wanted {
			p.skip--
		} else {
			out = v
		}
	}
	p.expect(')')
	return out
}

// extreme is the least (sign -1) or the greatest of some values, or of one list's.
func extreme(name string, args []Value, sign int) (Value, error) {
	if len(args) == 1 && args[0].Kind == ListKind {
		args = args[0].List
	}
	if len(args) == 0 {
		return Value{}, fmt.Errorf("%s of nothing", name)
	}
	out := args[0]
	for _, a := range args {
		c, err := compare(a, out)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w", name, err)
		}
		if c*sign > 0 {
			out = a
		}
	}
	return out, nil
}

// ceiling is ceil(x), the least integer that is not below x, or ceil(a, b), which is a
// rounded up to a multiple of b.
func ceiling(args []Value) (Value, error) {
	if len(args) == 1 {
		return toInteger(args[0], math.Ceil)
	}
	a, err := args[0].Whole()
	b, err2 := args[1].Whole()
	switch {
	case err != nil:
		return Value{}, err
	case err2 != nil:
		return Value{}, err2
	case b <= 0 || a < 0 || a > math.MaxInt64-b:
		return Value{}, fmt.Errorf("ceil(%d, %d): rounds a number up to a multiple of a positive one", a, b)
	}
	return Integer((a + b - 1) / b * b), nil
}

func toInteger(v Value, round func(float64) float64) (Value, error) {
	if v.Kind == RealKind {
		v.Float = round(v.Float)
	}
	i, err := v.Whole()
	return Integer(i), err
}

// ofReals computes f of one or two numbers.
func ofReals(name string, f func(x, y float64) float64, args []Value) (Value, error) {
	var x [2]float64
	for i, a := range args {
		n, ok := a.Number()
		if !ok {
			return Value{}, fmt.Errorf("%s: want numbers, not %v", name, a.Kind)
		}
		x[i] = n
	}
	var texts []string
	for _, a := range args {
		texts = append(texts, a.String())
	}
	return finite(f(x[0], x[1]), "%s(%s)", name, strings.Join(texts, ", "))
}

// power is an integer for integers, exactly, where it can be one.
func power(args []Value) (Value, error) {
	a, b := args[0], args[1]
	if a.Kind != IntegerKind || b.Kind != IntegerKind || b.Int < 0 {
		return ofReals("pow", math.Pow, args)
	}
	out, err := Integer(1), error(nil)
	for n := b.Int; n > 0 && err == nil; n >>= 1 {
		if n&1 != 0 {
			out, err = multiply(out, a)
		}
		if n > 1 && err == nil {
			a, err = multiply(a, a)
		}
	}
	return out, err
}

func length(args []Value) (Value, error) {
	if args[0].Kind != ListKind {
		return Value{}, fmt.Errorf("len: want a list, not %v", args[0].Kind)
	}
	return Integer(int64(len(args[0].List))), nil
}

func total(args []Value) (out Value, err error) {
	if args[0].Kind != ListKind {
		return Value{}, fmt.Errorf("sum: want a list, not %v", args[0].Kind)
	}
	for i, v := range args[0].List {
		if i == 0 {
			out = v
		} else if out, err = add(out, v, 1); err != nil {
			return Value{}, fmt.Errorf("sum: %w", err)
		}
	}
	return out, nil
}
