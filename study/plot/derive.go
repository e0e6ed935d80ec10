package plot

import (
	"fmt"

	"godwit/internal/expr"
)

// Derive adds a figure that is computed of the others, in the language of scenarios: numbers are reals, so that / drops nothing. first_X is
// X of the first row that has the same parameters but for the column X of the page, or else the first parameter with several values: speed-up is
// first_elapsed_ns / elapsed_ns. A row of which it cannot be computed, as 0 / 0, has none, and is drawn nowhere: left says why of each. It fails
// where that is all rows, as where a name is none.
func (p *Page) Derive(name, text string) (left []error, err error) {
	x := p.X
	for i := range p.Columns {
		if c := &p.Columns[i]; x == "" && c.Parameter && c.varied() {
			x = c.Name
		}
	}
	first := make(map[string]int)
	out := Column{Name: name}
	for r := range p.Columns[0].Values {
		scope := expr.Scope{Vars: make(map[string]expr.Value)}
		like := ""
		for i := range p.Columns {
			if c := &p.Columns[i]; c.Parameter && c.Name != x {
				like += fmt.Sprintf("%v\x00", c.Values[r])
			}
		}
		if _, ok := first[like]; !ok {
			first[like] = r
		}
		for i := range p.Columns {
			c := &p.Columns[i]
			scope.Vars[c.Name], scope.Vars["first_"+c.Name] = value(c.Values[r]), value(c.Values[first[like]])
		}
		v, err := scope.Eval(text)
		n, ok := v.Number()
		if err == nil && !ok {
			err = fmt.Errorf("it is %v, and no number", v)
		}
		if err != nil {
			left, out.Values = append(left, fmt.Errorf("%q in row %d: %w", text, r+1, err)), append(out.Values, nil)
			continue
		}
		out.Values = append(out.Values, n)
	}
	if len(left) > 0 && len(left) == len(out.Values) {
		return nil, left[0]
	}
	p.Columns = append(p.Columns, out)
	return left, nil
}

func value(v any) expr.Value {
	if n, ok := number(v); ok {
		return expr.Real(n)
	}
	return expr.Text(fmt.Sprint(v))
}
