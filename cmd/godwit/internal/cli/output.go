package cli

import (
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/transform"
)

// output is where verbs print. It keeps the first error, since tables and reports
// are printed by many small writes of which nobody looks at the result: main does
// at the end. And it prints nothing that a terminal would obey, whatever name in
// whatever file it came from, but for the colours of our own reports.
type output struct {
	w   *transform.Writer
	err error
}

func newOutput(w io.Writer) *output {
	return &output{w: transform.NewWriter(someBytes{w}, printable{})}
}

// someBytes passes on what holds any: a full disk refuses even nothing.
type someBytes struct{ w io.Writer }

// Write implements io.Writer.
func (s someBytes) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return s.w.Write(p)
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	o.err = err
	return n, err
}

// close says whether all has been written.
func (o *output) close() error {
	err := o.w.Close() // writes the rest
	if o.err == nil {
		o.err = err
	}
	return o.err
}

// say prints a line on standard error.
func say(format string, args ...any) {
	text, _, _ := transform.String(printable{}, fmt.Sprintf("godwit: "+format, args...))
	fmt.Fprintln(os.Stderr, text)
}

// printable makes control characters visible: C0 and DEL as their pictures
// (U+2400 on), other controls and the characters that turn the direction of text
// as U+FFFD. New lines and tabs stay, and so does a sequence that sets a colour.
type printable struct{ transform.NopResetter }

// Transform implements transform.Transformer.
func (printable) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	for nSrc < len(src) {
		out, n := visible(src[nSrc:], atEOF)
		switch {
		case n == 0:
			return nDst, nSrc, transform.ErrShortSrc
		case nDst+len(out) > len(dst):
			return nDst, nSrc, transform.ErrShortDst
		}
		nDst += copy(dst[nDst:], out)
		nSrc += n
	}
	return nDst, nSrc, nil
}

// maxColour is the longest colour sequence that is let through.
const maxColour = 16

// visible is what is printed for the first n bytes of src; n is 0 where more bytes
// are needed to say.
func visible(src []byte, atEOF bool) (out []byte, n int) {
	if src[0] == '\x1b' {
		n := colour(src)
		switch {
		case n > 0:
			return src[:n], n
		case n < 0 && !atEOF:
			return nil, 0
		}
	}
	if !utf8.FullRune(src) && !atEOF {
		return nil, 0
	}
	r, n := utf8.DecodeRune(src)
	switch {
	case r == utf8.RuneError && n == 1:
		r = utf8.RuneError // a byte that is no text
	case r == '\n' || r == '\t':
	case r < 0x20:
		r += 0x2400
	case r == 0x7f:
		r = 0x2421
	case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
		r = utf8.RuneError
	default:
		return src[:n], n
	}
	return utf8.AppendRune(nil, r), n
}

// colour is the length of the colour sequence (ESC [ digits and semicolons m) that
// src starts with: 0 where it is none, -1 where it may become one.
func colour(src []byte) int {
	for i, c := range src[:min(len(src), maxColour)] {
		switch {
		case i == 0, i == 1 && c == '[', i > 1 && (c == ';' || c >= '0' && c <= '9'):
		case i > 1 && c == 'm':
			return i + 1
		default:
			return 0
		}
	}
	if len(src) >= maxColour {
		return 0
	}
	return -1
}
