package sweep

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"

	"godwit/mem"
)

// The most that a sweep may have.
const (
	maxFactors = 1000       // values of a range by a factor
	maxListed  = 100_000    // values of an axis that are kept as texts
	maxPoints  = 10_000_000 // of all, and of an axis that is one range by a step
)

// Kind is what an axis changes.
type Kind string

// The kinds of axes.
const (
	Parameter Kind = "parameter" // of the scenario
	Policy    Kind = "policy"    // which blocks go first where memory is short
	Driver    Kind = "driver"    // of all devices
	Machine   Kind = "machine"   // that is modelled
	Graph     Kind = "graph"     // on, or off: each round of a repeat that is a graph is enqueued

	machineParameter Kind = "machine parameter" // of it: --set machine.NAME
)

// Axis is something that changes from point to point, with the values that it takes.
type Axis struct {
	Kind   Kind     `json:"kind"`
	Name   string   `json:"name"`             // of a parameter, of a machine's machine.NAME; of others as their Kind
	Values []string `json:"values,omitempty"` // but for a range of which they are made as they are asked for
	Range  *span    `json:"range,omitempty"`
}

// span are values from one on, by a step.
type span struct {
	From *big.Rat `json:"from"`
	By   *big.Rat `json:"by"`
	Unit string   `json:"unit"` // "B", "ns", or "" for numbers
	N    int      `json:"n"`
}

// at is the i-th value.
func (r *span) at(i int) string {
	v := new(big.Rat).SetInt64(int64(i))
	return textOf(v.Add(v.Mul(v, r.By), r.From), r.Unit)
}

// values are all.
func (r *span) values() (out []string) {
	for i := range r.N {
		out = append(out, r.at(i))
	}
	return out
}

// Len is how many values the axis has.
func (a *Axis) Len() int {
	if a.Range != nil {
		return a.Range.N
	}
	return len(a.Values)
}

// At is the i-th value.
func (a *Axis) At(i int) string {
	if a.Range != nil {
		return a.Range.at(i)
	}
	return a.Values[i]
}

// OfMachine begins the names of a machine's parameters among those that are set.
const OfMachine = "machine."

// ParseAxis reads NAME=VALUES. VALUES are values and ranges with commas between:
//
//	2..64*2         2, 4, 8, 16, 32, 64: each twice the one before
//	1..9+2          1, 3, 5, 7, 9
//	1..4            1, 2, 3, 4
//	64KiB..1MiB*4   in bytes: 65536, 262144, 1048576
//	1us..1ms*10     1000ns, 10000ns, 100000ns, 1000000ns
//	0.1..0.3+0.1    0.1, 0.2, 0.3
//
// A range ends with the last value that is not above its end. Commas in brackets and
// quotes separate nothing, so that lists are values. Anything else is a value as it is.
func ParseAxis(text string) (Axis, error) {
	name, list, ok := strings.Cut(text, "=")
	if name = strings.TrimSpace(name); !ok || name == "" || strings.TrimSpace(list) == "" {
		return Axis{}, fmt.Errorf("%q: want NAME=VALUES, as in n=2..64*2 or size=64KiB,1MiB: %w", text, mem.ErrInvalidValue)
	}
	a := Axis{Kind: Parameter, Name: name}
	if strings.HasPrefix(name, OfMachine) {
		a.Kind = machineParameter
	}
	items := split(list)
	for _, item := range items {
		values, long, err := expand(strings.TrimSpace(item))
		if err != nil {
			return Axis{}, fmt.Errorf("%q: %w", text, err)
		}
		switch n := len(a.Values); {
		case long == nil:
			a.Values = append(a.Values, values...)
		case len(items) == 1 && long.N > maxFactors:
			a.Range = long
		case n+long.N <= maxListed:
			a.Values = append(a.Values, long.values()...)
		}
		if len(a.Values) > maxListed || long != nil && len(items) > 1 && long.N > maxListed {
			return Axis{}, fmt.Errorf("%q: a list of more than %d values: %w", text, maxListed, mem.ErrInvalidValue)
		}
	}
	return a, a.check()
}

// check refuses values that are there twice, and a range that another program has made up.
func (a *Axis) check() error {
	twice := func(v string) error {
		return fmt.Errorf("%s: the value %q is there twice: %w", a.Name, v, mem.ErrInvalidValue)
	}
	if r := a.Range; r != nil {
		if r.From == nil || r.By == nil || r.By.Sign() <= 0 || r.N < 2 || r.N > maxPoints || len(a.Values) > 0 {
			return fmt.Errorf("%s: a range of %d values: %w", a.Name, r.N, mem.ErrInvalidValue)
		}
		if r.Unit != "" && r.By.Cmp(big.NewRat(1, 1)) < 0 { // bytes and nanoseconds are whole
			return twice(r.at(0))
		}
	}
	seen := make(map[string]bool, len(a.Values))
	for _, v := range a.Values {
		if seen[v] {
			return twice(v)
		}
		seen[v] = true
	}
	return nil
}

