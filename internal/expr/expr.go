// Package expr computes the expressions of scenarios and machines' files, and reads the parameters that
// these declare.
//
// Expressions: numbers (64, 0x40, 2.5), with units of bytes (64 KiB) or of time (5 us);
// texts in quotes; lists; names; + - * / % and comparisons, which are 1 or 0;
// parentheses, LIST[INDEX] and the functions of call. Overflow is an error, and so is
// a negative result where a size is wanted.
package expr

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"godwit/internal/suggest"

	"github.com/dustin/go-humanize"
)

// Scope answers names and sizes.
type Scope struct {
	Vars map[string]Value
	Bad  map[string]bool // Vars whose value could not be computed
	// of are functions of a name: size, bytes of a buffer or sub-buffer; start, where it begins in its
	// root buffer; input, bytes of an input's file.
	Of    map[string]func(name string) (uint64, error)
	Spend func(steps int) // counts what computing costs; nil counts nothing
	// Rates reads a number with a unit per second, such as GB/s: machines' files have these. nil: there / divides.
	Rates func(text string) (uint64, bool)
	// Exact has an integer quotient with a remainder fail, but within floor, ceil and round, and a name that was computed of such.
	Exact bool
	// Cut says of Vars what remainder was dropped to compute them (Let).
	Cut map[string]error

	cut error // the first remainder that was dropped
}

// Let notes what a name's value was computed of, by all Evals since the last Let: where they dropped a remainder, it is no exact size.
func (sc *Scope) Let(name string) {
	if sc.cut != nil {
		if sc.Cut == nil {
			sc.Cut = make(map[string]error)
		}
		sc.Cut[name] = fmt.Errorf("%s: %w", name, sc.cut)
	}
	sc.cut = nil
}

// drops is told of a dropped remainder, and returns it where it is a fault.
func (sc *Scope) drops(err error) error {
	if sc.Exact {
		return err
	}
	sc.cut = cmp.Or(sc.cut, err)
	return nil
}

// With gives names values, over those that they have, until what it returns is called.
func (sc *Scope) With(names map[string]Value) (restore func()) {
	before := make(map[string]Value)
	for name, v := range names {
		if old, had := sc.Vars[name]; had {
			before[name] = old
		}
		sc.Vars[name] = v
	}
	return func() {
		for name := range names {
			delete(sc.Vars, name)
		}
		maps.Copy(sc.Vars, before)
	}
}

// maxWord is how long a word may be that has {expressions} in it, in bytes.
const maxWord = 64 << 10

// Number computes a whole number.
func (sc *Scope) Number(text string) (int64, error) {
	v, err := sc.Eval(text)
	if err != nil {
		return 0, err
	}
	return v.Whole()
}

// Duration computes a time. It may be written as Go writes one, too: 1m30s.
func (sc *Scope) Duration(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(strings.ReplaceAll(text, " ", "")); err == nil {
		return d, nil
	}
	v, err := sc.Eval(text)
	if err == nil && v.Kind != DurationKind {
		err = fmt.Errorf("want a time such as 5us, not %v", v.Kind)
	}
	return time.Duration(v.Int), err
}

// Eval computes text.
func (sc *Scope) Eval(text string) (Value, error) {
	sc.cost(len(text) / 8)
	p := &exprParser{scope: sc, rest: text}
	v := p.comparison()
	p.space()
	if p.err == nil && p.rest != "" {
		p.fail("unexpected %q", p.rest)
	}
	return v, p.err
}

// cost counts steps.
func (sc *Scope) cost(steps int) {
	if sc.Spend != nil {
		sc.Spend(steps)
	}
}

// exprParser is a recursive-descent parser that computes as it goes. What if() does
// not choose is parsed, and not computed.
type exprParser struct {
	scope  *Scope
	rest   string
	depth  int
	skip   int // nested parts that are not wanted
	rounds int // calls around that round
	length int // elements of lists made so far
	err    error
}

// The bounds of an expression: how deep it nests, and how many elements its lists
// have in all.
const (
	maxNesting  = 100
	MaxElements = 10_000
)

// ErrReported is a number that is not known because of a fault that was
// reported where it is.
var ErrReported = errors.New("not known because of an error above")

// fail notes a fault of the text, and ends the parsing.
func (p *exprParser) fail(format string, args ...any) Value {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.rest = ""
	return Value{}
}

// result is what an operation came to; its fault counts where it is wanted.
func (p *exprParser) result(v Value, err error) Value {
	switch {
	case p.err != nil || p.skip > 0:
		return Value{}
	case err != nil:
		return p.fail("%w", err)
	}
	return v
}

