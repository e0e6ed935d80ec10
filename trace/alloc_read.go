package trace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"godwit/input"
)

// The bounds of a trace, which is somebody else's file (docs/limits.md). What is
// compressed counts as what it becomes.
const (
	MaxBytes  = 1 << 30 // of a file: the most that is read
	maxLine   = 1 << 20 // bytes of a line, and of a value in JSON: longer ones are not ours
	maxEvents = 1 << 24 // in all traces of a file
	maxLines  = 1 << 25 // of a file, empty ones and comments with them
)

// OpenAllocs reads the traces in the file at path; see ReadAllocs. A Name is
// the file's base name up to the first dot that starts an extension of ours
// (.csv, .json, .log, .txt, .gz, .pickle, .pkl).
func OpenAllocs(ctx context.Context, path string) (traces []*Allocs, err error) {
	f, err := input.Open(ctx, path, MaxBytes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	traces, err = ReadAllocs(ctx, f, path)
	for _, t := range traces {
		t.Name = trimExtensions(filepath.Base(path)) + strings.TrimPrefix(t.Name, path)
	}
	return traces, err
}

func trimExtensions(base string) string {
	for {
		ext := filepath.Ext(base)
		switch ext {
		case ".csv", ".json", ".log", ".txt", ".gz", ".pickle", ".pkl":
			base = strings.TrimSuffix(base, ext)
		default:
			return base
		}
	}
}

// ReadAllocs reads allocation traces in any of the known formats, compressed
// with gzip or not, told apart by content. Most files hold one; a PyTorch
// snapshot holds one for each device that recorded something, named
// file#device. file names the input in errors and becomes the traces' Name.
//
// A line that breaks its format is an error wrapping ErrMalformed that starts
// with "file:line:"; so is input of no known format. A free of something that
// is not live is counted in Oddities, since recordings start late. So is a file
// of more than 1 GiB or 16 million events. Where ctx ends, its error is returned.
func ReadAllocs(ctx context.Context, r io.Reader, file string) ([]*Allocs, error) {
	out, err := readAllocs(ctx, r, file)
	if cerr := ctx.Err(); err != nil && cerr != nil {
		return nil, cerr // and not the broken line that it made
	}
	return out, err
}

func readAllocs(ctx context.Context, r io.Reader, file string) ([]*Allocs, error) {
	br, err := plainReader(ctx, r, file)
	if err != nil {
		return nil, err
	}
	if isCommands(br) {
		return nil, fmt.Errorf("%s: a command trace, which says what commands access and nothing of chunks: godwit replay takes it, and allocation traces apart from it: %w", file, ErrMalformed)
	}
	if isJSON(br) {
		return readJSON(br, file)
	}
	if isPickle(br) {
		return readPickle(ctx, br, file)
	}
	l := newLines(br, file)
	header, ok := l.next()
	if !ok {
		return nil, l.fail(cmpErr(l.err(), errors.New("no line: not an allocation trace")))
	}
	t, err := readCSV(l, header)
	if err != nil {
		// A broken stream ends in half a line: its error is the cause.
		return nil, l.fail(cmpErr(l.s.Err(), err))
	}
	return []*Allocs{t}, nil
}

// isJSON reports whether the first byte that is not white space opens an
// object.
func isJSON(br *bufio.Reader) bool {
	for n := 1; n <= 4096; n++ {
		b, err := br.Peek(n)
		if err != nil {
			return false
		}
		switch b[n-1] {
		case ' ', '\t', '\r', '\n':
		case '{':
			return true
		default:
			return false
		}
	}
	return false
}

func readCSV(l *lines, header string) (*Allocs, error) {
	cols := strings.Split(strings.ReplaceAll(header, " ", ""), ",")
	switch {
	case header == godwitHeader:
		return readGodwit(l)
	case header == rmmHeader:
		return readRMM(l)
	case len(cols) >= 4 && index(cols, "id") >= 0 && index(cols, "size") >= 0:
		return readMiniMalloc(l, cols)
	}
	return nil, fmt.Errorf("%q starts no known format (%s; id,lower,upper,size; %s; a JSON object; a pickle)",
		clip(header), godwitHeader, rmmHeader)
}

// lines walks a text line by line, past blank lines and # comments.
type lines struct {
	s    *bufio.Scanner
	file string
	n    int   // 1-based number of the line last returned
	used int   // lines returned
	over error // it has more lines than are read
}

func newLines(r io.Reader, file string) *lines {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 1<<16), maxLine)
	return &lines{s: s, file: file}
}

func (l *lines) next() (string, bool) {
	for l.s.Scan() {
		if l.n++; l.n > maxLines {
			l.over = fmt.Errorf("more than %d lines", maxLines)
			break
		}
		if line := strings.TrimSpace(l.s.Text()); line != "" && line[0] != '#' {
			if l.used++; l.used > maxEvents {
				l.over = fmt.Errorf("more than %d lines of events", maxEvents)
				break
			}
			return line, true
		}
	}
	return "", false
}

func (l *lines) err() error {
	err := l.s.Err()
	if l.over != nil {
		return l.over
	}
	if err != nil {
		l.n++ // the line that could not be read
	}
	return err
}

// fail puts file and line before err and makes sure it is an ErrMalformed.
func (l *lines) fail(err error) error { return malformed(l.file, l.n, err) }

func malformed(file string, line int, err error) error {
	if errors.Is(err, ErrMalformed) {
		return fmt.Errorf("%s:%d: %w", file, line, err)
	}
	return fmt.Errorf("%s:%d: %w: %w", file, line, err, ErrMalformed)
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func index(cols []string, names ...string) int {
	for i, c := range cols {
		for _, n := range names {
			if c == n {
				return i
			}
		}
	}
	return -1
}

// clip shortens text from a file for an error.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

func parseUint(field, what string) (uint64, error) {
	v, err := strconv.ParseUint(field, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not an unsigned number of 64 bits", what, clip(field))
	}
	return v, nil
}

func parseInt(field, what string) (int64, error) {
	v, err := strconv.ParseInt(field, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not a number of 64 bits", what, clip(field))
	}
	return v, nil
}
