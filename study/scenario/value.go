package scenario

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

// value is one of them.
type value struct {
	kind valueKind
	i    int64 // of an integer; of a duration, in nanoseconds
	f    float64
	s    string
	list []value
}

type valueKind int

const (
	integerValue valueKind = iota
	realValue
	durationValue
	textValue
	listValue
)

// stringType names a kind, for errors.
func (k valueKind) String() string {
	return [...]string{"an integer", "a real number", "a duration", "a text", "a list"}[k]
}

var errOverflow = errors.New("does not fit 63 bits")

func integerOf(v int64) value          { return value{kind: integerValue, i: v} }
func realOf(v float64) value           { return value{kind: realValue, f: v} }
func durationOf(v time.Duration) value { return value{kind: durationValue, i: int64(v)} }
func textOf(v string) value            { return value{kind: textValue, s: v} }

// truth is 1 or 0.
func truth(v bool) value {
	if v {
		return integerOf(1)
	}
	return integerOf(0)
}

// String writes v so that it is read again as itself, but for a text, which stands
// for itself.
func (v value) String() string {
	switch v.kind {
	case integerValue:
		return strconv.FormatInt(v.i, 10)
	case realValue:
		out := strconv.FormatFloat(v.f, 'g', -1, 64)
		if !strings.ContainsAny(out, ".e") {
			out += ".0" // or it would be an integer
		}
		return out
	case durationValue:
		return time.Duration(v.i).String()
	case textValue:
		return v.s
	}
	var out []string
	for _, e := range v.list {
		if e.kind == textValue {
			e.s = strconv.Quote(e.s)
		}
		out = append(out, e.String())
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// number is v as a real number.
func (v value) number() (float64, bool) {
	switch v.kind {
	case integerValue:
		return float64(v.i), true
	case realValue:
		return v.f, true
	}
	return 0, false
}

// whole is v as an integer. A real that is one will do.
func (v value) whole() (int64, error) {
	switch {
	case v.kind == integerValue:
		return v.i, nil
	case v.kind != realValue:
		return 0, fmt.Errorf("want a number, not %v", v.kind)
	case v.f != math.Trunc(v.f):
		return 0, fmt.Errorf("%v is no whole number; there are floor, round and ceil", v)
	case v.f < -1<<63 || v.f >= 1<<63:
		return 0, fmt.Errorf("%v %w", v, errOverflow)
	}
	return int64(v.f), nil
}

// finite is a real that is a number.
func finite(f float64, what string, args ...any) (value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return value{}, fmt.Errorf(what+" is no real number", args...)
	}
	return realOf(f), nil
}

// wrongKinds is the fault of an operation that is not for these.
func wrongKinds(op string, a, b value) error {
	return fmt.Errorf("%v %s %v: it is not for %v and %v", a, op, b, a.kind, b.kind)
}

// add computes a + b, or a - b where sign is -1.
func add(a, b value, sign int64) (value, error) {
	op := map[int64]string{1: "+", -1: "-"}[sign]
	switch {
	case a.kind == b.kind && (a.kind == integerValue || a.kind == durationValue):
		out := a.i + sign*b.i
		if grows := (b.i > 0) == (sign > 0); b.i != 0 && grows != (out > a.i) {
			return value{}, fmt.Errorf("%v %s %v %w", a, op, b, errOverflow)
		}
		return value{kind: a.kind, i: out}, nil
	case a.kind == listValue && b.kind == listValue && sign > 0:
		return value{kind: listValue, list: append(append([]value{}, a.list...), b.list...)}, nil
	}
	x, ok := a.number()
	y, too := b.number()
	if !ok || !too {
		return value{}, wrongKinds(op, a, b)
	}
	return finite(x+float64(sign)*y, "%v %s %v", a, op, b)
}

// multiply computes a * b.
func multiply(a, b value) (value, error) {
	if b.kind == durationValue {
		a, b = b, a
	}
	switch {
	case (a.kind == integerValue || a.kind == durationValue) && b.kind == integerValue:
		hi, lo := bits.Mul64(magnitude(a.i), magnitude(b.i))
		if hi != 0 || lo > math.MaxInt64 {
			return value{}, fmt.Errorf("%v * %v %w", a, b, errOverflow)
		}
		return value{kind: a.kind, i: a.i * b.i}, nil
	case a.kind == durationValue && b.kind == realValue:
		return rounded(float64(a.i)*b.f, "%v * %v", a, b)
	}
	x, ok := a.number()
	y, too := b.number()
	if !ok || !too {
		return value{}, wrongKinds("*", a, b)
	}
	return finite(x*y, "%v * %v", a, b)
}

// rounded is a duration of so many nanoseconds.
func rounded(ns float64, what string, args ...any) (value, error) {
	if !(math.Abs(ns) < 1<<63) {
		return value{}, fmt.Errorf(what+" %w", append(args, errOverflow)...)
	}
	return durationOf(time.Duration(math.Round(ns))), nil
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

var errZero = errors.New("division by zero")

// divide computes a / b: of integers what is left when the remainder is dropped.
func divide(a, b value) (value, error) {
	if y, ok := b.number(); ok && y == 0 || b.kind == durationValue && b.i == 0 {
		return value{}, errZero
	}
	switch {
	case a.kind == integerValue && b.kind == integerValue:
		if a.i == math.MinInt64 && b.i == -1 {
			return value{}, fmt.Errorf("%v / %v %w", a, b, errOverflow)
		}
		return integerOf(a.i / b.i), nil
	case a.kind == durationValue && b.kind == durationValue:
		return realOf(float64(a.i) / float64(b.i)), nil
	case a.kind == durationValue:
		if y, ok := b.number(); ok {
			return rounded(float64(a.i)/y, "%v / %v", a, b)
		}
	}
	x, ok := a.number()
	y, too := b.number()
	if !ok || !too {
		return value{}, wrongKinds("/", a, b)
	}
	return finite(x/y, "%v / %v", a, b)
}

// remainder computes a % b, of integers.
func remainder(a, b value) (value, error) {
	switch {
	case a.kind != integerValue || b.kind != integerValue:
		return value{}, wrongKinds("%", a, b)
	case b.i == 0:
		return value{}, errZero
	case b.i == -1:
		return integerOf(0), nil // the smallest integer has no quotient
	}
	return integerOf(a.i % b.i), nil
}

// negate computes -a.
func negate(a value) (value, error) {
	switch {
	case (a.kind == integerValue || a.kind == durationValue) && a.i == math.MinInt64:
		return value{}, fmt.Errorf("-(%v) %w", a, errOverflow)
	case a.kind == integerValue || a.kind == durationValue:
		return value{kind: a.kind, i: -a.i}, nil
	case a.kind == realValue:
		return realOf(-a.f), nil
	}
	return value{}, fmt.Errorf("-%v: it is not for %v", a, a.kind)
}

// compare orders two numbers, two durations or two texts: negative, 0 or positive.
func compare(a, b value) (int, error) {
	switch {
	case a.kind == b.kind && (a.kind == integerValue || a.kind == durationValue):
		return cmp.Compare(a.i, b.i), nil
	case a.kind == textValue && b.kind == textValue:
		return strings.Compare(a.s, b.s), nil
	}
	x, ok := a.number()
	y, too := b.number()
	if !ok || !too {
		return 0, fmt.Errorf("%v and %v: there is no order of %v and %v", a, b, a.kind, b.kind)
	}
	return cmp.Compare(x, y), nil
}
