package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"unicode"
	"unicode/utf8"
)

// output is where verbs print. It keeps the first error, since tables and reports
// are printed by many small writes of which nobody looks at the result: main does
// at the end. And it prints nothing that a terminal would obey, whatever name in
// whatever file it came from, but for the colours of our own reports. To see what
// a sequence is it waits for the end of its line.
type output struct {
	w    io.Writer
	line []byte // what of the last line has been written
	err  error
}

func newOutput(w io.Writer) *output { return &output{w: w} }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	end := bytes.LastIndexByte(p, '\n') + 1
	if end > 0 {
		o.print(p[:end])
	}
	o.line = append(o.line, p[end:]...)
	if o.err != nil {
		return 0, o.err
	}
	return len(p), nil
}

// print writes what ends the last line, and lines behind it.
func (o *output) print(p []byte) {
	text := visible(append(o.line, p...))
	o.line = o.line[:0]
	if o.err == nil && len(text) > 0 { // a full disk refuses even nothing
		_, o.err = o.w.Write(text)
	}
}

// close writes what is left, and says whether all has been written.
func (o *output) close() error {
	o.print(nil)
	return o.err
}

// say prints a line on standard error.
func say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "%s\n", visible(fmt.Appendf(nil, "godwit: "+format, args...))) // nothing to do about an error
}

// colour is a sequence that sets a colour.
var colour = regexp.MustCompile(`\x1b\[[0-9;]{0,13}m`)

// visible is text with pictures of its control characters, but of colours.
func visible(text []byte) (out []byte) {
	for len(text) > 0 {
		at := colour.FindIndex(text)
		if at == nil {
			at = []int{len(text), len(text)}
		}
		out = append(out, bytes.Map(picture, text[:at[0]])...)
		out = append(out, text[at[0]:at[1]]...)
		text = text[at[1]:]
	}
	return out
}

// picture makes a control character visible: C0 and DEL as their pictures (U+2400
// on), others and the characters that turn the direction of text as U+FFFD, which a
// byte that is no text is, too. New lines and tabs stay.
func picture(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
	case r < 0x20:
		return r + 0x2400
	case r == 0x7f:
		return 0x2421
	case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
		return utf8.RuneError
	}
	return r
}
