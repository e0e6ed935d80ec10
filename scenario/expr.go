package scenario

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"godwit/suggest"

	"github.com/dustin/go-humanize"
)

// Expressions: numbers with units (64 KiB), names, + - * / %, parentheses and
// the functions size(BUFFER), start(SUB-BUFFER), input(NAME), min, max and
// ceil(a, b), which is a rounded up to a multiple of b. All arithmetic is on 64-bit signed integers;
// overflow is an error, and so is a negative result where a size is wanted.

// scope answers names and sizes.
type scope struct {
	vars  map[string]int64
	bad   map[string]bool                   // vars whose value could not be computed
	size  func(name string) (uint64, bool)  // bytes of a buffer or sub-buffer
	start func(name string) (uint64, bool)  // where it begins in its root buffer
	input func(name string) (uint64, error) // bytes of an input's file
}

// number computes text after the {expressions} in it, as in size(part{i}).
func (sc *scope) number(text string) (int64, error) {
	text, err := sc.expand(text)
	if err != nil {
		return 0, err
	}
	return sc.eval(text)
}

// eval computes text.
func (sc *scope) eval(text string) (int64, error) {
	p := &exprParser{scope: sc, rest: text}
	v := p.sum()
	p.space()
	if p.err == nil && p.rest != "" {
		p.fail("unexpected %q", p.rest)
	}
	return v, p.err
}

// exprParser is a recursive-descent parser that computes as it goes.
type exprParser struct {
	scope *scope
	rest  string
	depth int
	err   error
}

var errOverflow = errors.New("does not fit 63 bits")

// errReported is a number that is not known because of a fault that was
// reported where it is.
var errReported = errors.New("not known because of an error above")

func (p *exprParser) fail(format string, args ...any) int64 {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.rest = ""
	return 0
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

func (p *exprParser) sum() int64 {
	v := p.product()
	for p.err == nil {
		switch p.accept("+-") {
		case '+':
			w := p.product()
			if sum := v + w; (sum > v) == (w > 0) {
				v = sum
			} else {
				p.fail("%d + %d %w", v, w, errOverflow)
			}
		case '-':
			w := p.product()
			if diff := v - w; (diff < v) == (w > 0) {
				v = diff
			} else {
				p.fail("%d - %d %w", v, w, errOverflow)
			}
		default:
			return v
		}
	}
	return 0
}

func (p *exprParser) product() int64 {
	v := p.factor()
	for p.err == nil {
		switch op := p.accept("*/%"); op {
		case '*':
			v = p.times(v, p.factor())
		case '/', '%':
			w := p.factor()
			switch {
			case p.err != nil:
			case w == 0:
				p.fail("division by zero")
			case op == '/':
				v /= w
			default:
				v %= w
			}
		default:
			return v
		}
	}
	return 0
}

func (p *exprParser) times(v, w int64) int64 {
	hi, lo := bits.Mul64(magnitude(v), magnitude(w))
	if hi != 0 || lo > math.MaxInt64 {
		return p.fail("%d * %d %w", v, w, errOverflow)
	}
	return v * w
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func (p *exprParser) factor() int64 {
	if p.depth++; p.depth > 100 {
		return p.fail("nested too deep")
	}
	defer func() { p.depth-- }()
	switch p.accept("(-") {
	case '(':
		v := p.sum()
		p.expect(')')
		return v
	case '-':
		return -p.factor()
	}
	switch {
	case p.rest == "":
		return p.fail("ends where a number is wanted")
	case p.rest[0] >= '0' && p.rest[0] <= '9':
		return p.number()
	}
	name := p.word()
	if name == "" {
		return p.fail("unexpected %q", p.rest)
	}
	if p.accept("(") != 0 {
		return p.call(name)
	}
	v, ok := p.scope.vars[name]
	if p.scope.bad[name] {
		return p.fail("%q: %w", name, errReported)
	}
	if !ok {
		return p.fail("no number is named %q%s", name, suggest.For(name, slices.Sorted(maps.Keys(p.scope.vars))))
	}
	return v
}

func (p *exprParser) expect(c byte) {
	if p.err == nil && p.accept(string(c)) == 0 {
		p.fail("%q is missing", c)
	}
}

// word consumes a name.
func (p *exprParser) word() string {
	p.space()
	n := strings.IndexFunc(p.rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n < 0 {
		n = len(p.rest)
	}
	w := p.rest[:n]
	p.rest = p.rest[n:]
	return w
}

// number reads digits with an optional unit of bytes: 64, 0x40, 64 KiB, 1.5 MB.
func (p *exprParser) number() int64 {
	n := strings.IndexFunc(p.rest, func(r rune) bool { return r != '.' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n < 0 {
		n = len(p.rest)
	}
	digits := p.rest[:n]
	p.rest = p.rest[n:]
	if v, err := strconv.ParseInt(digits, 0, 64); err == nil {
		unit := p.unit()
		if unit == "" {
			return v
		}
		digits += unit
	} else if strings.Trim(digits, "0123456789._") == "" {
		digits += p.unit()
	}
	v, err := humanize.ParseBytes(strings.ReplaceAll(digits, "_", ""))
	if err != nil || v > math.MaxInt64 {
		return p.fail("%q is not a number of bytes", digits)
	}
	return int64(v)
}

// unit consumes the word after a number, if there is one.
func (p *exprParser) unit() string {
	p.space()
	if p.rest == "" || !unicode.IsLetter(rune(p.rest[0])) {
		return ""
	}
	return p.word()
}

// call computes a function whose opening parenthesis has been read.
func (p *exprParser) call(name string) int64 {
	if name == "size" || name == "start" || name == "input" {
		return p.sizeOf(name)
	}
	a := p.sum()
	p.expect(',')
	b := p.sum()
	p.expect(')')
	switch {
	case p.err != nil:
		return 0
	case name == "min":
		return min(a, b)
	case name == "max":
		return max(a, b)
	case name == "ceil" && b > 0 && a >= 0 && a <= math.MaxInt64-b:
		return (a + b - 1) / b * b
	case name == "ceil":
		return p.fail("ceil(%d, %d): rounds a number up to a multiple of a positive one", a, b)
	}
	return p.fail("no function is named %q; there are size, start, input, min, max and ceil%s", name, suggest.For(name, []string{"size", "start", "input", "min", "max", "ceil"}))
}

// sizeOf computes size(NAME), start(NAME) or input(NAME).
func (p *exprParser) sizeOf(function string) int64 {
	of := p.word()
	p.expect(')')
	if p.err != nil {
		return 0
	}
	if function == "input" {
		size, err := p.scope.input(of)
		if err != nil {
			return p.fail("input(%s): %w", of, err)
		}
		return int64(size)
	}
	lookup := p.scope.size
	if function == "start" {
		lookup = p.scope.start
	}
	v, ok := lookup(of)
	if ok && v == 0 && function == "size" {
		return p.fail("%s(%s): %w", function, of, errReported)
	}
	if !ok {
		return p.fail("%s(%s): no buffer or sub-buffer above has this name", function, of)
	}
	return int64(v)
}

// expand replaces each {expression} in a name by its value.
func (sc *scope) expand(text string) (string, error) {
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
		v, err := sc.eval(text[open+1 : open+end])
		if err != nil {
			return "", fmt.Errorf("%q: %w", text, err)
		}
		b.WriteString(text[:open])
		b.WriteString(strconv.FormatInt(v, 10))
		text = text[open+end+1:]
	}
}
