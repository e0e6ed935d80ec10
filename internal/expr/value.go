package expr

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Values are what expressions come to: integers of 64 bits, reals, durations,
// texts and lists. An integer beside a real becomes a real. Nothing else is
// converted: a duration and a number are added by nobody.

// Value is one of them.
type Value struct {
	Kind  Kind
	Int   int64   // of an integer; of a duration, in nanoseconds
	Float float64 // of a real
	text  string
	List  []Value // of a list: its elements
}

// Kind is what a Value is.
type Kind int

// The kinds of values.
const (
	IntegerKind Kind = iota
	RealKind
	DurationKind
	textKind
	ListKind
)

// String names a kind, for errors.
func (k Kind) String() string {
	return [...]string{"an integer", "a real number", "a duration", "a text", "a list"}[k]
}

var errOverflow = errors.New("does not fit 63 bits")

// Integer is v as a Value.
func Integer(v int64) Value { return Value{Kind: IntegerKind, Int: v} }

// Real is v as a Value.
func Real(v float64) Value { return Value{Kind: RealKind, Float: v} }

// duration is v as a Value.
func duration(v time.Duration) Value { return Value{Kind: DurationKind, Int: int64(v)} }

// Text is v as a Value.
func Text(v string) Value { return Value{Kind: textKind, text: v} }

// truth is 1 or 0.
func truth(v bool) Value {
	if v {
		return Integer(1)
	}
	return Integer(0)
}