func (p *exprParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

// accept consumes one of the operators, if it is next.
func (p *exprParser) accept(ops string) byte {
	p.space()
	if p.rest != "" && strings.IndexByte(ops, p.rest[0]) >= 0 {
		op := p.rest[0]
		p.rest = p.rest[1:]
		return op
	}
	return 0
}

// operator has two operands.
type operator struct {
	sign    string
	compute func(a, b Value) (Value, error)
}

// operators are all of them, those that bind least first.
var operators = [][]operator{
	{
		ordered("==", func(c int) bool { return c == 0 }), ordered("!=", func(c int) bool { return c != 0 }),
		ordered("<=", func(c int) bool { return c <= 0 }), ordered(">=", func(c int) bool { return c >= 0 }),
		ordered("<", func(c int) bool { return c < 0 }), ordered(">", func(c int) bool { return c > 0 }),
	},
	{{"+", func(a, b Value) (Value, error) { return add(a, b, 1) }}, {"-", func(a, b Value) (Value, error) { return add(a, b, -1) }}},
	{{"*", multiply}, {"/", divide}, {"%", remainder}},
}

// ordered is an operator that compares.
func ordered(sign string, is func(c int) bool) operator {
	return operator{sign, func(a, b Value) (Value, error) {
		c, err := compare(a, b)
		return truth(is(c)), err
	}}
}

func (p *exprParser) comparison() Value { return p.binary(0) }

// binary reads operands with operators between that bind at least as a level's do. Comparisons
// do not follow each other.
func (p *exprParser) binary(level int) Value {
	if level == len(operators) {
		return p.factor()
	}
	v := p.binary(level + 1)
	for more := true; more && p.err == nil; more = level > 0 {
		p.space()
		i := slices.IndexFunc(operators[level], func(o operator) bool { return strings.HasPrefix(p.rest, o.sign) })
		if i < 0 {
			break
		}
		o := &operators[level][i]
		p.rest = p.rest[len(o.sign):]
		w := p.binary(level + 1)
		out, err := o.compute(v, w)
		if o.sign == "/" && p.skip == 0 && p.rounds == 0 && (p.scope.Exact || p.scope.cut == nil) && v.Kind == IntegerKind && w.Kind == IntegerKind && err == nil && v.Int%w.Int != 0 {
			err = p.scope.drops(fmt.Errorf("%v / %v leaves %d over: floor(%v / %v) drops it", v, w, v.Int%w.Int, v, w))
		}
		if v = p.result(out, err); v.Kind == ListKind {
			p.made(len(v.List))
		}
	}
	return v
}

func (p *exprParser) factor() Value {
	if p.depth++; p.depth > maxNesting {
		return p.fail("nested too deep")
	}
	defer func() { p.depth-- }()
	if p.accept("-") != 0 {
		v, err := negate(p.factor())
		return p.result(v, err)
	}
	v := p.operand()
	for p.err == nil && p.accept("[") != 0 {
		at := p.comparison()
		p.expect(']')
		out, err := element(v, at)
		v = p.result(out, err)
	}
	return v
}

// element computes list[at].
func element(list, at Value) (Value, error) {
	i, err := at.Whole()
	switch {
	case list.Kind != ListKind:
		return Value{}, fmt.Errorf("%v is %v, and has no elements", list, list.Kind)
	case err != nil:
		return Value{}, err
	case i < 0 || i >= int64(len(list.List)):
		return Value{}, fmt.Errorf("element %d of %d: they count from 0", i, len(list.List))
	}
	return list.List[i], nil
}

func (p *exprParser) operand() Value {
	switch open := p.accept("([\"'"); open {
	case '(':
		v := p.comparison()
		p.expect(')')
		return v
	case '[':
		return Value{Kind: ListKind, List: p.elements(']')}
	case '"', '\'':
		end := strings.IndexByte(p.rest, open)
		if end < 0 {
			return p.fail("%q is missing", open)
		}
		v := Text(p.rest[:end])
		p.rest = p.rest[end+1:]
		return v
	}
	switch {
	case p.rest == "":
		return p.fail("ends where a number is wanted")
	case p.rest[0] >= '0' && p.rest[0] <= '9':
		return p.literal()
	}
	name := p.word()
	if name == "" {
		return p.fail("unexpected %q", p.rest)
	}
	if p.accept("(") != 0 {
		return p.call(name)
	}
	return p.named(name)
}

// named is what a name stands for.
func (p *exprParser) named(name string) Value {
	v, ok := p.scope.Vars[name]
	switch {
	case p.skip > 0:
		return Value{}
	case p.scope.Bad[name]:
		return p.fail("%q: %w", name, ErrReported)
	case !ok:
		return p.fail("no number is named %q%s", name, suggest.For(name, slices.Sorted(maps.Keys(p.scope.Vars))))
	}
	if cut := p.scope.Cut[name]; cut != nil && p.rounds == 0 {
		if err := p.scope.drops(cut); err != nil {
			return p.fail("%w", err)
		}
	}
	return v
}

// elements reads values with commas between, up to what closes them.
func (p *exprParser) elements(end byte) (out []Value) {
	if p.accept(string(end)) != 0 {
		return nil
	}
	for p.err == nil {
		v := p.comparison()
		if v.Kind == ListKind && end == ']' {
			p.fail("a list in a list")
		}
		out = append(out, v)
		p.made(1)
		if p.accept(",") == 0 {
			break
		}
	}
	p.expect(end)
	return out
}

// made counts elements of lists.
func (p *exprParser) made(n int) {
	p.scope.cost(n)
	if p.length += n; p.length > MaxElements {
		p.fail("lists of more than %d elements", MaxElements)
	}
}

func (p *exprParser) expect(c byte) {
	if p.err == nil && p.accept(string(c)) == 0 {
		p.fail("%q is missing", c)
	}
}

// isWord reports whether a name may have a character.
func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// word consumes a name.
func (p *exprParser) word() string {
	p.space()
	return p.while(isWord)
}

// while consumes the characters of a kind.
func (p *exprParser) while(is func(rune) bool) string {
	n := strings.IndexFunc(p.rest, func(r rune) bool { return !is(r) })
	if n < 0 {
		n = len(p.rest)
	}
	w := p.rest[:n]
	p.rest = p.rest[n:]
	return w
}

// literal reads a number, with a unit where it has one: 64, 0x40, 1e9, 2.5, 64 KiB,
// 1.5 MB, 5 us.
func (p *exprParser) literal() Value {
	start := p.rest
	digits := p.while(func(r rune) bool { return r == '.' || isWord(r) })
	if n := len(digits); n > 1 && n < len(start)-1 && (digits[n-1] == 'e' || digits[n-1] == 'E') && strings.IndexByte("+-", start[n]) >= 0 && isDigit(start[n+1]) && isReal(digits[:n-1]) {
		p.rest = start[n+1:] // 1e-3
		digits = start[:n+1] + p.while(func(r rune) bool { return r < utf8.RuneSelf && isDigit(byte(r)) })
	}
	if isReal(digits) {
		digits += p.unit()
	}
	if v, ok := p.rate(digits); ok {
		return v
	}
	plain := strings.ReplaceAll(digits, "_", "")
	if v, err := strconv.ParseInt(digits, 0, 64); err == nil {
		return Integer(v)
	} else if v, err := strconv.ParseFloat(plain, 64); err == nil && isReal(digits) {
		if strings.ContainsAny(plain, ".eE") {
			return Real(v)
		}
		return p.fail("%s %w", plain, errOverflow)
	}
	if v, err := humanize.ParseBytes(plain); err == nil && v <= math.MaxInt64 {
		return Integer(int64(v))
	}
	if d, err := time.ParseDuration(plain); err == nil {
		return duration(d)
	}
	return p.fail("%q is not a number of bytes", digits)
}

// rate is a number with a unit per second, which the scope knows.
func (p *exprParser) rate(digits string) (Value, bool) {
	rest, ok := strings.CutPrefix(p.rest, "/s")
	if next, _ := utf8.DecodeRuneInString(rest); !ok || isWord(next) || p.scope.Rates == nil {
		return Value{}, false
	}
	v, ok := p.scope.Rates(digits + "/s")
	if ok {
		p.rest = rest
	}
	return Integer(int64(v)), ok
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isReal reports whether digits are a number without a unit.
func isReal(digits string) bool {
	_, err := strconv.ParseFloat(strings.ReplaceAll(digits, "_", ""), 64)
	return (err == nil || errors.Is(err, strconv.ErrRange)) && !strings.ContainsAny(digits, "xXpPiInN")
}

// unit consumes the word after a number, if there is one.
func (p *exprParser) unit() string {
	p.space()
	if r, _ := utf8.DecodeRuneInString(p.rest); !unicode.IsLetter(r) {
		return ""
	}
	return p.word()
}

// ofName computes size(NAME), start(NAME) or input(NAME).
func (p *exprParser) ofName(function string) Value {
	name := p.word()
	p.expect(')')
	if p.err != nil || p.skip > 0 {
		return Value{}
	}
	v, err := p.scope.Of[function](name)
	if err != nil {
		return p.fail("%s(%s): %w", function, name, err)
	}
	return Integer(int64(v))
}

// Expand replaces each {expression} in a name by its value.
func (sc *Scope) Expand(text string) (string, error) {
	var b strings.Builder
	for {
		open := strings.IndexByte(text, '{')
		if open < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		end := strings.IndexByte(text[open:], '}')
		if end < 0 {
			return "", fmt.Errorf("%q: } is missing", text)
		}
		v, err := sc.Eval(text[open+1 : open+end])
		if err == nil && v.Kind == ListKind {
			err = fmt.Errorf("%v: a list is no part of a name", v)
		}
		if err != nil {
			return "", fmt.Errorf("%q: %w", text, err)
		}
		b.WriteString(text[:open])
		b.WriteString(v.String())
		if b.Len() > maxWord {
			return "", fmt.Errorf("%.40q…: longer than %d bytes", b.String(), maxWord)
		}
		text = text[open+end+1:]
	}
}