// split cuts a list at the commas that are in no brackets, parentheses or quotes.
func split(list string) (items []string) {
	depth, start := 0, 0
	quote := rune(0)
	for i, c := range list {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '(':
			depth++
		case c == ']' || c == ')':
			depth--
		case c == ',' && depth == 0:
			items = append(items, list[start:i])
			start = i + 1
		}
	}
	return append(items, list[start:])
}

var (
	quantity   = `([0-9]+(?:\.[0-9]+)?) *([A-Za-zµ]*)`
	rangeRule  = regexp.MustCompile(`^` + quantity + ` *\.\. *` + quantity + `(?: *([+*]) *` + quantity + `)?$`)
	rangeBegun = regexp.MustCompile(`^[0-9.]+ *[A-Za-zµ]* *\.\.`)
)

// expand is the values of one item: a range by a step is not written out.
func expand(item string) ([]string, *span, error) {
	if item == "" {
		return nil, nil, fmt.Errorf("a value is missing between commas: %w", mem.ErrInvalidValue)
	}
	m := rangeRule.FindStringSubmatch(item)
	if m == nil {
		if rangeBegun.MatchString(item) {
			return nil, nil, fmt.Errorf("range %q: want FROM..TO, FROM..TO+STEP or FROM..TO*FACTOR: %w", item, mem.ErrInvalidValue)
		}
		return []string{item}, nil, nil
	}
	wrong := func(format string, args ...any) ([]string, *span, error) {
		return nil, nil, fmt.Errorf("range %q: %s: %w", item, fmt.Sprintf(format, args...), mem.ErrInvalidValue)
	}
	from, unit, err := number(m[1], m[2])
	if err != nil {
		return wrong("%v", err)
	}
	to, toUnit, err := number(m[3], m[4])
	if err != nil {
		return wrong("%v", err)
	}
	by, byUnit := big.NewRat(1, 1), unit
	if m[5] != "" {
		if by, byUnit, err = number(m[6], m[7]); err != nil {
			return wrong("%v", err)
		}
	}
	factor := m[5] == "*"
	switch {
	case unit != toUnit || !factor && byUnit != unit && m[5] != "" || factor && byUnit != "":
		return wrong("its numbers are of different kinds")
	case from.Cmp(to) > 0:
		return wrong("its end is below its beginning")
	case factor && by.Cmp(big.NewRat(1, 1)) <= 0:
		return wrong("the factor is %s: want more than 1", m[6])
	case factor && from.Sign() == 0:
		return wrong("0 times anything is 0")
	case by.Sign() == 0:
		return wrong("the step is 0")
	}
	if !factor {
		n := new(big.Rat).Sub(to, from)
		n.Quo(n, by)
		steps := new(big.Int).Quo(n.Num(), n.Denom())
		if steps.Cmp(big.NewInt(maxPoints)) >= 0 {
			return wrong("more than %d values", maxPoints)
		}
		return nil, &span{from, by, unit, int(steps.Int64()) + 1}, nil
	}
	var out []string
	for v := from; v.Cmp(to) <= 0; v = new(big.Rat).Mul(v, by) {
		if out = append(out, textOf(v, unit)); len(out) > maxFactors {
			return wrong("more than %d values", maxFactors)
		}
	}
	return out, nil, nil
}

// The units of ranges, in bytes.
var units = map[string]int64{
	"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// number reads a number with its unit: bytes, "ns" where it is a time, or "".
func number(digits, unit string) (v *big.Rat, kind string, err error) {
	v, _ = new(big.Rat).SetString(digits) // the rule lets no others through
	if unit == "" {
		return v, "", nil
	}
	if n, ok := units[unit]; ok {
		return v.Mul(v, new(big.Rat).SetInt64(n)), "B", nil
	}
	d, err := time.ParseDuration("1" + unit)
	if err != nil {
		return nil, "", fmt.Errorf("%q is no unit; want one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, ns, us, ms, s, m, h", unit)
	}
	return v.Mul(v, new(big.Rat).SetInt64(int64(d))), "ns", nil
}

// textOf writes a number exactly: bytes are whole, and so are nanoseconds.
func textOf(v *big.Rat, kind string) string {
	if kind != "" {
		whole := new(big.Int).Quo(v.Num(), v.Denom()).String()
		if kind == "ns" {
			whole += kind
		}
		return whole
	}
	if v.IsInt() {
		return v.Num().String()
	}
	n, _ := v.FloatPrec() // products and sums of decimals are decimals
	return v.FloatString(n)
}