// String writes v so that it is read again as itself, but for a text, which stands
// for itself.
func (v Value) String() string {
	switch v.Kind {
	case IntegerKind:
		return strconv.FormatInt(v.Int, 10)
	case RealKind:
		out := strconv.FormatFloat(v.Float, 'g', -1, 64)
		if !strings.ContainsAny(out, ".e") {
			out += ".0" // or it would be an integer
		}
		return out
	case DurationKind:
		return time.Duration(v.Int).String()
	case textKind:
		return v.text
	}
	var out []string
	for _, e := range v.List {
		if e.Kind == textKind {
			e.text = strconv.Quote(e.text)
		}
		out = append(out, e.String())
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// Number is v as a real number.
func (v Value) Number() (float64, bool) {
	switch v.Kind {
	case IntegerKind:
		return float64(v.Int), true
	case RealKind:
		return v.Float, true
	}
	return 0, false
}

// Whole is v as an integer. A real that is one will do.
func (v Value) Whole() (int64, error) {
	switch {
	case v.Kind == IntegerKind:
		return v.Int, nil
	case v.Kind != RealKind:
		return 0, fmt.Errorf("want a number, not %v", v.Kind)
	case v.Float != math.Trunc(v.Float):
		return 0, fmt.Errorf("%v is no whole number; there are floor, round and ceil", v)
	case v.Float < -1<<63 || v.Float >= 1<<63:
		return 0, fmt.Errorf("%v %w", v, errOverflow)
	}
	return int64(v.Float), nil
}

// finite is a real that is a number.
func finite(f float64, what string, args ...any) (Value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, fmt.Errorf(what+" is no real number", args...)
	}
	return Real(f), nil
}

// wrongKinds is the fault of an operation that is not for these.
func wrongKinds(op string, a, b Value) error {
	return fmt.Errorf("%v %s %v: it is not for %v and %v", a, op, b, a.Kind, b.Kind)
}

// add computes a + b, or a - b where sign is -1.
func add(a, b Value, sign int64) (Value, error) {
	op := map[int64]string{1: "+", -1: "-"}[sign]
	switch {
	case a.Kind == b.Kind && (a.Kind == IntegerKind || a.Kind == DurationKind):
		out := a.Int + sign*b.Int
		if grows := (b.Int > 0) == (sign > 0); b.Int != 0 && grows != (out > a.Int) {
			return Value{}, fmt.Errorf("%v %s %v %w", a, op, b, errOverflow)
		}
		return Value{Kind: a.Kind, Int: out}, nil
	case a.Kind == ListKind && b.Kind == ListKind && sign > 0:
		return Value{Kind: ListKind, List: append(append([]Value{}, a.List...), b.List...)}, nil
	}
	x, ok := a.Number()
	y, too := b.Number()
	if !ok || !too {
		return Value{}, wrongKinds(op, a, b)
	}
	return finite(x+float64(sign)*y, "%v %s %v", a, op, b)
}

// multiply computes a * b.
func multiply(a, b Value) (Value, error) {
	if b.Kind == DurationKind {
		a, b = b, a
	}
	switch {
	case (a.Kind == IntegerKind || a.Kind == DurationKind) && b.Kind == IntegerKind:
		hi, lo := bits.Mul64(magnitude(a.Int), magnitude(b.Int))
		if hi != 0 || lo > math.MaxInt64 {
			return Value{}, fmt.Errorf("%v * %v %w", a, b, errOverflow)
		}
		return Value{Kind: a.Kind, Int: a.Int * b.Int}, nil
	case a.Kind == DurationKind && b.Kind == RealKind:
		return rounded(float64(a.Int)*b.Float, "%v * %v", a, b)
	}
	x, ok := a.Number()
	y, too := b.Number()
	if !ok || !too {
		return Value{}, wrongKinds("*", a, b)
	}
	return finite(x*y, "%v * %v", a, b)
}

// rounded is a duration of so many nanoseconds.
func rounded(ns float64, what string, args ...any) (Value, error) {
	if !(math.Abs(ns) < 1<<63) {
		return Value{}, fmt.Errorf(what+" %w", append(args, errOverflow)...)
	}
	return duration(time.Duration(math.Round(ns))), nil
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

var errZero = errors.New("division by zero")

// divide computes a / b: of integers what is left when the remainder is dropped.
func divide(a, b Value) (Value, error) {
	if y, ok := b.Number(); ok && y == 0 || b.Kind == DurationKind && b.Int == 0 {
		return Value{}, errZero
	}
	switch {
	case a.Kind == IntegerKind && b.Kind == IntegerKind:
		if a.Int == math.MinInt64 && b.Int == -1 {
			return Value{}, fmt.Errorf("%v / %v %w", a, b, errOverflow)
		}
		return Integer(a.Int / b.Int), nil
	case a.Kind == DurationKind && b.Kind == DurationKind:
		return Real(float64(a.Int) / float64(b.Int)), nil
	case a.Kind == DurationKind:
		if y, ok := b.Number(); ok {
			return rounded(float64(a.Int)/y, "%v / %v", a, b)
		}
	}
	x, ok := a.Number()
	y, too := b.Number()
	if !ok || !too {
		return Value{}, wrongKinds("/", a, b)
	}
	return finite(x/y, "%v / %v", a, b)
}

// remainder computes a % b, of integers.
func remainder(a, b Value) (Value, error) {
	switch {
	case a.Kind != IntegerKind || b.Kind != IntegerKind:
		return Value{}, wrongKinds("%", a, b)
	case b.Int == 0:
		return Value{}, errZero
	case b.Int == -1:
		return Integer(0), nil // the smallest integer has no quotient
	}
	return Integer(a.Int % b.Int), nil
}

// negate computes -a.
func negate(a Value) (Value, error) {
	switch {
	case (a.Kind == IntegerKind || a.Kind == DurationKind) && a.Int == math.MinInt64:
		return Value{}, fmt.Errorf("-(%v) %w", a, errOverflow)
	case a.Kind == IntegerKind || a.Kind == DurationKind:
		return Value{Kind: a.Kind, Int: -a.Int}, nil
	case a.Kind == RealKind:
		return Real(-a.Float), nil
	}
	return Value{}, fmt.Errorf("-%v: it is not for %v", a, a.Kind)
}

// compare orders two numbers, two durations or two texts: negative, 0 or positive.
func compare(a, b Value) (int, error) {
	switch {
	case a.Kind == b.Kind && (a.Kind == IntegerKind || a.Kind == DurationKind):
		return cmp.Compare(a.Int, b.Int), nil
	case a.Kind == textKind && b.Kind == textKind:
		return strings.Compare(a.text, b.text), nil
	}
	x, ok := a.Number()
	y, too := b.Number()
	if !ok || !too {
		return 0, fmt.Errorf("%v and %v: there is no order of %v and %v", a, b, a.Kind, b.Kind)
	}
	return cmp.Compare(x, y), nil
}
