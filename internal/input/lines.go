package input

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"godwit/mem"
)

// The bounds of a trace, which is somebody else's file (docs/limits.md). What is
// compressed counts as what it becomes.
const (
	MaxTrace  = 1 << 30 // of a file: the most that is read
	MaxLine   = 1 << 20 // bytes of a line, and of a value in JSON: longer ones are not ours
	MaxEvents = 1 << 24 // in all traces of a file
	maxLines  = 1 << 25 // of a file, empty ones and comments with them
)

// ErrMalformed marks a line of a trace that breaks its format's rules. Errors
// wrap it with file and line.
var ErrMalformed = mem.Sentinel("malformed trace", mem.InvalidValue)

// Plain reads r, which may be compressed, from its first byte that is no byte order mark.
func Plain(ctx context.Context, r io.Reader, file string) (*bufio.Reader, error) {
	br := bufio.NewReaderSize(Limit(ctx, r, file, MaxTrace), 1<<16)
	if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("%s: gzip: %w: %w", file, err, ErrMalformed)
		}
		br = bufio.NewReaderSize(Limit(ctx, zr, file, MaxTrace), 1<<16)
	}
	if bom, _ := br.Peek(3); bytes.Equal(bom, []byte("\ufeff")) {
		_, _ = br.Discard(3) // peeked: cannot fail
	}
	return br, nil
}

// Lines walks a text line by line, past blank lines and # comments.
type Lines struct {
	s    *bufio.Scanner
	File string
	N    int   // 1-based number of the line last returned
	used int   // lines returned
	over error // it has more lines than are read
}

// NewLines walks r, whose name in errors is file.
func NewLines(r io.Reader, file string) *Lines {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 1<<16), MaxLine)
	return &Lines{s: s, File: file}
}

// Next is the next line, if there is one.
func (l *Lines) Next() (string, bool) {
	for l.s.Scan() {
		if l.N++; l.N > maxLines {
			l.over = fmt.Errorf("more than %d lines", maxLines)
			break
		}
		if line := strings.TrimSpace(l.s.Text()); line != "" && line[0] != '#' {
			if l.used++; l.used > MaxEvents {
				l.over = fmt.Errorf("more than %d lines of events", MaxEvents)
				break
			}
			return line, true
		}
	}
	return "", false
}

// Err says why there is no next line, where that is not the end.
func (l *Lines) Err() error {
	err := l.s.Err()
	if l.over != nil {
		return l.over
	}
	if err != nil {
		l.N++ // the line that could not be read
	}
	return err
}

// Scanned is the error of reading, where there was one; the line is that before.
func (l *Lines) Scanned() error { return l.s.Err() }

// Fail puts file and line before err and makes sure it is an ErrMalformed.
func (l *Lines) Fail(err error) error { return Malformed(l.File, l.N, err) }

// Malformed is Fail for another line.
func Malformed(file string, line int, err error) error {
	if errors.Is(err, ErrMalformed) {
		return fmt.Errorf("%s:%d: %w", file, line, err)
	}
	return fmt.Errorf("%s:%d: %w: %w", file, line, err, ErrMalformed)
}

// Clip shortens text from a file for an error.
func Clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
