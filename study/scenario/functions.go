package scenario

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"godwit/internal/suggest"
)

// functions are those of expressions that take values; size, start, input and if,
// which do not, are in call. least and most are how many they take.
var functions = map[string]struct {
	least, most int
	compute     func(args []value) (value, error)
}{
	"min":   {1, maxElements, func(args []value) (value, error) { return extreme("min", args, -1) }},
	"max":   {1, maxElements, func(args []value) (value, error) { return extreme("max", args, 1) }},
	"ceil":  {1, 2, ceiling},
	"floor": {1, 1, func(args []value) (value, error) { return toInteger(args[0], math.Floor) }},
	"round": {1, 1, func(args []value) (value, error) { return toInteger(args[0], math.Round) }},
	"log2": {1, 1, func(args []value) (value, error) {
		return ofReals("log2", func(x, _ float64) float64 { return math.Log2(x) }, args)
	}},
	"sqrt": {1, 1, func(args []value) (value, error) {
		return ofReals("sqrt", func(x, _ float64) float64 { return math.Sqrt(x) }, args)
	}},
	"pow": {2, 2, power},
	"len": {1, 1, length},
	"sum": {1, 1, total},
}

// functions are the names of all of them that there are here, sorted.
func (sc *scope) functions() []string {
	return slices.Sorted(slices.Values(append(slices.AppendSeq(slices.Collect(maps.Keys(functions)), maps.Keys(sc.of)), "if")))
}

// call computes a function whose opening parenthesis has been read.
func (p *exprParser) call(name string) value {
	if p.scope.of[name] != nil {
		return p.ofName(name)
	}
	if name == "if" {
		return p.choose()
	}
	f, ok := functions[name]
	if !ok {
		return p.fail("no function is named %q; there are %s", name, suggest.Among(name, p.scope.functions()))
	}
	args := p.elements(')')
	if n := len(args); p.err == nil && (n < f.least || n > f.most) {
		want := fmt.Sprint(f.least)
		if f.most == maxElements {
			want = "1 or more"
		} else if f.most > f.least {
			want = fmt.Sprintf("%d or %d", f.least, f.most)
		}
		return p.fail("%s: %s, it takes %s", name, count(n, "argument", "arguments"), want)
	}
	if p.err != nil || p.skip > 0 {
		return value{}
	}
	for _, a := range args {
		p.scope.cost(len(a.list))
	}
	v, err := f.compute(args)
	return p.result(v, err)
}

// choose computes if(condition, a, b): only what is chosen.
func (p *exprParser) choose() value {
	c := p.comparison()
	is, err := c.whole()
	p.result(c, err)
	out := value{}
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
func extreme(name string, args []value, sign int) (value, error) {
	if len(args) == 1 && args[0].kind == listValue {
		args = args[0].list
	}
	if len(args) == 0 {
		return value{}, fmt.Errorf("%s of nothing", name)
	}
	out := args[0]
	for _, a := range args {
		c, err := compare(a, out)
		if err != nil {
			return value{}, fmt.Errorf("%s: %w", name, err)
		}
		if c*sign > 0 {
			out = a
		}
	}
	return out, nil
}

// ceiling is ceil(x), the least integer that is not below x, or ceil(a, b), which is a
// rounded up to a multiple of b.
func ceiling(args []value) (value, error) {
	if len(args) == 1 {
		return toInteger(args[0], math.Ceil)
	}
	a, err := args[0].whole()
	b, err2 := args[1].whole()
	switch {
	case err != nil:
		return value{}, err
	case err2 != nil:
		return value{}, err2
	case b <= 0 || a < 0 || a > math.MaxInt64-b:
		return value{}, fmt.Errorf("ceil(%d, %d): rounds a number up to a multiple of a positive one", a, b)
	}
	return integerOf((a + b - 1) / b * b), nil
}

func toInteger(v value, round func(float64) float64) (value, error) {
	if v.kind == realValue {
		v.f = round(v.f)
	}
	i, err := v.whole()
	return integerOf(i), err
}

// ofReals computes f of one or two numbers.
func ofReals(name string, f func(x, y float64) float64, args []value) (value, error) {
	var x [2]float64
	for i, a := range args {
		n, ok := a.number()
		if !ok {
			return value{}, fmt.Errorf("%s: want numbers, not %v", name, a.kind)
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
func power(args []value) (value, error) {
	a, b := args[0], args[1]
	if a.kind != integerValue || b.kind != integerValue || b.i < 0 {
		return ofReals("pow", math.Pow, args)
	}
	out, err := integerOf(1), error(nil)
	for n := b.i; n > 0 && err == nil; n >>= 1 {
		if n&1 != 0 {
			out, err = multiply(out, a)
		}
		if n > 1 && err == nil {
			a, err = multiply(a, a)
		}
	}
	return out, err
}

func length(args []value) (value, error) {
	if args[0].kind != listValue {
		return value{}, fmt.Errorf("len: want a list, not %v", args[0].kind)
	}
	return integerOf(int64(len(args[0].list))), nil
}

func total(args []value) (out value, err error) {
	if args[0].kind != listValue {
		return value{}, fmt.Errorf("sum: want a list, not %v", args[0].kind)
	}
	for i, v := range args[0].list {
		if i == 0 {
			out = v
		} else if out, err = add(out, v, 1); err != nil {
			return value{}, fmt.Errorf("sum: %w", err)
		}
	}
	return out, nil
}
